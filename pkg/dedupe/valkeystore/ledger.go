package valkeystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Ledger implements dedupe.Ledger on servers of Valkey. It is safe for concurrent use.
type Ledger struct {
	servers  []*server // all servers of both lists, each once
	current  shards
	previous *shards // nil: there was no change
	since    int64   // when the servers change, in milliseconds since 1970
	timeout  time.Duration
	clock    func() time.Time
}

var _ interface {
	dedupe.Ledger
	dedupe.Warmer
} = (*Ledger)(nil)

// Open makes a Ledger. It does not connect: Warm or the first call connects.
func Open(o Options) (*Ledger, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	l := &Ledger{timeout: cmp.Or(o.Timeout, DefaultTimeout), clock: o.Now}
	if l.clock == nil {
		l.clock = time.Now
	}
	if o.Previous != nil {
		l.since = o.Since.UnixMilli()
	}
	known := map[string]*server{}
	l.current = l.shardsOf(o, o.Servers, known, func(s *server, p place) { s.now = &p })
	if o.Previous != nil {
		previous := l.shardsOf(o, *o.Previous, known, func(s *server, p place) { s.before = &p })
		l.previous = &previous
	}
	return l, nil
}

func (l *Ledger) shardsOf(o Options, list Servers, known map[string]*server, setPlace func(*server, place)) shards {
	all := shards{buckets: uint64(cmp.Or(list.Buckets, DefaultBuckets))}
	for i, address := range list.Addresses {
		s, ok := known[address]
		if !ok {
			s = &server{
				address: address, since: l.since, clock: l.clock, option: clientOption(o, address, l.timeout), source: enterScript,
			}
			known[address], l.servers = s, append(l.servers, s)
		}
		setPlace(s, place{Buckets: int(all.buckets), Servers: len(list.Addresses), Server: i + 1})
		all.servers = append(all.servers, s)
	}
	return all
}

func clientOption(o Options, address string, timeout time.Duration) valkey.ClientOption {
	option := valkey.ClientOption{
		InitAddress: []string{address}, TLSConfig: o.TLS, Dialer: net.Dialer{Timeout: timeout}, ConnWriteTimeout: timeout,
		DisableCache: true, DisableRetry: true, // the caller repeats with pauses
		ClientName: "oncebox",
	}
	if o.Credentials != nil {
		option.AuthCredentialsFn = func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			c, err := o.Credentials(ctx)
			return valkey.AuthCredentials{Username: c.User, Password: c.Password}, err
		}
	}
	return option
}

// Close closes the connections.
func (l *Ledger) Close() error {
	for _, s := range l.servers {
		s.mu.Lock()
		s.close()
		s.mu.Unlock()
	}
	return nil
}

// Warm connects to all servers, checks their settings and the scope's row on each, and loads the script.
func (l *Ledger) Warm(ctx context.Context, scope string, r dedupe.Retention) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	errs := make([]error, len(l.servers))
	var all sync.WaitGroup
	for i, s := range l.servers {
		all.Go(func() { _, errs[i] = s.prepare(ctx, scope, r) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ahead is how far an arrival may be ahead of the clock. With a clock that is wrong by years, rows would be kept for
// years.
const ahead = time.Hour

// Enter implements dedupe.Ledger. If a server fails, the records of the other servers still get their answers.
func (l *Ledger) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	if q.Retention.ForGood {
		return nil, errForGood
	}
	latest := l.clock().Add(ahead)
	answers := make([]dedupe.Answer, len(q.Records))
	records := make([]record, 0, len(q.Records))
	for i := range q.Records {
		c := &q.Records[i]
		switch {
		case c.Poison:
		case c.Arrival.After(latest):
			answers[i].Err = fmt.Errorf("%w: %v", errAhead, c.Arrival)
		default:
			records = append(records, recordOf(i, c))
		}
	}
	l.enter(ctx, q, records, answers)
	return answers, nil
}

func (l *Ledger) enter(ctx context.Context, q dedupe.Question, records []record, answers []dedupe.Answer) {
	in := func(to *shards) enterIn {
		return func(records []record, answers []dedupe.Answer) {
			ctx, cancel := context.WithTimeout(ctx, l.timeout)
			defer cancel()
			to.enter(ctx, q, records, answers)
		}
	}
	if l.previous == nil {
		in(&l.current)(records, answers)
		return
	}
	change{
		since: l.since, until: l.since + inMillis(q.Retention.Window), previous: in(l.previous), current: in(&l.current),
	}.enter(records, answers)
}
