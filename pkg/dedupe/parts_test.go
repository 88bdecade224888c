package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The cases of parts that a program implements itself: formats, sinks and ledgers that fail for a moment or return
// nonsense.
var partCases = []testCase{
	{"records/format-that-fails-for-a-moment", formatFails},
	{"records/format-with-empty-fields", emptyFields},
	{"records/check-before-the-key", checkBeforeKey},
	{"records/ledger-that-answers-nonsense", nonsense},
	{"records/sink-that-answers-nonsense", sinkNonsense},
	{"records/ledger-that-never-raises", neverRaises},
	{"records/ledger-asked-again", askedAgain},
	{"records/batches-that-are-none", notBatches},
	{"records/candidates-that-are-none", notCandidates},
	{"records/wrong-setting", wrongSetting},
	{"records/wrong-setting-behind-acked-records", wrongSettingBehindAcks},
	{"records/poison-that-comes-again-is-no-wrong-setting", poisonAgain},
	{"records/derived-ids", derivedIDs},
	{"records/whole-batch", wholeBatch},
	{"records/not-aggregated", notAggregated},
}

// readFails is a format that fails to read some records.
type readFails struct {
	dedupe.Format
	fails func(payload string) error
}

func (r readFails) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	if err := r.fails(string(payload)); err != nil {
		return format.Fields{}, err
	}
	return r.Format.Read(ctx, payload)
}

// formatFails: if a schema registry is down, the record and all after it fail, and no record is dead-lettered.
func formatFails(f *fixture) {
	for _, moment := range []error{
		dedupe.ErrTryAgain, context.Canceled, context.DeadlineExceeded, &net.DNSError{Err: "no such host"},
	} {
		passing := fmt.Errorf("schema registry: %w", moment)
		b := f.bench()
		read := b.format
		b.format = readFails{read, func(payload string) error {
			if strings.Contains(payload, `"b"`) {
				return passing
			}
			return nil
		}}
		batch := []dedupe.Record{
			rec(1, "a", "x"), aggregate(2, payload(20, "c", "x"), payload(21, "b", "x")), rec(3, "d", "x"),
		}
		if r := b.fails(2, batch...); !errors.Is(r.Err, moment) || len(b.deadLetters.byOwner) > 0 {
			f.Errorf("%v: got %v, and %d dead letters", moment, r.Err, len(b.deadLetters.byOwner))
		}
		b.wantDelivered(delivery{"a", 1}, delivery{"c", 20})
		b.format = read
		b.wantTally(b.done(batch[1:]...), dedupe.Tally{In: 3, Retry: 1, New: 2, Out: 3})

		// The sink's check and a new id can fail for a moment too.
		b = f.bench()
		b.done(rec(1, "a", "x"))
		b.sink.check = func(o dedupe.Output) error {
			if o.ID == "b" {
				return passing
			}
			return nil
		}
		b.fails(3, rec(2, "e", "x"), rec(3, "b", "x"), rec(4, "f", "x"))
		b.sink.check = nil
		read = b.format
		b.format = renaming{read, func() ([]byte, error) { return nil, passing }}
		b.fails(5, rec(5, "a", "y"), rec(6, "g", "x"))
		b.wantDelivered(delivery{"a", 1}, delivery{"e", 2})
		b.wantDeadLetters()
	}
}

// fixedFields is a format that gives all records the same fields.
type fixedFields struct {
	dedupe.Format
	fields format.Fields
}

func (f fixedFields) Read(context.Context, []byte) (format.Fields, error) { return f.fields, nil }

// emptyFields: records without an id are poison. Otherwise they would all be copies of each other.
func emptyFields(f *fixture) {
	for _, fields := range []format.Fields{{}, {ID: "a"}, {Fingerprint: "x"}} {
		b := f.bench()
		b.format = fixedFields{b.format, fields}
		b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, DeadLettered: 1})
		b.wantReason(1, "the format returned no id or no fingerprint")
	}
}

