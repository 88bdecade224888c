package offline

import (
	"bytes"
	"context"
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
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// lines returns records with the ids from first to last.
func lines(first, last int) string {
	var text strings.Builder
	for i := first; i <= last; i++ {
		text.WriteString(rec(fmt.Sprint(i), "x"))
	}
	return text.String()
}

// wantOnce checks that the records 1 to last are in the texts, each once.
func (b *bench) wantOnce(how string, last int, texts ...string) {
	b.Helper()
	all := strings.Join(texts, "")
	for i := 1; i <= last; i++ {
		if n := strings.Count(all, fmt.Sprintf(`{"id":"%d"`, i)); n != 1 {
			b.Errorf("%s: record %d is in the outputs %d times", how, i, n)
		}
	}
}

// TestOtherCommands kills a run at each of its operations. Another command comes next, which reads its input and one
// record more. Together the outputs have each record once. If the other command is refused and the output is deleted,
// the second output has all.
func TestOtherCommands(t *testing.T) {
	t.Parallel()
	volatile := func(j *Job) {
		setFormat(j, func(o *format.Options) { o.FingerprintPath, o.Volatile = "", []string{"v"} })
	}
	for name, c := range map[string]struct {
		sameOut bool
		inputs  []string
		change  func(*Job)
	}{
		"a grown file":                    {true, []string{lines(1, 8)}, nil},
		"one more file":                   {true, []string{lines(1, 7), lines(8, 8)}, nil},
		"one more file, to another file":  {false, []string{lines(1, 7), lines(8, 8)}, nil},
		"another option, to another file": {false, []string{lines(1, 8)}, volatile},
		"with an owner path, to other file": {false, []string{lines(1, 8)}, func(j *Job) {
			setFormat(j, func(o *format.Options) { o.FingerprintPath, o.OwnerPath = "", "fp" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range []deathMode{before, halfway} {
				for n := 1; ; n++ {
					b := newBench(t, lines(1, 7))
					b.job.BatchSize, b.tick = 2, recordEvery
					if strings.HasPrefix(name, "with an owner path") {
						c.change(&b.job)
					}
					if !b.die(n, mode) {
						break
					}
					b.job.Inputs = texts(c.inputs...)
					if c.change != nil {
						c.change(&b.job)
					}
					out := "out"
					if !c.sameOut {
						out = "out2"
						b.job.Out, b.job.DeadLetters = b.path(out), b.path("dead2")
					}
					_, err := b.job.Run(context.Background())
					if err != nil && (!c.sameOut || !errors.Is(err, ErrRefused)) {
						t.Fatalf("killed at %d (%d): %v", n, mode, err)
					}
					if err != nil && n%2 == 0 && !strings.Contains(err.Error(), "finished run") {
						b.remove("out")
						if _, err := b.job.Run(context.Background()); err != nil {
							t.Fatalf("killed at %d (%d): %v", n, mode, err)
						}
					} else if err != nil {
						out = "out2"
						b.job.Out, b.job.DeadLetters = b.path(out), b.path("dead2")
						if _, err := b.job.Run(context.Background()); err != nil {
							t.Fatalf("killed at %d (%d): %v", n, mode, err)
						}
					}
					first, second := b.read("out"), b.read(out)
					if out == "out" {
						first = ""
					}
					if strings.HasPrefix(name, "with an owner path") { // the same owner comes again: a retry
						for line := range strings.Lines(second) {
							first = strings.ReplaceAll(first, line, "")
						}
					}
					b.wantOnce(fmt.Sprintf("killed at %d (%d)", n, mode), 8, first, second)
				}
			}
		})
	}
}

// TestPublishedOutputsOfStoppedRuns kills a published run at each of its operations. The next run reads one record
// more.
func TestPublishedOutputsOfStoppedRuns(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		p := newPast(t)
		if !p.die(p.next(true, lines(1, 7)), n, before) {
			return
		}
		p.finish(p.next(true, lines(1, 7), lines(8, 8)))
		p.wantOnce(fmt.Sprintf("killed at %d", n), 8, p.published())
	}
}

// TestTwoOutputsOfOneInput kills a run, then the same job with another output, and starts the first one again. Both
// outputs can be unpacked, and together they have each record once.
func TestTwoOutputsOfOneInput(t *testing.T) {
	t.Parallel()
	for n := 8; ; n += 7 {
		b := newBench(t, lines(1, 60))
		b.job.Compression, b.job.BatchSize, b.tick = Gzip, 5, recordEvery // a member for each batch
		if !b.die(n, before) {
			return
		}
		first := b.job
		b.job.Out, b.job.DeadLetters = b.path("out2"), b.path("dead2")
		b.tick, b.job.BatchSize = recordEvery/4, 4 // other members
		second := b.job
		d := &death{at: n - 4, mode: before}
		b.job.Store, b.job.open = dedupefault.HookStore(b.store, d.hook), d.open
		_, _ = b.job.Run(context.Background())
		for _, b.job = range []Job{first, second} { // a refused job has a closed output
			if _, err := b.job.Run(context.Background()); err != nil && !errors.Is(err, ErrRefused) {
				t.Fatalf("killed at %d: %v", n, err)
			}
		}
		b.job.Out, b.job.DeadLetters = b.path("out3"), b.path("dead3")
		if _, err := b.job.Run(context.Background()); err != nil {
			t.Fatalf("killed at %d: %v", n, err)
		}
		var all []string
		for _, name := range []string{"out", "out2", "out3"} {
			b.write("out", b.read(name))
			all = append(all, b.output())
		}
		b.wantOnce(fmt.Sprintf("killed at %d", n), 60, all...)
	}
}

// TestAnotherOutputsID: a copy of an output comes back after its run has begun again. It is not cut to the size of the
// other output.
func TestAnotherOutputsID(t *testing.T) {
	t.Parallel()
	anotherOutputsID(t, func(s dedupe.Store) dedupe.Store { return s })
	t.Run("cut-without-the-outputs-id", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) {
			anotherOutputsID(tb, func(s dedupe.Store) dedupe.Store {
				return dedupefault.HookStore(s, func(ctx context.Context, c *dedupefault.Call) error {
					err := c.Do(ctx)
					if c.Method == dedupefault.RunByID && c.Run != nil {
						c.Run.OutputID = outputBefore
					}
					return err
				})
			})
		})
	})
}

