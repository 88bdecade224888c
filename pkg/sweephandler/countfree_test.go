package sweephandler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/claims/scratch"
	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// measured returns the metrics of a sweep.
func (b *bench) measured(h *sweephandler.Handler) []emftest.Point {
	b.Helper()
	b.log.Reset()
	_, err := h.Handle(b.Context())
	must(b, err)
	if strings.Contains(b.log.String(), "SECRET") {
		b.Errorf("the log holds an item: %s", b.log.String())
	}
	return emftest.Points(b, b.log.Bytes())
}

func (b *bench) handler(bank sweephandler.Operator, level slog.Level) *sweephandler.Handler {
	log := slog.New(slog.NewJSONHandler(&b.log, &slog.HandlerOptions{Level: level}))
	return sweephandler.New(bank, log, sweephandler.WithMetrics("oncebox/sweep"))
}

// TestCountsFreeItems: free items are counted once in five minutes, in campaigns that are open and were loaded, also
// if their claims have no end. Campaigns of the doctor are left out.
func TestCountsFreeItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, map[string]itembank.Settings{
			"open": {}, "lent": {ClaimLife: 24 * time.Hour}, "sold-out": {}, "closed": {},
			"over": {ClosesAt: time.Now().Add(-time.Minute)},
			scratch.Campaign("0123456789ab", scratch.Holds): {Hold: time.Minute},
		})
		must(t, b.CloseCampaign(t.Context(), "closed"))
		for _, claimant := range []string{"secret-bob", "secret-carol"} {
			_, err := b.Claim(t.Context(), "sold-out", claimant)
			must(t, err)
		}
		_, _, err := b.CreateCampaign(t.Context(), "empty", itembank.Settings{Shards: 2})
		must(t, err)
		_, _, err = b.CreateCampaign(t.Context(), "later", itembank.Settings{OpensAt: time.Now().Add(time.Hour)})
		must(t, err)
		_, err = b.Load(t.Context(), "later", itembank.Items("SECRET-1"), nil)
		must(t, err)

		h := b.handler(b, slog.LevelError) // metrics do not depend on the level
		for range 2 {
			points := b.measured(h)
			for campaign, want := range map[string]float64{"open": 2, "lent": 2, "sold-out": 0} {
				if sum, n := emftest.Sum(points, "FreeItems", "Campaign="+campaign); sum != want || n != 1 {
					t.Errorf("%s: %d metrics with the sum %v, want %v", campaign, n, sum, want)
				}
			}
			if sum, n := emftest.Sum(points, "FreeItems", ""); sum != 4 || n != 3 || len(points) != 6 {
				t.Errorf("the metrics are %v", points)
			}
			time.Sleep(time.Minute) // on the clock of synctest, which does not wait
			if points := b.measured(h); len(points) > 0 {
				t.Errorf("a minute later the metrics are %v", points)
			}
			time.Sleep(sweephandler.CountEvery - time.Minute)
		}
	})
}

func TestNothingIsCountedByDefault(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]itembank.Settings{"open": {}})
	log := slog.New(slog.NewJSONHandler(&b.log, nil))
	if points := b.measured(sweephandler.New(uncountable{b.Operator}, log)); len(points) > 0 {
		t.Errorf("the metrics are %v", points)
	}
	if points := b.measured(b.handler(itembank.NewOperator(memstore.NewItems()), slog.LevelInfo)); len(points) > 0 {
		t.Errorf("without campaigns the metrics are %v", points)
	}
}

// uncountable is an Operator whose free items cannot be counted.
type uncountable struct{ *itembank.Operator }

func (uncountable) CountFree(context.Context, string) (itembank.FreeCount, error) {
	return itembank.FreeCount{}, errors.New("out of reach")
}

// TestACountThatFails: the claims are swept, and the sweep fails, so that its alarm goes off and the one about few items
// keeps its state.
func TestACountThatFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]itembank.Settings{"open": {}, "held": {Hold: time.Minute}})
	_, err := b.handler(uncountable{b.Operator}, slog.LevelInfo).Handle(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the free items of 2 campaigns were not counted") {
		t.Errorf("got %v", err)
	}
	if points := emftest.Points(t, b.log.Bytes()); len(points) > 0 {
		t.Errorf("the metrics are %v", points)
	}
	if n := bytes.Count(b.log.Bytes(), []byte("out of reach")); n != 2 || b.holds("held") {
		t.Errorf("the claim exists: %t; the log is %s", b.holds("held"), b.log.String())
	}
}

// TestACampaignThatGoesBeforeItsCount: a deleted campaign needs no count.
func TestACampaignThatGoesBeforeItsCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]itembank.Settings{"open": {}})
	b.measured(b.handler(vanishing{b.Operator}, slog.LevelInfo)) // it wants no error
}

// vanishing is an Operator whose campaigns are deleted before they are counted.
type vanishing struct{ *itembank.Operator }

func (vanishing) CountFree(context.Context, string) (itembank.FreeCount, error) {
	return itembank.FreeCount{}, itembank.ErrNoCampaign
}

// TestTheNumberOfMetricsIsBounded: only the newest campaigns are counted.
func TestTheNumberOfMetricsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		for i := range sweephandler.MostCounted + 2 {
			name := fmt.Sprintf("campaign-%02d", 99-i) // the order of the names is the other way round
			_, _, err := b.CreateCampaign(t.Context(), name, itembank.Settings{Shards: 1})
			must(t, err)
			_, err = b.Load(t.Context(), name, itembank.Items("SECRET"), nil)
			must(t, err)
			time.Sleep(time.Second) // on the clock of synctest: the campaigns have different ages
		}
		points := b.measured(b.handler(b, slog.LevelInfo))
		for i, want := range map[int]int{99: 0, 98: 0, 97: 1, 78: 1} {
			if _, n := emftest.Sum(points, "FreeItems", fmt.Sprint("Campaign=campaign-", i)); n != want {
				t.Errorf("campaign %d has %d metrics, want %d", i, n, want)
			}
		}
		if _, n := emftest.Sum(points, "FreeItems", ""); n != sweephandler.MostCounted {
			t.Errorf("%d campaigns have metrics", n)
		}
		if !strings.Contains(b.log.String(), `"campaigns":2`) {
			t.Errorf("the log does not say how many are left out: %s", b.log.String())
		}
	})
}
