package sinktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The cases of a dedupe.Processor with the sink under test.

var (
	stream = dedupe.Stream{Account: "123456789012", Region: "us-east-1", Name: "orders"}
	shard  = "shardId-000000000000"

	errLost = errors.New("sinktest: the reply is lost")
)

// letters is a dead-letter store in memory.
type letters struct {
	mu  sync.Mutex
	all map[string]dedupe.DeadLetter // by owner
}

func (l *letters) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, letter := range letters {
		l.all[letter.Owner] = letter
	}
	return len(letters), nil
}

// function is a Processor with the sink under test.
func (c *txCase) function(sink dedupe.TxSink) (*dedupe.Processor, *letters) {
	c.Helper()
	l := &letters{all: map[string]dedupe.DeadLetter{}}
	return c.processor(dedupe.Parts{Tx: sink, DeadLetters: l}), l
}

func (c *txCase) processor(parts dedupe.Parts) *dedupe.Processor {
	c.Helper()
	reader, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	if err != nil {
		c.Fatal(err)
	}
	parts.Format = reader
	p, err := dedupe.NewProcessor(parts, dedupe.Settings{
		Scope: c.scope, Retention: retention, Chunk: 10, Clock: dedupe.Clock{Now: func() time.Time { return epoch }},
	})
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// record returns the record with a number. The records have a few partition keys.
func (c *txCase) record(n int, id, fp string) dedupe.Record {
	return dedupe.Record{
		Sequence: fmt.Sprint(n), PartitionKey: fmt.Sprint("pk-", n%3), Data: c.Payload(id, fp),
		Arrival: epoch.Add(time.Duration(n) * time.Millisecond),
	}
}

// ids returns new ids.
func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = newName()
	}
	return all
}

func batchOf(records ...dedupe.Record) dedupe.Batch {
	return dedupe.Batch{Stream: stream, Shard: shard, Records: records}
}

// untilDone gives a batch to the function until all of it is done, as Lambda does.
func (c *txCase) untilDone(p *dedupe.Processor, b dedupe.Batch) {
	c.Helper()
	if c.batch != nil {
		b = c.batch(b)
	}
	var last error
	for range 100 {
		r := p.Process(c.Context(), b)
		if r.Err == nil {
			return
		}
		last, b.Records = r.Err, b.Records[r.Done:]
	}
	c.Fatalf("the batch does not get done: %v", last)
}

// processorOnce: a batch has copies and different records with one id, and comes twice.
func processorOnce(c *txCase) {
	p, _ := c.function(c.Sink)
	all := ids(30)
	var records []dedupe.Record
	for i, id := range all {
		records = append(records, c.record(3*i+1, id, "x"), c.record(3*i+2, id, "x"), c.record(3*i+3, id, "y"))
	}
	want := dedupe.Tally{In: 90, New: 30, Natural: 30, Synthetic: 30, Out: 60}
	if r := p.Process(c.Context(), batchOf(records...)); r.Err != nil || r.Tally != want {
		c.Errorf("want %+v, got %+v, %v", want, r.Tally, r.Err)
	}
	want = dedupe.Tally{In: 90, Retry: 60, Natural: 30}
	if r := p.Process(c.Context(), batchOf(records...)); r.Err != nil || r.Tally != want {
		c.Errorf("again: want %+v, got %+v, %v", want, r.Tally, r.Err)
	}
	for _, id := range all {
		c.wantEffects(id, 1)
		c.wantEffects(format.DerivedID(id, "y"), 1)
	}
}

// losing is a sink that loses some replies after the transaction, and some requests before it.
type losing struct {
	dedupe.TxSink
	mu    sync.Mutex
	calls int
}

func (s *losing) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	if call%5 == 2 {
		return dedupe.TxResult{}, errLost
	}
	result, err := s.TxSink.Transact(ctx, t)
	if call%3 == 1 {
		return dedupe.TxResult{}, errLost
	}
	return result, err
}

func processorLostReplies(c *txCase) {
	p, l := c.function(&losing{TxSink: c.Sink})
	all := ids(20)
	var records []dedupe.Record
	for i, id := range all {
		records = append(records, c.record(2*i+1, id, "x"), c.record(2*i+2, id, "x"))
	}
	c.untilDone(p, batchOf(records...))
	for _, id := range all {
		c.wantEffects(id, 1)
	}
	if len(l.all) > 0 {
		c.Errorf("%d dead letters", len(l.all))
	}
}

