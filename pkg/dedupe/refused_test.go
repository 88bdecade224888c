package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var refusedCases = []testCase{
	{"refused/alone", refusedAlone},
	{"refused/beside-poison", refusedBesidePoison},
	{"refused/and-not-now", refusedAndNotNow},
	{"refused/acknowledged", refusedAcked},
	{"refused/letter-not-stored", refusedNotStored},
	{"refused/stored-before-a-crash", refusedBeforeCrash},
	{"refused/copy-while-undecided", refusedAfterCopy},
	{"refused/redriven", refusedRedriven},
	{"refused/parts", refusedParts},
	{"refused/nearly-all", refusedNearlyAll},
	{"refused/not-by-what-may-pass", refusedNotByWhatMayPass},
	{"refused/answers-that-make-no-sense", refusedNonsense},
}

// errDeclined is the error of a sink that refuses a record.
var errDeclined = fmt.Errorf("the API: %w", &dedupe.PoisonError{Reason: "declined"})

// refusedAlone: a record that the sink refuses is a dead letter with the sink's reason. It does not hinder the records
// behind it. It keeps its id: a copy is a duplicate, and another record with that id gets a new one.
func refusedAlone(f *fixture) {
	for _, order := range []dedupe.Order{dedupe.ByPosition, dedupe.AsGiven, dedupe.None} {
		b := f.bench()
		b.sink.answers = map[int]error{2: errDeclined}
		r := b.processor().Process(b.ctx, dedupe.Batch{
			Stream: stream, Shard: shard, Order: order,
			Records: []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "b", "x")},
		})
		b.must(r.Err)
		b.wantTally(r.Tally, dedupe.Tally{In: 4, New: 2, DeadLettered: 1, Natural: 1, Out: 2})
		if r.Reasons["declined"] != 1 || len(r.Reasons) != 1 {
			b.Errorf("got the reasons %v", r.Reasons)
		}
		b.wantReason(2, "declined")
		b.wantTally(b.done(rec(5, "b", "x"), rec(6, "b", "y")), dedupe.Tally{In: 2, Natural: 1, Synthetic: 1, Out: 1})
		b.wantDelivered(delivery{"a", 1}, delivery{"c", 3}, delivery{format.DerivedID("b", "y"), 6})
		b.wantDeadLetters(2)
	}
}

// refusedBesidePoison: a record that cannot be read is stored before the others are sent, and once.
func refusedBesidePoison(f *fixture) {
	b := f.bench()
	b.sink.answers = map[int]error{2: errDeclined}
	var stored []string
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		for _, l := range c.Letters {
			stored = append(stored, l.Reason)
		}
		return c.Do(ctx)
	}
	b.wantTally(b.done(rawRec(1, "?"), rec(2, "a", "x"), rec(3, "b", "x")), dedupe.Tally{In: 3, DeadLettered: 2, New: 1, Out: 1})
	if !slices.Equal(stored, []string{"not valid JSON", "declined"}) {
		b.Errorf("stored for %q", stored)
	}
}

// refusedAndNotNow: of one Send, some records are delivered, some are refused, and some come again.
func refusedAndNotNow(f *fixture) {
	for _, order := range []dedupe.Order{dedupe.AsGiven, dedupe.None} {
		b := f.bench()
		b.sink.answers = map[int]error{1: errDeclined, 2: errCrash, 4: errDeclined}
		r := b.processOrder(order, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "d", "x"))
		b.wantTally(r.Tally, dedupe.Tally{In: 4, New: 1, DeadLettered: 2, Failed: 1, Out: 1})
		if r.Failed != "2" || !errors.Is(r.Err, errCrash) || order == dedupe.None && !slices.Equal(r.Undone, []string{"2"}) {
			b.Errorf("failed %s, undone %v: %v", r.Failed, r.Undone, r.Err)
		}
		if len(b.deadLetters.byOwner) != 2 {
			b.Errorf("got the dead letters %v", b.deadLetters.byOwner)
		}
		b.sink.answers[2] = nil
		r = b.processOrder(order, rec(2, "b", "x"))
		b.must(r.Err)
		b.wantTally(r.Tally, dedupe.Tally{In: 1, Retry: 1, Out: 1})
	}
}

