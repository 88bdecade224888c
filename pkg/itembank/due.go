package itembank

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Limits of closeDue. A customer waits for it.
const (
	maxDueShards = 16                     // shards whose index is read, once a second in each container
	maxDueCloses = 8                      // claims that are tried
	maxDueTime   = 100 * time.Millisecond // after this time no further claim is closed, if one was closed
	dueSample    = 64                     // claims of the index to choose from
)

// closeDue closes a few of the campaign's claims that ended more than endGrace before now, and returns their number.
// It reads the index of some random shards.
//
// It chooses at random among the claims that are due, for two reasons: other Banks close claims at the same time, and
// claims whose rows contradict each other are not closed and must not block the others.
//
// It returns the errors of the store. It skips claims that another request changed, that are busy, or whose rows
// contradict each other.
func (b *Bank) closeDue(ctx context.Context, c Campaign, now time.Time) (closed int, err error) {
	if !c.claimsEnd() {
		return 0, nil
	}
	random, err := b.generator()
	if err != nil {
		return 0, err
	}
	return b.closeDueIn(ctx, c, random.Perm(c.Shards)[:min(c.Shards, maxDueShards)], now)
}

// closeDueIn does the same in the given shards.
func (b *Bank) closeDueIn(ctx context.Context, c Campaign, shards []int, now time.Time) (closed int, err error) {
	started := b.clock.Now()
	due, err := b.sampleDue(ctx, shards, c, wholeMillis(now.Add(-endGrace)))
	if err != nil {
		return 0, err
	}
	for _, claim := range due {
		if closed > 0 && elapsed(started, b.clock.Now()) > maxDueTime {
			break
		}
		released, busy, err := b.closeDueClaim(ctx, c, claim, now)
		switch {
		case errors.Is(err, ErrInconsistent), busy:
		case err != nil:
			return closed, err
		case !released.Already:
			closed++
		}
	}
	return closed, nil
}

// sampleDue returns up to maxDueCloses claims that ended before a time, chosen at random from the index of some
// shards. If a shard has more claims than one read returns, it also reads claims from a random moment onward.
func (b *Bank) sampleDue(ctx context.Context, shards []int, c Campaign, before time.Time) ([]engine.DueClaim, error) {
	random, err := b.generator()
	if err != nil {
		return nil, err
	}
	due, crowded, err := b.firstDue(ctx, shards, c, before)
	if err != nil {
		return nil, err
	}
	if crowded != nil {
		after := randomMoment(random, crowded.first[len(crowded.first)-1].EndsAt, before)
		later, err := b.store.DueClaims(ctx, crowded.shard, after, before, dueSample)
		if err != nil {
			return nil, err
		}
		due = append(due, later.Claims...)
		if len(later.Claims) < maxDueCloses { // the random moment was near or after the last claim
			due = append(due, crowded.first...)
		}
	}
	random.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	return due[:min(len(due), maxDueCloses)], nil
}

// crowdedShard is a shard that has more due claims than one read returned.
type crowdedShard struct {
	shard engine.Shard
	first []engine.DueClaim // the claims that were read
}

// firstDue reads the first due claims of several shards at the same time. crowded is a shard that has more, or nil.
// due does not include the claims of crowded, because its first ones may be claims that cannot be closed.
func (b *Bank) firstDue(
	ctx context.Context, shards []int, c Campaign, before time.Time,
) (due []engine.DueClaim, crowded *crowdedShard, err error) {
	pages, errs := make([]engine.DuePage, len(shards)), make([]error, len(shards))
	var all sync.WaitGroup
	for i, n := range shards {
		all.Go(func() {
			shard := engine.Shard{Campaign: c.Name, Number: n}
			pages[i], errs[i] = b.store.DueClaims(ctx, shard, time.Time{}, before, dueSample)
		})
	}
	all.Wait()
	if !slices.Contains(errs, nil) { // a failure of one shard does not hide the others
		return nil, nil, errs[0]
	}
	for i, page := range pages {
		if page.More && crowded == nil {
			crowded = &crowdedShard{engine.Shard{Campaign: c.Name, Number: shards[i]}, page.Claims}
			continue
		}
		due = append(due, page.Claims...)
	}
	return due, crowded, nil
}

