package recordhandler

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Answer makes the answer for Lambda: all messages of a queue that are not done, the first record of a stream that
// failed, or an empty list. If that record has no sequence number, its identifier is empty, which means for Lambda
// that the whole batch failed (Lambda Developer Guide, "Configuring partial batch response with Kinesis Data Streams
// and Lambda"). The answers of all event source mappings have this form.
func Answer(result dedupe.Result) events.KinesisEventResponse {
	answer := events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{}}
	undone := result.Undone
	if result.Err != nil && len(undone) == 0 {
		undone = []string{result.Failed}
	}
	for _, id := range undone {
		answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: id})
	}
	return answer
}

// fromFailed returns the failed message and all behind it, which wait for it. A message that is in the batch several
// times is named once, and not at all if it is done.
func fromFailed(messages []dedupe.Record, done int) (undone []string) {
	seen := map[string]bool{}
	for i, m := range messages {
		if i >= done && !seen[m.Sequence] {
			undone = append(undone, m.Sequence)
		}
		seen[m.Sequence] = true
	}
	return undone
}

// faultOf returns why the whole invocation fails. It is nil if the answer can name the records that must come again.
func faultOf(r dedupe.Result, s source) error {
	for _, stays := range []error{
		dedupe.ErrSharedSequence, dedupe.ErrNotABatch, dedupe.ErrOtherConsumer, dedupe.ErrOtherLedger, dedupe.ErrNoHolds,
	} {
		if errors.Is(r.Err, stays) {
			return r.Err
		}
	}
	switch {
	case s.batch.Queue: // the answer names each message that must come again
		return nil
	case s.logs, errors.Is(r.Err, dedupe.ErrWrongSetting):
		return r.Err
	case r.Done == 0 && len(s.batch.Records) > 1:
		return fmt.Errorf("%w: %w", ErrNoProgress, r.Err)
	}
	return nil
}

// merge merges the results of two batches of an event.
func merge(a, b dedupe.Result) dedupe.Result {
	if a.Err == nil {
		a.Failed = b.Failed
	}
	if b.Err != nil && (a.Err == nil || errors.Is(a.Err, dedupe.ErrInWork)) {
		a.Err = b.Err
	}
	a.Done += b.Done
	a.Undone = append(a.Undone, b.Undone...)
	a.AckErr = cmp.Or(a.AckErr, b.AckErr)
	a.Tally.Add(b.Tally)
	a.LedgerTime += b.LedgerTime
	a.SinkTime += b.SinkTime
	for reason, n := range b.Reasons {
		if a.Reasons == nil {
			a.Reasons = map[string]int64{}
		}
		a.Reasons[reason] += n
	}
	return a
}

// panicked makes an error from a panic, and returns the stack of the panic. The error repeats only the text of a
// runtime error, because other texts may contain data.
func panicked(p any) (stack []byte, err error) {
	stack = debug.Stack()
	if there, ok := p.(*dedupe.Panic); ok { // it was in another goroutine
		p, stack = there.Value, there.Stack
	}
	if err, ok := p.(interface {
		error
		RuntimeError()
	}); ok {
		return stack, fmt.Errorf("recordhandler: panic: %w", err)
	}
	return stack, fmt.Errorf("recordhandler: panic with a %T", p)
}
