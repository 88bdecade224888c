package recordhandler

import (
	"encoding/json"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// allAttempts is the longest time from the first attempt of an asynchronous invocation to the end of the last one:
// Lambda keeps an event for up to 6 hours (Lambda Developer Guide, "How Lambda handles errors and retries with
// asynchronous invocation"), and a function takes up to 15 minutes ("Lambda quotas").
const allAttempts = 6*time.Hour + 15*time.Minute

// arrivalAt returns the arrival of a direct message of CloudWatch Logs that is processed now. The clocks of producers
// set the times of log events: PutLogEvents takes events from up to 2 hours in the future and 14 days in the past
// (CloudWatch Logs API Reference, PutLogEvents). A message cannot arrive after now, and some ledgers refuse such an
// arrival. A message from before the horizon is processed now for the first time, so its entry must last from now. Until
// the last attempt ends, it is not past the horizon. A message without a time arrives now.
func arrivalAt(latest, now time.Time, r dedupe.Retention) time.Time {
	if latest.IsZero() || latest.After(now) {
		return now
	}
	earliest := now.Add(-max(r.Horizon-allAttempts, 0))
	if !r.ForGood && latest.Before(earliest) {
		return earliest
	}
	return latest
}

// setArrivals sets the arrivals of direct messages, and returns how many had another time.
func setArrivals(sources []source, now time.Time, r dedupe.Retention) (changed int64) {
	now = now.UTC().Truncate(time.Millisecond)
	for _, s := range sources {
		if !s.logs {
			continue
		}
		for i := range s.batch.Records {
			record := &s.batch.Records[i]
			if arrival := arrivalAt(record.Arrival, now, r); !arrival.Equal(record.Arrival) {
				if !record.Arrival.IsZero() {
					changed++
				}
				record.Arrival = arrival
			}
		}
	}
	return changed
}

// DecodeInvocation makes a batch from the event of an asynchronous invocation that Lambda gave up: a message that
// CloudWatch Logs sent to the function. The arrival is that of a message that is processed at a time. The error is
// ErrNotKinesis.
func DecodeInvocation(event json.RawMessage, at time.Time, r dedupe.Retention) (dedupe.Batch, error) {
	sources, err := decodeEvent(event, false)
	if err != nil {
		return dedupe.Batch{}, err
	}
	if len(sources) != 1 || !sources[0].logs {
		return dedupe.Batch{}, notKinesis("not a message of CloudWatch Logs")
	}
	setArrivals(sources, at, r)
	return sources[0].batch, nil
}