// outputBefore is the id of the output that comes back.
const outputBefore = "the output before." + string(Gzip)

func anotherOutputsID(t testing.TB, broken func(dedupe.Store) dedupe.Store) {
	b := newBench(t, lines(1, 9))
	b.job.Compression, b.job.BatchSize = Gzip, 4
	b.interrupt(1)
	runs := b.store.Runs()
	row, copied := runs[0], b.read("out")
	b.write("out.run", strings.Replace(b.read("out.run"), row.OutputID, outputBefore, 1))
	row.Output, row.Beat = int64(len(copied)/2), row.Beat+1
	b.store.Replace(b.job.Scope, row)
	b.job.Store = broken(b.store)
	if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrRefused) || b.read("out") != copied {
		t.Errorf("the output was cut to the size of another one: %v", err)
	}
}

// TestSymbolicLink: a link to the output of a run at work has the lock of its target.
func TestSymbolicLink(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 3))
	atWork, err := lockOutput(b.path("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer atWork.release()
	if err := errors.Join(os.Symlink("out", b.path("link")), os.Symlink(b.path("link"), b.path("link2"))); err != nil {
		t.Fatal(err)
	}
	b.job.Out = b.path("link2")
	b.refused("another process is writing to " + b.path("link2"))
}

// TestLinkMoved: a link that was an output names another file now. The run is closed with the file that it wrote.
func TestLinkMoved(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	if err := os.Symlink("monday", b.path("today")); err != nil {
		t.Fatal(err)
	}
	b.job.Out, b.job.BatchSize = b.path("today"), 4
	b.interrupt(1)
	b.remove("today")
	if err := os.Symlink("tuesday", b.path("today")); err != nil {
		t.Fatal(err)
	}
	b.job.Inputs = texts(lines(1, 10))
	r, err := b.job.Run(context.Background())
	if err != nil || len(r.Closed) != 1 || r.Closed[0].Output != b.path("monday") || r.Closed[0].Lines != 4 {
		t.Errorf("got %+v, %v", r.Closed, err)
	}
	b.wantOnce("both files", 10, b.read("monday"), b.read("tuesday"))
}

// TestDeletedFolder: an output is deleted with its folder. Its killed run is closed at 0.
func TestDeletedFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 1, recordEvery
	if err := os.Mkdir(b.path("day"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.job.Out, b.job.DeadLetters = b.path("day/out"), b.path("day/dead")
	b.die(20, before)
	if runs := b.store.Runs(); runs[0].Lines == 0 || runs[0].Rests {
		t.Fatalf("want a killed run that has saved lines, got %+v", runs[0])
	}
	if err := os.RemoveAll(b.path("day")); err != nil {
		t.Fatal(err)
	}
	b.job.Inputs, b.job.Out, b.job.DeadLetters = texts(lines(1, 2)), b.path("out2"), b.path("dead2")
	if r, err := b.job.Run(context.Background()); err != nil || len(r.Closed) != 1 || r.Closed[0].Lines != 0 {
		t.Errorf("got %+v, %v", r.Closed, err)
	}
	b.wantOnce("a deleted folder", 2, b.read("out2"))
}

// TestDeletedOnAnotherHost: two hosts use one folder, and an output is deleted there. The other host closes its run at
// 0, because FILE.run proves that the output was in that folder.
func TestDeletedOnAnotherHost(t *testing.T) {
	t.Parallel()
	for _, rests := range []bool{false, true} {
		for _, out := range []string{"out", "out2"} {
			b := newBench(t, lines(1, 9))
			b.job.BatchSize, b.tick, b.job.host = 1, recordEvery, "container 1"
			b.goesOn(t.Context(), b.job, 5)
			row := b.store.Runs()[0]
			row.Rests = rests
			b.store.Replace(b.job.Scope, row)
			b.remove("out")
			b.job.host, b.job.Out = "container 2", b.path(out)
			r, err := b.job.Run(context.Background())
			if err != nil || len(r.Closed) != 1 || r.Closed[0].Lines != 0 {
				t.Errorf("rests %t, to %s: closed %+v, %v", rests, out, r.Closed, err)
			}
			b.wantOnce(fmt.Sprintf("rests %t, to %s", rests, out), 9, b.read(out))
		}
	}
}

// TestResumedDuringAnotherSave: a command saves a stopped run, as it does before it cuts its files, or closes it, while
// its own command continues it. That one reads the row again, and continues or is refused.
func TestResumedDuringAnotherSave(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.tick = 1, recordEvery
		b.goesOn(t.Context(), b.job, 5)
		row, once := b.store.Runs()[0], false
		b.job.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
			if c.Method == dedupefault.SaveRun && !once {
				once = true
				row.Beat++
				err := b.store.SaveRun(ctx, c.Scope, row)
				if closes {
					_, err = b.store.CloseRun(ctx, c.Scope, row)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return c.Do(ctx)
		})
		if closes {
			b.refused("out has the first 5 records of the run " + row.ID + ", which was closed there. Choose another file")
			continue
		}
		if r := b.run(); r.Resumed != 5 {
			t.Errorf("unexpected report %+v", r)
		}
		b.wantOnce("saved meanwhile", 9, b.read("out"))
	}
}

// TestOvertaken: another process has saved the run that this one works on. This one says that its command continues it.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 1, recordEvery
	first := b.job
	first.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.SaveRun && c.Run.Lines == 5 && !c.Run.Rests {
			row := b.store.Runs()[0]
			row.Beat += 2
			if err := b.store.SaveRun(ctx, c.Scope, row); err != nil {
				t.Fatal(err)
			}
		}
		return c.Do(ctx)
	})
	_, err := first.Run(context.Background())
	if !errors.Is(err, dedupe.ErrReplaced) ||
		!strings.Contains(err.Error(), "Another process has gone on with this run. Run the same command again") {
		t.Errorf("got %v", err)
	}
	b.run()
	b.wantOnce("the same command", 9, b.read("out"))
}

