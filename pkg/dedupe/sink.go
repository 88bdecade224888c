package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Output is a record on its way to the sink.
type Output struct {
	ID              string
	PartitionKey    string
	ExplicitHashKey string // of a user record in a KPL aggregate that has its own; otherwise empty
	Aggregated      bool   // the record came in a KPL aggregate
	Data            []byte
}

// Sink is a destination of unique records. SinkFunc makes a Sink from a function.
type Sink interface {
	// Check returns a *PoisonError for a record that the sink can never take, for example because it is too large.
	// The id of the record stays free. After an error of the family ErrTryAgain, of the context or of the network, the
	// record fails and comes again.
	Check(ctx context.Context, o Output) error
	// Send delivers records, in order as far as it can. It says for each record whether it is certainly delivered, or
	// will never be. If a record is neither, Send returns an error, and the record is sent again, perhaps by another
	// process.
	//
	// If what the sink says about a record may depend on an earlier one, Send must stop at the first record that is
	// neither. Otherwise it could refuse a change of an item that does not exist yet. Records behind a refused one are
	// delivered, also if so many are refused that the batch fails with ErrWrongSetting.
	Send(ctx context.Context, outputs []Output) (Sent, error)
}

// Sent is the result of a Send.
type Sent struct {
	// Delivered says for each record whether it is certainly delivered. nil means all that are not refused if there is
	// no error, and none if there is an error.
	Delivered []bool
	// Refused has the reason for each record that the sink will never take, for example a payment that is declined. The
	// reason is a fixed text, without data of the record. An element is nil for all others, and a nil slice refuses
	// none. A refused record becomes a dead letter, and keeps its id. A time-out, a throttle or an outage is no reason:
	// the sink may take the record later. If an output holds several records of a payload, each of them becomes a dead
	// letter.
	Refused []*PoisonError
	// Repeated is how many records the sink itself sent again although an earlier request may have delivered them.
	Repeated int
}

// check returns an answer in which both slices have an element for each output. An output that the sink neither reports
// as delivered nor refuses is not done, even if the sink returns no error. An answer that makes no sense counts for none
// of the outputs.
func (s Sent) check(asked int, err error) (Sent, error) {
	if s.Refused == nil {
		s.Refused = make([]*PoisonError, asked)
	}
	all := s.Delivered == nil && err == nil
	if s.Delivered == nil {
		s.Delivered = make([]bool, asked)
	}
	if len(s.Delivered) != asked || len(s.Refused) != asked {
		return s.misfit(asked, err, fmt.Sprintf("%d and %d results for %d outputs", len(s.Delivered), len(s.Refused), asked))
	}
	done := true
	for i, refusal := range s.Refused {
		if s.Delivered[i] && refusal != nil {
			return s.misfit(asked, err, fmt.Sprintf("output %d is delivered and refused", i))
		}
		if all && refusal == nil {
			s.Delivered[i] = true
		}
		done = done && (s.Delivered[i] || refusal != nil)
	}
	if done {
		return s, nil
	}
	return s, notNow(cmp.Or(err, errIncomplete))
}

// misfit returns the answer for an answer that makes no sense.
func (s Sent) misfit(asked int, err error, what string) (Sent, error) {
	misfit := fmt.Errorf("%w: %s", errMisfit, what)
	if err != nil {
		misfit = fmt.Errorf("%w: %w", misfit, err)
	}
	return Sent{Delivered: make([]bool, asked), Refused: make([]*PoisonError, asked), Repeated: s.Repeated}, notNow(misfit)
}

// notNow returns an error of a Send, with which no record is refused. If it wraps a *PoisonError, it could be taken for
// a refusal, for example by a redrive, so only its text is kept.
func notNow(err error) error {
	if _, ok := errors.AsType[*PoisonError](err); ok {
		return fmt.Errorf("%w: %v", ErrTryAgain, err) //nolint:errorlint // hidden on purpose
	}
	return err
}

// SinkFunc is a Sink that calls a function for each record. The result of the function says what becomes of the record:
//
//	nil                                               it is delivered
//	a *PoisonError, also a wrapped one                it is refused: it becomes a dead letter with that reason
//	an error of the family ErrTryAgain, of the        it comes again, also if the error wraps a *PoisonError
//	context or of the network
//	another error                                     it comes again
//
// The reason is a fixed text, without data of the record. A panic of the function fails the whole batch, which comes
// again.
//
// A SinkFunc calls the function for one record after the other, in order, and stops at the first record that comes
// again, and when the context ends. If the Framing packs, it gets one Output for several records
// of a payload.
type SinkFunc func(ctx context.Context, o Output) error

// Check accepts every record.
func (SinkFunc) Check(context.Context, Output) error { return nil }

// Send calls the function.
func (f SinkFunc) Send(ctx context.Context, outputs []Output) (Sent, error) {
	a := newSinkAnswers(len(outputs))
	for i, o := range outputs {
		if a[i] = f.call(ctx, o); a[i] != nil && refusalOf(a[i]) == nil {
			break
		}
	}
	return a.sent()
}

// call calls the function, unless the time is over. The record then comes again.
func (f SinkFunc) call(ctx context.Context, o Output) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(ctx, o)
}

// AtOnce returns a Sink that calls the function for up to n records at the same time, in any order. It calls the
// function for all records, also if some of them come again, until the context ends. Use it if the order of the effects
// does not matter, and not for a FIFO queue: from the first message that comes again, all come again, also those behind
// it that are delivered.
func (f SinkFunc) AtOnce(n int) Sink { return atOnce{f, max(n, 1)} }

type atOnce struct {
	SinkFunc
	n int
}

// Send calls the function.
func (s atOnce) Send(ctx context.Context, outputs []Output) (Sent, error) {
	a := newSinkAnswers(len(outputs))
	each(len(outputs), s.n, func(i int) { a[i] = s.call(ctx, outputs[i]) })
	return a.sent()
}

// sinkAnswers are the results of the function of a SinkFunc, by record.
type sinkAnswers []error

// newSinkAnswers returns the answers before the first call: no record is delivered.
func newSinkAnswers(n int) sinkAnswers {
	a := make(sinkAnswers, n)
	for i := range a {
		a[i] = errIncomplete
	}
	return a
}

func (a sinkAnswers) sent() (sent Sent, err error) {
	sent.Delivered, sent.Refused = make([]bool, len(a)), make([]*PoisonError, len(a))
	for i, answer := range a {
		sent.Delivered[i], sent.Refused[i] = answer == nil, refusalOf(answer)
		if answer != nil && sent.Refused[i] == nil {
			err = cmp.Or(err, answer)
		}
	}
	return sent, notNow(err)
}

// refusalOf returns the PoisonError by which a sink refuses a record, or nil if the error is no refusal. An error that
// may pass is none, whatever else it wraps.
func refusalOf(err error) *PoisonError {
	if mayPass(err) {
		return nil
	}
	poison, _ := errors.AsType[*PoisonError](err)
	return poison
}
