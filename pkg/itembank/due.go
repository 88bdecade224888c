package itembank

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Limits of closeDue, for which a customer waits.
const (
	maxDueShards = 16                     // shards whose index is read, once a second and container
	maxDueCloses = 8                      // claims that are looked at
	maxDueTime   = 100 * time.Millisecond // after it no further claim is closed, once one was
	dueSample    = 64                     // claims of the index from which it chooses
)

// closeDue closes a few of the campaign's claims that ended more than endGrace before now. It
// returns how many it closed. It reads the index of some random shards.
//
// It chooses at random among the claims that are due: other Banks close the others, and claims
// whose rows contradict each other, which stay, must not keep it from the rest.
//
// Errors: those of the store. It skips claims that others changed, that are busy, and that
// contradict themselves.
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

// closeDueIn is closeDue for claims in the index of some shards.
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
		released, err := b.closeDueClaim(ctx, c, claim, now, b.closeWithoutWaiting)
		switch {
		case errors.Is(err, ErrInconsistent):
		case err != nil:
			return closed, err
		case !released.Already:
			closed++
		}
	}
	return closed, nil
}

// sampleDue returns up to maxDueCloses claims that ended before a time, chosen at random from the
// index of some shards. Where one of them has many, it reads some of these from a random
// moment on.
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
		if len(later.Claims) < maxDueCloses { // the moment was close to the last claim, or after it
			due = append(due, crowded.first...)
		}
	}
	random.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	return due[:min(len(due), maxDueCloses)], nil
}

// crowdedShard has more due claims than were read.
type crowdedShard struct {
	shard engine.Shard
	first []engine.DueClaim // those that were read
}

// firstDue reads the first due claims of shards at the same time. crowded is one that has more; nil:
// none has. Its claims are not in due, since claims that stay may be the first.
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
	if !slices.Contains(errs, nil) { // one bad shard must not hide the others
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

// randomMoment returns a moment between two others. Ends can lie anywhere between them: one time in
// two all moments are alike, else all orders of magnitude, so that claims that ended together long
// ago are found, too.
func randomMoment(random *rand.Rand, from, to time.Time) time.Time {
	span := to.Sub(from).Milliseconds()
	after := random.Int64N(span)
	if random.IntN(2) == 0 {
		after = int64(math.Pow(float64(span), random.Float64()))
	}
	return from.Add(time.Duration(after) * time.Millisecond)
}

// closeDueClaim closes a claim that the index names. The index is a hint: an entry may be older
// than a confirmation, or the next claim of its claimant. So the claim row is read, and the
// transaction tests its id and its end. An eventually consistent read is enough for that.
func (b *Bank) closeDueClaim(
	ctx context.Context, c Campaign, due engine.DueClaim, now time.Time,
	closeClaim func(context.Context, Campaign, engine.Claim, closeTerms) (closedClaim, error),
) (closedClaim, error) {
	held, err := b.store.HeldClaimEventuallyConsistent(ctx, due.ClaimKey)
	if err != nil {
		return closedClaim{}, err
	}
	if held == nil || held.Campaign != c.Name || !closable(*held, now) {
		return alreadyClosed(), nil
	}
	return closeClaim(ctx, c, *held, endedTerms(now))
}

// closeWithoutWaiting is closeClaim for one try.
func (b *Bank) closeWithoutWaiting(
	ctx context.Context, c Campaign, claim engine.Claim, terms closeTerms,
) (closedClaim, error) {
	released, busy, err := b.closeOnce(ctx, c, claim, terms)
	released.Already = released.Already || busy
	return released, err
}

// SweepDue closes the campaign's claims that ended more than 10 seconds ago, as Sweep does, but
// reads only these: it finds them through an index. Run it every few minutes where claims end
// and items return.
//
// It does not end free items; Sweep does. progress may be nil; it counts the claims that were looked at.
// SweepDue is safe to repeat, to interrupt, and to run several times at once.
//
// A claim whose rows contradict each other stays as it is, as in Sweep.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain, the family ErrInconsistent. After an error
// the report says what was done before it.
func (b *Bank) SweepDue(ctx context.Context, campaign string, progress Progress) (SweepReport, error) {
	s := sweep{bank: b, count: counter(progress)}
	c, err := b.Campaign(ctx, campaign)
	if err != nil || !c.claimsEnd() {
		return s.report, err
	}
	random, err := b.generator()
	if err != nil {
		return s.report, err
	}
	var all errgroup.Group // without a context: one bad shard does not keep the others from being swept
	all.SetLimit(sweptAtOnce)
	// A random order: a sweep that is cut again and again still reaches all shards.
	for _, n := range random.Perm(c.Shards) {
		all.Go(func() error { return s.dueClaims(ctx, c, engine.Shard{Campaign: c.Name, Number: n}) })
	}
	if err := all.Wait(); err != nil {
		return s.report, s.skipped.addTo(err)
	}
	return s.report, s.skipped.err()
}

// sweptAtOnce is how many shards SweepDue sweeps at a time. To close a claim takes three requests, so
// these are a few hundred claims a second.
const sweptAtOnce = 8

// dueClaims closes the claims of a shard that are due.
func (s *sweep) dueClaims(ctx context.Context, c Campaign, shard engine.Shard) error {
	for after := (time.Time{}); ; {
		now := s.bank.closersNow()
		page, err := s.bank.store.DueClaims(ctx, shard, after, now.Add(-endGrace), listPage)
		if err != nil {
			return err
		}
		due, next := wholeMoments(page)
		for _, claim := range due {
			if err := s.bank.pace(ctx, 1); err != nil {
				return err
			}
			released, err := s.bank.closeDueClaim(ctx, c, claim, now, s.bank.closeClaim)
			if err := s.dueClosed(released, err); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		after = next
	}
}

// dueClosed notes what became of a claim, for one of several shards.
func (s *sweep) dueClosed(released closedClaim, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(1)
	return s.closed(released, err)
}

// wholeMoments returns the claims of a page up to the end at which the next page begins. The last
// end of a page may have more claims. Where all claims of a page have one end, the next page
// begins behind it: a shard never has as many claims a millisecond.
func wholeMoments(page engine.DuePage) (due []engine.DueClaim, next time.Time) {
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