// TestClosedOrSavedMeanwhile: a function closes a stopped run, or its own command saves it, in the moment in which
// another command closes it. That one names the run if it was closed, and leaves its files as the other one would.
func TestClosedOrSavedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.tick = 1, recordEvery
		b.goesOn(t.Context(), b.job, 5)
		b.write("out", b.read("out")+lines(6, 6))
		first := b.store.Runs()[0].ID
		b.job.Inputs, b.job.Out, b.job.DeadLetters = texts(lines(11, 12)), b.path("out2"), b.path("dead2")
		b.job.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
			switch {
			case c.Method == dedupefault.CloseRun && closes:
				if closed, err := b.store.CloseRun(ctx, c.Scope, *c.Run); !closed {
					t.Fatal(err)
				}
			case c.Method == dedupefault.CloseRun:
				row := *c.Run
				row.Beat++
				if err := b.store.SaveRun(ctx, c.Scope, row); err != nil {
					t.Fatal(err)
				}
			case c.Method == dedupefault.PutIfAbsent && !closes: // it is closed later, and named at the end
				row, err := b.store.RunByID(ctx, b.job.Scope, first)
				if _, closeErr := b.store.CloseRun(ctx, b.job.Scope, *row); err != nil || closeErr != nil {
					t.Fatal(err, closeErr)
				}
			}
			return c.Do(ctx)
		})
		r, err := b.job.Run(context.Background())
		if err != nil || len(r.Closed) != 1 || r.Closed[0].Lines != 5 || b.read("out") != lines(1, 5) {
			t.Errorf("closed %t: got %+v, %v, and %s", closes, r.Closed, err, b.read("out"))
		}
		if left := b.read("out.run") != ""; left == closes {
			t.Errorf("closed %t: FILE.run is left: %t", closes, left)
		}
	}
}

// TestShortFiles: a file of a stopped run has become shorter. The command that finds this closes the run at 0 before it
// asks the user to delete the output: a function that comes in between does not close it at its saved line.
func TestShortFiles(t *testing.T) {
	t.Parallel()
	shortFiles(t, func(s dedupe.Store) dedupe.Store { return s })
	t.Run("closed-at-its-saved-line", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) { shortFiles(tb, closesAtSavedLine) })
	})
}

// closesAtSavedLine breaks a rule: each run is closed at its saved line, also a run whose output was deleted.
func closesAtSavedLine(s dedupe.Store) dedupe.Store {
	return dedupefault.HookStore(s, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.CloseRun {
			row, err := s.RunByID(ctx, c.Scope, c.Run.ID)
			if err != nil || row == nil {
				return err
			}
			c.Run = row
		}
		return c.Do(ctx)
	})
}

func shortFiles(t testing.TB, broken func(dedupe.Store) dedupe.Store) {
	for short, says := range map[string]string{
		"out": "out has 5 bytes, but its run has written 80", "dead": "dead has 5 bytes, but its run has written 66",
		"dead, which is missing": "dead has 0 bytes, but its run has written 66",
	} {
		name, _, missing := strings.Cut(short, ",")
		for _, host := range []string{"container 1", "container 2"} {
			b := newBench(t, "poison\n"+lines(1, 9))
			b.job.BatchSize, b.tick, b.job.host = 1, recordEvery, "container 1"
			b.goesOn(t.Context(), b.job, 5)
			b.job.Store = broken(b.store)
			if b.write(name, "short"); missing {
				b.remove(name)
			}
			b.job.host = host
			r, err := b.job.Run(context.Background())
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says) ||
				!strings.Contains(err.Error(), ": then all records of the run are decided again") ||
				!strings.Contains(err.Error(), "but the stopped runs") || len(r.Closed) != 1 || r.Closed[0].Lines != 0 {
				t.Errorf("a short %s: closed %+v, %v", short, r.Closed, err)
			}
			row := b.store.Runs()[0]
			if _, err := b.store.CloseRun(t.Context(), b.job.Scope, row); err != nil { // as a function does
				t.Fatal(err)
			}
			b.remove("out")
			b.run()
			b.wantOnce("a short "+short, 9, b.read("out"))
		}
	}
}

// TestDeletedAfterClosing: a function closes a stopped run at its saved line, and its output is deleted. The saved
// records count as written, so the same command is refused and not finished without them.
func TestDeletedAfterClosing(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 7} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.tick = 1, recordEvery
		b.goesOn(t.Context(), b.job, 5)
		row := b.store.Runs()[0]
		if closed, err := b.store.CloseRun(t.Context(), b.job.Scope, row); !closed {
			t.Fatal(err)
		}
		whole := b.read("out")
		if b.remove("out"); size > 0 {
			b.write("out", whole[:size])
		}
		for range 2 {
			b.refused("out had the first 5 records of the run "+row.ID, "Put the file back", "delete "+b.path("out.run"))
		}
		b.write("out", whole)
		b.refused("out has the first 5 records of the run " + row.ID)
		b.job.Out, b.job.DeadLetters = b.path("out2"), b.path("dead2")
		if _, err := b.job.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.wantOnce("the file was put back", 9, b.read("out"), b.read("out2"))
	}
}

