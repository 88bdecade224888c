package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// notRecords runs a job that must be refused because of its first lines, and must leave no trace.
func (b *bench) notRecords() *NotRecordsError {
	b.Helper()
	b.refused("cannot be processed")
	_, err := b.job.Run(context.Background())
	e, ok := errors.AsType[*NotRecordsError](err)
	if !ok {
		b.Fatalf("want a *NotRecordsError, got %v", err)
	}
	if files, err := os.ReadDir(b.dir); err != nil || len(files) > 0 || len(b.store.Runs()) > 0 {
		b.Errorf("%v, %v and %d runs are left", files, err, len(b.store.Runs()))
	}
	return e
}

// TestOtherFormats checks that inputs of another format are refused.
func TestOtherFormats(t *testing.T) {
	t.Parallel()
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	for looksLike, inputs := range map[string][]string{
		"bzip2":                              {"BZh91AY&SY" + lines(3, "x\x00y")},
		"a JSON array":                       {`[{"id":1},{"id":2}]`, "\n\n[]"},
		"the beginning of a JSON array":      {"[\n" + `{"id":1},` + "\n" + `{"id":2}` + "\n]\n", `[{"id":"` + strings.Repeat("x", 1000)},
		"several JSON objects in one record": {`{"id":1}{"id":2}`},
		"an element of a JSON array":         {`{"id":1},` + "\n" + `{"id":2},`},
		"TSV":                                {"id\tat\n1\t2\n"},
		"CSV":                                {"id,at\n1,2\n", lines(200, "1,2")},
		"the beginning of a JSON object":     {lines(4, "{\n\"id\": 1\n}")},
		"plain text":                         {lines(10, "hello"), rec("1", "x") + lines(99, "hello"), lines(90, "hello") + rec("1", "x") + lines(9, "hello")},
		"a JSON object":                      {lines(10, `{"ID":1}`), lines(1000, `{"ID":1}`)},
	} {
		for _, input := range inputs {
			b := newBench(t, input)
			b.job.maxLine = 500
			e := b.notRecords()
			if e.LooksLike != looksLike || e.Input != "a" || strings.Contains(e.Error(), "a looks like "+looksLike) == (looksLike == object) {
				t.Errorf("%.20q: want %s, got %v", input, looksLike, e)
			}
		}
	}
}

// TestEnoughRecords checks that a few records that cannot be processed become dead letters. So do many, if they come
// after the first lines.
func TestEnoughRecords(t *testing.T) {
	t.Parallel()
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	var good strings.Builder
	for i := range 11 {
		good.WriteString(rec(fmt.Sprint(i), "x"))
	}
	for _, input := range []string{
		"", "\n\n", "hello", lines(9, "hello"), lines(9, `{"ID":1}`), `{"id":`,
		good.String() + lines(89, "hello") + lines(1000, "hello"),
		lines(5, "hello") + lines(5, `{"ID":1}`), // two reasons
		rec("1", "x") + `[{"id":1}]`,
	} {
		newBench(t, input).run()
	}
}

// TestPoisonLimit checks that the share and the number of lines can be set.
func TestPoisonLimit(t *testing.T) {
	t.Parallel()
	half := rec("1", "x") + "hello\n" + rec("2", "x") + "hello\n" + strings.Repeat(rec("3", "x"), 20)
	b := newBench(t, half)
	b.job.PoisonLimit = dedupe.PoisonLimit{Share: 0.5, Records: 4}
	if e := b.notRecords(); e.Bad != 2 || e.Lines != 4 {
		t.Errorf("unexpected %v", e)
	}
	b.job.PoisonLimit.Share = 0.51
	b.run()

	b = newBench(t, strings.Repeat("hello\n", 200))
	b.job.PoisonLimit.Off = true
	if r := b.run(); r.DeadLettered != 200 {
		t.Errorf("unexpected %+v", r)
	}
}