// refusedAcked: an ack names a refused record. If the record comes again, the sink is not asked again.
func refusedAcked(f *fixture) {
	b := f.withAcks()
	b.sink.answers = map[int]error{1: errDeclined, 2: errCrash}
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")}
	b.fails(2, batch...)
	b.sink.answers = map[int]error{1: errCrash, 3: errCrash}
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, Skipped: 2, Retry: 1, Out: 1})
	b.wantDeadLetters(1)
}

// refusedNotStored: until its dead letter is stored, a refused record comes again, and nothing behind its chunk is sent.
// Then the sink is asked again, and its latest answer counts.
func refusedNotStored(f *fixture) {
	for answer, want := range map[error]dedupe.Tally{
		nil:         {In: 1, Retry: 1, Out: 1},
		errDeclined: {In: 1, DeadLettered: 1},
		errCrash:    {In: 1, Failed: 1},
	} {
		b := f.withAcks()
		b.settings.Chunk = 2
		b.sink.answers = map[int]error{1: errDeclined}
		b.hook = failBefore(dedupefault.PutDeadLetters, errCrash)
		r := b.fails(1, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"))
		b.wantTally(r.Tally, dedupe.Tally{In: 3, New: 1, Failed: 2, Out: 1})
		b.wantDelivered(delivery{"b", 2})
		b.wantDeadLetters()
		b.hook = nil
		b.sink.answers[1] = answer
		b.wantTally(b.process(rec(1, "a", "x")).Tally, want)
	}
}

// refusedBeforeCrash: the process ends after the dead letter is stored, and before the ack. The record comes again, and
// the sink is asked again. If it now delivers the record, the record is delivered, and the dead letter stays.
func refusedBeforeCrash(f *fixture) {
	for answer, want := range map[error]dedupe.Tally{
		nil:         {In: 1, Retry: 1, Out: 1},
		errDeclined: {In: 1, DeadLettered: 1},
		errCrash:    {In: 1, Failed: 1},
	} {
		b := f.withAcks()
		b.sink.answers = map[int]error{1: errDeclined}
		b.hook = failBefore(dedupefault.WriteAck, errCrash)
		b.done(rec(1, "a", "x"))
		b.hook = nil
		b.sink.answers[1] = answer
		b.wantTally(b.process(rec(1, "a", "x")).Tally, want)
		b.wantReason(1, "declined")
		b.wantTally(b.done(rec(2, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
	}
}

// refusedAfterCopy: a copy comes while the sink has not decided about the original. It is dropped, also if the sink
// refuses the original later.
func refusedAfterCopy(f *fixture) {
	b := f.bench()
	b.sink.answers = map[int]error{1: errCrash}
	b.fails(1, rec(1, "a", "x"))
	b.wantTally(b.done(rec(2, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
	b.sink.answers[1] = errDeclined
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, DeadLettered: 1})
	b.wantTally(b.done(rec(2, "a", "x"), rec(3, "a", "x")), dedupe.Tally{In: 2, Natural: 2})
	b.wantDelivered()
	b.wantDeadLetters(1)
}

// refusedRedriven: the dead letter of a refused record has the record as it came. A redrive sends it under the id that
// it had. If the sink refuses it again, the letter stays as it is.
func refusedRedriven(f *fixture) {
	b := f.withAcks()
	b.done(rec(1, "a", "x"))
	b.sink.answers = map[int]error{2: errDeclined}
	b.done(rec(2, "a", "y")) // under a derived id
	letter := b.letter()
	if string(letter.Data) != string(payload(2, "a", "y")) {
		b.Errorf("want the record as it came, got %s", letter.Data)
	}
	stored := b.calls[dedupefault.PutDeadLetters]
	var poison *dedupe.PoisonError
	r := b.redrive(letter)
	if !errors.As(r.Err, &poison) || poison.Reason != "declined" || b.calls[dedupefault.PutDeadLetters] != stored {
		b.Errorf("refused again: %v, %d puts", r.Err, b.calls[dedupefault.PutDeadLetters])
	}
	b.sink.answers[2] = errCrash
	if r := b.redrive(letter); !errors.Is(r.Err, errCrash) || errors.As(r.Err, &poison) {
		b.Errorf("not now: %v", r.Err)
	}
	b.sink.answers[2] = fmt.Errorf("%w: %w", context.DeadlineExceeded, errDeclined)
	if r := b.redrive(letter); r.Err == nil || errors.As(r.Err, &poison) {
		b.Errorf("not now, although the error wraps a PoisonError: %v", r.Err)
	}
	b.sink.answers[2] = nil
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "y"), 2})
	b.wantTally(b.done(rec(3, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
}

// refusedParts: a refused part of an aggregate is a dead letter of its own. If the sink refuses an output that holds
// several records, each of them is one.
func refusedParts(f *fixture) {
	b := f.bench()
	b.sink.answers = map[int]error{11: errDeclined}
	whole := aggregate(1, payload(10, "a", "x"), payload(11, "b", "x"), payload(12, "c", "x"))
	b.wantTally(b.done(whole), dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
	letter := b.letter()
	if letter.Position.Sub != 1 || letter.ExplicitHashKey != "7" || string(letter.Data) != string(payload(11, "b", "x")) {
		b.Errorf("the letter of the part is %+v", letter)
	}
	delete(b.sink.answers, 11)
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, Retry: 1, Out: 1})

	b = f.framedBench()
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		err := c.Do(ctx)
		if c.Method == dedupefault.Send {
			c.Sent.Refused = []*dedupe.PoisonError{{Reason: "declined"}, nil}
		}
		return err
	}
	b.wantTally(b.done(frameRec(1, payload(1, "a", "x"), payload(2, "b", "x")), rec(2, "c", "x")),
		dedupe.Tally{In: 3, New: 1, DeadLettered: 2, Out: 1})
	for _, letter := range b.deadLetters.byOwner {
		if want := payload(letter.Position.Sub+1, []string{"a", "b"}[letter.Position.Sub], "x"); string(letter.Data) != string(want) {
			b.Errorf("want the letter of one record, %s, got %+v", want, letter)
		}
	}
}

// refusedNearlyAll: if the sink refuses nearly all of the first records for one reason, a setting is wrong. Only records
// about which it has said something count.
func refusedNearlyAll(f *fixture) {
	b := f.bench()
	b.settings.PoisonLimit = dedupe.PoisonLimit{Share: 0.75, Records: 4}
	b.sink.answers = map[int]error{1: errCrash, 2: errDeclined, 3: errDeclined, 4: errDeclined, 5: nil}
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "d", "x"), rec(5, "e", "x")}
	r := b.fails(1, batch...)
	b.wantTally(r.Tally, dedupe.Tally{In: 5, New: 1, Failed: 4, Out: 1})
	if !errors.Is(r.Err, dedupe.ErrWrongSetting) {
		b.Errorf("got %v", r.Err)
	}
	b.wantDeadLetters()

	delete(b.sink.answers, 4)
	p := b.processor() // it has seen good records when the sink begins to refuse
	if r := p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: batch[1:]}); r.Err != nil || r.Tally.DeadLettered != 2 {
		b.Errorf("got %+v", r)
	}
	b.sink.answers = map[int]error{6: errDeclined, 7: errDeclined, 8: errDeclined, 9: errDeclined}
	batch = []dedupe.Record{rec(6, "f", "x"), rec(7, "g", "x"), rec(8, "h", "x"), rec(9, "i", "x")}
	if r := p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: batch}); r.Err != nil || r.Tally.DeadLettered != 4 {
		b.Errorf("got %+v", r)
	}
	b.settings.PoisonLimit = dedupe.PoisonLimit{Off: true}
	b.wantTally(b.done(batch...), dedupe.Tally{In: 4, DeadLettered: 4})
}

