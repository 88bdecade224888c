package itembank

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A search reads oneByOne shards one after the other, then two, four and so on at a time, up to maxAtOnce. While
// items are left, the first reads find some, so reading more at a time would waste requests (docs/benchmarks.md). A
// proof that the bank is empty must be younger than a second, so it has to be fast. If the last search found nothing,
// the next one begins with maxAtOnce.
const (
	oneByOne  = 3
	maxAtOnce = 32
)

// maxReads limits the reads of a search: each shard once, and some again because other requests took the page or an
// item came back during the read.
const maxReads = maxShards + 64

// freeList is a Bank's knowledge of the free items of one campaign: pages of items to hand out, the shards that reads
// showed empty, and the shards that are throttled. A page serves many requests, so that a claim normally costs one
// call to the store. One request at a time reads the bank, for all requests that wait.
type freeList struct {
	bank *Bank

	claims atomic.Int64 // the claims that this Bank works on

	tester    turn      // of the requests that only test whether an item is free: one of them at a time waits for reader
	reader    turn      // of the request that reads the bank
	slow      slowness  // of the search of the reader
	size      bankSize  // only the reader uses it
	confirmed bool      // only the reader: the campaign was read after all shards were seen empty
	loads     loads     // only the reader
	wasEmpty  bool      // only the reader: the last search found nothing, or the container proves early
	cold      bool      // only the reader: no shard was read yet
	askAt     time.Time // only the reader: when it may read the campaign row again
	dueSought time.Time // only the reader: when it last looked for claims that are due

	mu        sync.Mutex // guards the rest
	pages     []*freePage
	empty     emptyShards
	throttled throttledShards

	chosenSought map[int]time.Time // by shard: when due claims of chosen items were last looked for
}

// loads says whether a load into the campaign was ever started. noLoads is valid only as long as the bank is known to
// be empty.
type loads int

const (
	loadsUnknown loads = iota
	noLoads
	hasLoads
)

func newFreeList(b *Bank) *freeList {
	return &freeList{
		bank: b, tester: make(turn, 1), reader: make(turn, 1), slow: slowness{begins: make(chan struct{})},
		cold: true, chosenSought: map[int]time.Time{},
	}
}

// turn holds a token while a request has the turn. Go serves waiting requests in order.
type turn chan struct{}

func (t turn) leave() { <-t }

// take waits for the turn.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowness tells the requests that wait for a search when the search needs more than one read.
type slowness struct {
	mu     sync.Mutex
	now    bool
	begins chan struct{} // closed, and replaced, when a search becomes slow
}

func (w *slowness) set(now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now && !w.now {
		close(w.begins)
		w.begins = make(chan struct{})
	}
	w.now = now
}

// slowRead is how long a request waits for the first read of another search, which may hang. A read takes about 10 ms.
const slowRead = 100 * time.Millisecond

// wait waits for the turn to search. A request that waits for a slow search reports it.
func (l *freeList) wait(ctx context.Context, s *search) error {
	l.slow.mu.Lock()
	slow, begins := l.slow.now, l.slow.begins
	l.slow.mu.Unlock()
	if !slow {
		select {
		case l.reader <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-begins:
		case <-time.After(slowRead):
		}
	}
	s.reportSlow()
	return l.reader.take(ctx)
}

// lookup is the result of a search.
type lookup struct {
	outcome   lookupOutcome
	candidate candidate // with itemFree, unless the search is only a test
	campaign  Campaign  // with the other outcomes: as it was just read
}

type lookupOutcome int

const (
	itemFree        lookupOutcome = iota // an item can be handed out
	nothingFree                          // the campaign is open, and all shards are empty
	nothingLoaded                        // as nothingFree, and no load was ever started
	campaignChanged                      // the campaign was closed
)