// checkBeforeKey: a record that is too large takes no key, so a smaller record that the producer sends again is
// delivered.
func checkBeforeKey(f *fixture) {
	b := f.bench()
	b.sink.check = func(o dedupe.Output) error {
		if len(o.Data) > 40 {
			return &dedupe.PoisonError{Reason: "too large"}
		}
		return nil
	}
	b.wantTally(b.done(rec(1, "a", "a fingerprint that makes it too large")), dedupe.Tally{In: 1, DeadLettered: 1})
	b.wantTally(b.done(rec(2, "a", "x")), dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantDelivered(delivery{"a", 2})

	// A new id makes a record longer, so the record is checked again.
	b.wantTally(b.done(rec(3, "a", "y"), rec(4, "b", "x")), dedupe.Tally{In: 2, DeadLettered: 1, New: 1, Out: 1})
}

// ledgerFunc is a ledger made from a function.
type ledgerFunc func(q dedupe.Question) ([]dedupe.Answer, error)

func (l ledgerFunc) Enter(_ context.Context, q dedupe.Question) ([]dedupe.Answer, error) { return l(q) }

// nonsense: an answer that makes no sense is a failure, and never makes a record a duplicate.
func nonsense(f *fixture) {
	for what, answers := range map[string][]dedupe.Answer{
		"none":              nil,
		"too few":           {{Found: dedupe.Same}},
		"too many":          {{Found: dedupe.Same}, {Found: dedupe.Same}, {Found: dedupe.Same}},
		"nothing":           {{}, {}},
		"unknown":           {{Found: 99}, {Found: -1}},
		"derived too often": {{Found: dedupe.Put, Derived: 4}, {Found: dedupe.Put, Derived: -1}},
	} {
		b := f.bench()
		d := b.decider(ledgerFunc(func(dedupe.Question) ([]dedupe.Answer, error) { return answers, nil }))
		for i, got := range d.Decide(b.ctx, []dedupe.Candidate{{ID: "a", Fingerprint: "x"}, {ID: "b", Fingerprint: "x"}}) {
			if got.Outcome != dedupe.Undecided || got.Err == nil {
				f.Errorf("%s: record %d: got %+v", what, i, got)
			}
		}
	}
	short := func(_ context.Context, c *dedupefault.Call) error {
		c.Puts, c.Raised = c.Puts[:0], c.Raised[:0]
		return nil
	}
	b := f.bench()
	b.hook = short
	b.fails(1, rec(1, "a", "x"), rec(2, "b", "x"))
}

// neverRaises: a ledger that finds an entry but never raises it does not block the batch for ever.
func neverRaises(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"))
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.RaisePurge {
			c.Raised = make([]dedupe.RaiseResult, len(c.Raises))
			return nil
		}
		return c.Do(ctx)
	}
	if r := b.fails(2, rec(2, "a", "y"), rec(3, "b", "x")); !errors.Is(r.Err, dedupe.ErrTryAgain) {
		f.Errorf("got %v", r.Err)
	}
}

// askedAgain: the ledger is asked again about failed records only, with pauses, for half of the remaining time.
func askedAgain(f *fixture) {
	b := f.bench()
	var puts []int
	failures := 3
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method != dedupefault.PutIfAbsent {
			return c.Do(ctx)
		}
		puts = append(puts, len(c.Entries))
		err := c.Do(ctx)
		if failures--; failures >= 0 {
			c.Puts[len(c.Puts)-1] = dedupe.PutResult{Err: dedupe.ErrTryAgain} // but the entry was put
		}
		return err
	}
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")), dedupe.Tally{In: 3, New: 2, Retry: 1, Out: 3})
	if !slices.Equal(puts, []int{3, 1, 1, 1}) || b.clock.pauses != 3 {
		f.Errorf("got puts of %v, and %d pauses", puts, b.clock.pauses)
	}
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 2}, delivery{"c", 3})

	failures = 1000
	b.clock.now = time.Now()
	ctx, cancel := context.WithDeadline(b.ctx, b.clock.now.Add(time.Hour))
	defer cancel()
	begun := b.clock.now
	b.ctx = ctx
	b.fails(5, rec(4, "d", "x"), rec(5, "e", "x"))
	if waited := b.clock.now.Sub(begun); waited > 30*time.Minute || waited < 29*time.Minute {
		f.Errorf("the ledger was asked for %v of an hour", waited)
	}
}

