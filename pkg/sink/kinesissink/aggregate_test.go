package kinesissink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// aggregated makes records as they come from aggregates, with 40 keys. Some have an explicit hash key.
func aggregated(n int) []dedupe.Output {
	outputs := records(n)
	for i := range outputs {
		o := &outputs[i]
		o.Aggregated, o.PartitionKey = true, fmt.Sprint("key-", i%40)
		switch i % 40 {
		case 0:
			o.ExplicitHashKey = "0"
		case 1:
			o.ExplicitHashKey = highestHashKey
		}
	}
	return outputs
}

// kinesisRecords returns how many of the Kinesis records in the requests are aggregates, and how many are plain.
func (s *stream) kinesisRecords(t *testing.T) (aggregates, plain int) {
	t.Helper()
	var decoder kpl.Decoder
	for _, r := range slices.Concat(s.requests...) {
		if _, aggregated, err := decoder.Decode(r.Data); aggregated && err == nil {
			aggregates++
		} else {
			plain++
		}
	}
	return aggregates, plain
}

// checkDelivered checks that a Send has succeeded, and that KCL reads all records in the order of their keys.
func checkDelivered(t *testing.T, s *stream, sent dedupe.Sent, err error, outputs []dedupe.Output) {
	t.Helper()
	if err != nil || slices.Contains(sent.Delivered, false) {
		t.Fatalf("delivered %d: %v", delivered(sent), err)
	}
	checkOrder(t, s.users(t, true), outputs)
}

// TestAggregates: one aggregate for each shard takes all records. They keep their keys.
func TestAggregates(t *testing.T) { onBothStreams(t, 3, aggregates) }

func aggregates(t *testing.T, s *stream) {
	outputs := aggregated(1200)
	sent, err := s.sink(t).Send(t.Context(), outputs)
	checkDelivered(t, s, sent, err, outputs)
	checkCounts(t, s, 1200)
	if n, plain := s.kinesisRecords(t); n != 3 || plain != 0 || len(s.requests) != 1 || sent.Repeated != 0 {
		t.Errorf("%d aggregates and %d plain records in %d requests, %d repeated", n, plain, len(s.requests), sent.Repeated)
	}
	for _, r := range s.requests[0] {
		if *r.PartitionKey != "a" || r.ExplicitHashKey == nil {
			t.Errorf("an aggregate has the partition key %q, the KPL uses \"a\"", *r.PartitionKey)
		}
	}
}

// TestAggregationModes: a single record is sent plain. The shards are listed only if any record is to be aggregated.
func TestAggregationModes(t *testing.T) {
	t.Parallel()
	mode := func(a kinesissink.Aggregation) []kinesissink.Option {
		return []kinesissink.Option{kinesissink.WithAggregation(a)}
	}
	for name, test := range map[string]struct {
		options                  []kinesissink.Option
		aggregated               []bool // whether the record came in an aggregate
		aggregates, plain, lists int
	}{
		"default":         {nil, []bool{true, false, true, false}, 1, 2, 1},
		"auto":            {mode(kinesissink.AggregateAuto), []bool{true, false, true, false}, 1, 2, 1},
		"auto, a single":  {mode(kinesissink.AggregateAuto), []bool{false, false, true, false}, 0, 4, 1},
		"auto, all plain": {mode(kinesissink.AggregateAuto), []bool{false, false, false, false}, 0, 4, 0},
		"always":          {mode(kinesissink.AggregateAlways), []bool{true, false, true, false}, 1, 0, 1},
		"never":           {mode(kinesissink.AggregateNever), []bool{true, false, true, false}, 0, 4, 0},
	} {
		s := newStream(t, 1)
		outputs := records(4)
		for i := range outputs {
			outputs[i].Aggregated = test.aggregated[i]
		}
		sent, err := s.sink(t, test.options...).Send(t.Context(), outputs)
		checkDelivered(t, s, sent, err, outputs)
		aggregates, plain := s.kinesisRecords(t)
		if lists := s.backend.(*memory).lists; aggregates != test.aggregates || plain != test.plain || lists != test.lists {
			t.Errorf("%s: %d aggregates, %d plain records, %d lists of shards", name, aggregates, plain, lists)
		}
	}
}