// TestWrongPath checks that the error has the values that a message needs. They are the values of the first bad line.
func TestWrongPath(t *testing.T) {
	t.Parallel()
	b := newBench(t, "", "\n"+strings.Repeat(`{"event_id":1,"at":2}`+"\n", 99)+`{"other":1}`+"\n"+rec("1", "x"))
	e := b.notRecords()
	if e.Input != "b" || e.Bad != 100 || e.Lines != 100 || e.Reason != "the id is missing, null or empty" ||
		!slices.Equal(e.Members, []string{"event_id", "at"}) {
		t.Errorf("unexpected %+v", e)
	}
	b = newBench(t, strings.Repeat(`{"event":{"uuid":1,"at":2},"n":{"m":1}}`+"\n", 10))
	setFormat(&b.job, func(o *format.Options) { o.IDPath = "event.id" })
	if e := b.notRecords(); !slices.Equal(e.Members, []string{"event", "n", "event.uuid", "event.at"}) {
		t.Errorf("unexpected %q", e.Members)
	}
	b = newBench(t, strings.Repeat(`{"id":"1","t":"2026-01-01T00:00:00Z"}`+"\n", 10))
	b.job.Retention = dedupe.Retention{Window: time.Hour, Horizon: time.Hour}
	setFormat(&b.job, func(o *format.Options) { o.TimePath = "t" })
	if e := b.notRecords(); e.Reason != errTooOld.Reason {
		t.Errorf("unexpected %+v", e)
	}
}

// TestCheckedOnce checks that a run that continues is not checked again, but that a run after another job's is.
func TestCheckedOnce(t *testing.T) {
	t.Parallel()
	input := strings.Repeat("hello\n", 20)
	b := newBench(t, input)
	b.job.PoisonLimit.Off, b.job.BatchSize = true, 1
	b.interrupt(3)
	b.job.PoisonLimit.Off = false
	if r := b.run(); r.Resumed != 3 || r.DeadLettered != 20 {
		t.Errorf("unexpected %+v", r)
	}

	b = newBench(t, input)
	b.write("out.run", `{"run":"20261120T120000.123Z-x","dead_letters":"`+b.path("dead")+`"}`)
	b.refused("cannot be processed")
}

// TestFirstLinesOfStreams uses an input that can be opened only once. The part that the check has read is not lost,
// and the part that it has not read is not kept.
func TestFirstLinesOfStreams(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 300 {
		long.WriteString(rec(fmt.Sprint(i), "x"))
	}
	inputs := []string{rec("1", "x"), long.String(), rec("2", "y")}
	reference := newBench(t, inputs...)
	reference.run()
	b := newBench(t, inputs...)
	b.job.Forgets = true
	for i := range b.job.Inputs {
		open, opened := b.job.Inputs[i].Open, false
		b.job.Inputs[i].Size = Unknown
		b.job.Inputs[i].Open = func() (io.ReadCloser, error) {
			if opened {
				t.Error("a stream was opened twice")
			}
			opened = true
			return open()
		}
	}
	b.run()
	b.wantOut(reference.read("out"))

	bad := newBench(t)
	bad.job.Forgets = true
	bad.job.Inputs = []Input{{Name: "-", Size: Unknown, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("[{}]\n")), nil
	}}}
	if e := bad.notRecords(); e.LooksLike != "a JSON array" || !strings.HasSuffix(e.Error(), "stdin looks like a JSON array (nothing was changed)") {
		t.Errorf("unexpected %v", e)
	}
}

// TestCheckFirstLines checks that the check alone gives the same answer, and needs no store.
func TestCheckFirstLines(t *testing.T) {
	t.Parallel()
	b := newBench(t, "[{}]")
	b.job.Store = nil
	if err := b.job.CheckFirstLines(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("unexpected %v", err)
	}
	b.job.Inputs = texts(rec("1", "x"))
	if err := b.job.CheckFirstLines(t.Context()); err != nil {
		t.Error(err)
	}
}