func notBatches(f *fixture) {
	for _, test := range []struct {
		sequences []string
		want      error
	}{
		{[]string{""}, dedupe.ErrNotABatch},
		{[]string{"1", "x"}, dedupe.ErrNotABatch},
		{[]string{strings.Repeat("9", 129)}, dedupe.ErrNotABatch},
		{[]string{"2", "1"}, dedupe.ErrNotABatch},
		{[]string{"10", "9"}, dedupe.ErrNotABatch},
		{[]string{"1", "1"}, dedupe.ErrSharedSequence},
		{[]string{"1", "01"}, dedupe.ErrSharedSequence},
	} {
		b := f.bench()
		var batch []dedupe.Record
		for i, sequence := range test.sequences {
			r := rec(i, fmt.Sprint("id-", i), "x")
			r.Sequence = sequence
			batch = append(batch, r)
		}
		if r := b.process(batch...); !errors.Is(r.Err, test.want) || r.Done != 0 || r.Tally.Failed != int64(len(batch)) {
			f.Errorf("%q: want %v, got %+v", test.sequences, test.want, r)
		}
		b.wantDelivered()
		b.wantDeadLetters()
	}
}

// sinkNonsense: if the number of results is wrong, no record counts as delivered. A record that the results do not
// report as delivered is not, even without an error.
func sinkNonsense(f *fixture) {
	for _, answer := range []struct {
		delivered []bool
		failed    int
	}{
		{[]bool{}, 1}, {[]bool{true}, 1}, {[]bool{true, true, true}, 1}, {[]bool{true, false}, 2},
	} {
		b := f.bench()
		b.hook = func(ctx context.Context, c *dedupefault.Call) error {
			err := c.Do(ctx)
			if c.Method == dedupefault.Send {
				c.Sent.Delivered = answer.delivered
			}
			return err
		}
		b.fails(answer.failed, rec(1, "a", "x"), rec(2, "b", "x"))
	}
}

// notCandidates: if a program that uses a Decider forgets a field, the decision is an error, not a copy or a new
// record.
func notCandidates(f *fixture) {
	b := f.bench()
	good := func(id string) dedupe.Candidate {
		return dedupe.Candidate{ID: id, Fingerprint: "x", Owner: ownerNamed(id), Arrival: epoch}
	}
	d := b.decider(b.store)
	for _, forget := range []func(*dedupe.Candidate){
		func(c *dedupe.Candidate) { c.ID = "" },
		func(c *dedupe.Candidate) { c.Fingerprint = "" },
		func(c *dedupe.Candidate) { c.Owner = dedupe.Owner{} },
	} {
		bad := good("a")
		forget(&bad)
		got := d.Decide(b.ctx, []dedupe.Candidate{bad, good("b"), bad})
		if got[0].Err == nil || got[1].Err != nil || got[2].Err == nil || got[2].Outcome != dedupe.Undecided {
			f.Errorf("%+v: got %+v", bad, got)
		}
	}
	d.Retention = dedupe.Retention{}
	if got := d.Decide(b.ctx, []dedupe.Candidate{good("c")}); got[0].Err == nil {
		f.Errorf("no window: got %+v", got)
	}
}

