package offline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestOutcomes checks each kind of line. Records that pass unchanged have the same bytes.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	odd := "\t{ \"id\" : \"a\\u0062\" ,\"fp\":\"x\", \"n\":1.50E+3,\"s\":\"\xff\" } \r\n"
	b := newBench(t,
		"\xef\xbb\xbf"+rec("1", "x")+"\n"+rec("1", "x")+" \t\r\n"+rec("1", "y")+odd+rec("1", "y")+`{"id":`,
		"", rec("2", "x")+`{"id":null}`+"\n"+`{"id":"1","fp":"z","contexts":{}}`+"\n"+strings.TrimSpace(rec("3", "x")))
	got := b.run()
	b.wantOut(rec("1", "x") + renamed("1", "y") + odd + rec("2", "x") + rec("3", "x"))
	b.wantTally(got.Tally, dedupe.Tally{In: 12, New: 4, Natural: 2, Synthetic: 1, DeadLettered: 3, Skipped: 2, Out: 5})
	want := deadLetterAs("a", 8, "not valid JSON", `{"id":`) +
		deadLetterAs("c", 2, "the id is missing, null or empty", `{"id":null}`) +
		deadLetterAs("c", 3, "the contexts are not an array", `{"id":"1","fp":"z","contexts":{}}`)
	if got := b.read("dead"); got != want {
		t.Errorf("want dead-lettered\n%sgot\n%s", want, got)
	}
	if got.Resumed != 0 || len(got.Closed) != 0 || got.Run == "" {
		t.Errorf("unexpected report %+v", got)
	}
}

// These are reasons of package dedupe.
const (
	noIDLeft = "its id and all ids derived from it are used by other records"
	panicked = "handling the record panicked"
)

func TestNoDeadLettersNoFile(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", "\n", rec("1", "x")} {
		b := newBench(t, input)
		b.run()
		if _, err := os.Stat(b.path("out")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(b.path("dead")); err == nil {
			t.Error("a dead-letter file was made for nothing")
		}
	}
}

// TestRerun checks that the records of a finished run are copies for the next run. Only the text at an owner path
// makes them retries.
func TestRerun(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("1", "x")+rec("1", "y")+rec("2", "x"))
	b.run()
	b.refused("is not empty")
	b.remove("out")
	b.wantTally(b.run().Tally, dedupe.Tally{In: 3, Natural: 3})

	b = newBench(t, `{"id":"1","o":"A"}`+"\n"+`{"id":"1","o":"A"}`+"\n"+`{"id":"1","o":"B"}`+"\n")
	b.job.Format = inJSON(format.Options{IDPath: "id", OwnerPath: "o"})
	b.wantTally(b.run().Tally, dedupe.Tally{In: 3, New: 1, Retry: 1, Natural: 1, Out: 2})
	b.remove("out")
	b.wantTally(b.run().Tally, dedupe.Tally{In: 3, Retry: 2, Natural: 1, Out: 2})
}

func TestPassing(t *testing.T) {
	t.Parallel()
	input := rec("1", "x") + rec("1", "x") + rec("1", "y")
	b := newBench(t, input)
	b.job.PassNatural, b.job.PassSynthetic = true, true
	b.wantTally(b.run().Tally, dedupe.Tally{In: 3, New: 1, Natural: 1, Synthetic: 1, Out: 3})
	b.wantOut(input)
}

// TestUsedDerivedIDs checks that a record becomes a dead letter if all its ids are taken.
func TestUsedDerivedIDs(t *testing.T) {
	t.Parallel()
	input, id := rec("1", "x"), "1"
	for range 3 {
		id = format.DerivedID(id, "y")
		input += rec(id, "z")
	}
	b := newBench(t, input+rec("1", "y"))
	b.run()
	if got := b.deadLetters(); len(got) != 1 || got[0].Reason != noIDLeft || got[0].Line != 5 {
		t.Errorf("unexpected %+v", got)
	}
}

