package offline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// everything returns two files with all kinds of lines.
func everything() []string {
	var a, b strings.Builder
	a.WriteString("\xef\xbb\xbf")
	for i := range 20 {
		a.WriteString(rec(fmt.Sprint(i%7), fmt.Sprint(i%3)))
		if i%5 == 0 {
			a.WriteString("\n")
		}
		if i%6 == 0 {
			a.WriteString("broken\r\n")
		}
		b.WriteString(rec(fmt.Sprint(i%9), "0"))
	}
	return []string{a.String() + `{"id":"cut`, b.String() + `{"id":"last"}`}
}

// TestKilledAnywhere kills a run at each of its operations, in each way, and sometimes the next run, too. The run
// that then finishes must leave the same files as a run that was never killed.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, c := range []Compression{NotCompressed, Gzip, Zstandard} {
		t.Run(string(c), func(t *testing.T) {
			if c == Gzip {
				testengine.CheckOnly(t) // Zstandard has the same calls
			}
			t.Parallel()
			killedAnywhere(t, c)
		})
	}
}

// killedAnywhere kills runs whose inputs and output have one compression.
func killedAnywhere(t *testing.T, c Compression) {
	reference := newBench(t, everything()...)
	reference.run()
	out, deadLetters := reference.output(), reference.read("dead")
	for mode := range modes {
		for n := 1; ; n++ {
			b := newBench(t, packedEach(t, c, everything())...)
			b.job.Compression = c
			b.job.BatchSize, b.tick = 4, recordEvery
			if !b.die(n, mode) {
				if n < 20 {
					t.Errorf("only %d operations", n)
				}
				break
			}
			if n%3 == 0 {
				b.now = b.now.Add(time.Minute)
				b.job.BatchSize = 3
				b.die(n/2+1, (mode+1)%modes)
			}
			b.job.BatchSize = 5
			b.finish()
			if b.output() != out || b.read("dead") != deadLetters {
				t.Fatalf("killed at %d (%d): want output\n%s\ngot\n%s\nwant deadLetters\n%s\ngot\n%s", n, mode, out, b.output(), deadLetters, b.read("dead"))
			}
		}
	}
}

// TestKilledBeforeUpload kills a run with an upload at each of its operations. One of them is the upload. The output
// must be uploaded once, and equal the output of a run that was never killed.
func TestKilledBeforeUpload(t *testing.T) {
	t.Parallel()
	reference := newBench(t, everything()...)
	reference.run()
	for mode := range modes {
		for n := 1; ; n++ {
			b := newBench(t, everything()...)
			b.job.BatchSize, b.tick = 4, recordEvery
			uploads := map[string]string{} // the uploaded outputs, by run
			b.job.Upload = func(_ context.Context, run string) error {
				if uploads[run] == "" {
					uploads[run] = b.output()
				}
				return nil
			}
			killed := b.die(n, mode)
			for b.read("out.run") != "" || !b.finished() {
				if _, err := b.job.Run(context.Background()); err != nil {
					t.Fatalf("killed at %d (%d): %v", n, mode, err)
				}
			}
			if uploaded := slices.Collect(maps.Values(uploads)); len(uploaded) != 1 || uploaded[0] != reference.output() {
				t.Fatalf("killed at %d (%d): want one upload of\n%s\ngot\n%q", n, mode, reference.output(), uploaded)
			}
			if _, err := os.Stat(b.path("out")); err == nil || b.read("dead") != reference.read("dead") {
				t.Fatalf("killed at %d (%d): the file is left, or the dead letters differ: %s", n, mode, b.read("dead"))
			}
			if !killed {
				break
			}
		}
	}
}

// finish runs the job to its end. If the process ended after the end was saved, and before FILE.run was removed, it
// runs the job again.
func (b *bench) finish() {
	b.Helper()
	if b.read("out.run") != "" || !b.finished() {
		b.run()
	}
}

// failOnePut fails one entry in each of the first calls of PutIfAbsent.
func failOnePut(calls int) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method != dedupefault.PutIfAbsent || calls == 0 {
			return c.Do(ctx)
		}
		calls--
		at := len(c.Entries) / 2
		c.Entries = slices.Delete(slices.Clone(c.Entries), at, at+1)
		err := c.Do(ctx)
		c.Puts = slices.Insert(c.Puts, at, dedupe.PutResult{Err: dedupe.ErrTryAgain})
		return err
	}
}

// TestOneEntryFails checks that a batch is not written if one of its records has no decision.
func TestOneEntryFails(t *testing.T) {
	t.Parallel()
	reference := newBench(t, everything()...)
	reference.run()
	b := newBench(t, everything()...)
	b.job.BatchSize, b.job.Store = 7, dedupefault.HookStore(b.store, failOnePut(5))
	for range 5 {
		if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrStopped) || !errors.Is(err, dedupe.ErrTryAgain) {
			t.Fatalf("want a stopped run, got %v", err)
		}
	}
	b.run()
	b.wantOut(reference.read("out"))
}

// TestKilledInAWindow checks that a record that is decided again does not find the entry of a later record. The later
// record has replaced the entry that decided the first.
func TestKilledInAWindow(t *testing.T) {
	t.Parallel()
	line := func(id, fp string, second float64) string {
		return fmt.Sprintf(`{"id":%q,"fp":%q,"t":%v}`+"\n", id, fp, second)
	}
	var mixed strings.Builder
	for i := range 12 {
		mixed.WriteString(line(fmt.Sprint(i%2), fmt.Sprint(i%3), float64(i*4)))
	}
	for name, input := range map[string]string{
		"mixed":              mixed.String(),
		"its own":            line("1", "x", 0) + line("1", "y", 11),
		"what it copied":     line("1", "x", 0) + line("1", "x", 9) + line("1", "y", 11),
		"in the last second": line("1", "x", 0) + line("1", "x", 10) + line("1", "y", 10.5),
		"its derived one":    line("1", "x", 0) + line("1", "y", 0) + line(format.DerivedID("1", "y"), "z", 11),
		"by a derived one":   line(format.DerivedID("1", "y"), "z", 0) + line("1", "x", 11) + line("1", "y", 11),
	} {
		for mode := range modes {
			killedInAWindow(t, name, input, mode)
		}
	}
}

func killedInAWindow(t *testing.T, name, input string, mode deathMode) {
	job := func() *bench {
		b := newBench(t, input)
		b.job.Retention = dedupe.Retention{Window: 10 * time.Second}
		setFormat(&b.job, func(o *format.Options) { o.TimePath = "t" })
		return b
	}
	reference := job()
	reference.run()
	for n := 1; ; n++ {
		b := job()
		if !b.die(n, mode) {
			return
		}
		b.finish()
		if b.read("out") != reference.read("out") {
			t.Fatalf("%s, killed at %d (%d): want\n%s\ngot\n%s", name, n, mode, reference.read("out"), b.read("out"))
		}
	}
}