// wrongSetting: if nearly all of the first records are poison for one reason, nothing is dead-lettered. Any amount of
// poison after that is dead-lettered, so that a producer that breaks blocks no shard.
func wrongSetting(f *fixture) {
	b := f.bench()
	b.settings.PoisonLimit = dedupe.PoisonLimit{Share: 0.75, Records: 4}
	bad := func(n int) dedupe.Record { return rawRec(n, fmt.Sprintf(`{"n":%d}`, n)) }
	first := []dedupe.Record{rec(1, "a", "x"), bad(2), bad(3), bad(4), rec(5, "b", "x")}
	r := b.process(append(first[:4:4], bad(5))...)
	if !errors.Is(r.Err, dedupe.ErrWrongSetting) || r.Done != 0 || !strings.Contains(r.Err.Error(), "the id is missing") {
		f.Errorf("got %+v", r)
	}
	b.wantDelivered()
	b.wantDeadLetters()

	other := []dedupe.Record{rec(1, "a", "x"), bad(2), bad(3), rawRec(4, "?")} // two different reasons
	b.wantTally(b.done(other...), dedupe.Tally{In: 4, New: 1, DeadLettered: 3, Out: 1})
	b.wantTally(b.done(first...), dedupe.Tally{In: 5, Retry: 1, New: 1, DeadLettered: 3, Out: 2})

	p := b.processor() // a Processor that has seen good records
	batch := dedupe.Batch{Stream: stream, Shard: shard}
	for n := range 4 {
		batch.Records = append(batch.Records, rec(10+n, fmt.Sprint("c-", n), "x"))
	}
	p.Process(b.ctx, batch)
	batch.Records = []dedupe.Record{bad(20), bad(21), bad(22), bad(23), bad(24)}
	if r := p.Process(b.ctx, batch); r.Err != nil || r.Tally.DeadLettered != 5 || r.Reasons["the id is missing, null or empty"] != 5 {
		f.Errorf("got %+v", r)
	}
	b.settings.PoisonLimit = dedupe.PoisonLimit{Records: 4} // the share is the default
	b.wantTally(b.done(first...), dedupe.Tally{In: 5, Retry: 2, DeadLettered: 3, Out: 2})
	b.settings.PoisonLimit = dedupe.PoisonLimit{Off: true}
	b.wantTally(b.done(batch.Records...), dedupe.Tally{In: 5, DeadLettered: 5})
}

// wrongSettingBehindAcks: a Processor that has found a wrong setting gets a batch that begins with a chunk of done
// records. The records after that chunk are not done.
func wrongSettingBehindAcks(f *fixture) {
	b := f.withAcks()
	b.settings.Chunk = 2
	b.done(rec(1, "a", "x"), rec(2, "b", "x"))
	b.settings.PoisonLimit = dedupe.PoisonLimit{Share: 0.75, Records: 2}
	p := b.processor()
	process := func(records ...dedupe.Record) dedupe.Result {
		return p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: records})
	}
	bad := []dedupe.Record{rawRec(11, "{}"), rawRec(12, "{}")}
	if r := process(bad...); !errors.Is(r.Err, dedupe.ErrWrongSetting) {
		b.Fatalf("want %v, got %+v", dedupe.ErrWrongSetting, r)
	}
	r := process(append([]dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x")}, bad...)...)
	if !errors.Is(r.Err, dedupe.ErrWrongSetting) || r.Done != 2 || r.Failed != "11" {
		b.Errorf("want a failure at 11, got %+v", r)
	}
	if r := process(rec(3, "c", "x")); r.Err != nil { // a good record of another shard is not stopped
		b.Error(r.Err)
	}
	b.wantDeadLetters()
}

// poisonAgain: while the dead-letter store is down, a poison record comes again and again. It counts as one poison
// record.
func poisonAgain(f *fixture) {
	b := f.bench()
	b.settings.PoisonLimit = dedupe.PoisonLimit{Share: 0.75, Records: 4}
	p := b.processor()
	process := func() dedupe.Result {
		return p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{rawRec(1, "{}")}})
	}
	b.hook = failBefore(dedupefault.PutDeadLetters, dedupe.ErrTryAgain)
	for range 5 {
		if r := process(); !errors.Is(r.Err, dedupe.ErrTryAgain) {
			b.Fatalf("want the error of the store, got %v", r.Err)
		}
	}
	b.hook = nil
	if r := process(); r.Err != nil {
		b.Error(r.Err)
	}
	b.wantDeadLetters(1)
}