// TestPanic checks that a record on which the format panics becomes a dead letter, and that the other records pass.
func TestPanic(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("1", "x")+rec("panic", "x")+rec("2", "x")+rec("2", "panic"))
	r, err := newRun(b.job)
	if err != nil {
		t.Fatal(err)
	}
	r.delivery.Format = panicky{b.job.Format}
	if err := errors.Join(r.prepare(t.Context()), r.work(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.close()
	b.wantOut(rec("1", "x") + rec("2", "x"))
	if got := b.deadLetters(); len(got) != 2 || got[0].Reason != panicked || got[1].Reason != panicked || got[1].Line != 4 {
		t.Errorf("unexpected %+v", got)
	}
}

type panicky struct{ dedupe.Format }

func (p panicky) Read(ctx context.Context, record []byte) (format.Fields, error) {
	if bytes.Contains(record, []byte(`{"id":"panic"`)) {
		panic("on purpose")
	}
	return p.Format.Read(ctx, record)
}

func (panicky) Rename(context.Context, []byte, string, string) ([]byte, error) { panic("on purpose") }

// TestWindow checks that arrivals are the records' times and not the clock's, and that the purge time is exact.
// Without a time path all records of a run have the same arrival.
func TestWindow(t *testing.T) {
	t.Parallel()
	at := func(id string, second int64) string {
		return strings.TrimSpace(rec(id, "x")[:len(rec(id, "x"))-2]) + `,"t":` + time.Unix(second, 0).Format(`"2006-01-02T15:04:05Z07:00"`) + "}\n"
	}
	b := newBench(t, at("1", 100)+at("1", 200)+at("2", 50)+at("1", 201)+at("1", 301)+at("1", 150)+at("1", 302))
	b.job.Retention = dedupe.Retention{Window: 100 * time.Second}
	setFormat(&b.job, func(o *format.Options) { o.TimePath = "t" })
	b.run()
	b.wantOut(at("1", 100) + at("2", 50) + at("1", 201) + at("1", 302))

	b = newBench(t, rec("1", "x")+rec("1", "x"))
	b.job.Retention = dedupe.Retention{Window: time.Hour}
	b.wantTally(b.run().Tally, dedupe.Tally{In: 2, New: 1, Natural: 1, Out: 1})
	b.now = b.now.Add(time.Hour)
	b.remove("out")
	b.wantTally(b.run().Tally, dedupe.Tally{In: 2, Natural: 2})
	b.now = b.now.Add(time.Hour)
	b.remove("out")
	b.wantTally(b.run().Tally, dedupe.Tally{In: 2, New: 1, Natural: 1, Out: 1})
}

// TestHorizon checks that a record that is too old becomes a dead letter, if the store deletes by the clock.
func TestHorizon(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{"id":"1","t":"2026-11-19T12:00:00.123Z"}`+"\n"+`{"id":"2","t":"2026-11-19T12:00:00.122Z"}`+"\n")
	b.job.Retention = dedupe.Retention{Window: time.Minute, Horizon: 24 * time.Hour}
	setFormat(&b.job, func(o *format.Options) { o.TimePath = "t" })
	b.wantTally(b.run().Tally, dedupe.Tally{In: 2, New: 1, DeadLettered: 1, Out: 1})
	if got := b.deadLetters(); got[0].Reason != errTooOld.Reason || got[0].Line != 2 {
		t.Errorf("unexpected %+v", got)
	}
}

// TestLongLine checks that the whole of a line that is too long becomes a dead letter, and that nothing else changes.
// A line of the greatest length passes. The limits are below and above the number of bytes that are read at once.
func TestLongLine(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{100, 150_000} {
		for _, end := range []string{"\n", "\n" + rec("2", "x"), ""} {
			for _, extra := range []int{1, 100, 200_000} {
				longLine(t, limit, extra, end)
			}
		}
	}
}

func longLine(t *testing.T, limit, extra int, end string) {
	pad := func(n int) string {
		text := `{"id":"long","s":""}`
		return text[:len(text)-2] + strings.Repeat("x", n-len(text)) + text[len(text)-2:]
	}
	long, longest := pad(limit+extra), pad(limit)+"\n"
	input := []string{rec("1", "x") + longest + long + end, rec("3", "x")}
	want := rec("1", "x") + longest + strings.TrimPrefix(end, "\n") + rec("3", "x")
	for _, batchSize := range []int{1, 3, 1000} {
		for _, interrupted := range []bool{false, true} {
			b := newBench(t, input...)
			b.job.BatchSize, b.job.maxLine = batchSize, limit
			if interrupted {
				b.interrupt(1)
			}
			got := b.run()
			b.wantOut(want)
			deadLetters := b.deadLetters()
			if len(deadLetters) != 1 || deadLetters[0].Line != 3 || deadLetters[0].Reason != errTooLong.Reason || string(deadLetters[0].Data) != long {
				t.Fatalf("%d bytes over: not dead-lettered whole", extra)
			}
			if got.In != got.New+1 {
				t.Errorf("unexpected tally %+v", got.Tally)
			}
		}
	}
}

// TestRefusals checks that an error is found before anything is changed, and that its text names the problem.
func TestRefusals(t *testing.T) {
	t.Parallel()
	input := rec("1", "x") + rec("2", "x") + "broken\n" + rec("3", "x")
	t.Run("output that is not empty", func(t *testing.T) {
		b := newBench(t, input)
		b.write("out", "mine\n")
		b.refused("out is not empty")
		b.write("out", "")
		b.run()
	})
	t.Run("dead-letter file that is not empty", func(t *testing.T) {
		b := newBench(t, input)
		b.write("dead", "mine\n")
		b.refused("dead is not empty")
	})
	t.Run("folder", func(t *testing.T) {
		b := newBench(t, input)
		if err := os.Mkdir(b.path("out"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("unexpected %v", err)
		}
	})
	t.Run("another process", func(t *testing.T) {
		b := newBench(t, input)
		l, err := lockOutput(b.job.Out)
		if err != nil {
			t.Fatal(err)
		}
		b.refused("another process is writing to")
		l.release()
		b.run()
	})
	t.Run("lock and run file with other content", func(t *testing.T) {
		for _, name := range []string{"out.lock", "out.run"} {
			for _, text := range []string{"mine", input, `{"my":1}`, "null"} {
				b := newBench(t, input)
				b.write(name, text)
				b.refused("the run needs " + b.path(name) + " for itself")
				if b.read(name) != text {
					t.Errorf("%s was changed", name)
				}
			}
		}
		for _, text := range []string{"", "{", `{"run":"20`, "\x00\x00"} { // pieces of a FILE.run
			b := newBench(t, input)
			b.write("out.run", text)
			b.run()
		}
	})
	t.Run("of another unfinished run", func(t *testing.T) {
		b := newBench(t, input)
		b.cutInTheMiddle()
		setFormat(&b.job, func(o *format.Options) { o.FingerprintPath = "" })
		b.refused("out has the first 2 records of the stopped run 2026", "other inputs or options", "choose another file")
		b.job.Inputs = texts(input + rec("4", "x"))
		setFormat(&b.job, func(o *format.Options) { o.FingerprintPath = "fp" })
		b.refused("of the stopped run")
		b.job.Scope = "other"
		b.refused("out belongs to the unfinished run 2026", "or another scope or output")
	})
	t.Run("another dead-letter file", func(t *testing.T) {
		b := newBench(t, input)
		b.cutInTheMiddle()
		b.job.DeadLetters = b.path("elsewhere")
		b.refused("writes dead letters to", "elsewhere")
	})
}

