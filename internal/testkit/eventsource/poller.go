package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// poller is one run of a mapping. It starts no goroutine. A driver ([Mapping.Run] or [Sim]) asks
// for its actions, performs those that are due, runs the invocations that they return, and reports
// how each invocation ended.
type poller struct {
	Mapping
	stream   dedupe.Stream
	now      func() time.Time
	newID    func() string
	shards   []*shard // parents before children
	unlisted bool     // there may be shards that the poller does not know
	tally    Tally
}

// Tally counts the records that neither the function nor a destination took.
type Tally struct {
	Dropped int // discarded without a destination, or refused by it
	Expired int // older than the retention of the stream before the mapping was done with them
}

// Invocation is one call of the function.
type Invocation struct {
	Number    int // in a Sim: 1, 2, ...
	Shard     string
	Records   []types.Record
	Attempt   int // 1, 2, ...; only attempts that use up retries count
	RequestID string
	Event     json.RawMessage
	Deadline  time.Time

	shard *shard
	lane  *lane
}

func newPoller(m Mapping, now func() time.Time, newID func() string) (*poller, error) {
	p := &poller{Mapping: m, now: now, newID: newID, unlisted: true}
	var err error
	p.stream, err = p.complete()
	return p, err
}

// action is a step of a poller that is due at a time. It may start an invocation.
type action struct {
	at time.Time
	do func(ctx context.Context) (*Invocation, error)
}

// actions returns all actions by time. After one of them is done, the others are out of date.
func (p *poller) actions() []action {
	if p.unlisted {
		return []action{{p.now(), func(ctx context.Context) (*Invocation, error) { return nil, p.list(ctx) }}}
	}
	var all []action
	for _, s := range p.shards {
		if !p.ready(s) {
			continue
		}
		if n := p.wants(s); n > 0 {
			all = append(all, action{s.readAt, func(ctx context.Context) (*Invocation, error) { return nil, p.read(ctx, s, n) }})
		}
		for i := range s.lanes {
			l := &s.lanes[i]
			start := func(ctx context.Context) (*Invocation, error) { return p.start(ctx, s, l), nil }
			switch {
			case l.busy:
			case len(l.work) > 0:
				all = append(all, action{l.retryAt, start})
			case len(l.queue) > 0:
				all = append(all, action{l.queue[0].read, start})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b action) int { return a.at.Compare(b.at) })
	return all
}

// drained reports whether all records are read and done.
func (p *poller) drained() bool {
	return !p.unlisted && !slices.ContainsFunc(p.shards, func(s *shard) bool {
		return len(s.order) > 0 || !s.ended && !s.drained
	})
}

// start returns the invocation for the next batch of a lane. Records that are too old are
// discarded first: "Lambda retries until the records expire, exceed the maximum age" or have no
// attempts left (Discarded). In that case it returns nil.
func (p *poller) start(ctx context.Context, s *shard, l *lane) *Invocation {
	if len(l.work) == 0 {
		n := nextBatch(l.queue, p.BatchSize)
		l.work, l.queue = []batch{{items: l.queue[:n:n]}}, l.queue[n:]
	}
	b, now := &l.work[0], p.now()
	if lost := outlived(b.items, p.Retention, now); lost > 0 {
		p.tally.Expired += lost
		p.pass(s, l, lost)
		return nil
	}
	if old := outlived(b.items, p.RecordAge, now); old > 0 {
		p.discard(ctx, s, b.items[:old], Discard{Condition: RecordAgeExceeded, Invocations: b.attempts, RequestID: p.newID()})
		p.pass(s, l, old)
		return nil
	}
	l.busy = true
	return &Invocation{
		Shard: s.id, Records: recordsOf(b.items), Attempt: b.attempts + 1, RequestID: p.newID(),
		Event: event(b.items), Deadline: now.Add(p.Timeout), shard: s, lane: l,
	}
}

// finish takes the result of an invocation.
func (p *poller) finish(ctx context.Context, inv *Invocation, answer json.RawMessage, err error) {
	s, l := inv.shard, inv.lane
	l.busy = false
	b := l.work[0]
	o := outcome{failed: true, err: err, throttled: errors.Is(err, errThrottled)}
	switch {
	case err != nil:
	case p.ReportBatchItemFailures:
		o = readAnswer(answer, b.items)
	default:
		o = outcome{delivered: len(b.items)}
	}
	v := p.decide(len(b.items), b.attempts, o)
	if v.discarded {
		p.discard(ctx, s, b.items, Discard{
			Condition: RetryAttemptsExhausted, Invocations: v.attempts, RequestID: inv.RequestID, Err: err,
		})
		p.pass(s, l, len(b.items))
	} else {
		p.pass(s, l, v.delivered)
		l.split(v)
	}
	if v.delivered > 0 || v.discarded {
		l.failures = 0
	}
	if o.failed && !v.discarded {
		l.failures++
		l.retryAt = p.now().Add(pause(p.RetryPause, l.failures))
	}
}

// pass marks the first n records of the first batch of a lane as done.
func (p *poller) pass(s *shard, l *lane, n int) {
	b := &l.work[0]
	for _, it := range b.items[:n] {
		it.done = true
	}
	b.items = b.items[n:]
	if len(b.items) == 0 {
		l.work = l.work[1:]
	}
	p.advance(s)
}

// split divides what remains of the first batch as the decision says.
func (l *lane) split(v decision) {
	if len(v.retry) == 0 {
		return
	}
	items := l.work[0].items
	var parts []batch
	for _, n := range v.retry {
		parts = append(parts, batch{items: items[:n:n], attempts: v.attempts})
		items = items[n:]
	}
	l.work = append(parts, l.work[1:]...)
}

// discard sends records to the destination, or counts them as lost.
func (p *poller) discard(ctx context.Context, s *shard, items []*item, d Discard) {
	if p.OnFailure != nil {
		d.FunctionARN, d.StreamARN, d.Shard = p.FunctionARN, p.StreamARN, s.id
		d.Records, d.Event, d.At, d.ObjectID = recordsOf(items), event(items), p.now(), p.newID()
		if p.OnFailure(ctx, d) == nil {
			return
		}
	}
	p.tally.Dropped += len(items)
}

func recordsOf(items []*item) []types.Record {
	records := make([]types.Record, len(items))
	for i, it := range items {
		records[i] = it.Record
	}
	return records
}
