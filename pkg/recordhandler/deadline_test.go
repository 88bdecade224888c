package recordhandler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// slow is a ledger with acks, a sink and a dead-letter store in memory. Its calls take time, and stop when their
// context ends.
type slow struct {
	*memstore.Records
	perKey, perSend, perPut time.Duration
	rows                    map[dedupe.Key]dedupe.Existing
	sent                    map[string]int
	deadLetters             map[string]int
	refuses                 bool // the sink refuses some records, and then takes all the time
}

func (s *slow) take(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// PutIfAbsent may put some of the entries and then fail. The state of these entries is then unknown.
func (s *slow) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	for i, e := range entries {
		if err := s.take(ctx, s.perKey); err != nil {
			return nil, err
		}
		if old, there := s.rows[e.Key]; there {
			results[i].Existing = &old
			continue
		}
		s.rows[e.Key] = e.Existing()
	}
	return results, nil
}

func (s *slow) Finish(_ context.Context, requests []dedupe.FinishRequest) ([]dedupe.FinishResult, error) {
	results := make([]dedupe.FinishResult, len(requests))
	for i, r := range requests {
		results[i].Finished = s.rows[r.Key].Hold.Token == r.Token
	}
	return results, nil
}

func (s *slow) RaisePurge(context.Context, []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	panic("no record is synthetic here")
}

func (s *slow) Check(context.Context, dedupe.Output) error { return nil }

func (s *slow) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	if s.refuses {
		return s.refuse(ctx, outputs)
	}
	if err := s.take(ctx, s.perSend); err != nil {
		return dedupe.Sent{}, err
	}
	for _, o := range outputs {
		s.sent[o.ID]++
	}
	return dedupe.Sent{}, nil
}

// refuse refuses the first record, and takes all the time for the others.
func (s *slow) refuse(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	sent := dedupe.Sent{Refused: make([]*dedupe.PoisonError, len(outputs))}
	sent.Refused[0] = &dedupe.PoisonError{Reason: "declined"}
	return sent, s.take(ctx, time.Hour)
}

func (s *slow) Put(ctx context.Context, letters []dedupe.DeadLetter) (int, error) {
	for i, l := range letters {
		if err := s.take(ctx, s.perPut); err != nil {
			return i, err
		}
		s.deadLetters[l.Owner]++
	}
	return len(letters), nil
}

// over makes a handler of a slow store.
func (s *slow) over(t *testing.T, deadLetters dedupe.DeadLetterStore) *recordhandler.Handler {
	t.Helper()
	s.Records = memstore.NewRecords()
	s.rows, s.sent, s.deadLetters = map[dedupe.Key]dedupe.Existing{}, map[string]int{}, map[string]int{}
	j, err := format.NewJSON(format.Options{IDPath: "id"})
	must(t, err)
	h, err := recordhandler.New(dedupe.Parts{Ledger: dedupe.ByKey(s), Sink: s, DeadLetters: deadLetters, Acks: s},
		recordhandler.Options{
			Format: j, Scope: "s", Retention: dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour},
			PoisonLimit: dedupe.PoisonLimit{Off: true},
		}, slog.New(slog.DiscardHandler))
	must(t, err)
	return h
}

