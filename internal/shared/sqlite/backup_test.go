package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/filelock"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
)

// backUp copies a store beside its file.
func backUp(t *testing.T, db *DB, name string) (to string) {
	t.Helper()
	to = filepath.Join(filepath.Dir(db.path), name)
	size, err := Backup(t.Context(), db.path, to, errTryAgain)
	check(t, err)
	if info, err := os.Stat(to); err != nil || info.Size() != size {
		t.Errorf("Backup says %d bytes: %+v, %v", size, info, err)
	}
	return to
}

// checkNoCopy checks that no backup and no part of one is beside the store.
func checkNoCopy(t *testing.T, to string) {
	t.Helper()
	for _, suffix := range []string{"", partSuffix, partSuffix + "-journal", partSuffix + ".lock"} {
		if _, err := os.Lstat(to + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", to+suffix, err)
		}
	}
}

// TestBackupBesideWriters: other processes write without a pause. A copy has all that was written before it began, and
// each transaction as a whole. A copy of the file alone lacks what is in the -wal file.
func TestBackupBesideWriters(t *testing.T) {
	const things = 500
	db := newDB(t, things)
	var all []*sqlitetest.Process
	for i := range 2 {
		all = append(all, sqlitetest.Start(t, "take everything", db.path, fmt.Sprintf("process %d", i)))
	}
	for _, p := range all {
		p.Proceed(t)
	}
	taken := func(db *DB) (left, taken int) {
		check(t, db.Read(t.Context(), "count", func(ctx context.Context, r *Statements) error {
			_, err := r.One(ctx, `SELECT (SELECT count(*) FROM thing), (SELECT count(*) FROM taken)`, nil, &left, &taken)
			return err
		}))
		return left, taken
	}
	for n, left := 0, 1; left > 0; n++ {
		var before, after int
		left, before = taken(db)
		to := backUp(t, db, fmt.Sprintf("copy-%d.db", n))
		_, after = taken(db)
		copied, err := Open(t.Context(), to, testPart, nil)
		check(t, err)
		free, had := taken(copied)
		if had < before || had > after || free+had != things {
			t.Errorf("the copy has %d left and %d taken of %d; %d were taken before it, %d after it", free, had, things, before, after)
		}
		checkWritesAndReads(t, copied)
		check(t, copied.Close())
		check(t, os.Remove(to))
	}
	for _, p := range all {
		var h history
		p.Result(t, &h)
	}
}