// refusedNotByWhatMayPass: an error that may pass refuses no record, also if it wraps a PoisonError.
func refusedNotByWhatMayPass(f *fixture) {
	notNow := func(dedupe.Output) error { return fmt.Errorf("%w: %w", context.DeadlineExceeded, errDeclined) }
	b := f.bench()
	b.sink.check = notNow
	for _, b := range []*bench{b, f.bench().withTx(notNow)} {
		r := b.fails(1, rec(1, "a", "x"))
		b.wantTally(r.Tally, dedupe.Tally{In: 1, Failed: 1})
		b.wantDeadLetters()
	}
}

// refusedNonsense: an answer that makes no sense neither delivers a record nor refuses it.
func refusedNonsense(f *fixture) {
	poison := &dedupe.PoisonError{Reason: "declined"}
	for _, sent := range []dedupe.Sent{
		{Refused: []*dedupe.PoisonError{}},
		{Refused: []*dedupe.PoisonError{poison}},
		{Refused: []*dedupe.PoisonError{poison, nil, nil}},
		{Delivered: []bool{true, true}, Refused: []*dedupe.PoisonError{poison, nil}},
		{Delivered: []bool{true}, Refused: []*dedupe.PoisonError{nil, poison}},
	} {
		b := f.bench()
		b.hook = func(ctx context.Context, c *dedupefault.Call) error {
			err := c.Do(ctx)
			if c.Method == dedupefault.Send {
				c.Sent = sent
			}
			return err
		}
		r := b.fails(1, rec(1, "a", "x"), rec(2, "b", "x"))
		b.wantTally(r.Tally, dedupe.Tally{In: 2, Failed: 2})
		b.wantDeadLetters()
	}
}