// derivedIDs: every delivered id is derived, whatever the order, with one put for each record.
func derivedIDs(f *fixture) {
	ax, ay := format.DerivedID("a", "x"), format.DerivedID("a", "y")
	for _, order := range [][]dedupe.Record{
		{rec(1, "a", "x"), rec(2, "a", "y"), rec(3, "a", "x")}, {rec(1, "a", "y"), rec(2, "a", "x"), rec(3, "a", "y")},
	} {
		b := f.bench()
		b.settings.Derive = true
		b.wantTally(b.done(order...), dedupe.Tally{In: 3, New: 2, Natural: 1, Out: 2})
		b.wantTally(b.done(order[:2]...), dedupe.Tally{In: 2, Retry: 2, Out: 2})
		var ids []string
		for _, d := range b.sink.got {
			ids = append(ids, d.id)
		}
		slices.Sort(ids)
		want := []string{ax, ax, ay, ay}
		slices.Sort(want)
		if !slices.Equal(ids, want) || b.puts != 4 || b.calls[dedupefault.RaisePurge] != 0 {
			f.Errorf("want %v with 4 puts and no raise, got %v with %d puts and calls %v", want, ids, b.puts, b.calls)
		}
	}
	d := f.bench().decider(ledgerFunc(func(q dedupe.Question) ([]dedupe.Answer, error) {
		if c := q.Records[0]; c.ID != ax || c.Derive { // an engine must not derive a second id
			f.Errorf("the ledger is asked about %+v", c)
		}
		return []dedupe.Answer{{Found: dedupe.Put}}, nil
	}))
	d.Decide(f.Context(), []dedupe.Candidate{{
		ID: "a", Fingerprint: "x", Owner: ownerNamed("a"), Arrival: epoch, Derive: true,
	}})
}

// wholeBatch: a ledger that decides a whole batch at once is asked once, and told the places of the poison records. The
// records are still sent in chunks.
func wholeBatch(f *fixture) {
	b := f.bench()
	b.settings.Chunk, b.settings.WholeBatch = 2, true
	b.done(rec(1, "a", "x"), rec(2, "b", "x"), rawRec(3, "?"), rec(4, "c", "x"), rec(5, "d", "x"), rec(6, "e", "x"))
	if b.calls[dedupefault.PutIfAbsent] != 1 || b.calls[dedupefault.Send] != 3 {
		f.Errorf("got calls %v", b.calls)
	}
	b.sink.got = nil
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.Send && len(b.sink.got) == 0 {
			b.hook = nil
			return errCrash
		}
		return c.Do(ctx)
	}
	b.fails(11, rec(11, "f", "x"), rec(12, "g", "x"), rec(13, "h", "x")) // nothing is sent after the first failure
	b.wantDelivered()

	var poison []bool
	p, err := dedupe.NewProcessor(dedupe.Parts{
		Ledger: ledgerFunc(func(q dedupe.Question) (answers []dedupe.Answer, err error) {
			for _, c := range q.Records {
				poison = append(poison, c.Poison)
				answers = append(answers, dedupe.Answer{Found: dedupe.Put})
			}
			return answers, nil
		}),
		Format: b.format, Sink: b.sink, DeadLetters: b.deadLetters,
	}, b.settings)
	f.must(err)
	p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{
		rec(1, "a", "x"), rawRec(2, "?"), rec(3, "b", "x"),
	}})
	if !slices.Equal(poison, []bool{false, true, false}) {
		f.Errorf("the ledger got the places %v", poison)
	}
}

func notAggregated(f *fixture) {
	b := f.bench()
	b.settings.Unaggregated = true
	b.wantTally(b.done(aggregate(1, payload(10, "a", "x"))), dedupe.Tally{In: 1, DeadLettered: 1})
}

