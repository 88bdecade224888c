package redrive

import (
	"time"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// Identify sets what only the event of an asynchronous invocation says: its source, record and arrival. It changes no
// other letter.
func Identify(l *deadletter.Letter, r dedupe.Retention, now time.Time) error {
	if l.Batch == nil || !l.Batch.Async {
		return nil
	}
	batch, err := Invocation(l.Batch, r, now)
	if err != nil {
		return err
	}
	of, record := *l.Batch, batch.Records[0]
	of.Stream, of.First, of.Last = batch.Stream, record.Sequence, record.Sequence
	of.Arrival, of.LastArrival = record.Arrival, record.Arrival
	l.Batch = &of
	return nil
}

// Invocation makes the batch of an asynchronous invocation, as the function made it when Lambda gave up. A message of a
// dead-letter queue does not say when that was. Its entry may be purged if it is from before the horizon: it keeps its
// time, so that it is past the horizon.
func Invocation(b *deadletter.GivenUp, r dedupe.Retention, now time.Time) (dedupe.Batch, error) {
	at := b.At
	if at.IsZero() {
		at, r.ForGood = now, true
	}
	if at.After(now) {
		at = now
	}
	batch, err := recordhandler.DecodeInvocation(b.Event, at, r)
	if err != nil {
		return batch, refuse("its event is not a message that CloudWatch Logs sent to the function")
	}
	return batch, nil
}