// interrupt runs the job and cancels it after a number of batches.
func (b *bench) interrupt(batches int) Report {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	job := b.job
	job.Progress = func(p Progress) {
		if p.Doing == passDeciding {
			if batches--; batches == 0 {
				cancel()
			}
		}
	}
	r, err := job.Run(ctx)
	if !errors.Is(err, ErrStopped) || !errors.Is(err, context.Canceled) {
		b.Fatalf("want an interrupted run, got %v", err)
	}
	return r
}

// cutInTheMiddle leaves an unfinished run that has written two survivors and one dead letter.
func (b *bench) cutInTheMiddle() {
	b.Helper()
	b.job.BatchSize = 3
	b.interrupt(1)
	if got := b.read("out"); got != rec("1", "x")+rec("2", "x") || len(b.deadLetters()) != 1 {
		b.Fatalf("unexpected output %s", got)
	}
}

// TestInterrupted checks that an interrupted run loses nothing and continues with the same owners and arrivals. The
// bytes that a crash has left in the files after the recorded sizes are removed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("1", "x")+rec("2", "x")+"broken\n"+rec("1", "x"), rec("3", "x"))
	b.cutInTheMiddle()
	for _, name := range []string{"out", "dead"} {
		b.write(name, b.read(name)+strings.Repeat("garbage", 1000))
	}
	b.now = b.now.Add(time.Hour)
	got := b.run()
	if got.Resumed != 3 || len(got.Closed) != 0 || got.Tally != (dedupe.Tally{In: 5, New: 3, Natural: 1, DeadLettered: 1, Out: 3}) {
		t.Errorf("unexpected report %+v", got)
	}
	b.wantOut(rec("1", "x") + rec("2", "x") + rec("3", "x"))
	for _, e := range b.store.Entries() {
		if !strings.HasPrefix(e.Owner.Source, "run/20261120T120000.123Z-") || !e.Arrival.Equal(b.now.Add(-time.Hour)) {
			t.Errorf("the resumed run's records are others: %+v", e)
		}
	}
}