// TestNewProcessor: NewProcessor refuses missing parts, and settings that would lose or repeat records, all in one
// error.
func TestNewProcessor(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, store: dedupefault.Memory.Open(t)}
	b := f.bench()
	good := dedupe.Parts{Ledger: f.store, Format: b.format, Sink: b.sink, DeadLetters: b.deadLetters}
	if _, err := dedupe.NewProcessor(dedupe.Parts{}, dedupe.Settings{}); err == nil {
		t.Error("nothing was refused")
	} else {
		for _, missing := range []string{"Ledger", "Format", "Sink", "DeadLetters", "Scope", "Retention"} {
			if !strings.Contains(err.Error(), missing) {
				t.Errorf("%s is not named: %v", missing, err)
			}
		}
	}
	for what, change := range map[string]func(*dedupe.Parts, *dedupe.Settings){
		"Retention":   func(_ *dedupe.Parts, s *dedupe.Settings) { s.Retention = dedupe.Retention{Window: time.Hour} },
		"Window":      func(_ *dedupe.Parts, s *dedupe.Settings) { s.Retention = dedupe.Retention{Horizon: time.Hour} },
		"Chunk":       func(_ *dedupe.Parts, s *dedupe.Settings) { s.Chunk = -1 },
		"Share":       func(_ *dedupe.Parts, s *dedupe.Settings) { s.PoisonLimit.Share = 1.5 },
		"Records":     func(_ *dedupe.Parts, s *dedupe.Settings) { s.PoisonLimit.Records = -1 },
		"Sink":        func(p *dedupe.Parts, s *dedupe.Settings) { p.Acks, s.Sink = f.store, "" },
		"Consumer":    func(p *dedupe.Parts, s *dedupe.Settings) { p.Consumers, s.Consumer = f.store, "" },
		"Derive":      func(_ *dedupe.Parts, s *dedupe.Settings) { s.Derive, s.PassSynthetic = true, true },
		"PassNatural": func(_ *dedupe.Parts, s *dedupe.Settings) { s.Derive, s.PassNatural = true, true },
		"DeadLetters": func(p *dedupe.Parts, _ *dedupe.Settings) { p.DeadLetters = nil },
	} {
		parts, settings := good, b.settings
		change(&parts, &settings)
		if _, err := dedupe.NewProcessor(parts, settings); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	forGood := b.settings
	forGood.Retention = dedupe.Retention{ForGood: true}
	if _, err := dedupe.NewProcessor(good, forGood); err != nil {
		t.Error(err)
	}
}

// TestOverlap: the ledger step of a chunk runs while the sink takes the chunk before, and begins after the ledger
// step of that chunk has ended. A panic in either goes to the caller.
func TestOverlap(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, store: dedupefault.Memory.Open(t)}
	b := f.bench()
	b.settings.Chunk = 1
	var entering atomic.Int32
	entered := make(chan int, 3)
	calls := 0
	ledger := ledgerFunc(func(dedupe.Question) ([]dedupe.Answer, error) {
		if entering.Add(1) > 1 {
			t.Error("two ledger steps at a time")
		}
		calls++
		entered <- calls
		entering.Add(-1)
		return []dedupe.Answer{{Found: dedupe.Put}}, nil
	})
	sink := dedupe.SinkFunc(func(context.Context, dedupe.Output) error {
		if n := <-entered; n == 1 { // the first chunk is sent while the second is in the ledger
			<-entered
			entered <- 2
			entered <- 2
		}
		return nil
	})
	newProcessor := func(s dedupe.Sink) *dedupe.Processor {
		p, err := dedupe.NewProcessor(
			dedupe.Parts{Ledger: ledger, Format: b.format, Sink: s, DeadLetters: b.deadLetters}, b.settings)
		f.must(err)
		return p
	}
	batch := dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x")}}
	if r := newProcessor(sink).Process(t.Context(), batch); r.Err != nil || r.Tally.Out != 2 {
		t.Errorf("got %+v", r)
	}
	for len(entered) > 0 {
		<-entered
	}
	defer func() {
		if thrown := recover(); thrown != "a bug" {
			t.Errorf("the caller got %v", thrown)
		}
	}()
	newProcessor(dedupe.SinkFunc(func(context.Context, dedupe.Output) error { panic("a bug") })).Process(t.Context(), batch)
}

// readExits is a format that ends the goroutine instead of reading some records.
type readExits struct{ dedupe.Format }

func (r readExits) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	if strings.Contains(string(payload), `"b"`) {
		runtime.Goexit()
	}
	return r.Format.Read(ctx, payload)
}

// TestGoexit: if a part ends its goroutine, the batch does not count as done.
func TestGoexit(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, store: dedupefault.Memory.Open(t)}
	b := f.bench()
	b.settings.Chunk = 1
	p, err := dedupe.NewProcessor(
		dedupe.Parts{Ledger: b.store, Format: readExits{b.format}, Sink: b.sink, DeadLetters: b.deadLetters}, b.settings)
	f.must(err)
	r := p.Process(t.Context(), dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{
		rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"),
	}})
	if r.Err == nil || r.Failed != "2" || r.Done != 1 || r.Tally.Failed != 2 {
		t.Errorf("want a failure at 2, got %+v", r)
	}
}
