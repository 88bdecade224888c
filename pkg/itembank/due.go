package itembank

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

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

// SweepDue sweeps up to sweptAtOnce shards at a time, and closes up to closedAtOnce claims of each. The lanes of the
// Operator limit all of them together. Many shards with few closes each spread the writes over the partitions of the
// table. If a close takes 30 ms, closedAtOnce takes half of the 500 transactions a second of one partition key, and
// leaves the other half to claims.
const (
	sweptAtOnce  = maxLanes
	closedAtOnce = 8
)
