package dedupefault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// lane holds the records of one shard, and the invocations that get them. Some records come again, alone or in other
// batches.
type lane struct {
	Shard   int
	Records []laneRecord
	Batches [][2]int // the numbers of the first record and of the record after the last
}

// laneRecord is a Kinesis record: one user record, or a KPL aggregate of several.
type laneRecord struct {
	Arrival   time.Duration
	Aggregate bool
	Users     []User
}

// TestOneByOne gives random records of several shards to the function, in batches, chunks and aggregates of any size.
// It compares the result for each record with the result of deciding the same records one at a time, in order.
func TestOneByOne(t *testing.T) {
	shares := shares{
		SQLiteFile.Name: 8, Dynoxide.Name: 4, DynamoDBLocal.Name: 10, DynoxideLog.Name: 4, DynamoDBLocalLog.Name: 10,
	}
	OnEveryEngine(t, func(t *testing.T, e Engine) {
		t.Parallel()
		store := e.Open(t)
		e.Randomly(t, shares.of(e), func(rt *rapid.T) { oneByOne(rt, store) })
	})
}

func oneByOne(t *rapid.T, store dedupe.Store) {
	o := recordhandler.Options{
		Chunk:  rapid.SampledFrom([]int{1, 2, 3, 5, 8, 500}).Draw(t, "chunk"),
		Derive: rapid.IntRange(0, 3).Draw(t, "derive") == 0,
	}
	gaps := []time.Duration{0, 0, 0, time.Millisecond, window, window + horizon - time.Second, window + horizon}
	if _, onLog := store.(LogStore); onLog {
		// The entries of a batch must count for all arrivals of their records. So all records arrive at the same
		// time.
		gaps = slices.DeleteFunc(gaps, func(gap time.Duration) bool { return gap == time.Millisecond })
	}
	lanes := rapid.SliceOfN(lanesWith(gaps), 1, 3).Draw(t, "lanes")
	scopes := [2]string{freshScope(), freshScope()}
	ledgers := ledgersOn(store, rapid.IntRange(1, 3).Draw(t, "processes"))
	errs := make([]error, len(lanes))
	var all sync.WaitGroup
	for i, l := range lanes {
		l.Shard = i // each shard has its own ids, so that the order of the shards does not matter
		all.Go(func() { errs[i] = l.compare(context.Background(), ledgers, scopes, o) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ledgersOn returns the ledgers of several processes. With one row a key, they are one ledger.
func ledgersOn(store dedupe.Store, processes int) []dedupe.Ledger {
	s, onLog := store.(LogStore)
	if !onLog {
		return []dedupe.Ledger{store}
	}
	ledgers := make([]dedupe.Ledger, processes)
	for i := range ledgers {
		ledgers[i] = newLedger(s.Log, dedupe.Clock{Now: func() time.Time { return epoch.AddDate(1, 0, 0) }})
	}
	return ledgers
}

func lanesWith(gaps []time.Duration) *rapid.Generator[lane] {
	return rapid.Custom(func(t *rapid.T) lane { return drawLane(t, gaps) })
}

func drawLane(t *rapid.T, gaps []time.Duration) (l lane) {
	var at time.Duration
	users := rapid.Custom(func(t *rapid.T) User {
		if rapid.IntRange(0, 9).Draw(t, "poison") == 9 {
			return User{Kind: rapid.SampledFrom([]Kind{Broken, NoID, Large, Panics}).Draw(t, "kind")}
		}
		return User{
			ID: rapid.SampledFrom([]string{"a", "b", "c", "d", "a>y", "a>y>y", "a>y>y>y", "b>x"}).Draw(t, "id"),
			FP: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
		}
	})
	for range rapid.IntRange(1, 10).Draw(t, "records") {
		at += rapid.SampledFrom(gaps).Draw(t, "gap")
		r := laneRecord{Arrival: at, Aggregate: rapid.Bool().Draw(t, "aggregate")}
		most := 1
		if r.Aggregate {
			most = 5
		}
		r.Users = rapid.SliceOfN(users, 1, most).Draw(t, "users")
		l.Records = append(l.Records, r)
	}
	for from := 0; from < len(l.Records); {
		to := rapid.IntRange(from+1, len(l.Records)).Draw(t, "to")
		l.Batches = append(l.Batches, [2]int{from, to})
		from = rapid.IntRange(max(0, to-3), to).Draw(t, "from") // some records come again
		if len(l.Batches) > 12 {
			from = to
		}
	}
	return l
}

// laneID returns an id that only one shard uses: a letter, or a derived id. "a>y" is the id that is derived for a
// record with id a and fingerprint y.
func laneID(shard int, id string) string {
	parts := strings.Split(id, ">")
	id = fmt.Sprint(shard, "-", parts[0])
	for _, fp := range parts[1:] {
		id = format.DerivedID(id, fp)
	}
	return id
}

func (l lane) shardName() string { return fmt.Sprintf("shardId-%012d", l.Shard) }

// payload returns the data of a user record. The data contains the record's position.
func (l lane) payload(record, sub int, u User) []byte {
	n := record*100 + sub
	switch u.Kind {
	case Broken:
		return fmt.Appendf(nil, `{"n":%d`, n)
	case NoID:
		return fmt.Appendf(nil, `{"n":%d}`, n)
	case Panics:
		return fmt.Appendf(nil, "%s %d", panicData, n)
	case Large:
		return fmt.Appendf(nil, `{"id":"%d-large-%d","fp":"x","n":%d,"more":%q}`, l.Shard, n, n, strings.Repeat("x", MostData))
	}
	return fmt.Appendf(nil, `{"id":%q,"fp":%q,"n":%d}`, laneID(l.Shard, u.ID), u.FP, n)
}

func partitionKey(record, sub int) string { return fmt.Sprintf("key-%d-%d", record, sub) }

func (l lane) hashKey(record, sub int) string {
	if !l.Records[record].Aggregate {
		return ""
	}
	return fmt.Sprint(record*100 + sub)
}

func (l lane) position(record, sub int) dedupe.Position {
	if !l.Records[record].Aggregate {
		sub = dedupe.Plain
	}
	return dedupe.Position{Stream: streamName, Shard: l.shardName(), Sequence: fmt.Sprint(record + 98), Sub: sub}
}

// event returns the event with the records from index from up to, not including, to.
func (l lane) event(from, to int) (json.RawMessage, error) {
	var e events.KinesisEvent
	for i := from; i < to; i++ {
		r := l.Records[i]
		data := l.payload(i, 0, r.Users[0])
		if r.Aggregate {
			var enc kpl.Encoder
			for sub, u := range r.Users {
				enc.Add(kpl.UserRecord{PartitionKey: []byte(partitionKey(i, sub)), ExplicitHashKey: []byte(l.hashKey(i, sub)), Data: l.payload(i, sub, u)})
			}
			data = enc.Bytes()
		}
		sequence := l.position(i, 0).Sequence
		e.Records = append(e.Records, events.KinesisEventRecord{
			EventSource: "aws:kinesis", EventSourceArn: streamARN, EventID: l.shardName() + ":" + sequence,
			Kinesis: events.KinesisRecord{
				SequenceNumber: sequence, PartitionKey: partitionKey(i, 0), Data: data,
				ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: epoch.Add(r.Arrival)},
			},
		})
	}
	return json.Marshal(e)
}

// results holds the results of an invocation: the sent records and the dead letters, in order, and the tally.
type results struct {
	Sent        []string
	DeadLetters []string
	Tally       dedupe.Tally
}

func (r *results) Check(ctx context.Context, o dedupe.Output) error {
	return memorySink{}.Check(ctx, o)
}

func (r *results) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	for _, o := range outputs {
		r.sent(o)
	}
	return dedupe.Sent{}, nil
}

func (r *results) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	for _, l := range letters {
		r.deadLettered(l)
	}
	return len(letters), nil
}

func (r *results) sent(o dedupe.Output) {
	r.Sent = append(r.Sent, fmt.Sprintf("%s by %s %s: %s", o.ID, o.PartitionKey, o.ExplicitHashKey, o.Data))
}

func (r *results) deadLettered(l dedupe.DeadLetter) {
	r.DeadLetters = append(r.DeadLetters, fmt.Sprintf("%s by %s %s: %s", l.Owner, l.PartitionKey, l.ExplicitHashKey, l.Data))
}

// compare compares the results of all invocations with the results of deciding the same records one by one.
func (l lane) compare(ctx context.Context, ledgers []dedupe.Ledger, scopes [2]string, o recordhandler.Options) error {
	for n, b := range l.Batches {
		ledger := ledgers[n%len(ledgers)]
		got, err := l.inBatches(ctx, ledger, scopes[0], o, b[0], b[1])
		if err != nil {
			return err
		}
		want, err := l.oneByOne(ctx, ledger, scopes[1], o.Derive, b[0], b[1])
		if err != nil {
			return err
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			return fmt.Errorf("shard %d, records %d to %d, in chunks of %d, derived ids %t: got\n  %+v\none by one:\n  %+v\nof %+v",
				l.Shard, b[0], b[1]-1, o.Chunk, o.Derive, got, want, l)
		}
	}
	return nil
}

// inBatches gives the records to the function in one invocation.
func (l lane) inBatches(
	ctx context.Context, ledger dedupe.Ledger, scope string, o recordhandler.Options, from, to int,
) (r results, err error) {
	raw, err := l.event(from, to)
	if err != nil {
		return r, err
	}
	var log bytes.Buffer
	o.Format, o.Scope, o.Retention = newFormat(), scope, retention
	o.Clock.Now = func() time.Time { return epoch }
	h, err := recordhandler.New(
		dedupe.Parts{Ledger: ledger, Sink: &r, DeadLetters: &r}, o, slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		return r, err
	}
	answer, err := h.Handle(ctx, raw)
	if err == nil && len(answer.BatchItemFailures) > 0 {
		err = fmt.Errorf("the function failed: %s", log.Bytes())
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(log.Bytes(), &r.Tally) // the log line has the names of Tally
}

// oneByOne decides the same records one at a time, and follows the decisions.
func (l lane) oneByOne(ctx context.Context, ledger dedupe.Ledger, scope string, derive bool, from, to int) (
	r results, err error,
) {
	d := dedupe.Decider{Ledger: ledger, Scope: scope, Retention: retention}
	f := newFormat()
	for i := from; i < to; i++ {
		for sub, u := range l.Records[i].Users {
			r.Tally.In++
			owner := l.position(i, sub).Owner()
			record := dedupe.DeadLetter{
				Owner: owner.String(), PartitionKey: partitionKey(i, sub), ExplicitHashKey: l.hashKey(i, sub), Data: l.payload(i, sub, u),
			}
			if u.Kind != Good {
				r.Tally.DeadLettered++
				r.deadLettered(record)
				continue
			}
			fields, err := f.Read(ctx, record.Data)
			if err != nil {
				return r, err
			}
			decision := d.Decide(ctx, []dedupe.Candidate{{
				ID: fields.ID, Owner: owner, Fingerprint: fields.Fingerprint, Version: fields.Version, Arrival: epoch.Add(l.Records[i].Arrival),
				Derive: derive,
			}})[0]
			if err := r.follow(ctx, f, record, fields.ID, decision); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// follow does what the decision about a record requires.
func (r *results) follow(ctx context.Context, f dedupe.Format, record dedupe.DeadLetter, id string, d dedupe.Decision) (err error) {
	counted := map[dedupe.Outcome]*int64{
		dedupe.New: &r.Tally.New, dedupe.Retry: &r.Tally.Retry, dedupe.Natural: &r.Tally.Natural,
		dedupe.Synthetic: &r.Tally.Synthetic, dedupe.NoID: &r.Tally.DeadLettered,
	}[d.Outcome]
	if counted == nil {
		return d.Err
	}
	*counted++
	switch d.Outcome {
	case dedupe.Natural:
		return nil
	case dedupe.NoID:
		r.deadLettered(record)
		return nil
	}
	out := dedupe.Output{ID: d.ID, PartitionKey: record.PartitionKey, ExplicitHashKey: record.ExplicitHashKey, Data: record.Data}
	if d.ID != id {
		if out.Data, err = f.Rename(ctx, slices.Clone(record.Data), id, d.ID); err != nil {
			return err
		}
	}
	r.Tally.Out++
	r.sent(out)
	return nil
}