// find returns an item that can be handed out, from a page or by reading shards in a random order. It reads each
// shard that is not known to be empty, and then the campaign: if the campaign is not open, empty shards mean nothing.
func (l *freeList) find(ctx context.Context, c Campaign, s *search) (lookup, error) {
	if item, ok := l.pop(s, false); ok {
		return lookup{candidate: item}, nil
	}
	if s.anyItem { // so a claim waits for one test at most, however many there are
		if err := l.tester.take(ctx); err != nil {
			return lookup{}, err
		}
		defer l.tester.leave()
	}
	if err := l.wait(ctx, s); err != nil {
		return lookup{}, err
	}
	defer l.reader.leave()
	defer l.slow.set(false)
	for round := 1; s.reads < maxReads; round++ {
		if item, ok := l.pop(s, false); ok {
			return lookup{candidate: item}, nil
		}
		shards, calm, err := l.chooseShards(c, s, l.atOnce(round))
		if err != nil {
			return lookup{}, err
		}
		if !calm {
			if item, ok := l.pop(s, true); ok {
				return lookup{candidate: item}, nil
			}
		}
		slow := round > 1 || l.wasEmpty && len(shards) > 0
		l.slow.set(slow)
		switch {
		case len(shards) > 0:
			if slow {
				s.reportSlow()
			}
			if round > 1 && l.unknown(c, s) > minShardsToAsk && l.foundSoldOut(ctx, &c) {
				return lookup{outcome: nothingFree, campaign: c}, nil
			}
			found, err := l.readShards(ctx, c, shards, s)
			if err != nil || found && s.anyItem {
				return lookup{}, err
			}
		case len(s.failed) == 0:
			if !s.anyItem { // a test for any item never closes a claim
				l.closeDue(ctx, c)
			}
			if l.unknown(c, s) == 0 {
				return l.concludeEmpty(ctx, c, s)
			}
		default:
			if err := s.retryFailed(ctx, l.bank); err != nil {
				l.takeOutEnded(ctx, s)
				return lookup{}, err
			}
		}
	}
	return lookup{}, s.tooManyReads()
}

// atOnce returns how many shards are read at the same time in a round of a search.
func (l *freeList) atOnce(round int) int {
	if l.wasEmpty {
		return maxAtOnce
	}
	return min(1<<max(round-oneByOne, 0), maxAtOnce)
}

// chooseShards chooses up to n of the shards that are not known to be empty, at random. It leaves out shards whose
// read failed in this search. Throttled shards come last. calm reports whether any shard is not throttled.
func (l *freeList) chooseShards(c Campaign, s *search, n int) (shards []int, calm bool, err error) {
	unknown := slices.DeleteFunc(l.notKnownEmpty(c, s.started), func(shard int) bool { return s.failed[shard] != nil })
	if len(unknown) == 0 {
		return nil, false, nil
	}
	r, err := l.bank.generator()
	if err != nil {
		return nil, false, err
	}
	r.Shuffle(len(unknown), func(i, j int) { unknown[i], unknown[j] = unknown[j], unknown[i] })
	throttled := l.throttledNow()
	slices.SortStableFunc(unknown, func(x, y int) int {
		switch {
		case throttled[x] == throttled[y]:
			return 0
		case throttled[x]:
			return 1
		}
		return -1
	})
	return unknown[:min(n, len(unknown))], !throttled[unknown[0]], nil
}