// TestCutEachFile: a closed run's output is cut although its dead letters are missing, and the other way round.
func TestCutEachFile(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"out", "dead"} {
		b := newBench(t, "poison\n"+lines(1, 9))
		b.job.BatchSize, b.tick = 1, recordEvery
		b.goesOn(t.Context(), b.job, 5)
		row := b.store.Runs()[0]
		if closed, err := b.store.CloseRun(t.Context(), b.job.Scope, row); !closed {
			t.Fatal(err)
		}
		b.write("out", b.read("out")+lines(5, 6))
		b.write("dead", b.read("dead")+"{")
		b.remove(missing)
		if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrRefused) {
			t.Errorf("without %s: %v", missing, err)
		}
		out, dead := int64(len(b.read("out"))), int64(len(b.read("dead")))
		if missing != "out" && out != row.Output || missing != "dead" && dead != row.DeadLetters {
			t.Errorf("without %s: %d and %d bytes, and the row is %+v", missing, out, dead, row)
		}
	}
}

// TestHostsWithoutNames: a run on a host without a name may be on any host. A host that does not see its file does not
// take it for deleted.
func TestHostsWithoutNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize = 4
	b.interrupt(1)
	row := b.store.Runs()[0]
	text, err := json.Marshal(About{File: b.path("not here/out")})
	if err != nil {
		t.Fatal(err)
	}
	row.About = string(text)
	r, err := newRun(b.job)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.host = ""
	if err := r.closeIfStopped(t.Context(), row); err != nil || len(r.closed) != 1 || r.closed[0].Lines != 4 {
		t.Errorf("got %+v, %v", r.closed, err)
	}
}

// TestHostsOfOneName: a run at work on another machine of the same name is not closed, although its file is not here.
func TestHostsOfOneName(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.job.host, b.job.machine = 4, "web", "1"
		second := b.job
		if !same {
			second.machine = "2"
		}
		second.Inputs, second.Out, second.DeadLetters = texts(lines(11, 12)), b.path("out2"), b.path("dead2")
		if err := os.Mkdir(b.path("there"), 0o700); err != nil {
			t.Fatal(err)
		}
		b.job.Out, b.job.DeadLetters = b.path("there/out"), b.path("there/dead")
		var r Report
		b.job.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
			if c.Method == dedupefault.PutIfAbsent && r.Run == "" {
				see := os.Rename(b.path("there"), b.path("hidden"))
				var err error
				r, err = second.Run(ctx)
				if err := errors.Join(see, err, os.Rename(b.path("hidden"), b.path("there"))); err != nil {
					t.Fatal(err)
				}
			}
			return c.Do(ctx)
		})
		_, err := b.job.Run(context.Background())
		if closed := len(r.Closed) > 0; closed != same || closed != errors.Is(err, dedupe.ErrReplaced) {
			t.Errorf("the same machine %t: closed %+v, and the run at work: %v", same, r.Closed, err)
		}
	}
}

// TestHostsWithoutMachineIDs: hosts of one name cannot be told apart without a machine id. A run whose output is not
// found is closed at 0 only if it is not saved for RestAfter.
func TestHostsWithoutMachineIDs(t *testing.T) {
	t.Parallel()
	for _, atWork := range []bool{false, true} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.job.host, b.tick = 1, "web", recordEvery
		b.goesOn(t.Context(), b.job, 5)
		row := b.store.Runs()[0]
		text, err := json.Marshal(About{File: b.path("not here/out"), Host: "web"})
		if err != nil {
			t.Fatal(err)
		}
		row.About, row.Rests = string(text), false
		b.store.Replace(b.job.Scope, row)
		now, waited := time.Now(), time.Duration(0)
		b.job.clock.Now = func() time.Time { return now.Add(waited) }
		b.job.clock.Pause = func(_ context.Context, d time.Duration) error {
			if waited += d; !atWork {
				return nil
			}
			saved := row
			saved.Beat++
			return b.store.SaveRun(t.Context(), b.job.Scope, saved)
		}
		r, err := newRun(b.job)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		r.machine = ""
		err = r.closeIfStopped(t.Context(), row)
		if err != nil || atWork != (len(r.closed) == 0) || atWork != (len(r.left) == 1) {
			t.Errorf("at work %t: closed %+v, left %+v, %v", atWork, r.closed, r.left, err)
		}
		if !atWork && (r.closed[0].Lines != 0 || waited < dedupe.RestAfter) {
			t.Errorf("got %+v after %s", r.closed, waited)
		}
	}
}

// goesOn runs a job until it has decided some lines.
func (b *bench) goesOn(ctx context.Context, j Job, lines int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j.Progress = func(p Progress) {
		if p.Doing == passDeciding && p.Lines >= lines {
			cancel()
		}
	}
	if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
}

// TestGoesOnBeforeTheLock: a stopped run goes on, and stops again, after another command has read its row and before
// that command takes the lock of its output. The output is not cut to the earlier row.
func TestGoesOnBeforeTheLock(t *testing.T) {
	t.Parallel()
	goesOnBeforeTheLock(t, func(s dedupe.Store) dedupe.Store { return s })
	t.Run("row-before-the-lock", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) { goesOnBeforeTheLock(tb, withRowsAsListed) })
	})
}

// withRowsAsListed breaks a rule: a run that was listed as open is not read again.
func withRowsAsListed(s dedupe.Store) dedupe.Store {
	listed := map[string]dedupe.Run{}
	return dedupefault.HookStore(s, func(ctx context.Context, c *dedupefault.Call) error {
		err := c.Do(ctx)
		for _, r := range c.Runs {
			listed[r.ID] = r
		}
		if r, ok := listed[c.Digest]; ok && c.Method == dedupefault.RunByID {
			c.Run = &r
		}
		return err
	})
}

