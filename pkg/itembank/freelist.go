package itembank

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// maxReads limits how many shards a search reads: each shard once, and some again,
// because other requests took the page or an item came back during the read.
const maxReads = maxShards + 64

var errReadsExceeded = fmt.Errorf("%w: the bank changed faster than it could be read", ErrTryAgain)

// Items that have ended stay in the bank until a request takes them out. A search that
// meets only such items goes past them in large reads and takes a few out: to read an
// item costs a hundredth of what it costs to end it. Sweep takes out all of them.
const (
	// maxSkipped is how many ended items a request goes past. Then it gives up with
	// ErrTryAgain, since items that have not ended may be behind them. These are at most
	// 20 reads beyond four a shard, which is about what proves a bank empty, and 600
	// read units at 120 bytes a row. The next request begins at another place.
	maxSkipped = 20 * listPage

	// maxEnded is how many of them a request takes out: one transaction. A claimant
	// should not wait for the cleaning.
	maxEnded = engine.MaxAddItems
)

var errTooManyEnded = fmt.Errorf("%w: the bank is full of ended items; sweep it", ErrTryAgain)

// freeList is what a Bank knows about the free items of one campaign: a page of
// items to hand out, and which shards it saw empty. A page serves many requests, so
// that normally a claim costs one call to the store. One request at a time reads the
// bank, for all requests that wait.
type freeList struct {
	bank *Bank

	reader    chan struct{} // holds a token while a request reads the bank
	size      bankSize      // of the reader
	confirmed bool          // of the reader: the campaign was read after all shards were seen empty
	loads     loads         // of the reader

	mu    sync.Mutex // guards the rest
	page  page
	empty emptyShards
}

// loads says whether a load into the campaign was ever started. That none was is
// known only as long as the bank is known to be empty.
type loads int

const (
	loadsUnknown loads = iota
	noLoads
	hasLoads
)

func newFreeList(b *Bank) *freeList {
	return &freeList{bank: b, reader: make(chan struct{}, 1)}
}

// search is one request's search for a free item. A request may call find several
// times with it.
type search struct {
	started  time.Time         // when the request began
	anyItem  bool              // the request asks only whether there is a free item
	skipped  int               // ended items that the search went past
	ended    []engine.FreeItem // some of them, to be taken out of the bank
	takenOut bool              // that was done
}

// lookup says what a search found.
type lookup struct {
	outcome   lookupOutcome
	candidate candidate // with itemFree, unless the search asks only whether there is one
	campaign  Campaign  // with the other outcomes: as it is now
}

type lookupOutcome int

const (
	itemFree        lookupOutcome = iota // an item can be handed out
	nothingFree                          // the campaign is open, and all shards are empty
	nothingLoaded                        // as nothingFree, and no load was ever started
	campaignChanged                      // the campaign was closed
)

// find returns an item that can be handed out, from the page or by reading shards in
// a random order. It reads each shard that is not known to be empty, and then the
// campaign: empty shards of a campaign that is not open say nothing.
func (l *freeList) find(ctx context.Context, c Campaign, s *search) (lookup, error) {
	if item, ok := l.pop(s); ok {
		return lookup{candidate: item}, nil
	}
	select {
	case l.reader <- struct{}{}:
		defer func() { <-l.reader }()
	case <-ctx.Done():
		return lookup{}, ctx.Err()
	}
	for range maxReads {
		if item, ok := l.pop(s); ok {
			return lookup{candidate: item}, nil
		}
		shard, ok, err := l.chooseShard(c, s)
		if err != nil {
			return lookup{}, err
		}
		if !ok {
			return l.concludeEmpty(ctx, c, s)
		}
		found, err := l.readShard(ctx, c, shard, s)
		if err != nil {
			return lookup{}, err
		}
		if found && s.anyItem {
			return lookup{}, nil
		}
	}
	return lookup{}, errReadsExceeded
}

// chooseShard chooses one of the shards that are not known to be empty.
func (l *freeList) chooseShard(c Campaign, s *search) (shard engine.Shard, ok bool, err error) {
	unknown := l.notKnownEmpty(c, s.started)
	if len(unknown) == 0 {
		return engine.Shard{}, false, nil
	}
	r, err := l.bank.generator()
	if err != nil {
		return engine.Shard{}, false, err
	}
	return engine.Shard{Campaign: c.Name, Number: unknown[r.IntN(len(unknown))]}, true, nil
}

// readShard reads items of the shard, and goes on while all of them have ended. It
// fills the page with the others. found = false: the shard is empty.
func (l *freeList) readShard(ctx context.Context, c Campaign, shard engine.Shard, s *search) (found bool, err error) {
	read := l.startRead(shard)
	scan, items, err := l.firstItems(ctx, c, shard, s)
	if err != nil {
		return false, err
	}
	live, err := l.skipEnded(ctx, scan, items, read.started, s)
	switch {
	case err != nil:
		return false, err
	case len(live) == 0:
		l.setEmpty(read)
		return false, nil
	case s.anyItem:
		return true, nil
	}
	if err := l.bank.shuffle(live); err != nil {
		return false, err
	}
	l.fill(live, read.started)
	return true, nil
}

// firstItems begins to read a shard.
func (l *freeList) firstItems(
	ctx context.Context, c Campaign, shard engine.Shard, s *search,
) (*shardScan, []engine.FreeItem, error) {
	switch {
	case s.anyItem:
		return l.readOne(ctx, shard)
	case l.size.smallShards(c):
		return l.readWhole(ctx, c, shard)
	}
	return l.readPart(ctx, c, shard)
}