// randomMoment returns a random moment between from and to. In half of the calls all moments are equally likely. In
// the other half all orders of magnitude of the time since from are, so that claims that ended together long ago are
// found too.
func randomMoment(random *rand.Rand, from, to time.Time) time.Time {
	span := to.Sub(from).Milliseconds()
	after := random.Int64N(span)
	if random.IntN(2) == 0 {
		after = int64(math.Pow(float64(span), random.Float64()))
	}
	return from.Add(time.Duration(after) * time.Millisecond)
}

// closeDueClaim closes a claim that the index names. The index is only a hint: an entry may be older than a
// confirmation, or than the next claim of its claimant. So the claim row is read, and the transaction tests its id
// and its end. An eventually consistent read is enough for that. It tries once; busy is as in closeOnce.
func (b *Bank) closeDueClaim(
	ctx context.Context, c Campaign, due engine.DueClaim, now time.Time,
) (done closedClaim, busy bool, err error) {
	held, err := b.latestClaim(ctx, due.ClaimKey)
	if err != nil {
		return closedClaim{}, false, err
	}
	if held == nil || held.Campaign != c.Name || !closable(*held, now) {
		return alreadyClosed(), false, nil
	}
	return b.closeOnce(ctx, c, *held, endedTerms(now))
}

// SweepDue closes the campaign's claims that ended more than 10 seconds ago, as Sweep does. It reads only these
// claims: it finds them through an index. Run it every few minutes if claims end and items return.
//
// It does not end free items; Sweep does. progress may be nil; it gets the number of claims that were tried. SweepDue is
// safe to repeat, to interrupt, and to run several times at once.
//
// A claim whose rows contradict each other stays as it is, as in Sweep.
//
// Errors: *InvalidError, ErrNoCampaign, ErrMoved, ErrRestored, ErrTryAgain, the family ErrInconsistent. After an error
// the report has the results up to then.
func (b *Bank) SweepDue(ctx context.Context, campaign string, progress Progress) (SweepReport, error) {
	s := sweep{bank: b, count: counter(progress)}
	c, err := b.unmarkedCampaign(ctx, campaign)
	if err != nil || !c.claimsEnd() {
		return s.report, err
	}
	random, err := b.generator()
	if err != nil {
		return s.report, err
	}
	var all errgroup.Group // without a context: after an error in one shard, the others are still swept
	all.SetLimit(sweptAtOnce)
	// The order is random, so that sweeps that are interrupted again and again still reach all shards.
	for _, n := range random.Perm(c.Shards) {
		all.Go(func() error { return s.dueClaims(ctx, c, engine.Shard{Campaign: c.Name, Number: n}) })
	}
	if err := all.Wait(); err != nil {
		return s.report, s.skipped.addTo(err)
	}
	return s.report, s.skipped.err()
}

// SweepDue sweeps up to sweptAtOnce shards at a time, and closes up to closedAtOnce claims of each. The lanes of the Bank
// limit all of them together. Many shards with few closes each spread the writes over the partitions of the table. If a
// close takes 30 ms, closedAtOnce takes half of the 500 transactions a second of one partition key, and leaves the other
// half to claims.
const (
	sweptAtOnce  = maxLanes
	closedAtOnce = 8
)

// dueClaims closes the due claims of a shard.
func (s *sweep) dueClaims(ctx context.Context, c Campaign, shard engine.Shard) error {
	for after := (time.Time{}); ; {
		now := s.bank.serverNow()
		page, err := untilServed(ctx, s.bank, "the index of due claims", func() (engine.DuePage, bool, error) {
			page, err := s.bank.store.DueClaims(ctx, shard, after, now.Add(-endGrace), listPage)
			if errors.Is(err, engine.ErrThrottled) {
				return page, true, nil
			}
			return page, false, err
		})
		if err != nil {
			return err
		}
		due, next := completeEnds(page)
		if err := s.closePage(ctx, c, due, now); err != nil || !page.More {
			return err
		}
		after = next
	}
}