// readShards reads shards at the same time. It makes a page from the items of each, and records which shards are
// empty.
func (l *freeList) readShards(ctx context.Context, c Campaign, shards []int, s *search) (found bool, err error) {
	s.reads += len(shards)
	budget := max(s.skipsLeft()/len(shards), 1)
	results := make([]shardResult, len(shards))
	var all sync.WaitGroup
	for i, n := range shards {
		r := &shardReader{
			list: l, campaign: c, shard: engine.Shard{Campaign: c.Name, Number: n}, size: l.size, claims: int(l.claims.Load()),
			skips: budget,
		}
		all.Go(func() { results[i] = r.read(ctx) })
	}
	all.Wait()
	for _, r := range results {
		s.skip(r.skipped, r.ended)
		switch {
		case r.err != nil && (!errors.Is(r.err, ErrTryAgain) || ctx.Err() != nil):
			err = r.err
			continue
		case r.err != nil: // throttled, slow or too many ended items: another shard may be better
			s.fail(r.read.shard, r.err)
			continue
		}
		if l.size = r.size; len(r.live) == 0 {
			l.setEmpty(r.read)
			continue
		}
		found, l.wasEmpty = true, false
		l.fill(r.read.shard, r.live, r.read.started)
	}
	if found {
		l.takeOutEnded(ctx, s)
	} else if l.cold && len(s.failed) == 0 {
		l.wasEmpty = l.provesEarly()
	}
	l.cold = false
	return found, err
}

// takeOutEnded removes from the bank the ended items that the search kept, once a search. If that fails, the request
// goes on: a later search finds the items again.
func (l *freeList) takeOutEnded(ctx context.Context, s *search) {
	if s.takenOut || len(s.ended) == 0 {
		return
	}
	s.takenOut = true
	_, _ = l.bank.store.EndItems(ctx, endRequests(s.ended, engine.Expired, l.bank.serverNow()))
}

// closeDue closes a few claims that are due, once a second, and forgets that the shards of their items were empty. It
// ignores errors: a failure of the index must not cost a customer the answer, and the sweeps find what it misses.
func (l *freeList) closeDue(ctx context.Context, c Campaign) {
	now := l.bank.clock.Now()
	if c.OnEnd == Return && elapsed(l.dueSought, now) >= emptyFor {
		l.dueSought = now
		_, _ = l.bank.closeDue(ctx, c, l.bank.serverNow())
	}
}

// concludeEmpty decides the result of a search when all shards are empty.
func (l *freeList) concludeEmpty(ctx context.Context, c Campaign, s *search) (lookup, error) {
	l.wasEmpty = true
	l.takeOutEnded(ctx, s)
	firstProof := !l.confirmed
	now, err := l.confirmCampaign(ctx, c)
	if err != nil {
		return lookup{}, err
	}
	if now.StateAt(l.bank.serverNow()) != Open {
		return lookup{outcome: campaignChanged, campaign: now}, nil
	}
	if firstProof {
		l.markSoldOut(ctx, now)
	}
	if s.anyItem {
		loads, err := l.readLoads(ctx, c)
		if err != nil || loads == noLoads {
			return lookup{outcome: nothingLoaded, campaign: now}, err
		}
	}
	return lookup{outcome: nothingFree, campaign: now}, nil
}

// confirmCampaign reads the campaign, once after the shards were seen empty. It remembers the result as long as the
// empty shards, so that a claim of a sold-out campaign costs only the read of the claimant's claim.
func (l *freeList) confirmCampaign(ctx context.Context, c Campaign) (Campaign, error) {
	if l.confirmed {
		return c, nil
	}
	now, err := l.bank.readCampaign(ctx, c.Name)
	if err != nil {
		return c, err
	}
	l.confirmed = true
	return now, nil
}

// readLoads reads whether a load was ever started. It keeps "yes" for good, and "no" as long as the empty shards.
func (l *freeList) readLoads(ctx context.Context, c Campaign) (loads, error) {
	if l.loads != loadsUnknown {
		return l.loads, nil
	}
	_, err := l.findLoads(ctx, c)
	return l.loads, err
}

// findLoads reads whether there are loads, and returns whether one of them is unfinished.
func (l *freeList) findLoads(ctx context.Context, c Campaign) (unfinished bool, err error) {
	some, rows, err := l.bank.store.Loads(ctx, c.Name)
	if err != nil {
		return false, err
	}
	if l.loads = noLoads; some {
		l.loads = hasLoads
	}
	return len(rows) > 0, nil
}
