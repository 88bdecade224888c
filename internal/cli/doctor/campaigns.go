package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/oncebox/oncebox/internal/claims/scratch"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// These are the claimants of scratch campaigns. Each step has its own claimants, so that it does not depend on the
// claim of another step.
const (
	claimantA = scratch.Prefix + "a" // claims, releases, and claims again
	claimantB = scratch.Prefix + "b" // has a claim that has ended, and asks again
	claimantC = scratch.Prefix + "c" // has a claim that has ended, and does not ask again
	claimantD = scratch.Prefix + "d" // asks when the only remaining item is in the claim of claimantC
	claimantE = scratch.Prefix + "e" // has a claim that has ended, for the sweep
)

var claimants = []string{claimantA, claimantB, claimantC, claimantD, claimantE}

// itemsOf returns the items of a scratch campaign.
func itemsOf(campaign string) []string { return []string{campaign + "-1", campaign + "-2"} }

// shortestHold is the shortest hold that a campaign can have. A hold that is made in the past has ended.
const shortestHold = 30 * time.Second

// clock shows DynamoDB's time minus late. It does not use this machine's clock, which may be minutes ahead. With that
// clock, doctor could delete the campaigns of another run that has just begun.
type clock struct {
	store *dynamostore.Store
	late  time.Duration
}

func (c clock) Now() time.Time {
	now := c.store.ServerTime()
	if now.IsZero() { // the server's time is not known before the first request
		now = time.Now()
	}
	return now.Add(-c.late)
}

func (clock) Sleep(ctx context.Context, d time.Duration) error { return pause.For(ctx, d) }

// endedBy is how far in the past the claims and items that must have ended are made, so that a run does not have to
// wait.
const endedBy = time.Hour

// withoutClock is a store that hides the server's time, so that the Bank uses its own clock.
type withoutClock struct{ engine.Store }

func (withoutClock) ServerTime() time.Time { return time.Time{} }

// banks reads and writes the campaigns in the functions' tables, with the operator's credentials.
type banks struct {
	store *dynamostore.Store
	now   *itembank.Operator
	past  *itembank.Operator // makes claims and items that have ended
}

func newBanks(store *dynamostore.Store) banks {
	of := func(s engine.Store, c clock) *itembank.Operator {
		return itembank.NewOperator(s, itembank.WithClock(c), itembank.WithCampaignCache(0))
	}
	return banks{store, of(store, clock{store: store}), of(withoutClock{store}, clock{store, endedBy})}
}

// newSuffix returns a random suffix, so that two doctors at the same time use different campaigns.
func newSuffix() string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // rand.Read never fails
	return hex.EncodeToString(random[:])
}

// makeHolds makes the campaign whose claims are holds, with one or several items in a claim. Its two items have a
// column.
func (b banks) makeHolds(ctx context.Context, name string) error {
	settings := itembank.Settings{Shards: 1, Hold: shortestHold, Columns: true, Choice: true}
	_, _, err := b.now.CreateCampaign(ctx, name, settings)
	if err != nil {
		return err
	}
	_, err = b.now.Load(ctx, name, withColumn(itemsOf(name)), nil)
	return err
}

// withColumn returns a load of items with one column each.
func withColumn(items []string) itembank.Source {
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for i, item := range items {
				columns := []itembank.Column{{Name: "made_by", Value: "doctor"}}
				if !yield(itembank.Line{Number: int64(i + 1), Item: item, Columns: columns}, nil) {
					return
				}
			}
		}
	}
}

// makeEnded makes the campaign whose items have ended.
func (b banks) makeEnded(ctx context.Context, name string) error {
	_, _, err := b.now.CreateCampaign(ctx, name, itembank.Settings{Shards: 1, ItemLife: time.Second})
	if err != nil {
		return err
	}
	_, err = b.past.Load(ctx, name, itembank.Items(itemsOf(name)...), nil)
	return err
}

// heldID returns the id of the claimant's claim, or "" if the claimant has none.
func (b banks) heldID(ctx context.Context, campaign, claimant string) (string, error) {
	held, err := b.now.HeldClaim(ctx, campaign, claimant)
	if errors.Is(err, itembank.ErrNoClaim) {
		return "", nil
	}
	return held.ID, err
}

// claimInThePast makes a claim that has ended, and returns its id. Without items, the claim gets any item.
func (b banks) claimInThePast(ctx context.Context, campaign, claimant string, items ...string) (id string, err error) {
	granted, err := b.past.Claim(ctx, campaign, claimant, itembank.Choosing(items...))
	return granted.Claim.ID, operatorError(err)
}

// releaseAll ends the claims of the claimants. Claimants without a claim are skipped.
func (b banks) releaseAll(ctx context.Context, campaign string, claimants []string) error {
	for _, claimant := range claimants {
		id, err := b.heldID(ctx, campaign, claimant)
		if err == nil && id != "" {
			_, err = b.now.Release(ctx, campaign, claimant, id)
		}
		if err != nil && !errors.Is(err, itembank.ErrNoClaim) { // a scheduled sweep may be faster
			return operatorError(err)
		}
	}
	return nil
}

// leftFor is the age from which another run deletes the campaign of an interrupted run. A run takes only seconds.
const leftFor = 10 * time.Minute

// deleteLeft deletes scratch campaigns of runs that were killed, and returns how many it deleted. With all, it also
// deletes campaigns that another run may be using now. It leaves a campaign that it cannot delete to a later run, and
// counts it in kept.
func (b banks) deleteLeft(ctx context.Context, all bool) (n, kept int, err error) {
	campaigns, err := b.store.Campaigns(ctx)
	if err != nil && !errors.As(err, new(*engine.UnreadableError)) { // which the check of the tables reports
		return 0, 0, err
	}
	now := clock{store: b.store}.Now()
	for _, c := range campaigns {
		if !scratch.IsCampaign(c.Name) || !all && now.Sub(c.CreatedAt) < leftFor {
			continue
		}
		if b.deleteCampaign(ctx, c) == nil {
			n++
		} else {
			kept++
		}
	}
	return n, kept, ctx.Err()
}

// deleteCampaign deletes a scratch campaign. It waits while a sweep or another doctor works on its rows.
func (b banks) deleteCampaign(ctx context.Context, c engine.Campaign) (err error) {
	if !scratch.IsCampaign(c.Name) {
		return fmt.Errorf("%s is not a scratch campaign", c.Name)
	}
	for range tries {
		err = b.store.DeleteScratch(ctx, c, itemsOf(c.Name), claimants)
		if !errors.Is(err, engine.ErrTryAgain) || pause.For(ctx, between) != nil {
			return err
		}
	}
	return err
}

// delete deletes a scratch campaign, if it exists.
func (b banks) delete(ctx context.Context, name string) error {
	c, err := b.store.Campaign(ctx, name)
	if err != nil || c == nil {
		return err
	}
	return b.deleteCampaign(ctx, *c)
}
