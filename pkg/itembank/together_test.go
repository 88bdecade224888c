package itembank_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// pacedBank is an evenBank whose calls take the time of a synctest bubble. It counts the reads of claims.
type pacedBank struct {
	evenBank
	take time.Duration
	read func() time.Duration // of the next read of the bank
	held []string             // the claimants who hold a claim
	asks atomic.Int32         // reads of claims

	firstEnded bool          // the first read finds only an item that has ended
	due        time.Duration // how long the index takes
}

func newPacedBank() *pacedBank {
	return &pacedBank{
		evenBank: evenBank{items: 2_000, campaign: engine.Campaign{
			Name: "spring", Mode: engine.OpenByHand, Scope: "spring", Shards: 4, PageSize: 3,
		}},
		read: func() time.Duration { return time.Millisecond },
	}
}

func (s *pacedBank) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	time.Sleep(s.read())
	if s.firstEnded {
		s.firstEnded = false
		ended := engine.FreeItem{Shard: shard, Value: "seat-0", EndsAt: time.Now().Add(-time.Hour)}
		return engine.FreePage{Items: []engine.FreeItem{ended}, More: true}, nil
	}
	if s.items == 0 {
		return engine.FreePage{}, nil
	}
	return s.evenBank.FreeItems(ctx, shard, r, limit, how)
}

func (s *pacedBank) Take(context.Context, []engine.FreeItem, engine.Claim) (engine.TakeResult, error) {
	time.Sleep(s.take)
	return engine.TakeResult{}, nil
}

func (s *pacedBank) HeldClaim(_ context.Context, key engine.ClaimKey, _ engine.Consistency) (*engine.Claim, bool, error) {
	s.asks.Add(1)
	if !slices.Contains(s.held, key.Claimant) {
		return nil, false, nil
	}
	return &engine.Claim{ID: "1", Campaign: "spring", Scope: "spring", Claimant: key.Claimant, Item: "seat-1"}, false, nil
}

func (s *pacedBank) DueClaims(context.Context, engine.Shard, time.Time, time.Time, int) (engine.DuePage, error) {
	time.Sleep(s.due)
	return engine.DuePage{}, nil
}

func (s *pacedBank) EndItems(context.Context, []engine.EndRequest) ([]engine.EndResult, error) {
	return nil, nil
}

// TestPageForSeveralClaims: a Bank that works on eight claims reads eight times the items that it reads for one. A claim
// that waits for a quick search does not read the claimant's claim meanwhile.
func TestPageForSeveralClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const together = 8
		store := newPacedBank()
		store.take = time.Second
		bank := itembank.New(store)
		var all sync.WaitGroup
		for worker := range together {
			all.Go(func() {
				for i := range 20 {
					if _, err := bank.Claim(t.Context(), "spring", fmt.Sprint(worker, "-", i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		const forOne = 10 // a 200th of the bank, whose size is an estimate
		if next := store.asked[1]; next < together*forOne*3/4 || next > together*forOne*5/4 {
			t.Errorf("want about %d items asked for after the first page, got %v", together*forOne, store.asked)
		}
		if asks := store.asks.Load(); asks != 0 {
			t.Errorf("%d claims were read beside quick searches", asks)
		}
	})
}

// TestHoldersDoNotWaitForSlowSearches: a holder who waits while another request searches gets the claim as soon as that
// search needs more than its first read, and at once if it comes later. It waits for no read that hangs.
func TestHoldersDoNotWaitForSlowSearches(t *testing.T) {
	t.Parallel()
	const first, hangs, endless = 50 * time.Millisecond, 100 * time.Millisecond, time.Hour
	for name, c := range map[string]struct {
		reads      int           // the first read takes so many requests, and ends
		soon, late time.Duration // how long a holder waits who comes during the first read, and after that
		change     func(*pacedBank)
	}{
		"the first read hangs":      {0, hangs, hangs, func(*pacedBank) {}},
		"a second shard is read":    {2, first, 0, func(*pacedBank) {}},
		"ended items are read past": {1, first, 0, func(s *pacedBank) { s.firstEnded = true }},
		"due claims are closed": {2, first, 0, func(s *pacedBank) {
			s.campaign.Shards, s.campaign.OnEnd, s.campaign.Hold, s.due = 1, engine.Return, time.Minute, endless
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reads := 0
				store := newPacedBank()
				store.held, store.items = []string{"ann", "cid"}, 0
				store.read = func() time.Duration {
					if reads++; reads <= c.reads {
						return first / time.Duration(c.reads)
					}
					return endless
				}
				c.change(store)
				bank := itembank.New(store)
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				defer all.Wait()
				defer stop()
				all.Go(func() { _, _ = bank.Claim(ctx, "spring", "bob") })
				synctest.Wait()
				for _, h := range []struct {
					claimant string
					waits    time.Duration
				}{{"ann", c.soon}, {"cid", c.late}} {
					began := time.Now()
					grant, err := bank.Claim(ctx, "spring", h.claimant)
					if took := time.Since(began); err != nil || !grant.Replayed || took != h.waits {
						t.Errorf("%s got %+v, %v after %s; want the claim after %s", h.claimant, grant, err, took, h.waits)
					}
				}
			})
		})
	}
}
