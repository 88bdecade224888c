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

// poller is one run of a mapping: what it has read, and what of that is under way.
// It does nothing by itself and knows no goroutines: a driver ([Mapping.Run], [Sim])
// asks for its actions, does those that are due, runs the invocations that come of
// them, and says how each ended.
type poller struct {
	Mapping
	stream   dedupe.Stream
	now      func() time.Time
	newID    func() string
	shards   []*shard // parents before children
	unlisted bool     // there may be shards that are not known yet
	tally    Tally
}

// Tally counts records that neither the function nor a destination has taken.
type Tally struct {
	Dropped int // given up, without a destination or refused by it
	Expired int // outlived the stream's retention in the mapping's hands
}

// Invocation is one call of the function.
type Invocation struct {
	Number    int // in a Sim: 1, 2, ...
	Shard     string
	Records   []types.Record
	Attempt   int // of these records that counts: 1, 2, ...
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

// action is something that a poller is going to do at a time, if nothing else
// happens. It may start an invocation.
type action struct {
	at time.Time
	do func(ctx context.Context) (*Invocation, error)
}

// actions returns all of them, by time. They are out of date once one is done.
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
				all = append(all, action{due(l.queue, p.BatchSize, p.BatchWindow, s.ended), start})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b action) int { return a.at.Compare(b.at) })
	return all
}

// drained tells whether all there is was read and is done.
func (p *poller) drained() bool {
	return !p.unlisted && !slices.ContainsFunc(p.shards, func(s *shard) bool {
		return len(s.order) > 0 || !s.ended && !s.drained
	})
}

// start takes a lane's next batch to the function, without what is too old: "Lambda
// retries until the records expire, exceed the maximum age" or are tried too often
// (Discarded). Nothing starts if nothing is left.
func (p *poller) start(ctx context.Context, s *shard, l *lane) *Invocation {
	if len(l.work) == 0 {
		n, _ := cut(l.queue, p.BatchSize)
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

// finish takes an invocation's end.
func (p *poller) finish(ctx context.Context, inv *Invocation, answer json.RawMessage, err error) {
	s, l := inv.shard, inv.lane
	l.busy = false
	b := l.work[0]
	o := outcome{failed: true, err: err, throttled: errors.Is(err, ErrThrottled)}
	switch {
	case err != nil:
	case p.ReportBatchItemFailures:
		o = readAnswer(answer, b.items)
	default:
		o = outcome{delivered: len(b.items)}
	}
	v := judge(len(b.items), b.attempts, o, p.Bisect, *p.Retries)
	if v.givenUp {
		p.discard(ctx, s, b.items, Discard{
			Condition: RetryAttemptsExhausted, Invocations: v.attempts, RequestID: inv.RequestID, Err: err,
		})
		p.pass(s, l, len(b.items))
	} else {
		p.pass(s, l, v.delivered)
		l.split(v)
	}
	if v.delivered > 0 || v.givenUp {
		l.failures = 0
	}
	if o.failed && !v.givenUp {
		l.failures++
		l.retryAt = p.now().Add(pause(p.RetryPause, l.failures))
	}
}

// pass puts the first n records of a lane's work behind the mapping.
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

// split makes the batches of a verdict of what is left of the first one.
func (l *lane) split(v verdict) {
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

// discard gives records up.
func (p *poller) discard(ctx context.Context, s *shard, items []*item, d Discard) {
	if p.OnFailure != nil {
		d.Mapping, d.FunctionARN, d.StreamARN, d.Shard = p.UUID, p.FunctionARN, p.StreamARN, s.id
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