func goesOnBeforeTheLock(t testing.TB, broken func(dedupe.Store) dedupe.Store) {
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 1, recordEvery
	b.goesOn(t.Context(), b.job, 3)
	second := b.job
	second.Inputs, second.Out, second.DeadLetters = texts(lines(1, 10)), b.path("out2"), b.path("dead2")
	second.Store = dedupefault.HookStore(broken(b.store), func(ctx context.Context, c *dedupefault.Call) error {
		err := c.Do(ctx)
		if c.Method == dedupefault.OpenRuns {
			b.goesOn(ctx, b.job, 7)
		}
		return err
	})
	first := b.store.Runs()[0].ID
	r, err := second.Run(context.Background())
	if err != nil || len(r.Closed) != 1 || r.Closed[0].Lines != 7 {
		t.Errorf("got %+v, %v", r.Closed, err)
	}
	if row, err := b.store.RunByID(t.Context(), b.job.Scope, first); err != nil || int64(len(b.read("out"))) != row.Output {
		t.Errorf("the output has %d bytes, and its row says %+v, %v", len(b.read("out")), row, err)
	}
	b.wantOnce("both outputs", 10, b.read("out"), b.read("out2"))
}

// TestLateSave: the last save of a killed process arrives while another command closes its run, before or after that
// has fenced it off. Its lines are in the file, or the save has no effect.
func TestLateSave(t *testing.T) {
	t.Parallel()
	lateSave(t, func(s *memstore.Records, scope string, r dedupe.Run) error { return s.SaveRun(t.Context(), scope, r) })
	t.Run("saved-whenever-it-arrives", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) {
			lateSave(tb, func(s *memstore.Records, scope string, r dedupe.Run) error {
				s.Replace(scope, r)
				return nil
			})
		})
	})
}

func lateSave(t testing.TB, arrives func(*memstore.Records, string, dedupe.Run) error) {
	for _, when := range []dedupefault.Method{dedupefault.RunByID, dedupefault.SaveRun} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.tick = 1, recordEvery
		b.goesOn(t.Context(), b.job, 3)
		before := b.store.Runs()[0]
		b.goesOn(t.Context(), b.job, 7)
		late := b.store.Runs()[0]
		before.Rests, late.Rests, late.Beat = false, false, before.Beat+1
		b.store.Replace(b.job.Scope, before)
		check := func() {
			for _, r := range b.store.Runs() {
				if r.ID == before.ID && int64(len(b.read("out"))) < r.Output {
					t.Errorf("after %s: the output has %d bytes, and its row says %+v", when, len(b.read("out")), r)
				}
			}
		}
		second, once := b.job, false
		second.Inputs, second.Out, second.DeadLetters = texts(lines(11, 12)), b.path("out2"), b.path("dead2")
		second.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
			if c.Method == dedupefault.CloseRun {
				check()
			}
			err := c.Do(ctx)
			if c.Method == when && c.Run.ID == before.ID && !once {
				once = true
				if err := arrives(b.store, c.Scope, late); err != nil && !errors.Is(err, dedupe.ErrReplaced) {
					t.Fatal(err)
				}
			}
			return err
		})
		if _, err := second.Run(context.Background()); err != nil || !once {
			t.Errorf("after %s: %v", when, err)
		}
		check()
	}
}

// TestGoesOnBeforeItIsClosed: a run on another host goes on, and stops again, after its row was read and before it is
// closed. It is closed at its last row.
func TestGoesOnBeforeItIsClosed(t *testing.T) {
	t.Parallel()
	goesOnBeforeItIsClosed(t, func(*memstore.Records, *dedupefault.Call) bool { return false })
	t.Run("closed-whatever-was-saved", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) {
			goesOnBeforeItIsClosed(tb, func(s *memstore.Records, c *dedupefault.Call) bool {
				c.Run.Closed, c.Closed = true, true
				s.Replace(c.Scope, *c.Run)
				return true
			})
		})
	})
}

func goesOnBeforeItIsClosed(t testing.TB, closes func(*memstore.Records, *dedupefault.Call) bool) {
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 1, recordEvery
	see := func(from, to string) {
		if err := os.Rename(b.path(from), b.path(to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(b.path("there"), 0o700); err != nil {
		t.Fatal(err)
	}
	second := b.job
	b.job.host, b.job.Out, b.job.DeadLetters = "there", b.path("there/out"), b.path("there/dead")
	b.goesOn(t.Context(), b.job, 3)
	see("there", "hidden")
	second.Inputs, second.Out, second.DeadLetters = texts(lines(1, 10)), b.path("out2"), b.path("dead2")
	second.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method != dedupefault.CloseRun {
			return c.Do(ctx)
		}
		see("hidden", "there")
		b.goesOn(ctx, b.job, 7)
		see("there", "hidden")
		if closes(b.store, c) {
			return nil
		}
		return c.Do(ctx)
	})
	if _, err := second.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.wantOnce("both outputs", 10, b.read("hidden/out"), b.read("out2"))
}

// TestUnheardSave: a save takes effect, and its answer is lost. Another run drops copies of what was saved. The first
// run stops, and is closed at that save and not at the one before.
func TestUnheardSave(t *testing.T) {
	t.Parallel()
	unheardSave(t, func(s dedupe.Store) dedupe.Store { return s })
	t.Run("rests-where-it-has-heard", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) { unheardSave(tb, withHeardRows) })
	})
}

// withHeardRows breaks a rule: a run rests with the last row whose save it has heard of.
func withHeardRows(s dedupe.Store) dedupe.Store {
	heard := map[string]dedupe.Run{}
	return dedupefault.HookStore(s, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method != dedupefault.SaveRun {
			return c.Do(ctx)
		}
		if row, ok := heard[c.Run.ID]; ok && c.Run.Rests {
			row.Beat, row.Rests = c.Run.Beat, true
			c.Run = &row
		}
		err := c.Do(ctx)
		if err == nil {
			heard[c.Run.ID] = *c.Run
		}
		return err
	})
}