// readPart reads a page from a random place of the shard to its end, and then from
// its beginning to that place, so that Banks rarely read the same items.
func (l *freeList) readPart(
	ctx context.Context, c Campaign, shard engine.Shard,
) (*shardScan, []engine.FreeItem, error) {
	place, err := l.bank.randomHash()
	if err != nil {
		return nil, nil, err
	}
	scan, limit := scanFrom(shard, place), l.size.pageSize(c)
	items, err := scan.next(ctx, l.bank.store, limit)
	if err != nil {
		return nil, nil, err
	}
	if len(scan.left) == 1 && len(items) < limit { // a full page leaves the beginning unread
		beginning, err := scan.next(ctx, l.bank.store, limit-len(items))
		if err != nil {
			return nil, nil, err
		}
		items = append(items, beginning...)
	}
	if scan.done() {
		l.size.measureWhole(c, items)
	} else {
		l.size.measure(c, items, place)
	}
	return scan, items, nil
}

// readWhole reads a shard that is estimated to hold little, in one request instead of
// two. If it holds more, this page begins where those of other Banks begin, and the
// new estimate prevents another such page.
func (l *freeList) readWhole(
	ctx context.Context, c Campaign, shard engine.Shard,
) (*shardScan, []engine.FreeItem, error) {
	scan := scanAll(shard)
	items, err := scan.next(ctx, l.bank.store, l.size.wholeLimit(c))
	if err != nil {
		return nil, nil, err
	}
	if scan.done() {
		l.size.measureWhole(c, items)
	} else {
		l.size.measure(c, items, engine.Hash{})
	}
	return scan, items, nil
}

// readOne reads one item of the shard. If that one has ended, the scan goes on at a
// random place.
func (l *freeList) readOne(ctx context.Context, shard engine.Shard) (*shardScan, []engine.FreeItem, error) {
	scan := scanAll(shard)
	items, err := scan.next(ctx, l.bank.store, 1)
	if err != nil || scan.done() {
		return scan, items, err
	}
	place, err := l.bank.randomHash()
	if err != nil {
		return nil, nil, err
	}
	return scanFrom(shard, place), items, nil
}

// skipEnded returns the items that have not ended. While there are none it goes on
// with the scan. After an error the rest of the shard is not known to be empty.
func (l *freeList) skipEnded(
	ctx context.Context, scan *shardScan, items []engine.FreeItem, now time.Time, s *search,
) ([]engine.FreeItem, error) {
	for {
		live, ended := splitEnded(items, now)
		if len(live) > 0 {
			return live, l.takeOutEnded(ctx, s)
		}
		s.skip(ended)
		if scan.done() {
			return nil, nil
		}
		if s.skipped >= maxSkipped {
			if err := l.takeOutEnded(ctx, s); err != nil {
				return nil, err
			}
			return nil, errTooManyEnded
		}
		var err error
		if items, err = scan.next(ctx, l.bank.store, listPage); err != nil {
			return nil, err
		}
	}
}

// skip counts ended items and keeps some of them. A scan can meet an item twice; a
// transaction must name it once.
func (s *search) skip(ended []engine.FreeItem) {
	s.skipped += max(len(ended), 1) // a page may be empty and not the last
	for _, item := range ended {
		if len(s.ended) == maxEnded {
			return
		}
		if !slices.ContainsFunc(s.ended, func(o engine.FreeItem) bool { return o.Hash == item.Hash }) {
			s.ended = append(s.ended, item)
		}
	}
}

// takeOutEnded takes the ended items that the search kept out of the bank, once a
// search. Items that others took out first, or whose item row is missing, do not
// concern the request. It does not wait for busy rows either.
func (l *freeList) takeOutEnded(ctx context.Context, s *search) error {
	if s.takenOut {
		return nil
	}
	for open := endRequests(s.ended, engine.Expired, l.bank.now()); len(open) > 0; {
		s.takenOut = true
		results, err := l.bank.store.EndItems(ctx, open)
		if err != nil {
			return err
		}
		var rest []engine.EndRequest
		for i, r := range results {
			if r == engine.EndUnsettled { // because of another item of the transaction
				rest = append(rest, open[i])
			}
		}
		if len(rest) == len(open) {
			return nil
		}
		open = rest
	}
	return nil
}

// concludeEmpty decides what it means that all shards are empty.
func (l *freeList) concludeEmpty(ctx context.Context, c Campaign, s *search) (lookup, error) {
	if err := l.takeOutEnded(ctx, s); err != nil {
		return lookup{}, err
	}
	now, err := l.confirmCampaign(ctx, c)
	if err != nil {
		return lookup{}, err
	}
	if now.StateAt(l.bank.clock.Now()) != Open {
		return lookup{outcome: campaignChanged, campaign: now}, nil
	}
	if s.anyItem {
		loads, err := l.readLoads(ctx, c)
		if err != nil || loads == noLoads {
			return lookup{outcome: nothingLoaded, campaign: now}, err
		}
	}
	return lookup{outcome: nothingFree, campaign: now}, nil
}

// confirmCampaign reads the campaign, once after the shards were seen empty. The
// result is remembered with the empty shards, so that a sold-out campaign costs a
// claimant one read of the claim.
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

// readLoads asks whether a load was ever started. That one was stays true. That none
// was is remembered with the empty shards.
func (l *freeList) readLoads(ctx context.Context, c Campaign) (loads, error) {
	if l.loads != loadsUnknown {
		return l.loads, nil
	}
	found, err := l.bank.store.Loaded(ctx, c.Name)
	if err != nil {
		return loadsUnknown, err
	}
	if l.loads = noLoads; found {
		l.loads = hasLoads
	}
	return l.loads, nil
}
