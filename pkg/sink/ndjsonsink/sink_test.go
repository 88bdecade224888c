package ndjsonsink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
)

// open opens a sink that is closed at the end of the test.
func open(t *testing.T, path string) *ndjsonsink.Sink {
	t.Helper()
	s, err := ndjsonsink.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "out.ndjson") }

func records(texts ...string) []dedupe.Output {
	outputs := make([]dedupe.Output, len(texts))
	for i, text := range texts {
		outputs[i] = dedupe.Output{ID: fmt.Sprint(i), Data: []byte(text)}
	}
	return outputs
}

func send(t *testing.T, s *ndjsonsink.Sink, texts ...string) {
	t.Helper()
	if n, err := trySend(t.Context(), s, texts...); err != nil || n != len(texts) {
		t.Fatalf("delivered %d of %d: %v", n, len(texts), err)
	}
}

// trySend returns how many records are delivered, counted from the first one.
func trySend(ctx context.Context, s *ndjsonsink.Sink, texts ...string) (delivered int, err error) {
	sent, err := s.Send(ctx, records(texts...))
	switch {
	case sent.Repeated != 0:
		return -1, fmt.Errorf("the sink repeated %d records: %w", sent.Repeated, err)
	case sent.Delivered == nil && err == nil:
		return len(texts), nil
	case sent.Delivered == nil:
		return 0, err
	}
	for delivered < len(texts) && sent.Delivered[delivered] {
		delivered++
	}
	if len(sent.Delivered) != len(texts) || slices.Contains(sent.Delivered[delivered:], true) {
		return -1, fmt.Errorf("%v of %d records are delivered: %w", sent.Delivered, len(texts), err)
	}
	return delivered, err
}

func checkFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	if string(got) != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordsAreAppendedByteForByte(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	send(t, s)
	send(t, s, `{ "a" : 1.0 }`, "{\"b\":\"\xff\"}\r")
	send(t, s, `{"c":2}`)
	must(t, s.Close())
	again := open(t, path)
	send(t, again, `{"d":3}`)
	checkFile(t, path, "{ \"a\" : 1.0 }\n{\"b\":\"\xff\"}\r\n{\"c\":2}\n{\"d\":3}\n")
}

// single counts the calls between a write and its sync. The size of the file must not change there: otherwise a
// failed write could not be removed.
// could not be cut off.
type single struct {
	ndjsonsink.File
	inside, most atomic.Int32
}

func (f *single) Write(p []byte) (int, error) {
	if n := f.inside.Add(1); n > f.most.Load() {
		f.most.Store(n)
	}
	return f.File.Write(p)
}

func (f *single) Sync() error {
	defer f.inside.Add(-1)
	return f.File.Sync()
}