func unheardSave(t testing.TB, broken func(dedupe.Store) dedupe.Store) {
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 1, recordEvery
	first, second, third := b.job, b.job, b.job
	second.Inputs, second.Out, second.DeadLetters = texts(lines(4, 6)), b.path("out2"), b.path("dead2")
	third.Inputs, third.Out, third.DeadLetters = texts(rec("10", "x")), b.path("out3"), b.path("dead3")
	met := false
	first.Store = broken(dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
		if err := c.Do(ctx); err != nil || c.Method != dedupefault.SaveRun || c.Run.Lines != 6 || met {
			return err
		}
		met = true
		if r, err := second.Run(ctx); err != nil || r.Natural != 3 {
			t.Errorf("the second run: %+v, %v", r, err)
		}
		return dedupe.ErrTryAgain
	}))
	if _, err := first.Run(context.Background()); !errors.Is(err, ErrStopped) {
		t.Fatalf("want a stopped run, got %v", err)
	}
	if r, err := third.Run(context.Background()); err != nil || len(r.Closed) != 1 || r.Closed[0].Lines != 6 {
		t.Errorf("the third run: %+v, %v", r.Closed, err)
	}
	b.wantOnce("the first output", 6, b.read("out"))
}

// TestAtWork: a run whose process holds the lock of its output is not closed. A run that was closed while its process
// was suspended writes nothing more, and its files are cut to what was saved.
func TestAtWork(t *testing.T) {
	t.Parallel()
	atWork(t, func(s dedupe.Store) dedupe.Store { return s })
	t.Run("closes-runs-at-work", func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) { atWork(tb, closesAtWork) })
	})
}

// closesAtWork breaks a rule: a command closes the runs whose lock it cannot take.
func closesAtWork(s dedupe.Store) dedupe.Store {
	return dedupefault.HookStore(s, func(ctx context.Context, c *dedupefault.Call) error {
		err := c.Do(ctx)
		for _, r := range c.Runs {
			_, closeErr := s.CloseRun(ctx, c.Scope, r)
			err = errors.Join(err, closeErr)
		}
		return err
	})
}

func atWork(t testing.TB, broken func(dedupe.Store) dedupe.Store) {
	for _, closes := range []bool{false, true} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.tick = 2, recordEvery
		first, puts := b.job, 0
		var other Report
		first.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
			if c.Method == dedupefault.PutIfAbsent {
				puts++
			}
			if c.Method != dedupefault.SaveRun || puts != 3 || other.Run != "" {
				return c.Do(ctx)
			}
			// Its third batch is entered and written, and not saved.
			second := b.job
			second.Store = broken(b.store)
			second.Inputs, second.Out, second.DeadLetters = texts(lines(1, 4)+lines(10, 10)), b.path("out2"), b.path("dead2")
			if closes {
				open, err := b.store.OpenRuns(ctx, b.job.Scope)
				if closed, closeErr := b.store.CloseRun(ctx, b.job.Scope, open[0]); !closed {
					t.Fatal(err, closeErr)
				}
				second.Inputs = texts(lines(1, 9) + lines(10, 10))
			}
			var err error
			if other, err = second.Run(ctx); err != nil {
				t.Fatal(err)
			}
			return c.Do(ctx)
		})
		_, err := first.Run(context.Background())
		if closes {
			if !errors.Is(err, dedupe.ErrReplaced) || !strings.Contains(err.Error(), "out is whole up to its line 4") {
				t.Errorf("a closed run: %v", err)
			}
		} else if err != nil || len(other.Closed) != 0 {
			t.Errorf("a run at work: %v; closed %+v", err, other.Closed)
		}
		b.wantOnce(fmt.Sprint("closed: ", closes), 10, b.read("out"), b.read("out2"))
		if b.read("out.run") != "" {
			t.Error("FILE.run was left behind")
		}
	}
}

// TestCutLater: a run at work is closed, and cannot cut its output. The next command that uses the output cuts it.
func TestCutLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 2, recordEvery
	first, puts := b.job, 0
	first.open = func(path string, flag int) (file, error) {
		if puts == 3 {
			return nil, errNoPause
		}
		return osOpen(path, flag)
	}
	first.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.PutIfAbsent {
			puts++
		}
		if c.Method == dedupefault.SaveRun && puts == 3 && !c.Run.Rests {
			open, err := b.store.OpenRuns(ctx, b.job.Scope)
			if closed, closeErr := b.store.CloseRun(ctx, b.job.Scope, open[0]); !closed {
				t.Fatal(err, closeErr)
			}
		}
		return c.Do(ctx)
	})
	if _, err := first.Run(context.Background()); !errors.Is(err, dedupe.ErrReplaced) || b.read("out") != lines(1, 6) {
		t.Fatalf("got %v, and %s", err, b.read("out"))
	}
	if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrRefused) || b.read("out") != lines(1, 4) {
		t.Errorf("got %v, and %s", err, b.read("out"))
	}
}

// TestClosedBeforeItsUpload: who closes a run with an upload learns its place: the run may have made the object.
func TestClosedBeforeItsUpload(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.job.Place = 2, "s3://lake/unique"
	b.job.Upload = func(context.Context, string) error { return nil }
	b.interrupt(1)
	b.job.Upload, b.job.Place, b.job.Out, b.job.DeadLetters = nil, "", b.path("out2"), b.path("dead2")
	r, err := b.job.Run(context.Background())
	if want := (ClosedRun{ID: r.Closed[0].ID, Output: b.path("out"), Place: "s3://lake/unique", Lines: 2}); err != nil || r.Closed[0] != want {
		t.Errorf("got %+v, %v", r.Closed, err)
	}
}