// TestDeadline: whichever part is slow, the function answers before Lambda's deadline. Records that are done by then
// stay done, and redeliveries do the rest, however Lambda treats an answer that names the first record. All time is
// synthetic.
func TestDeadline(t *testing.T) {
	const limit, records, poison = 15 * time.Second, 10_000, 50
	for _, c := range []struct {
		name        string
		slow        slow
		invocations int // at most
		repeated    int // records sent twice, at most
	}{
		{"ledger", slow{perKey: 2 * time.Millisecond}, 2, 0},
		{"sink", slow{perSend: 2 * time.Second}, 4, 0},
		{"dead-letter store", slow{perPut: time.Second}, 4, 0},
		{"all", slow{perKey: time.Millisecond, perSend: time.Second, perPut: 100 * time.Millisecond}, 3, 0},
		// A chunk takes more than the whole time: nothing is done until bisects have made the batch smaller than a
		// chunk. Without bisects nothing would ever be done.
		{"ledger too slow for a chunk", slow{perKey: 60 * time.Millisecond}, 200, 0},
	} {
		for _, reading := range []eventsource.Reading{eventsource.RetryBatch, eventsource.BisectBatch} {
			t.Run(c.name+" "+string(reading), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := c.slow
					h := s.over(t, &s)
					sim := eventsource.NewSimInBubble(1)
					defer sim.Close()
					stream := eventsource.NewStream(1, sim.Now)
					for n := range records {
						data := fmt.Sprintf(`{"id":"id-%d"}`, n)
						if n%(records/poison) == 7 {
							data = "poison"
						}
						stream.Put("key", []byte(data))
					}
					var took []time.Duration
					_, err := sim.Start(eventsource.Mapping{
						Client: stream, StreamARN: clicks, BatchSize: records, ReportBatchItemFailures: true, Bisect: true,
						Reading: reading, Timeout: limit,
						Function: func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
							begun := time.Now()
							answer, err := h.Invoke(ctx, raw)
							took = append(took, time.Since(begun))
							return answer, err
						},
					})
					must(t, err)
					must(t, sim.Drain(5*time.Hour))
					repeated := 0
					for _, n := range s.sent {
						repeated += n - 1
					}
					longest := slices.Max(took)
					t.Logf("%d invocations, the longest took %v; %d records sent again", len(took), longest, repeated)
					if longest > limit-deadline.Margin {
						t.Errorf("an invocation took %v of %v", longest, limit)
					}
					equal(t, "unique records sent", len(s.sent), records-poison)
					equal(t, "dead letters", len(s.deadLetters), poison)
					if len(took) > c.invocations || repeated > c.repeated {
						t.Errorf("%d invocations and %d repeats, want at most %d and %d", len(took), repeated, c.invocations,
							c.repeated)
					}
				})
			})
		}
	}
}

// TestRefusedBeforeTheDeadline: the sink refuses a record, and then takes all the time that it gets. The dead letter of
// the record is stored before the deadline, with acks and without. All time is synthetic.
func TestRefusedBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	two := []events.KinesisEventRecord{record(1, `{"id":"a"}`), record(2, `{"id":"b"}`)}
	shard := rawOf(t, events.KinesisEvent{Records: two})
	queue := rawRecords(t, message("1", queueARN, "", `{"id":"a"}`), message("2", queueARN, "", `{"id":"b"}`))
	for name, raw := range map[string]json.RawMessage{"shard": shard, "queue": queue} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{perPut: 50 * time.Millisecond, refuses: true}
			h := s.over(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			answer, err := h.Handle(ctx, raw)
			must(t, err)
			equal(t, name+": dead letters", len(s.deadLetters), 1)
			equal(t, name+": failures", fmt.Sprint(answer.BatchItemFailures), "[{2}]")
		})
	}
}

// slowObjects is an Objects whose calls take time.
type slowObjects struct {
	deadletter.Objects
	takes time.Duration
	mu    sync.Mutex
	made  map[string]bool
}

func (o *slowObjects) Create(ctx context.Context, name string, _ []byte) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(o.takes):
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	created := !o.made[name]
	o.made[name] = true
	return created, nil
}

// TestAggregateOfPoison: a KPL aggregate is done only as a whole, so all its poison must be stored before the
// deadline. The aggregate has the KPL's default size of 51,200 bytes, and the store is as slow as S3 can be.
func TestAggregateOfPoison(t *testing.T) {
	const limit, takes = time.Minute, 50 * time.Millisecond // the stack's limit
	aggregate := aggregateOf(51_200, func(int) []byte { return []byte(`{"n":1}`) })
	var d kpl.Decoder
	parts, _, err := d.Decode(aggregate)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		objects := &slowObjects{takes: takes, made: map[string]bool{}}
		h := s.over(t, deadletter.New(objects))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		raw := rawOf(t, events.KinesisEvent{Records: []events.KinesisEventRecord{record(1, string(aggregate)), record(2, `{"id":"a"}`)}})
		answer, err := h.Handle(ctx, raw)
		must(t, err)
		equal(t, "failures", len(answer.BatchItemFailures), 0)
		equal(t, "dead letters", len(objects.made), len(parts))
		equal(t, "records sent", len(s.sent), 1)
		if least := time.Duration(len(parts)) * takes; least < 2*limit {
			t.Errorf("one after the other they take only %v: the test proves nothing", least)
		}
	})
}