// TestAggregatesKeepTheLimits: an aggregate has at most the size of the KPL's, and of a record of the stream. A
// record that does not fit is sent plain.
func TestAggregatesKeepTheLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ maxRecord, limit, fits int }{ // after a record of 100 bytes, a record of so many fits
		{kinesissink.DefaultMaxRecord, kinesissink.AggregationMaxSize, kinesissink.AggregationMaxSize - 139},
		{1000, 999, 862},
	} {
		s := newStream(t, 1)
		var outputs []dedupe.Output
		for i, size := range []int{100, test.fits, 100, test.fits + 1, 10, test.limit - 20, 10, 10} {
			outputs = append(outputs, dedupe.Output{
				PartitionKey: "k", Aggregated: true, Data: fmt.Appendf(nil, "%0*d", size, i),
			})
		}
		sink := s.sink(t, kinesissink.WithMaxRecord(test.maxRecord))
		for _, o := range outputs {
			must(t, sink.Check(t.Context(), o))
		}
		sent, err := sink.Send(t.Context(), outputs)
		checkDelivered(t, s, sent, err, outputs)
		largest := 0
		for _, r := range slices.Concat(s.requests...) {
			if *r.PartitionKey == "a" {
				largest = max(largest, len(r.Data))
			}
		}
		if aggregates, plain := s.kinesisRecords(t); aggregates != 3 || plain != 2 || largest != test.limit {
			t.Errorf("%d aggregates of up to %d bytes, and %d plain records", aggregates, largest, plain)
		}
	}
}

// TestAggregatesKeepTheLimitOfARequest: 300 aggregates of 50 KB take two requests of 10 MiB.
func TestAggregatesKeepTheLimitOfARequest(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	outputs := aggregated(600)
	for i := range outputs {
		outputs[i].PartitionKey, outputs[i].ExplicitHashKey = fmt.Sprint("key-", i), ""
		outputs[i].Data = append(payload(i), make([]byte, 25_000)...)
	}
	sent, err := s.sink(t).Send(t.Context(), outputs)
	checkDelivered(t, s, sent, err, outputs)
	for _, r := range s.requests {
		bytes := 0
		for _, e := range r {
			bytes += len(e.Data) + len(*e.PartitionKey)
		}
		if bytes > 10<<20 {
			t.Errorf("a request has %d bytes", bytes)
		}
	}
	if got := s.sizes(); len(got) != 2 {
		t.Errorf("requests of %v records", got)
	}
}

// TestNothingOvertakesAnAggregate: a record is never in the same request as an aggregate with its key, because
// Kinesis may refuse only the earlier one.
func TestNothingOvertakesAnAggregate(t *testing.T) {
	t.Parallel()
	for refused := range 3 {
		s := newStream(t, 1)
		outputs := records(6)
		for i := range outputs {
			outputs[i].PartitionKey, outputs[i].Aggregated = "k", true
		}
		outputs[2].Data = append(payload(2), make([]byte, 60_000)...) // plain
		large := func(r types.PutRecordsRequestEntry) bool { return len(r.Data) > 60_000 }
		matching := 0
		s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool {
			if large(r) == (refused == 1) {
				matching++
				return matching == 1+refused/2 // the first aggregate, the plain record, the second aggregate
			}
			return false
		}
		sent, err := s.sink(t).Send(t.Context(), outputs)
		checkDelivered(t, s, sent, err, outputs)
		if got := s.sizes(); !slices.Equal(got, []int{1, 1, 1, 1}) || sent.Repeated != 0 {
			t.Errorf("requests of %v records, %d repeated", got, sent.Repeated)
		}
	}
}

// TestReshardingWhileAggregating: KCL reads each record once, and the copies that only other readers see are counted.
// After a merge, KCL reads the aggregates that were planned for the old shards.
func TestReshardingWhileAggregating(t *testing.T) { onBothStreams(t, 2, reshardingWhileAggregating) }