// TestWaits: a record that a run at work has entered and not saved is not decided, whether it is a copy or not.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 4))
	b.job.BatchSize = 2
	b.store.SetNow(func() time.Time { b.now = b.now.Add(time.Second); return b.now })
	first := b.job
	var err error
	met := false
	first.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.PutIfAbsent && !met {
			met = true
			if err := c.Do(ctx); err != nil {
				return err
			}
			second := b.job
			second.Inputs, second.Out, second.DeadLetters = texts(rec("1", "y")), b.path("out2"), b.path("dead2")
			_, err = second.Run(ctx)
			return nil
		}
		return c.Do(ctx)
	})
	report, firstErr := first.Run(context.Background())
	atWork, ok := errors.AsType[*dedupe.RunAtWorkError](err)
	if firstErr != nil || !ok || atWork.Run != report.Run || !errors.Is(err, ErrStopped) {
		t.Fatalf("got %v, and %v", firstErr, err)
	}
	b.job.Inputs, b.job.Out, b.job.DeadLetters = texts(rec("1", "y")), b.path("out2"), b.path("dead2")
	if _, err := b.job.Run(context.Background()); err != nil || b.read("out2") != renamed("1", "y") {
		t.Errorf("afterwards: %v, %s", err, b.read("out2"))
	}
}

// TestSilentRun: a run that says nothing is closed by a record that meets it, after RestAfter.
func TestSilentRun(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		b := newBench(t, lines(1, 9))
		b.job.BatchSize, b.tick = 2, recordEvery
		now := time.Now()
		b.job.host = "its host"
		if !elsewhere {
			b.job.Out, b.job.Stream = "", &bytes.Buffer{}
		}
		fresh := *b
		for n := 1; len(b.store.Entries()) < 6; n++ {
			*b = fresh
			b.store, b.dir = memstore.NewRecords(), folder(t)
			b.job.Store = b.store
			if err := os.Mkdir(b.path("there"), 0o700); err != nil {
				t.Fatal(err)
			}
			if b.job.Out != "" {
				b.job.Out, b.job.DeadLetters = b.path("there/out"), b.path("there/dead")
			}
			b.die(n, after)
		}
		if err := os.Rename(b.path("there"), b.path("hidden")); err != nil { // another host does not see the folder
			t.Fatal(err)
		}
		b.store.SetNow(func() time.Time { return now })
		b.job.host, b.job.Out, b.job.DeadLetters = "another host", b.path("out2"), b.path("dead2")
		if _, err := b.job.Run(context.Background()); !errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("elsewhere %t: want to wait, got %v", elsewhere, err)
		}
		now = now.Add(dedupe.RestAfter)
		r, err := b.job.Run(context.Background())
		if err != nil {
			t.Errorf("elsewhere %t: %v", elsewhere, err)
		}
		kept := ""
		for _, c := range r.Closed {
			if kept += b.read("hidden/out")[:len(lines(1, int(c.Lines)))]; !elsewhere && (c.Lines != 0 || c.Output != "") {
				t.Errorf("a stream was closed at %+v", c)
			}
		}
		b.wantOnce(fmt.Sprint("elsewhere ", elsewhere), 9, kept, b.read("out2"))
	}
}

// TestBeats: a run that saves nothing for long shows that it is at work. When it stops, it says that it rests.
func TestBeats(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.beatEvery, b.job.BatchSize = time.Millisecond, 3
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	row := func() dedupe.Run {
		open, err := b.store.OpenRuns(context.Background(), b.job.Scope)
		if err != nil || len(open) != 1 {
			t.Fatal(open, err)
		}
		return open[0]
	}
	b.job.Progress = func(p Progress) {
		if p.Doing != passDeciding {
			return
		}
		for begin := row().Beat; row().Beat < begin+3; { // the test ends with the beats
			continue
		}
		cancel()
	}
	if _, err := b.job.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r := row(); !r.Rests || r.Closed || r.Lines != 3 {
		t.Errorf("the run stopped as %+v", r)
	}
}

// TestBeatsWhileSkipping: a run that continues shows that it is at work also while it skips the lines that are done.
func TestBeatsWhileSkipping(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 1, recordEvery
	b.goesOn(t.Context(), b.job, 5)
	b.job.beatEvery = time.Millisecond
	open := b.job.Inputs[0].Open
	b.job.Inputs[0].Open = func() (io.ReadCloser, error) {
		at := b.store.Runs()[0]
		for begin := at.Beat; !at.Rests && at.Beat < begin+2; { // the test ends with the beats
			at = b.store.Runs()[0]
		}
		return open()
	}
	b.run()
}

// TestWaitForEachOther: two runs at work meet a record of the other one. Each saves what it has written before it
// waits, so that neither has to give up for that.
func TestWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("1", "x")+rec("2", "x")+rec("4", "x"))
	b.job.BatchSize = 1
	now := b.now
	b.store.SetNow(func() time.Time { now = now.Add(time.Second); return now })
	first, second := b.job, b.job
	second.Inputs = texts(rec("3", "x") + rec("4", "x") + rec("2", "x"))
	second.Out, second.DeadLetters = b.path("out2"), b.path("dead2")
	var err error
	puts := 0
	first.Store = dedupefault.HookStore(b.store, func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.PutIfAbsent {
			if puts++; puts == 3 { // it has written record 2, and has not saved it
				_, err = second.Run(ctx)
			}
		}
		return c.Do(ctx)
	})
	report, firstErr := first.Run(context.Background())
	if _, waited := errors.AsType[*dedupe.RunAtWorkError](err); firstErr != nil || !waited || report.Natural != 1 {
		t.Fatalf("got %+v, %v, and %v", report, firstErr, err)
	}
	b.wantOnce("both", 4, b.read("out"), b.read("out2"))
}

// TestClosedDuringUpload: a run is closed while its output is uploaded. The object has all of its records, and no other
// run decides them.
func TestClosedDuringUpload(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 5))
	b.job.BatchSize = 2
	uploaded := ""
	b.job.Upload = func(ctx context.Context, _ string) error {
		uploaded = b.read("out")
		open, err := b.store.OpenRuns(ctx, b.job.Scope)
		if err != nil {
			return err
		}
		_, err = b.store.CloseRun(ctx, b.job.Scope, open[0])
		return err
	}
	if _, err := b.job.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.job.Upload, b.job.Inputs = nil, texts(lines(1, 6))
	b.job.Out, b.job.DeadLetters = b.path("out2"), b.path("dead2")
	if _, err := b.job.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.wantOnce("uploaded", 6, uploaded, b.read("out2"))
}