// processorSwitched: a function with a stream sink puts entries and fails. Then it gets the transactional sink, and the
// batch again: each effect happens once, and none is lost.
func processorSwitched(c *txCase) {
	all := ids(12)
	var records []dedupe.Record
	for i, id := range all {
		records = append(records, c.record(i+1, id, "x"))
	}
	down := dedupe.SinkFunc(func(context.Context, dedupe.Output) error { return errLost })
	before := c.processor(dedupe.Parts{
		Ledger: dedupe.ByKey(c.Entries), Sink: down, DeadLetters: &letters{all: map[string]dedupe.DeadLetter{}},
	})
	if r := before.Process(c.Context(), batchOf(records...)); r.Done != 0 || !errors.Is(r.Err, errLost) {
		c.Fatalf("got %+v", r)
	}
	p, _ := c.function(c.Sink)
	records = append(records, c.record(20, all[0], "x"), c.record(21, all[1], "x"))
	want := dedupe.Tally{In: 14, Retry: 10, New: 2, Natural: 2, Out: 12} // at least the chunk of the first ten was entered
	r := p.Process(c.Context(), batchOf(records...))
	if r.Err != nil || r.Tally.Out != want.Out || r.Tally.Natural != want.Natural || r.Tally.Retry < want.Retry {
		c.Errorf("want %+v, got %+v, %v", want, r.Tally, r.Err)
	}
	if r := p.Process(c.Context(), batchOf(records...)); r.Err != nil || r.Tally.Out != 0 {
		c.Errorf("again: got %+v, %v", r.Tally, r.Err)
	}
	for _, id := range all {
		c.wantEffects(id, 1)
	}
}

// processorRefused: if its effect is refused, only this record becomes a dead letter. Each record is its own
// transaction.
func processorRefused(c *txCase) {
	if c.Refused == nil {
		c.Skip("the sink refuses no effect")
	}
	p, l := c.function(c.Sink)
	all := ids(10)
	var records []dedupe.Record
	for i, id := range all {
		r := c.record(i+1, id, "x")
		r.PartitionKey = "pk"
		if i == 4 {
			r.Data = c.Refused(c.TB, id)
		}
		records = append(records, r)
	}
	want := dedupe.Tally{In: 10, New: 9, DeadLettered: 1, Out: 9}
	if r := p.Process(c.Context(), batchOf(records...)); r.Err != nil || r.Tally != want || len(l.all) != 1 {
		c.Errorf("want %+v, got %+v, %v", want, r.Tally, r.Err)
	}
	for i, id := range all {
		if i != 4 {
			c.wantEffects(id, 1)
		}
	}
}

// processorNameOutlives: while a record's derived entry counts, a copy of the record finds the entry of the id too.
func processorNameOutlives(c *txCase) {
	p, _ := c.function(c.Sink)
	arriving := func(n int, after time.Duration, fp string) dedupe.Record {
		r := c.record(n, c.id, fp)
		r.Arrival = epoch.Add(after)
		return r
	}
	late, copied := window, 2*window-time.Second // without a raise, the entry of the id is purged after window + horizon
	for _, r := range []dedupe.Record{arriving(1, 0, "x"), arriving(2, late, "y"), arriving(3, copied, "y")} {
		if got := p.Process(c.Context(), batchOf(r)); got.Err != nil {
			c.Fatal(got.Err)
		}
	}
	c.wantEffects(c.id, 1) // an effect of y would be the second one under this id
	c.wantEffects(format.DerivedID(c.id, "y"), 1)
	if r := p.Process(c.Context(), batchOf(arriving(4, copied, "y"))); r.Err != nil || r.Tally.Natural != 1 {
		c.Errorf("a copy: got %+v, %v", r.Tally, r.Err)
	}
}

// inOrder is a sink that checks the order of its transactions.
type inOrder struct {
	dedupe.TxSink
	mu      sync.Mutex
	keys    map[string]string // partition keys by id
	running map[string]bool   // partition keys
	ids     map[string][]string
	overlap bool
}

func (s *inOrder) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	s.mu.Lock()
	pk := s.keys[t.Output.ID]
	s.overlap = s.overlap || s.running[pk]
	s.running[pk] = true
	s.ids[pk] = append(s.ids[pk], t.Output.ID)
	s.mu.Unlock()
	runtime.Gosched() // so that others may begin meanwhile
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[pk] = false
	}()
	return s.TxSink.Transact(ctx, t)
}

// processorOrder: the effects of a partition key come one after the other, in the order of the stream.
func processorOrder(c *txCase) {
	watch := &inOrder{
		TxSink: c.Sink, keys: map[string]string{}, running: map[string]bool{}, ids: map[string][]string{},
	}
	p, _ := c.function(watch)
	var records []dedupe.Record
	want := map[string][]string{}
	for i, id := range ids(40) {
		r := c.record(i+1, id, "x")
		records = append(records, r)
		watch.keys[id] = r.PartitionKey
		want[r.PartitionKey] = append(want[r.PartitionKey], id)
	}
	c.untilDone(p, batchOf(records...))
	if watch.overlap {
		c.Error("two transactions of a partition key ran at the same time")
	}
	for pk, all := range want {
		if fmt.Sprint(all) != fmt.Sprint(watch.ids[pk]) {
			c.Errorf("%s: the order of the stream is %v, that of the transactions %v", pk, all, watch.ids[pk])
		}
	}
}
