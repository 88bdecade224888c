package dedupefault

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// The times of histories of CloudWatch Logs. The horizon is longer than the longest invocation.
var logsRetention = dedupe.Retention{Window: 10 * time.Minute, Horizon: 24 * time.Hour}

// logsHistory is a random history of messages that CloudWatch Logs sends to the function.
type logsHistory []logsMessage

// logsMessage has log events of producers with any clock.
type logsMessage struct {
	After  time.Duration // the message before
	Events []logEvent
	Pauses [2]time.Duration // before the second and the third attempt, up to six hours together
	Fails  int              // attempts that fail in the sink, below 3
}

type logEvent struct {
	User
	Clock time.Duration // the producer's, beside the true time
}

// logsRun plays a logsHistory.
type logsRun struct {
	now       time.Time
	fails     bool
	latest    time.Time             // of the log events of the message
	arrivals  arrivals              // that the first and the last attempt should have
	delivered map[string][]arrivals // of the messages from which a log event was delivered
	letters   int
}

// arrivals has the arrival at the first and at the last attempt of a message.
type arrivals [2]time.Time

// play returns the first violation of a guarantee.
func (h logsHistory) play(ctx context.Context, engine dedupe.Store, m *Mutant) error {
	r := &logsRun{now: epoch, delivered: map[string][]arrivals{}}
	clock := dedupe.Clock{Now: func() time.Time { return r.now }}
	parts := dedupe.Parts{Ledger: engine, Sink: r, DeadLetters: r}
	if s, onLog := engine.(LogStore); onLog {
		parts.Ledger = newLedger(s.Log, clock)
	}
	if m != nil && m.producersTimes {
		parts.Ledger = producersTimes{parts.Ledger, r}
	}
	parts.Format = newFormatOf("message")
	handler, err := recordhandler.New(parts, recordhandler.Options{
		Scope: freshScope(), Retention: logsRetention, Clock: clock, Sink: recordhandler.SinkSetting{Own: "memory"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for n, message := range h {
		r.now = r.now.Add(message.After)
		event := r.message(n, message)
		r.arrivals[0] = r.arrival()
		err := errThrown
		for attempt := 0; attempt <= len(message.Pauses) && err != nil; attempt++ {
			if attempt > 0 {
				r.now = r.now.Add(message.Pauses[attempt-1])
			}
			r.arrivals[1] = r.arrival()
			r.fails = attempt < message.Fails
			_, err = handler.Handle(ctx, event)
		}
		if err != nil {
			return fmt.Errorf("G6: Lambda drops message %d after its last attempt: %w", n, err)
		}
		for _, e := range message.Events {
			if len(r.delivered[e.String()]) == 0 {
				return fmt.Errorf("G6: %s of message %d is lost", e.User, n)
			}
		}
	}
	return r.atRest()
}

// arrival returns what the arrival of the message should be now.
func (r *logsRun) arrival() time.Time {
	earliest := r.now.Add(-logsRetention.Horizon + 6*time.Hour + 15*time.Minute)
	switch {
	case r.latest.Before(earliest):
		return earliest
	case r.latest.After(r.now):
		return r.now
	}
	return r.latest
}

// message makes the event of a message.
func (r *logsRun) message(n int, m logsMessage) json.RawMessage {
	r.latest = time.Time{}
	var events []map[string]any
	for _, e := range m.Events {
		at := r.now.Add(e.Clock)
		if at.After(r.latest) {
			r.latest = at
		}
		events = append(events, map[string]any{"id": e.ID, "timestamp": at.UnixMilli(), "message": e.String()})
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.HuffmanOnly)
	if err == nil {
		err = json.NewEncoder(w).Encode(map[string]any{
			"messageType": "DATA_MESSAGE", "owner": "123456789012", "logGroup": "shop", "logStream": fmt.Sprint(n), "logEvents": events,
		})
	}
	if err == nil {
		err = w.Close()
	}
	raw, _ := json.Marshal(map[string]any{"awslogs": map[string]any{"data": packed.Bytes()}})
	if err != nil {
		panic(err) // cannot happen: it is written to memory
	}
	return raw
}

// Check accepts every record.
func (*logsRun) Check(context.Context, dedupe.Output) error { return nil }

// Send delivers log events.
func (r *logsRun) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	if r.fails {
		return dedupe.Sent{}, errThrown
	}
	for _, o := range outputs {
		var e struct {
			Message string `json:"message"`
		}
		if err := json.Unmarshal(o.Data, &e); err != nil {
			return dedupe.Sent{}, err
		}
		r.delivered[e.Message] = append(r.delivered[e.Message], r.arrivals)
	}
	return dedupe.Sent{}, nil
}

// Put counts dead letters.
func (r *logsRun) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	r.letters += len(letters)
	return len(letters), nil
}

// atRest checks the log events after the last message. Each attempt may have an arrival of its own, so copies are
// surely found only if the arrivals of all attempts are inside the window.
func (r *logsRun) atRest() error {
	if r.letters > 0 {
		return fmt.Errorf("G10: %d good log events are dead letters", r.letters)
	}
	for u, all := range r.delivered {
		for i, a := range all {
			for _, b := range all[:i] {
				if a[1].Sub(b[0]) <= logsRetention.Window && b[1].Sub(a[0]) <= logsRetention.Window {
					return fmt.Errorf("G7: %s was delivered for the arrivals %v", u, all)
				}
			}
		}
	}
	return nil
}

// producersTimes is a ledger that gets the times that producers have set.
type producersTimes struct {
	dedupe.Ledger
	run *logsRun
}

func (l producersTimes) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	for i := range q.Records {
		q.Records[i].Arrival = l.run.latest
	}
	return l.Ledger.Enter(ctx, q)
}