func reshardingWhileAggregating(t *testing.T, s *stream) {
	const each = 200 // records of a Send, 5 of each key
	sink := s.sink(t)
	all, repeated := aggregated(5*each), 0
	rest := all
	send := func(wantRepeated, wantAggregates int) {
		t.Helper()
		s.requests = nil
		sent, err := sink.Send(t.Context(), rest[:each])
		rest = rest[each:]
		if err != nil || delivered(sent) != each {
			t.Fatalf("delivered %d: %v", delivered(sent), err)
		}
		if aggregates, _ := s.kinesisRecords(t); sent.Repeated != wantRepeated || aggregates != wantAggregates {
			t.Errorf("%d repeated in %d aggregates, want %d in %d", sent.Repeated, aggregates, wantRepeated, wantAggregates)
		}
		repeated += sent.Repeated
	}
	shard0, astray := s.read(t)[0], 0
	for _, o := range all[:each] {
		if shard0.has(o.PartitionKey, o.ExplicitHashKey) {
			astray++
		}
	}
	send(0, 2)
	s.split(t, 0)    // into 2 and 3
	send(astray, 2)  // planned for 0, and for 1
	send(0, 3)       // for 2, 3 and 1
	s.merge(t, 3, 1) // into 4
	send(0, 3)       // planned for 2, 3 and 1
	send(0, 2)       // for 2 and 4
	users := s.users(t, true)
	if n := len(slices.Concat(users...)); n != len(all) {
		t.Errorf("KCL reads %d records, want %d", n, len(all))
	}
	checkOrder(t, users, all)
	if n := len(slices.Concat(s.users(t, false)...)); n != len(all)+repeated {
		t.Errorf("other readers read %d records, want %d", n, len(all)+repeated)
	}
}

// TestWithoutTheListOfShards: the records are sent plain, and the program is told once. They are aggregated as soon as
// the shards can be listed.
func TestWithoutTheListOfShards(t *testing.T) {
	t.Parallel()
	for name, listErr := range map[string]error{
		"denied":    &types.AccessDeniedException{},
		"throttled": &types.LimitExceededException{},
		"no answer": context.DeadlineExceeded,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(t, 2)
			s.backend.(*memory).list = func(call int) error { return map[bool]error{true: listErr}[call <= 2] }
			var told []error
			sink := s.sink(t, kinesissink.WithFallback(func(err error) { told = append(told, err) }))
			for i, want := range []struct{ aggregates, plain, lists int }{{0, 200, 1}, {0, 200, 1}, {0, 200, 2}, {2, 0, 3}} {
				s.requests = nil
				sent, err := sink.Send(t.Context(), aggregated(200))
				if a, p := s.kinesisRecords(t); err != nil || delivered(sent) != 200 || a != want.aggregates || p != want.plain ||
					s.backend.(*memory).lists != want.lists {
					t.Errorf("%s: send %d: delivered %d, %d aggregates, %d plain, %d lists: %v",
						name, i, delivered(sent), a, p, s.backend.(*memory).lists, err)
				}
				if i > 0 { // the pause of 10 s ends after the second Send; in this bubble it takes no time
					time.Sleep(10 * time.Second)
				}
			}
			if len(told) != 1 || !errors.Is(told[0], listErr) || !strings.Contains(told[0].Error(), "kinesis:ListShards") {
				t.Errorf("%s: told %v", name, told)
			}
		})
	}
}

