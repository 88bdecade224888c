package itembank

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

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
func (b *Operator) SweepDue(ctx context.Context, campaign string, progress Progress) (SweepReport, error) {
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
		closed, err := whileBusy(ctx, b.Bank, rowsBusy, func() (closed closedClaim, busy bool, err error) {
			closed, busy, err = s.closeInLane(ctx, c, claim, now)
			return closed, busy && !closed.throttled, err
		})
		return closed, closed.throttled, err
	})
}

// untilServed calls try until it is not throttled.
func untilServed[T any](ctx context.Context, b *Operator, what string, try func() (result T, throttled bool, err error)) (T, error) {
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
