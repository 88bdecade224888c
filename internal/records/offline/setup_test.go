package offline

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// bench is a job in its own folder. It can be run and killed again and again.
type bench struct {
	testing.TB
	dir   string
	store *memstore.Records
	job   Job
	now   time.Time
	tick  time.Duration // how far the clock moves at each reading
}

func newBench(t testing.TB, inputs ...string) *bench {
	b := &bench{TB: t, dir: folder(t), store: memstore.NewRecords(), now: time.Date(2026, 11, 20, 12, 0, 0, 123e6, time.UTC)}
	b.job = Job{
		Inputs: texts(inputs...), Format: inJSON(format.Options{IDPath: "id", FingerprintPath: "fp"}),
		Scope: "s", Retention: dedupe.Retention{ForGood: true}, Store: b.store,
		Out: b.path("out"), DeadLetters: b.path("dead"), Now: b.clock, beatEvery: -1, machine: "machine",
		clock: dedupe.Clock{Pause: func(context.Context, time.Duration) error { return errNoPause }},
	}
	return b
}

// folder returns a folder that is removed at the end. If possible it is in memory: the tests sync many small files.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(fastTemp(), "offline-*") //nolint:usetesting // TempDir is never in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// fastTemp returns a folder in memory, or "" if there is none.
func fastTemp() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func inJSON(o format.Options) Format {
	f, err := JSON(o)
	if err != nil {
		panic(err)
	}
	return f
}

// setFormat changes the options of a job's format.
func setFormat(j *Job, change func(*format.Options)) {
	options := j.Format.(jsonLines).options
	change(&options)
	j.Format = inJSON(options)
}

// errNoPause lets the run stop at the first failure of the ledger.
var errNoPause = errors.New("no pause")

func (b *bench) clock() time.Time {
	b.now = b.now.Add(b.tick)
	return b.now
}

