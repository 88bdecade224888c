package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// openFunc is Open or Create.
type openFunc func(context.Context, string, Part, []Option) (*DB, error)

// checkRefused checks that the file is refused with its name, and is not changed.
func checkRefused(t *testing.T, open openFunc, path string, want error, texts ...string) {
	t.Helper()
	before, _ := os.ReadFile(path)
	db, err := open(t.Context(), path, testPart, nil)
	if err == nil {
		check(t, db.Close())
	}
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
	for _, text := range append(texts, filepath.Base(path)) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not mention %q", err, text)
		}
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the file was changed")
	}
	checkNoLeftovers(t, path)
}

// checkNoLeftovers checks that there are no files beside the refused one.
func checkNoLeftovers(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	check(t, err)
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func both(t *testing.T, test func(t *testing.T, open openFunc)) {
	t.Run("Open", func(t *testing.T) { test(t, Open) })
	t.Run("Create", func(t *testing.T) { test(t, Create) })
}

// TestReadOfAFileThatChanges opens a file as one to which this user may not write. A read says if it is not what was
// opened, and nothing is written.
func TestReadOfAFileThatChanges(t *testing.T) {
	first := newDB(t, 3)
	check(t, first.Close())
	db := &DB{path: first.path, part: testPart, busyTimeout: DefaultBusyTimeout}
	check(t, db.connectReaders(t.Context()))
	defer func() { check(t, db.Close()) }()
	count := func(ctx context.Context, r *Statements) error {
		var n int
		_, err := r.One(ctx, `SELECT count(*) FROM thing`, nil, &n)
		if n != 3 {
			t.Errorf("%d things", n)
		}
		return err
	}
	check(t, db.Read(t.Context(), "count", count))
	check(t, db.ReadSnapshot(t.Context(), "count", count))
	if err := db.Write(t.Context(), "count", count); !errors.Is(err, ErrNoAccess) {
		t.Errorf("a write: %v", err)
	}
	again, err := Open(t.Context(), first.path, testPart, nil)
	check(t, err)
	check(t, again.Write(t.Context(), "add", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `INSERT INTO thing VALUES ('new')`)
		return err
	}))
	for range 2 { // while the other program has the file open, and after it
		if err := db.Read(t.Context(), "count", count); !errors.Is(err, errTryAgain) || !strings.Contains(err.Error(), "run the command again") {
			t.Errorf("a read of a file that has changed: %v", err)
		}
		check(t, again.Close())
	}
}

func TestOpenMissingFile(t *testing.T) {
	checkRefused(t, Open, inTemp(t, "store.db"), fs.ErrNotExist, "oncebox init")
}