// TestRecordedWhenInterrupted: an interrupted run records the batches that it has not recorded yet.
func TestRecordedWhenInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("1", "x")+rec("2", "x")+rec("3", "x")+rec("4", "x"))
	b.job.BatchSize = 1
	if r := b.interrupt(3); r.In != 3 {
		t.Fatalf("want three lines done, got %+v", r)
	}
	if r := b.run(); r.Resumed != 3 || r.Retry != 0 || r.New != 4 {
		t.Errorf("unexpected report %+v", r)
	}
}

// TestOtherOutput runs a job that was cut off again with another output, a file or a stream. The stopped run is closed
// where it was cut off, and the new output has the rest.
func TestOtherOutput(t *testing.T) {
	t.Parallel()
	input, rest := rec("1", "x")+rec("2", "x")+"broken\n"+rec("1", "y"), renamed("1", "y")
	for _, out := range []string{"out2", ""} {
		b := newBench(t, input)
		b.cutInTheMiddle()
		var stream bytes.Buffer
		b.job.Out, b.job.DeadLetters, b.job.Stream = "", b.path("dead2"), &stream
		if out != "" {
			b.job.Out = b.path(out)
		}
		r, err := b.job.Run(context.Background())
		if err != nil || len(r.Closed) != 1 || r.Closed[0].Output != b.path("out") || r.Closed[0].Lines != 2 {
			t.Errorf("%s: got %+v, %v", out, r, err)
		}
		if got := b.read("out2") + stream.String(); got != rest {
			t.Errorf("%s: want %s, got %s", out, rest, got)
		}
		b.wantOut(rec("1", "x") + rec("2", "x"))
		if b.read("out.run") != "" {
			t.Error("FILE.run of a closed run was left behind")
		}
	}
}

// TestEndUnheard saves the end of a run and loses the answer. The repeated run is done. Without its output, it starts
// over. A run that finished with another output does not count as the same.
func TestEndUnheard(t *testing.T) {
	t.Parallel()
	input, all := rec("1", "x")+rec("2", "x")+"broken\n"+rec("2", "0"), rec("1", "x")+rec("2", "x")+renamed("2", "0")
	unsent := func() *bench {
		b := newBench(t, input)
		b.job.Store = dedupefault.HookStore(b.store, loseEnd)
		if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "continue from there") {
			t.Fatalf("want a stopped run, got %v", err)
		}
		b.job.Store = b.store
		return b
	}
	want := dedupe.Tally{In: 4, New: 2, Synthetic: 1, DeadLettered: 1, Out: 3}
	b := unsent()
	b.wantTally(b.run().Tally, want)
	b.wantOut(all)
	b.refused("out is not empty")

	for _, name := range []string{"out", "dead"} { // text that is added to its files stays
		b = unsent()
		mine := b.read(name) + "mine\n"
		b.write(name, mine)
		b.refused("has finished", "Delete "+b.path("out.run")+" to keep them")
		if b.read(name) != mine {
			t.Errorf("%s was changed: %s", name, b.read(name))
		}
		b.remove("out.run")
		b.refused("is not empty")
	}

	b = unsent()
	b.remove("out")
	if r := b.run(); r.New != 2 || r.Synthetic != 1 || r.Retry != 0 {
		t.Errorf("unexpected report %+v", r)
	}
	b.wantOut(all)

	b = newBench(t, input)
	b.cutInTheMiddle()
	elsewhere := b.job
	elsewhere.Out, elsewhere.DeadLetters = b.path("out2"), b.path("dead2")
	if _, err := elsewhere.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.refused("out is not empty")

	b = newBench(t, input)
	var stream bytes.Buffer
	b.job.Store, b.job.Out, b.job.Stream = dedupefault.HookStore(b.store, loseEnd), "", &stream
	if _, err := b.job.Run(context.Background()); !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "keep it") {
		t.Errorf("want a stopped run, got %v", err)
	}
	if stream.String() != all {
		t.Errorf("got %s", stream.String())
	}
}

