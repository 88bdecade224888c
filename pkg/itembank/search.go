package itembank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Items that have ended stay in the bank until a request or a sweep takes them out. A search that meets only such items
// goes past them in large reads and takes a few out: to read an item costs a hundredth of what it costs to end it.
// Sweep takes out all of them.
const (
	// maxSkipped is how many ended items a search goes past. Then it gives up with
	// ErrTryAgain, since items that have not ended may be behind them. These are at most
	// 20 reads beyond four a shard, which is about what proves a bank empty, and 600
	// read units at 120 bytes a row. The next request begins at another place.
	maxSkipped = 20 * listPage

	// maxEnded is how many of them a search takes out, for 4 write units each: a claimant
	// should not pay for the cleaning.
	maxEnded = 5
)

var errTooManyEnded = fmt.Errorf("%w: the bank is full of ended items; sweep it", ErrTryAgain)

// maxRetries is how many times a search reads shards again whose read failed. The first
// retries follow within a tenth of a second.
const maxRetries = 4

// search is one request's search for a free item. A request may call find several
// times with it.
type search struct {
	started  time.Time         // when the request began
	anyItem  bool              // the request asks only whether there is a free item
	slow     func()            // called when a search needs more than one read; nil: not wanted
	reads    int               // of shards
	failed   map[int]error     // shards whose read failed
	retries  int               // of failed reads
	skipped  int               // ended items that the search went past
	ended    []engine.FreeItem // some of them, to be taken out of the bank
	takenOut bool              // that was done
}

// isSlow says that the search needs more than one read, or waits for another search.
func (s *search) isSlow() {
	if s.slow != nil {
		s.slow()
	}
}

// skipsLeft is how many more ended items the search may go past.
func (s *search) skipsLeft() int { return maxSkipped - s.skipped }

// skip counts ended items and keeps some of them. A scan can meet an item twice; a
// transaction must name it once.
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

// fail notes a shard whose read failed. The search goes on with the others.
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

// retryFailed waits, so that the shards whose read failed are read again. Only they are left.
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