// texts returns inputs named a, b, c...
func texts(inputs ...string) (list []Input) {
	for i, text := range inputs {
		list = append(list, Input{
			Name: string(rune('a' + i)), Size: int64(len(text)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
		})
	}
	return list
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) read(name string) string {
	b.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	return string(text)
}

// output returns the content of the output file.
func (b *bench) output() string {
	b.Helper()
	content, err := Input{Name: "out", Size: Unknown, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(b.read("out"))), nil
	}}.open(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func (b *bench) write(name, text string) {
	b.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) remove(names ...string) {
	b.Helper()
	for _, name := range names {
		if err := os.Remove(b.path(name)); err != nil {
			b.Fatal(err)
		}
	}
}

// run runs the job, which must finish. It checks the conditions that hold after every run.
func (b *bench) run() Report {
	b.Helper()
	r, err := b.job.Run(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	t := r.Tally
	if t.In != t.New+t.Retry+t.Natural+t.Synthetic+t.DeadLettered+t.Skipped || t.Failed != 0 {
		b.Errorf("the tally does not add up: %+v", t)
	}
	if b.job.Out == "" {
		return r
	}
	if got := strings.Count(b.output(), "\n"); int64(got) != t.Out {
		b.Errorf("%d lines in the output, %d in the tally", got, t.Out)
	}
	if got := len(b.deadLetters()); int64(got) != t.DeadLettered {
		b.Errorf("%d dead-lettered, %d in the tally", got, t.DeadLettered)
	}
	for _, left := range []string{"out.lock", "out.run"} {
		if _, err := os.Stat(b.path(left)); err == nil {
			b.Errorf("%s was left behind", left)
		}
	}
	return r
}

// refused runs the job. The job must be refused with these words, and the files and the ledger must not change.
func (b *bench) refused(words ...string) {
	b.Helper()
	out, deadLetters, entries := b.read("out"), b.read("dead"), len(b.store.Entries())
	_, err := b.job.Run(context.Background())
	if !errors.Is(err, ErrRefused) {
		b.Errorf("want a refusal, got %v", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.Errorf("want an error saying %q, got %v", w, err)
		}
	}
	if out != b.read("out") || deadLetters != b.read("dead") || entries != len(b.store.Entries()) {
		b.Errorf("something was changed before %v", err)
	}
}

type deadLetterLine struct {
	File   string
	Line   int64
	Reason string
	Data   []byte
}

func (b *bench) deadLetters() (lines []deadLetterLine) {
	b.Helper()
	d := json.NewDecoder(strings.NewReader(b.read("dead")))
	for {
		var l deadLetterLine
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			b.Fatal(err)
		}
		lines = append(lines, l)
	}
}

func deadLetterAs(file string, line int64, reason, data string) string {
	entered := ""
	if reason == "the contexts are not an array" { // the record was decided, and no new id could be written into it
		entered = `"entered":true,`
	}
	return fmt.Sprintf(`{"file":%q,"line":%d,"reason":%q,%s"data":%q}`+"\n", file, line, reason, entered, base64.StdEncoding.EncodeToString([]byte(data)))
}

// rec returns a record with an id and a fingerprint.
func rec(id, fp string) string { return fmt.Sprintf(`{"id":%q,"fp":%q}`+"\n", id, fp) }

// renamed returns the record as it is written for a synthetic duplicate.
func renamed(id, fp string) string {
	return fmt.Sprintf(`{"id":%q,"fp":%q,"contexts":[%s]}`+"\n", format.DerivedID(id, fp), fp, duplicate(id))
}

func duplicate(id string) string {
	return fmt.Sprintf(`{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":%q}}`, id)
}

func (b *bench) wantOut(want string) {
	b.Helper()
	if got := b.output(); got != want {
		b.Errorf("want output\n%sgot\n%s", want, got)
	}
}

func (b *bench) wantTally(got, want dedupe.Tally) {
	b.Helper()
	if got != want {
		b.Errorf("want tally %+v, got %+v", want, got)
	}
}

// death ends a job's process at its nth operation on a store or a file: that operation and all later ones fail.
type death struct {
	at     int
	mode   deathMode
	count  int
	files  []*mortalFile
	killed bool
}

type deathMode int

const (
	before   deathMode = iota // the process ends before the effect of the operation
	after                     // the process ends after the effect, without an answer
	halfway                   // a write takes half of its effect
	powerCut                  // as before, and all bytes that were not synced are lost
	modes
)

var errKilled = errors.New("killed")

// step runs one operation. half runs the part of it that takes effect if the process ends halfway.
func (d *death) step(do, half func()) error {
	if d.killed {
		return errKilled
	}
	d.count++
	if d.count != d.at {
		do()
		return nil
	}
	d.killed = true
	switch d.mode {
	case after:
		do()
	case halfway:
		half()
	}
	return errKilled
}

func nothing() {}

// steps runs one operation of a process, or ends the process there. half runs the part of the operation that takes effect
// if the process ends halfway.
type steps func(do, half func()) error

// hook makes each call of a store an operation.
func (step steps) hook(ctx context.Context, c *dedupefault.Call) (err error) {
	dead := step(func() { err = c.Do(ctx) }, func() {
		if c.Method == dedupefault.PutIfAbsent {
			c.Entries = c.Entries[len(c.Entries)/2:] // keep the later half, since some engines put in any order
			_ = c.Do(ctx)
		}
	})
	return errors.Join(dead, err)
}

// bury changes the files as the end of the process does.
func (d *death) bury(t testing.TB) {
	for _, f := range d.files {
		if d.mode == powerCut && d.killed {
			if err := os.Truncate(f.path, f.synced); err != nil && !errors.Is(err, os.ErrNotExist) { // renamed
				t.Fatal(err)
			}
		}
	}
}

func (d *death) hook(ctx context.Context, c *dedupefault.Call) error {
	return steps(d.step).hook(ctx, c)
}

func (d *death) open(path string, flag int) (file, error) {
	f, err := steps(d.step).open(path, flag)
	if opened, ok := f.(*mortalFile); ok {
		d.files = append(d.files, opened)
	}
	return f, err
}

func (step steps) open(path string, flag int) (f file, err error) {
	dead := step(func() {
		var opened *os.File
		if opened, err = os.OpenFile(path, flag, 0o600); err != nil {
			return
		}
		info, statErr := opened.Stat()
		f, err = &mortalFile{File: opened, path: path, step: step, synced: info.Size()}, statErr
	}, nothing)
	return f, errors.Join(dead, err)
}

func (step steps) rename(from, to string) (err error) {
	dead := step(func() { err = os.Rename(from, to) }, nothing)
	return errors.Join(dead, err)
}

// mortalFile is a file of a process that can end at any operation.
type mortalFile struct {
	*os.File
	path   string
	step   steps
	synced int64
}

func (f *mortalFile) Write(b []byte) (n int, err error) {
	dead := f.step(
		func() { n, err = f.File.Write(b) },
		func() { n, _ = f.File.Write(b[:len(b)/2]) },
	)
	return n, errors.Join(dead, err)
}

func (f *mortalFile) Sync() (err error) {
	return f.step(func() {
		if info, err := f.Stat(); err == nil {
			f.synced = info.Size()
		}
	}, nothing)
}

func (f *mortalFile) Truncate(size int64) (err error) {
	dead := f.step(func() { err = f.File.Truncate(size); f.synced = min(f.synced, size) }, nothing)
	return errors.Join(dead, err)
}

// die runs the job and kills it at its nth operation. It reports whether the job reached that operation.
func (b *bench) die(n int, mode deathMode) (killed bool) {
	b.Helper()
	d := &death{at: n, mode: mode}
	job := b.job
	job.Store, job.open = dedupefault.HookStore(b.store, d.hook), d.open
	if upload := job.Upload; upload != nil {
		job.Upload = func(ctx context.Context, run string) (err error) {
			dead := d.step(func() { err = upload(ctx, run) }, nothing)
			return errors.Join(dead, err)
		}
	}
	_, err := job.Run(context.Background())
	d.bury(b)
	if d.killed != errors.Is(err, errKilled) {
		b.Fatalf("killed: %t, and the job said %v", d.killed, err)
	}
	return d.killed
}