// loseEnd loses the answer when the end of a run is saved.
func loseEnd(ctx context.Context, c *dedupefault.Call) error {
	err := c.Do(ctx)
	if c.Method == dedupefault.SaveRun && c.Run.Finished && err == nil {
		return dedupe.ErrTryAgain
	}
	return err
}

// TestStream checks that a run that was cut off starts over and prints everything. For the run after a finished run
// everything is a copy. Dead letters are appended to the file.
func TestStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("1", "x")+rec("2", "x")+rec("1", "y")+"broken\n")
	b.write("dead", "of before\n")
	b.job.Out, b.job.BatchSize = "", 1
	all := rec("1", "x") + rec("2", "x") + renamed("1", "y")
	for n := range len(all) {
		w := &narrow{room: n}
		b.job.Stream = w
		_, err := b.job.Run(context.Background())
		if !errors.Is(err, ErrStopped) || !errors.Is(err, io.ErrShortWrite) || !strings.Contains(err.Error(), "prints everything again") {
			t.Fatalf("want a stopped run, got %v", err)
		}
		if w.got.String() != all[:n] {
			t.Fatalf("want %q, got %q", all[:n], w.got.String())
		}
	}
	var w bytes.Buffer
	b.job.Stream = &w
	if r := b.run(); len(r.Closed) != 1 || w.String() != all {
		t.Errorf("got %+v: %s", r, w.String())
	}
	w.Reset()
	if r := b.run(); len(r.Closed) != 0 || r.Natural != 3 || w.Len() != 0 {
		t.Errorf("got %+v: %s", r, w.String())
	}
	if want := "of before\n" + deadLetterAs("a", 4, "not valid JSON", "broken") + deadLetterAs("a", 4, "not valid JSON", "broken"); b.read("dead") != want {
		t.Errorf("unexpected dead-letter file\n%s", b.read("dead"))
	}
}

// narrow is a writer that fails after a number of bytes.
type narrow struct {
	room int
	got  bytes.Buffer
}

func (n *narrow) Write(b []byte) (int, error) {
	take := min(len(b), n.room)
	n.room -= take
	n.got.Write(b[:take])
	if take < len(b) {
		return take, io.ErrShortWrite
	}
	return take, nil
}

// TestForgets checks that nothing is recorded, and that the inputs are read once, to their ends.
func TestForgets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opened := 0
	b.job.Inputs = []Input{{Name: "-", Size: Unknown, Open: func() (io.ReadCloser, error) {
		opened++
		return io.NopCloser(strings.NewReader(rec("1", "x") + rec("1", "x"))), nil
	}}}
	b.job.Forgets = true
	b.wantTally(b.run().Tally, dedupe.Tally{In: 2, New: 1, Natural: 1, Out: 1})
	if opened != 1 || len(b.store.Runs()) != 0 {
		t.Errorf("read %d times, %d runs recorded", opened, len(b.store.Runs()))
	}
	b.remove("out")
	b.job.Inputs = texts(rec("1", "y") + rec("2", "x"))
	ctx, cancel := context.WithCancel(context.Background())
	b.job.BatchSize, b.job.Progress = 1, func(Progress) { cancel() }
	if _, err := b.job.Run(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "delete "+b.job.Out) {
		t.Errorf("unexpected %v", err)
	}
	b.refused("its ledger was in memory, so it cannot continue. Delete")
}