// TestListOfShards: the list has several pages and is read once. A Send without time does not count as a failed list.
func TestListOfShards(t *testing.T) {
	t.Parallel()
	s := newStream(t, 7)
	m := s.backend.(*memory)
	m.page = 3
	sink := s.sink(t, kinesissink.WithFallback(func(err error) { t.Error(err) }))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	m.list = func(int) error { return over.Err() }
	s.before = func(int) error { return over.Err() }
	if _, err := sink.Send(over, aggregated(10)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	m.list, s.before, m.lists = nil, nil, 0
	for range 3 {
		sent, err := sink.Send(t.Context(), aggregated(100))
		if err != nil || delivered(sent) != 100 || sent.Repeated != 0 {
			t.Errorf("delivered %d, repeated %d: %v", delivered(sent), sent.Repeated, err)
		}
	}
	if m.lists != 3 {
		t.Errorf("%d pages were asked for, want 3", m.lists)
	}
}

// TestOneKeyIsLinear: the memory for a record does not grow with the records of its key, which may be 100,000 in one
// aggregate. Between two plain records of the key there is an aggregate, so a request has one record. The test is not
// parallel, since it counts what the process takes.
func TestOneKeyIsLinear(t *testing.T) {
	perRecord := func(n int) uint64 {
		sink, err := kinesissink.New(newMemory("unique", 1), "unique")
		must(t, err)
		outputs := records(n)
		for i := range outputs {
			outputs[i].PartitionKey, outputs[i].Aggregated = "one", i%3 > 0
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = sink.Send(t.Context(), outputs)
		runtime.ReadMemStats(&after)
		must(t, err)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	few, many := perRecord(600), perRecord(6000)
	t.Logf("%d and %d bytes a record", few, many)
	if many > 2*few {
		t.Errorf("a record takes %d bytes among 600 records, and %d among 6,000", few, many)
	}
}

// TestOrderOfKeys plays random records, faults and reshardings. All records are delivered, KCL reads them in the
// order of their keys, and all copies are counted.
func TestOrderOfKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := newStream(t, int32(rapid.IntRange(1, 4).Draw(r, "shards")))
		s.addRandomFaults(t, rapid.IntRange(0, 12).Draw(r, "faults"), rapid.Uint64().Draw(r, "seed of the faults"))
		sink := s.sink(t, kinesissink.WithAggregation(rapid.SampledFrom([]kinesissink.Aggregation{
			kinesissink.AggregateAuto, kinesissink.AggregateAlways, kinesissink.AggregateNever,
		}).Draw(r, "aggregation")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // Send does not give up
		defer cancel()
		outputs, repeated := randomOutputs(r), 0
		for some := range slices.Chunk(outputs, rapid.IntRange(100, 2000).Draw(r, "chunk")) {
			sent, err := sink.Send(ctx, some)
			repeated += sent.Repeated
			if err != nil || delivered(sent) != len(some) {
				r.Fatalf("delivered %d of %d: %v", delivered(sent), len(some), err)
			}
		}
		checkOrder(r, s.users(t, true), outputs)
		if copies := len(slices.Concat(s.users(t, false)...)) - len(outputs); copies > repeated {
			r.Errorf("%d copies, and only %d are counted", copies, repeated)
		}
	})
}

// randomOutputs makes records of some keys. Most are small, some do not fit into an aggregate.
func randomOutputs(r *rapid.T) []dedupe.Output {
	outputs := records(rapid.IntRange(1, 2000).Draw(r, "records"))
	keys := rapid.IntRange(1, 500).Draw(r, "keys")
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed of the records"), 0))
	for i := range outputs {
		o := &outputs[i]
		o.PartitionKey, o.Aggregated = fmt.Sprint("key-", random.IntN(keys)), random.IntN(5) > 0
		if random.IntN(10) == 0 {
			o.ExplicitHashKey = []string{"0", "1", highestHashKey}[random.IntN(3)]
		}
		if random.IntN(20) == 0 {
			o.Data = append(payload(i), make([]byte, random.IntN(60_000))...)
		}
	}
	return outputs
}

// addRandomFaults adds requests without effect, lost answers, shards that refuse a request, and reshardings.
func (s *stream) addRandomFaults(t *testing.T, faults int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	chance := func() bool {
		if faults == 0 || random.IntN(3) > 0 {
			return false
		}
		faults--
		return true
	}
	m := s.backend.(*memory)
	refuses := map[*shard]bool{}
	s.before = func(int) error {
		if chance() {
			m.reshard(t, random)
		}
		for _, shard := range m.shards {
			refuses[shard] = chance()
		}
		if chance() {
			return &types.InternalFailureException{}
		}
		return nil
	}
	s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool { return refuses[m.shardOf(r)] }
	s.answer = func(_ int, out *kinesis.PutRecordsOutput) (*kinesis.PutRecordsOutput, error) {
		if chance() {
			return nil, &types.InternalFailureException{}
		}
		return out, nil
	}
}

// reshard splits an open shard, or merges two.
func (m *memory) reshard(t *testing.T, random *rand.Rand) {
	var open []int // in the order of their hash keys
	for i, s := range m.shards {
		if !s.closed {
			open = append(open, i)
		}
	}
	slices.SortFunc(open, func(a, b int) int { return m.shards[a].first.Cmp(m.shards[b].first) })
	if i := random.IntN(len(open)); i > 0 && random.IntN(2) == 0 {
		m.merge(t, open[i-1], open[i])
	} else {
		m.split(t, open[i])
	}
}