// TestSinkFunc: the error of the function says what becomes of a record. What may pass never refuses it. In order, the
// function is not called behind a record that comes again; otherwise it is called for all.
func TestSinkFunc(t *testing.T) {
	t.Parallel()
	poison := &dedupe.PoisonError{Reason: "declined"}
	answers := []error{
		nil, poison, errDeclined, errors.New("503"), nil, fmt.Errorf("%w: %w", dedupe.ErrTryAgain, poison),
		fmt.Errorf("%w: %w", context.DeadlineExceeded, poison), errors.Join(poison, context.Canceled),
		errors.Join(poison, &net.DNSError{}), poison,
	}
	effect := dedupe.SinkFunc(func(_ context.Context, o dedupe.Output) error { return answers[o.Data[0]] })
	outputs := make([]dedupe.Output, len(answers))
	for i := range outputs {
		outputs[i].Data = []byte{byte(i)}
	}
	for name, test := range map[string]struct {
		sink dedupe.Sink
		want string // d: delivered, r: refused, -: neither
	}{
		"in order": {effect, "drr-------"}, "at once": {effect.AtOnce(3), "drr-d----r"}, "one at once": {effect.AtOnce(0), "drr-d----r"},
	} {
		sent, err := test.sink.Send(t.Context(), outputs)
		got := ""
		for i := range outputs {
			switch {
			case sent.Delivered[i] && sent.Refused[i] == nil:
				got += "d"
			case sent.Refused[i] != nil && sent.Refused[i].Reason == poison.Reason && !sent.Delivered[i]:
				got += "r"
			default:
				got += "-"
			}
		}
		if got != test.want || err != answers[3] { //nolint:errorlint // the error of the first record that comes again
			t.Errorf("%s: want %s, got %s, %v", name, test.want, got, err)
		}
		if sent, err := test.sink.Send(t.Context(), outputs[:3]); err != nil || !sent.Delivered[0] || sent.Refused[2] == nil {
			t.Errorf("%s: nothing comes again: %+v, %v", name, sent, err)
		}
	}
}

// TestSinkFuncWhoseTimeIsOver: once the context has ended, the function is not called any more.
func TestSinkFuncWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	for name, sinkOf := range map[string]func(dedupe.SinkFunc) dedupe.Sink{
		"in order":    func(f dedupe.SinkFunc) dedupe.Sink { return f },
		"one at once": func(f dedupe.SinkFunc) dedupe.Sink { return f.AtOnce(1) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		effect := dedupe.SinkFunc(func(context.Context, dedupe.Output) error {
			if calls++; calls == 2 {
				cancel()
			}
			return nil
		})
		sent, err := sinkOf(effect).Send(ctx, make([]dedupe.Output, 3))
		if calls != 2 || !slices.Equal(sent.Delivered, []bool{true, true, false}) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %d calls, delivered %v, %v", name, calls, sent.Delivered, err)
		}
	}
}