func TestCreateInMissingFolder(t *testing.T) {
	_, err := Create(t.Context(), inTemp(t, filepath.Join("none", "store.db")), testPart, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
}

func TestOpenFolder(t *testing.T) {
	both(t, func(t *testing.T, open openFunc) {
		checkRefused(t, open, t.TempDir(), ErrNotStore, "not a regular file")
	})
}

func TestOpenText(t *testing.T) {
	for _, size := range []int{1, 100, 5000} {
		both(t, func(t *testing.T, open openFunc) {
			path := inTemp(t, "codes.txt")
			check(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
			checkRefused(t, open, path, ErrNotStore, "not a SQLite database")
		})
	}
}

func TestOpenForeignDatabase(t *testing.T) {
	for name, query := range map[string]string{
		"table":          `CREATE TABLE x (y)`,
		"application id": `PRAGMA application_id = 7`,
		"user version":   `PRAGMA user_version = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, open openFunc) {
				path := inTemp(t, "other.db")
				makeForeign(t, path, query)
				checkRefused(t, open, path, ErrNotStore, "of another program")
			})
		})
	}
}

func makeForeign(t *testing.T, path, query string) {
	t.Helper()
	db, err := pool(dsn(path, "mode=rwc", 0), 1)
	check(t, err)
	_, err = db.ExecContext(t.Context(), query)
	check(t, err)
	check(t, db.Close())
}

// TestOpenOtherLayout: what another version of oncebox made is refused, and stays as it is.
func TestOpenOtherLayout(t *testing.T) {
	for _, c := range []struct{ name, query, says string }{
		{"older file", `PRAGMA user_version = 0`, "the file has layout 0"},
		{"newer file", `PRAGMA user_version = 2`, "the file has layout 2"},
		{"older part", `UPDATE part SET version = 0`, "the tables for things have layout 0"},
		{"newer part", `UPDATE part SET version = 2`, "the tables for things have layout 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDB(t, 0)
			check(t, db.Close())
			removeLock(t, db.path)
			makeForeign(t, db.path, c.query)
			both(t, func(t *testing.T, open openFunc) {
				checkRefused(t, open, db.path, ErrLayout, c.says+", and this version reads layout 1; use the version that made "+
					"it, or another file")
			})
		})
	}
}

func removeLock(t *testing.T, path string) {
	t.Helper()
	check(t, os.Remove(path+lockSuffix))
}

func TestOpenUnreadableFile(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	both(t, func(t *testing.T, open openFunc) {
		path := inTemp(t, "store.db")
		check(t, os.WriteFile(path, nil, 0o000))
		_, err := open(t.Context(), path, testPart, nil)
		if err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, errTryAgain) {
			t.Errorf("%v", err)
		}
	})
}

func TestMemoryAndEmptyNameAreRefused(t *testing.T) {
	both(t, func(t *testing.T, open openFunc) {
		for _, path := range []string{"", ":memory:"} {
			if _, err := open(t.Context(), path, testPart, nil); err == nil || !strings.Contains(err.Error(), "must be a file") {
				t.Errorf("%q: %v", path, err)
			}
		}
	})
}

// An interrupted Create leaves an empty database. An empty file may also come from a tool that makes temporary files.
func TestEmptyFileBecomesAStoreByCreateOnly(t *testing.T) {
	for name, query := range map[string]string{"empty": ``, "cut": `PRAGMA journal_mode = WAL`} {
		t.Run(name, func(t *testing.T) {
			path := inTemp(t, "store.db")
			check(t, os.WriteFile(path, nil, 0o600))
			makeForeign(t, path, query)
			checkRefused(t, Open, path, ErrNotStore, "oncebox init")
			checkWorks(t, Create, path)
			checkWorks(t, Open, path)
		})
	}
}

// Each engine refuses a file that has only the other engine's part, and names the missing part. Create adds it.
func TestCreateAddsItsPartToTheFile(t *testing.T) {
	path := inTemp(t, "store.db")
	other, err := Create(t.Context(), path, otherPart, nil)
	check(t, err)
	check(t, other.Close())
	removeLock(t, path)
	checkRefused(t, Open, path, ErrNotStore, "no tables for things", "oncebox init")
	checkWorks(t, Create, path)
	for _, part := range []Part{testPart, otherPart} {
		db, err := Open(t.Context(), path, part, nil)
		check(t, err)
		check(t, db.Close())
	}
}

// checkWorks opens a store, writes to it and reads from it.
func checkWorks(t *testing.T, open openFunc, path string) {
	t.Helper()
	db, err := open(t.Context(), path, testPart, nil)
	check(t, err)
	defer func() { check(t, db.Close()) }()
	checkWritesAndReads(t, db)
}

func checkWritesAndReads(t *testing.T, db *DB) {
	t.Helper()
	check(t, addTurn(t.Context(), db))
	n, err := turnsSoFar(t.Context(), db)
	if err != nil || n == 0 {
		t.Errorf("%d turns, %v", n, err)
	}
}

func TestOddNames(t *testing.T) {
	names := []string{
		"a b.db", "a?mode=memory", "50%.db", "%41.db", "a#b.db", "a&b=c;d+e.db", "file:a.db", "café-日本.db",
		"'quote\".db", "a:b@c.db", "[x]*.db",
	}
	if runtime.GOOS == "windows" {
		names = []string{"a b.db", "50%.db", "%41.db", "a#b.db", "a&b=c;d+e.db", "café-日本.db"}
	} else {
		names = append(names, "back\\slash.db", "line\nend.db", "not utf-8 \xff.db")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			checkWorks(t, Create, filepath.Join(dir, name))
			checkWorks(t, Open, filepath.Join(dir, name))
			entries, err := os.ReadDir(dir)
			check(t, err)
			for _, e := range entries {
				if !strings.HasPrefix(e.Name(), name) {
					t.Errorf("%q was made", e.Name())
				}
			}
			t.Chdir(dir)
			checkWorks(t, Open, name)
		})
	}
}

// The lock file belongs to the file, whatever name a process uses for the file.
func TestLinkedNamesShareTheTurns(t *testing.T) {
	db := newDB(t, 0)
	link := inTemp(t, "link.db")
	check(t, os.Symlink(db.path, link))
	other, err := Open(t.Context(), link, testPart, nil)
	check(t, err)
	defer func() { _ = other.Close() }()
	if other.path != db.path {
		t.Errorf("%s and %s are one file", other.path, db.path)
	}
	dangling := inTemp(t, "dangling.db")
	check(t, os.Symlink(dangling+".none", dangling))
	if _, err := Create(t.Context(), dangling, testPart, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
}

// Another process makes the file between the two checks of locate.
func TestMadeSinceTheFirstLook(t *testing.T) {
	path := newDB(t, 0).path
	if got, err := locateNew(path); got != path || err != nil {
		t.Errorf("%q, %v, want %q", got, err, path)
	}
}

func TestCreateAtOnce(t *testing.T) {
	path := inTemp(t, "store.db")
	var all sync.WaitGroup
	for i := range 8 {
		part := []Part{testPart, otherPart}[i%2]
		all.Go(func() {
			db, err := Create(context.Background(), path, part, nil)
			if err == nil {
				err = db.Write(context.Background(), "test", func(context.Context, *Statements) error { return nil })
				err = errors.Join(err, db.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkWorks(t, Open, path)
}

func TestDurabilitySettings(t *testing.T) {
	db := newDB(t, 0)
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "fullfsync": "1"} {
		var got string
		_, err := db.writer.One(t.Context(), `PRAGMA `+pragma, nil, &got)
		if err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", pragma, got, err, want)
		}
	}
}

func TestReadersCannotWrite(t *testing.T) {
	db := newDB(t, 1)
	err := db.Read(t.Context(), "test", func(ctx context.Context, r *Statements) error {
		_, err := r.Exec(ctx, `DELETE FROM thing`)
		return err
	})
	if err == nil {
		t.Error("a reader wrote")
	}
}

func TestCloseClosesEverything(t *testing.T) {
	before := openFiles(t, "store.db")
	db := newDB(t, 3)
	checkTakes(t, db)
	checkThings(t, db, 2, 1)
	if n := openFiles(t, db.path); n == 0 {
		t.Error("no files are open; this test tests nothing")
	}
	check(t, db.Close())
	check(t, db.Close())
	if n := openFiles(t, db.path); n != before {
		t.Errorf("%d files are open", n)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(db.path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", suffix, err)
		}
	}
	checkClosed(t, db)
}

func checkClosed(t *testing.T, db *DB) {
	t.Helper()
	_, read := turnsSoFar(t.Context(), db)
	write := addTurn(t.Context(), db)
	for _, err := range []error{read, write} {
		if err == nil || errors.Is(err, errTryAgain) {
			t.Errorf("after Close: %v, want a fault", err)
		}
	}
}

// openFiles counts this process's open files with the text in their names.
func openFiles(t *testing.T, text string) (n int) {
	t.Helper()
	const table = "/proc/self/fd"
	entries, err := os.ReadDir(table)
	if err != nil {
		t.Skip("needs " + table)
	}
	for _, e := range entries {
		if name, err := os.Readlink(filepath.Join(table, e.Name())); err == nil && strings.Contains(name, text) {
			n++
		}
	}
	return n
}

func TestNoGoroutinesAreLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		db := newDB(t, 1)
		checkTakes(t, db)
		check(t, db.Close())
		_, err := Open(t.Context(), db.path+".none", testPart, nil)
		if err == nil {
			t.Error("opened nothing")
		}
	}
	for range 10_000 { // they end soon after Close, on a busy machine within seconds
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond) // not on the clock of synctest: SQLite locks files
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