func TestConcurrentSendsTakeTurns(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	turns := &single{}
	s.Wrap(func(f ndjsonsink.File) ndjsonsink.File {
		turns.File = f
		return turns
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			line := strings.Repeat(string(rune('a'+i)), 3000)
			for range 5 {
				if n, err := trySend(t.Context(), s, line, line); n != 2 || err != nil {
					t.Errorf("delivered %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.Split(bytes.TrimSuffix(got, []byte("\n")), []byte("\n"))
	for _, line := range lines {
		if len(line) != 3000 || bytes.Count(line, line[:1]) != 3000 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
	if len(lines) != 80 {
		t.Errorf("%d lines, want 80", len(lines))
	}
	if n := turns.most.Load(); n != 1 {
		t.Errorf("%d at once", n)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	for text, reason := range map[string]string{
		`{"a":1}`: "", "{\"a\":\t1}\r": "", "x": "",
		"{\n}": "", "{}\n": "",
		"": "empty", "{\n": "line break", "a\tb\n": "line break", "\n": "line break",
	} {
		err := s.Check(t.Context(), dedupe.Output{Data: []byte(text)})
		poison, ok := errors.AsType[*dedupe.PoisonError](err)
		if good := reason == ""; good != (err == nil) || !good && (!ok || !strings.Contains(poison.Reason, reason)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestJSONOfSeveralLines: JSON becomes one line, and its strings and numbers stay as they are written.
func TestJSONOfSeveralLines(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	send(t, open(t, path), "{\n  \"a\": \"<\\n>\",\r\n  \"n\": 1.50e3\n}\n", "{ }")
	checkFile(t, path, `{"a":"<\n>","n":1.50e3}`+"\n{ }\n")
}

func TestOnlyOneSinkHasTheFile(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	first := open(t, path)
	if _, err := ndjsonsink.Open(path); err == nil || !strings.Contains(err.Error(), "another sink has opened it") {
		t.Errorf("second sink: %v", err)
	}
	send(t, first, "1")
	must(t, first.Close())
	send(t, open(t, path), "2")
	checkFile(t, path, "1\n2\n")
}

func TestOpenRepairsTheEnd(t *testing.T) {
	t.Parallel()
	long := `{"long":"` + strings.Repeat("x", 300_000) + `"}`
	for name, test := range map[string]struct{ before, after, fault string }{
		"whole":                  {"{\"a\":1}\n", "{\"a\":1}\n", ""},
		"half a record":          {"{\"a\":1}\n{\"b\":", "{\"a\":1}\n", ""},
		"half the first record":  {`{"a"`, "", ""},
		"half a long record":     {"{}\n" + long[:len(long)-1], "{}\n", ""},
		"half with lost blocks":  {"{}\n{\"a\x00\x00", "{}\n", ""},
		"half behind a space":    {"{}\n \t{\"b\":", "{}\n", ""},
		"half of the space":      {"{}\n ", "{}\n", ""},
		"line end missing":       {"{\"a\":1}\n{\"b\":2}", "{\"a\":1}\n{\"b\":2}\n", ""},
		"long, line end missing": {"{}\n" + long, "{}\n" + long + "\n", ""},
		"another text":           {"dear diary,\ntoday", "dear diary,\ntoday", "not JSON"},
		"only lost blocks":       {"{}\n\x00\x00", "{}\n\x00\x00", "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			must(t, os.WriteFile(path, []byte(test.before), 0o600))
			s, err := ndjsonsink.Open(path)
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("error is %v", err)
				}
				checkFile(t, path, test.after)
				return
			}
			must(t, err)
			defer func() { _ = s.Close() }()
			send(t, s, `{"new":1}`)
			checkFile(t, path, test.after+"{\"new\":1}\n")
		})
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, huge := filepath.Join(dir, "folder"), filepath.Join(dir, "huge")
	must(t, os.Mkdir(folder, 0o700))
	f, err := os.Create(huge)
	must(t, err)
	must(t, errors.Join(f.Truncate(65<<20), f.Close())) // a hole: it costs nothing
	for path, fault := range map[string]string{
		folder: "directory", filepath.Join(dir, "none",
			"out"): "no such file", os.DevNull: "not a regular file", huge: "not an NDJSON file",
	} {
		if path == os.DevNull {
			path = filepath.Join(dir, "null") // a path whose folder can hold the lock file
			must(t, os.Symlink(os.DevNull, path))
		}
		if _, err := ndjsonsink.Open(path); err == nil || !strings.Contains(err.Error(), fault) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReplacedFileTakesNothing(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	send(t, s, "1")
	must(t, os.Rename(path, path+".old"))
	if n, err := trySend(t.Context(), s, "2"); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file gone: delivered %d: %v", n, err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	if n, err := trySend(t.Context(), s, "2"); n != 0 || err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("file replaced: delivered %d: %v", n, err)
	}
	checkFile(t, path+".old", "1\n")
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := trySend(ctx, s, "1"); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("delivered %d: %v", n, err)
	}
	checkFile(t, path, "")
}

var errDisk = errors.New("disk fault")

// faulty is a file with faults. Each fault occurs once.
type faulty struct {
	ndjsonsink.File
	room            int // bytes that a write takes before it fails; -1: all
	syncs, truncate []error
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.room < 0 {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.room])
	return n, errors.Join(err, errDisk)
}

func (f *faulty) Sync() error { return errors.Join(next(&f.syncs), f.File.Sync()) }

func (f *faulty) Truncate(size int64) error {
	if err := next(&f.truncate); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func next(all *[]error) (err error) {
	if len(*all) > 0 {
		err, *all = (*all)[0], (*all)[1:]
	}
	return err
}

// TestFailedWritesLeaveWholeLines: the file has exactly the records that count as delivered.
func TestFailedWritesLeaveWholeLines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault     faulty
		delivered int
		file      string // after the line that was in the file before
	}{
		"nothing written":       {faulty{room: 0}, 0, ""},
		"half a line":           {faulty{room: 2}, 0, ""},
		"a line":                {faulty{room: 4}, 1, "aaa\n"},
		"a line without end":    {faulty{room: 3}, 0, ""},
		"a line and a half":     {faulty{room: 6}, 1, "aaa\n"},
		"all but the last byte": {faulty{room: 11}, 2, "aaa\nbbb\n"},
		"sync failed":           {faulty{room: -1, syncs: []error{errDisk}}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			s := open(t, path)
			send(t, s, "before")
			var file ndjsonsink.File
			s.Wrap(func(f ndjsonsink.File) ndjsonsink.File {
				file, test.fault.File = f, f
				return &test.fault
			})
			n, err := trySend(t.Context(), s, "aaa", "bbb", "ccc")
			if n != test.delivered || !errors.Is(err, errDisk) || !strings.Contains(err.Error(), path) {
				t.Errorf("delivered %d, want %d: %v", n, test.delivered, err)
			}
			checkFile(t, path, "before\n"+test.file)
			s.Wrap(func(ndjsonsink.File) ndjsonsink.File { return file })
			send(t, s, "after")
			checkFile(t, path, "before\n"+test.file+"after\n")
		})
	}
}

// TestATornFileTakesNoMore: a file that may end within a line takes no records until it is opened again and repaired.
func TestATornFileTakesNoMore(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faulty{
		"truncate fails": {room: 6, truncate: []error{errDisk}},
		"sync fails":     {room: 6, syncs: []error{errDisk}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			s := open(t, path)
			s.Wrap(func(f ndjsonsink.File) ndjsonsink.File {
				fault.File = f
				return &fault
			})
			for range 2 {
				if n, err := trySend(t.Context(), s, "{ }", "{ }", "{ }"); n != 0 || !errors.Is(err, errDisk) {
					t.Errorf("delivered %d: %v", n, err)
				}
			}
			must(t, s.Close())
			send(t, open(t, path), "{}")
			checkFile(t, path, "{ }\n{}\n")
		})
	}
}