// TestCopiedLedger copies a ledger while a run is stopped. The run goes on, with a link to its ledger, and a function
// drops a copy of what it has saved since. Then a command uses the copy, whose row is old: it leaves the files of the
// run alone. The ledger is moved after that, and the run goes on.
func TestCopiedLedger(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.ledgerFile("seen.db")
	first := p.next(false, lines(1, 19))
	p.cutAfterABatch(first)
	p.copyLedger("copy.db")
	if err := os.Symlink("seen.db", p.path("link.db")); err != nil {
		t.Fatal(err)
	}
	first.Store, first.LedgerName = p.as, p.path("link.db")
	saved := p.history()[0].Lines
	first.BatchSize = 1
	for n := 1; p.history()[0].Lines < saved+2; n++ {
		if !p.die(first, n, after) {
			t.Fatal("it was never cut after another batch")
		}
	}
	function := dedupe.Decider{Ledger: p.store, Scope: first.Scope, Retention: first.Retention}
	dropped := function.Decide(t.Context(), []dedupe.Candidate{{
		ID: fmt.Sprint(saved + 2), Fingerprint: "x", Arrival: p.now, Owner: dedupe.Owner{Source: "stream", Sequence: "1"},
	}})
	if dropped[0].Outcome != dedupe.Natural {
		t.Fatalf("a function has not met what the run has saved: %+v", dropped)
	}

	p.ledgerFile("copy.db")
	same := first
	same.Store, same.LedgerName = p.as, p.ledger
	p.refuses(same, "belongs to the unfinished run")
	if r := p.finish(p.next(false, lines(40, 40))); len(r.Closed) != 1 || r.Closed[0].Lines != 0 {
		t.Errorf("closed %+v", r.Closed)
	}

	if err := os.Rename(p.path("seen.db"), p.path("moved.db")); err != nil {
		t.Fatal(err)
	}
	p.ledgerFile("moved.db")
	first.Store, first.LedgerName = p.as, p.ledger
	if got := p.finish(first); got.Resumed < saved+2 {
		t.Errorf("the run of the ledger that was moved: %+v", got)
	}
	p.wantOnce("after the copy", 19, p.read("out1"))
}

// TestSharedDeadLetters: a run of another scope names the dead-letter file of a stopped run that has no dead letters yet.
// It is refused until the stopped run has ended: that one cuts the file when it goes on.
func TestSharedDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 2, recordEvery
	b.interrupt(1)
	b.remove("dead.run") // as if the process had ended before it wrote it
	b.interrupt(1)
	first := b.job
	b.job.Scope, b.job.Out, b.job.Inputs = "other", b.path("out2"), texts("broken\n"+lines(1, 20))
	b.refused("dead belongs to the unfinished run of " + b.path("out"))
	claim := b.read("dead.run")
	if _, err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.write("dead.run", first.Out) // what no run has written is not overwritten
	b.refused("the run needs " + b.path("dead.run") + " for itself")
	b.write("dead.run", claim) // as if the process had ended before it removed it
	if _, err := b.job.Run(t.Context()); err != nil || len(b.deadLetters()) != 1 {
		t.Errorf("got %v, and the dead letters %v", err, b.deadLetters())
	}
	if left, err := filepath.Glob(b.path("*.run")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %s, %v", left, err)
	}
}

// TestDeadLettersOfAnother: a stopped run without dead letters cuts its dead-letter file when it goes on. So the file is
// neither the output of another run, nor does a run to a stream append to it.
func TestDeadLettersOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 2, recordEvery
	b.interrupt(1)
	first := b.job
	b.job.Scope, b.job.Inputs = "other", texts("broken\n"+lines(1, 20))
	b.job.Out, b.job.DeadLetters = b.path("dead"), b.path("dead2")
	b.refused("dead belongs to the unfinished run of " + b.path("out"))
	if err := os.Symlink(b.path("dead"), b.path("link")); err != nil {
		t.Fatal(err)
	}
	b.job.Out, b.job.DeadLetters = b.path("out2"), b.path("link")
	b.refused("belongs to the unfinished run of " + b.path("out"))
	b.job.Out, b.job.Stream, b.job.DeadLetters = "", io.Discard, b.path("link")
	b.refused("dead belongs to the unfinished run of " + b.path("out"))

	claim := b.read("dead.run")
	if _, err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.write("dead.run", claim) // as if the process had ended before it removed it
	b.job.Scope, b.job.Out, b.job.DeadLetters = first.Scope, b.path("dead"), b.path("dead2")
	if _, err := b.job.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLostClaim: another run has used the dead-letter file of a stopped run that had not claimed it. Neither the stopped
// run nor the command that closes it cuts the letters of the other run.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t, lines(1, 9))
	b.job.BatchSize, b.tick = 2, recordEvery
	b.interrupt(1)
	b.remove("dead.run")
	first := b.job
	b.job.Scope, b.job.Out, b.job.Inputs = "other", b.path("out2"), texts("broken\n"+lines(1, 20))
	if _, err := b.job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	letters := b.read("dead")
	b.job = first
	b.refused("dead is not empty, and " + b.path("dead.run") + " does not say that it belongs to the run of " + b.path("out"))
	b.write("out", "") // its run is closed at 0
	b.job.Inputs, b.job.Out, b.job.DeadLetters = texts(lines(1, 20)), b.path("out3"), b.path("dead3")
	if r, err := b.job.Run(t.Context()); err != nil || len(r.Closed) != 1 || r.Out != 20 {
		t.Errorf("got %+v, %v", r, err)
	}
	if letters == "" || b.read("dead") != letters {
		t.Errorf("the letters of the other run: %q, before %q", b.read("dead"), letters)
	}
}