// closePage closes due claims, several at a time. After an error it begins no further ones.
func (s *sweep) closePage(ctx context.Context, c Campaign, due []engine.DueClaim, now time.Time) error {
	var closes errgroup.Group // without a context: closes that are at work end, and are counted
	var failed atomic.Bool
	closes.SetLimit(closedAtOnce)
	for _, claim := range due {
		if failed.Load() {
			break
		}
		closes.Go(func() error {
			err := s.bank.pace(ctx, 1)
			if err == nil {
				err = s.dueClosed(s.closeWhenFree(ctx, c, claim, now))
			}
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return closes.Wait()
}

// maxThrottles is how many times in a row a sweep is throttled before it gives up. It waits 0.2 s on average between two
// tries, and meanwhile has so few lanes that throttles are rare, unless claims need all of the capacity.
const maxThrottles = 16

// closeWhenFree closes a claim, and tries again while its rows are busy or throttled. It waits outside of a lane. While
// they are throttled it waits longer than a claim does, and more often.
func (s *sweep) closeWhenFree(ctx context.Context, c Campaign, claim engine.DueClaim, now time.Time) (closedClaim, error) {
	b := s.bank
	return untilServed(ctx, b, "the rows of a claim", func() (closedClaim, bool, error) {
		closed, err := whileBusy(ctx, b, rowsBusy, func() (closed closedClaim, busy bool, err error) {
			closed, busy, err = s.closeInLane(ctx, c, claim, now)
			return closed, busy && !closed.throttled, err
		})
		return closed, closed.throttled, err
	})
}

// untilServed calls try until it is not throttled.
func untilServed[T any](ctx context.Context, b *Bank, what string, try func() (result T, throttled bool, err error)) (T, error) {
	var none T
	for throttles := 0; ; throttles++ {
		result, throttled, err := try()
		if err != nil || !throttled {
			return result, err
		}
		if throttles == maxThrottles {
			return none, fmt.Errorf("%w: %d times %s", engine.ErrThrottled, throttles+1, what)
		}
		wait, err := b.randomDuration(longestWait)
		if err == nil {
			err = b.clock.Sleep(ctx, wait)
		}
		if err != nil {
			return none, err
		}
	}
}

// closeInLane tries once to close a claim, in a lane. busy is as in closeOnce.
func (s *sweep) closeInLane(
	ctx context.Context, c Campaign, claim engine.DueClaim, now time.Time,
) (closed closedClaim, busy bool, err error) {
	b := s.bank
	if err := b.lanes.enter(ctx); err != nil {
		return closedClaim{}, false, err
	}
	defer func() { b.lanes.leave(closed.throttled) }()
	err = b.notMarked(ctx, c.Name) // it may be marked during a long sweep
	if err == nil {
		closed, busy, err = b.closeDueClaim(ctx, c, claim, now)
	}
	if errors.Is(err, engine.ErrThrottled) {
		return closedClaim{throttled: true}, true, nil
	}
	return closed, busy, err
}

// dueClosed records the result of closing a claim. Several closes call it at the same time.
func (s *sweep) dueClosed(released closedClaim, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(1)
	return s.closed(released, err)
}

// completeEnds returns the claims of a page up to next, the end at which the next page begins. The last end of a page
// may have further claims, so the next page begins there. If all claims of a page have one end, the next page begins
// after it: a shard never has a page of claims in one millisecond.
func completeEnds(page engine.DuePage) (due []engine.DueClaim, next time.Time) {
	due = page.Claims
	if !page.More {
		return due, time.Time{}
	}
	next = due[len(due)-1].EndsAt
	for n := len(due); n > 0; n-- {
		if due[n-1].EndsAt.Before(next) {
			return due[:n], next
		}
	}
	return due, next.Add(time.Millisecond)
}