// fill makes a store so large that a copy takes a while.
func fill(t *testing.T, db *DB) {
	t.Helper()
	check(t, db.Write(t.Context(), "fill", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
			INSERT INTO taken SELECT printf('%08d', i), hex(randomblob(200)) FROM n`)
		return err
	}))
}

// backUpOnce is the role of a process that makes a backup. Its name is that of the copy.
func backUpOnce(ctx context.Context, path, to string) (any, error) {
	sqlitetest.Ready()
	_, err := Backup(ctx, path, to, errTryAgain)
	return "done", err
}

// TestKilledBackup: a process dies while it copies. There is no file under the name of the copy, and the next backup
// replaces what was left.
func TestKilledBackup(t *testing.T) {
	db := newDB(t, 1)
	fill(t, db)
	to := filepath.Join(filepath.Dir(db.path), "copy.db")
	for range 3 {
		check(t, removeCopy(to+partSuffix)) // so that this backup makes the part below
		p := sqlitetest.Start(t, "back up", db.path, to)
		p.Proceed(t)
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			_, err := os.Stat(to + partSuffix)
			begun = err == nil
		}
		p.Kill()
		if _, err := os.Stat(to); err == nil { // it was done before the signal came
			checkWorks(t, Open, to)
			check(t, os.Remove(to))
		} else if _, err := os.Stat(to + partSuffix); err != nil {
			t.Errorf("there is neither the copy nor a part of it: %v", err)
		}
	}
	check(t, os.WriteFile(to+partSuffix+"-journal", []byte("of an older version"), 0o600))
	backUp(t, db, "copy.db")
	checkWorks(t, Open, to)
	for _, suffix := range []string{partSuffix, partSuffix + "-journal", partSuffix + ".lock"} {
		if _, err := os.Stat(to + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", suffix, err)
		}
	}
}

func TestCancelledBackup(t *testing.T) {
	db := newDB(t, 1)
	fill(t, db)
	to := filepath.Join(filepath.Dir(db.path), "copy.db")
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err := Backup(ctx, db.path, to, errTryAgain); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTryAgain) {
		t.Errorf("%v, want DeadlineExceeded and not TryAgain", err)
	}
	checkNoCopy(t, to)
}

// TestBackupKeepsPermissions: nobody can read a copy who cannot read the store, whatever the umask is.
func TestBackupKeepsPermissions(t *testing.T) {
	db := newDB(t, 1)
	for n, mode := range []fs.FileMode{0o600, 0o640, 0o664, 0o400} {
		check(t, os.Chmod(db.path, mode))
		info, err := os.Stat(backUp(t, db, fmt.Sprint("copy", n)))
		if err != nil || info.Mode() != mode {
			t.Errorf("%v, %v, want %v", info.Mode(), err, mode)
		}
	}
}

// TestBackupOfParts: a copy has all parts, of any layout, and the store is unchanged. A copy of a copy is a copy.
func TestBackupOfParts(t *testing.T) {
	db := newDB(t, 2)
	other, err := Create(t.Context(), db.path, otherPart, nil)
	check(t, err)
	check(t, other.Close())
	first := backUp(t, db, "first.db")
	_, err = Backup(t.Context(), first, first+"2", errTryAgain)
	check(t, err)
	for _, part := range []Part{testPart, otherPart} {
		copied, err := Open(t.Context(), first+"2", part, nil)
		check(t, err)
		check(t, copied.Close())
	}
	check(t, db.Write(t.Context(), "test", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `UPDATE part SET version = version + 7`)
		return err
	}))
	if _, err := Open(t.Context(), backUp(t, db, "newer.db"), testPart, nil); !errors.Is(err, ErrLayout) {
		t.Errorf("%v, want the layout of the store", err)
	}
	checkThings(t, db, 2, 0)
}

func TestBackupRefuses(t *testing.T) {
	db := newDB(t, 1)
	beside := func(name string) string { return filepath.Join(filepath.Dir(db.path), name) }
	text, empty, foreign := beside("text"), beside("empty"), beside("foreign")
	check(t, os.WriteFile(text, []byte("no database, but long enough for a header"), 0o600))
	check(t, os.WriteFile(empty, nil, 0o600))
	makeForeign(t, foreign, `CREATE TABLE x (y)`)
	check(t, os.Symlink(beside("nowhere"), beside("dangling")))
	check(t, os.WriteFile(beside("old-wal"), nil, 0o600))
	check(t, os.WriteFile(beside("killed"+partSuffix), nil, 0o600))
	locked, err := filelock.Take(beside("locked") + partSuffix)
	check(t, err)
	defer locked.Release()
	check(t, os.WriteFile(filelock.Name(beside("note")+partSuffix), []byte("a note"), 0o600))
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{db.path, text, ErrExists},
		{db.path, db.path, ErrExists},
		{db.path, filepath.Dir(db.path), ErrExists},
		{db.path, beside("dangling"), ErrExists},
		{db.path, db.path + "-journal", ErrExists},
		{db.path, beside("old"), ErrExists}, // it has a -wal file
		{beside("killed" + partSuffix), beside("killed"), ErrExists},
		{db.path, beside("copy" + partSuffix), ErrExists},
		{db.path, beside("locked"), ErrBackupRuns},
		{db.path, beside("note"), filelock.ErrNotALock},
		{db.path, beside("none/copy"), fs.ErrNotExist},
		{beside("none"), beside("copy"), fs.ErrNotExist},
		{text, beside("copy"), ErrNotStore},
		{empty, beside("copy"), ErrNotStore},
		{foreign, beside("copy"), ErrNotStore},
	} {
		if _, err := Backup(t.Context(), c.from, c.to, errTryAgain); !errors.Is(err, c.want) || errors.Is(err, errTryAgain) {
			t.Errorf("%s to %s: %v, want %v", c.from, c.to, err, c.want)
		}
	}
	if content, err := os.ReadFile(text); err != nil || string(content[:2]) != "no" {
		t.Errorf("a file that existed was changed: %q, %v", content, err)
	}
	checkNoCopy(t, beside("copy"))
}

// TestBackupOfADamagedStore: a copy of damaged content never gets its name.
func TestBackupOfADamagedStore(t *testing.T) {
	db := newDB(t, 5000)
	check(t, db.Close())
	content, err := os.ReadFile(db.path)
	check(t, err)
	for at := len(content) / 2; at < len(content)/2+5*4096; at++ {
		content[at] = 0x5a
	}
	check(t, os.WriteFile(db.path, content, 0o600))
	to := filepath.Join(filepath.Dir(db.path), "copy.db")
	if _, err := Backup(t.Context(), db.path, to, errTryAgain); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want %v", err, ErrDamaged)
	}
	checkNoCopy(t, to)
}

// TestCheckOfACopy: the check finds a copy that the disk has changed, and one that lacks a part.
func TestCheckOfACopy(t *testing.T) {
	db := newDB(t, 5000)
	layouts := map[string]int{testPart.Name: testPart.Layout}
	for what, harm := range map[string]func(content []byte) map[string]int{
		"nothing": func([]byte) map[string]int { return layouts },
		"a page":  func(content []byte) map[string]int { clear(content[len(content)/2:][:4096]); return layouts },
		"a part": func([]byte) map[string]int {
			return map[string]int{testPart.Name: testPart.Layout, otherPart.Name: otherPart.Layout}
		},
	} {
		to := backUp(t, db, "copy.db")
		content, err := os.ReadFile(to)
		check(t, err)
		want := harm(content)
		check(t, os.WriteFile(to, content, 0o600))
		copied := &DB{path: to, busyTimeout: brief}
		err = copied.wrap("check", copied.check(t.Context(), want))
		if damaged := what != "nothing"; errors.Is(err, ErrDamaged) != damaged || (err != nil) != damaged {
			t.Errorf("%s is wrong: %v", what, err)
		}
		check(t, os.Remove(to))
	}
}
