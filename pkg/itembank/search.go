package itembank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Items that have ended stay in the bank until a request or a sweep takes them out. If a search finds only such
// items, it reads on in large pages, and takes a few of them out. Reading an item costs a hundredth of ending it.
// Sweep takes out all of them.
const (
	// maxSkipped is how many ended items a search reads past. Then it gives up with ErrTryAgain, because items that
	// have not ended may follow. Besides four reads a shard, this takes at most 20 reads, about as many as prove a
	// bank empty, and 600 read units at 120 bytes a row. The next request begins at another place.
	maxSkipped = 20 * listPage

	// maxEnded is how many ended items a search takes out, at 4 write units each. It is small, because a claimant
	// waits for it.
	maxEnded = 5
)

var errTooManyEnded = fmt.Errorf("%w: the bank is full of ended items; sweep it", ErrTryAgain)

// maxRetries is how many times a search repeats failed reads of shards, and a claim a throttled read of the rules. The
// first retries follow within a tenth of a second.
const maxRetries = 4

// search is one request's search for a free item. A request may call find several times with it.
type search struct {
	started  time.Time         // when the request began
	anyItem  bool              // the search only tests whether any item is free
	onSlow   func()            // called if the search, or the one that it waits for, needs more than one read; may be nil
	reads    int               // of shards
	failed   map[int]error     // shards whose read failed
	retries  int               // of failed reads
	skipped  int               // ended items that the search read past
	ended    []engine.FreeItem // some of them, to take out of the bank
	takenOut bool              // the ended items were taken out
}

// reportSlow is called when the search, or the one that it waits for, needs more than one read.
func (s *search) reportSlow() {
	if s.onSlow != nil {
		s.onSlow()
	}
}

// skipsLeft is how many more ended items the search may read past.
func (s *search) skipsLeft() int { return maxSkipped - s.skipped }

// skip counts ended items and keeps some of them. It keeps each item once, because a scan can find an item twice and
// a transaction must not name it twice.
func (s *search) skip(count int, ended []engine.FreeItem) {
	s.skipped += count
	for _, item := range ended {
		if len(s.ended) == maxEnded {
			return
		}
		if !slices.ContainsFunc(s.ended, func(o engine.FreeItem) bool { return o.Hash == item.Hash }) {
			s.ended = append(s.ended, item)
		}
	}
}

// fail records a shard whose read failed. The search goes on with the others.
func (s *search) fail(shard int, err error) {
	if s.failed == nil {
		s.failed = map[int]error{}
	}
	s.failed[shard] = err
}

// tooManyReads says why the search gives up: because reads failed, or because items came and went.
func (s *search) tooManyReads() error {
	for _, err := range s.failed {
		return err
	}
	return fmt.Errorf("%w: the bank changed faster than it could be read", ErrTryAgain)
}

// retryFailed waits before the failed shards are read again. No other shards are left to read.
func (s *search) retryFailed(ctx context.Context, b *Bank) error {
	var first error
	for _, err := range s.failed {
		if first = err; errors.Is(err, errTooManyEnded) {
			return err
		}
	}
	if s.retries == maxRetries {
		return first
	}
	s.retries++
	s.failed = nil
	return b.backOff(ctx, s.retries, maxRetries+1, "a shard could not be read")
}