// TestInputs tests an input that fails, and an input that has become shorter.
func TestInputs(t *testing.T) {
	t.Parallel()
	failing := errors.New("disk on fire")
	b := newBench(t, rec("1", "x"), rec("2", "x"))
	b.job.Inputs[1].Open = func() (io.ReadCloser, error) { return nil, failing }
	if _, err := b.job.Run(context.Background()); !errors.Is(err, failing) || errors.Is(err, ErrStopped) || len(b.store.Runs()) != 0 {
		t.Errorf("unexpected %v", err)
	}
	opened := 0
	b.job.Inputs[1].Open = func() (io.ReadCloser, error) {
		if opened++; opened <= 2 { // the first two are for the first lines and for the digest
			return io.NopCloser(strings.NewReader(rec("2", "x"))), nil
		}
		return io.NopCloser(strings.NewReader("{")), nil
	}
	if _, err := b.job.Run(context.Background()); !errors.Is(err, errShorter) || !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "b: the input has become shorter") {
		t.Errorf("unexpected %v", err)
	}
	b.job.Inputs = texts(rec("1", "x"), rec("2", "x"))
	b.run()
	b.wantOut(rec("1", "x") + rec("2", "x"))
}

// TestDigest checks which changes make another run, and which do not.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(change func(*Job)) string {
		b := newBench(t, "one\n", "two\n")
		setFormat(&b.job, func(o *format.Options) { o.Volatile = []string{"v", "w"} })
		change(&b.job)
		r, err := newRun(b.job)
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.digest(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same := digest(func(*Job) {})
	if want := "b71beea8ea986d753cd3d025a7fe660976eaf04753e5b93acb28b44011bb0a91"; same != want {
		t.Errorf("%s: a version with this digest would not continue the runs of the last one", same)
	}
	for name, change := range map[string]func(*Job){
		"batch size":        func(j *Job) { j.BatchSize = 7 },
		"files":             func(j *Job) { j.Out, j.DeadLetters = "x", "y" },
		"names":             func(j *Job) { j.Inputs[0].Name = "x" },
		"no policy":         func(j *Job) { j.IDs = FirstKeeps },
		"poison limit":      func(j *Job) { j.PoisonLimit.Off = true },
		"order of volatile": func(j *Job) { setFormat(j, func(o *format.Options) { o.Volatile = []string{"w", "v"} }) },
	} {
		if digest(change) != same {
			t.Errorf("%s: another run", name)
		}
	}
	seen := map[string]string{same: "nothing"}
	for name, change := range map[string]func(*Job){
		"content":      func(j *Job) { j.Inputs = texts("one\n", "two.\n") },
		"order":        func(j *Job) { j.Inputs = texts("two\n", "one\n") },
		"boundary":     func(j *Job) { j.Inputs = texts("one\ntwo\n") },
		"one more":     func(j *Job) { j.Inputs = texts("one\n", "two\n", "") },
		"id":           func(j *Job) { setFormat(j, func(o *format.Options) { o.IDPath = "x" }) },
		"fingerprint":  func(j *Job) { setFormat(j, func(o *format.Options) { o.FingerprintPath = "" }) },
		"owner":        func(j *Job) { setFormat(j, func(o *format.Options) { o.OwnerPath = "x" }) },
		"contexts":     func(j *Job) { setFormat(j, func(o *format.Options) { o.ContextsPath = "x" }) },
		"time":         func(j *Job) { setFormat(j, func(o *format.Options) { o.TimePath = "x" }) },
		"volatile":     func(j *Job) { setFormat(j, func(o *format.Options) { o.Volatile = nil }) },
		"two volatile": func(j *Job) { setFormat(j, func(o *format.Options) { o.Volatile = []string{"x", "y"} }) },
		"window":       func(j *Job) { j.Retention = dedupe.Retention{Window: 1} },
		"horizon":      func(j *Job) { j.Retention = dedupe.Retention{Window: 1, Horizon: 1} },
		"natural":      func(j *Job) { j.PassNatural = true },
		"synthetic":    func(j *Job) { j.PassSynthetic = true },
		"derived":      func(j *Job) { j.IDs = Derived },
		"rename all":   func(j *Job) { j.IDs = RenameAll },
	} {
		d := digest(change)
		if other, ok := seen[d]; ok {
			t.Errorf("%s: the same run as with %s", name, other)
		}
		seen[d] = name
	}
}
