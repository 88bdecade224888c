package itembank_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var blockCases = []testCase{
	{"blocked-claimant-gets-nothing", blockedGetsNothing},
	{"forget-blocks-every-slot", forgetBlocksEverySlot},
	{"block-keeps-the-claim", blockKeepsTheClaim},
	{"readers-pass-over-blocks", readersPassOverBlocks},
	{"replay-of-a-blocked-claimant", replayOfBlocked},
	{"last-campaign-with-blocks-stays", lastCampaignStays},
	{"blocks-are-purged-after-the-campaigns", blocksArePurged},
	{"block-against-a-claim", blockAgainstClaim},
	{"campaigns-are-listed-once", campaignsListedOnce},
}

// forgetAnn forgets ann, and fails the test on an error.
func (f *fixture) forgetAnn(b *itembank.Operator, o itembank.ForgetOptions) itembank.ForgetReport {
	f.Helper()
	report, err := b.Forget(f.ctx, f.name, "ann", o)
	f.Must(err)
	return report
}

// blockedGetsNothing: every request of a blocked claimant is refused, in all campaigns of the scope, in any state of
// the campaign. A refused claim sends the same requests as the claim of a holder.
func blockedGetsNothing(f *fixture) {
	c, _ := f.stocked(5, itembank.Settings{Hold: time.Hour, Shards: 1})
	other := f.named("other")
	other.create(itembank.Settings{Scope: f.name})
	other.load("other-1")
	counted := f.counted()
	b := itembank.NewOperator(counted)
	f.claim(b, "bob")
	report, err := b.Block(f.ctx, f.name, "ann")
	if err != nil || report.Changed != 1 || report.Slots != 1 || len(report.Held) > 0 || !report.PurgedAfter.IsZero() {
		f.Fatalf("got %+v, %v", report, err)
	}
	counted.Calls()
	f.claim(b, "bob")
	repeated := counted.Calls()
	f.refused(b, "ann", itembank.ErrNotEligible)
	f.wantCalls("a blocked claim", counted, repeated...)
	other.refused(b, "ann", itembank.ErrNotEligible)
	f.claim(b, "cid")
	for what, err := range map[string]error{
		"held claim":     errorOf(b.HeldClaim(f.ctx, f.name, "ann")),
		"claim in scope": errorOf(b.FindClaim(f.ctx, f.name, "ann")),
		"confirmation":   errorOf(b.Confirm(f.ctx, f.name, "ann", "x")),
	} {
		if !errors.Is(err, itembank.ErrNotEligible) {
			f.Errorf("%s: want %v, got %v", what, itembank.ErrNotEligible, err)
		}
	}
	block := f.Held(c, "ann")
	if block == nil {
		f.Fatal("no row blocks ann")
	}
	for _, id := range []string{block.ID, "x"} {
		if r, err := b.Release(f.ctx, f.name, "ann", id); !r.Already || err != nil {
			f.Errorf("a release: got %+v, %v", r, err)
		}
		if r, err := b.ReleaseHold(f.ctx, f.name, "ann", id); !r.Already || err != nil {
			f.Errorf("a release by the holder: got %+v, %v", r, err)
		}
	}
	f.Must(b.CloseCampaign(f.ctx, f.name))
	f.refused(f.bank(), "ann", itembank.ErrNotEligible)
	f.Must(b.OpenCampaign(f.ctx, f.name))
	if blocked, err := b.IsBlocked(f.ctx, other.name, "ann"); !blocked || err != nil {
		f.Errorf("want blocked, got %t, %v", blocked, err)
	}
	if report, err := b.Unblock(f.ctx, f.name, "ann"); report.Changed != 1 || err != nil {
		f.Errorf("got %+v, %v", report, err)
	}
	if blocked, err := b.IsBlocked(f.ctx, f.name, "ann"); blocked || err != nil {
		f.Errorf("want no block, got %t, %v", blocked, err)
	}
	f.claim(f.bank(), "ann")
}

// blockAgainstClaim: the claimant claims while the block is made. Block names the claim that stays.
func blockAgainstClaim(f *fixture) {
	f.stocked(1, itembank.Settings{})
	s := f.interruptedAt(1, false, func() error { f.claim(f.bank(), "ann"); return nil }, "Take")
	report, err := f.bankOn(s).Block(f.ctx, f.name, "ann")
	if err != nil || report.Changed != 0 || len(report.Held) != 1 {
		f.Errorf("want the claim, got %+v, %v", report, err)
	}
}

// campaignsListedOnce: a list of campaigns costs a request for each campaign of the store.
func campaignsListedOnce(f *fixture) {
	f.stocked(1, itembank.Settings{ClosesAt: time.Now().Add(time.Hour)})
	counted := f.counted()
	b := itembank.NewOperator(counted)
	f.claim(b, "ann")
	for _, do := range []struct {
		what  string
		lists int
		err   func() error
	}{
		{"forget", 1, func() error { return errorOf(b.Forget(f.ctx, f.name, "ann", itembank.ForgetOptions{})) }},
		{"is blocked", 0, func() error { return errorOf(b.IsBlocked(f.ctx, f.name, "ann")) }},
		{"unblock", 1, func() error { return errorOf(b.Unblock(f.ctx, f.name, "ann")) }},
		{"block", 1, func() error { return errorOf(b.Block(f.ctx, f.name, "ann")) }},
	} {
		counted.Calls()
		f.Must(do.err())
		if calls := counted.Calls(); strings.Count(strings.Join(calls, " ")+" ", "Campaigns ") != do.lists {
			f.Errorf("%s: want %d lists of campaigns, got %v", do.what, do.lists, calls)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// forgetBlocksEverySlot: a claimant with claims in some slots gets an item in none of them afterwards.
func forgetBlocksEverySlot(f *fixture) {
	f.stocked(6, itembank.Settings{PerClaimant: 3, OnEnd: itembank.Return})
	b := f.bank()
	f.inSlot(b, 2)
	report := f.forgetAnn(b, itembank.ForgetOptions{})
	if len(report.Released) != 1 || report.Blocked != 3 {
		f.Errorf("got %+v", report)
	}
	for slot := 1; slot <= 3; slot++ {
		if grant, err := b.Claim(f.ctx, f.name, "ann", itembank.InSlot(slot)); !errors.Is(err, itembank.ErrNotEligible) {
			f.Errorf("slot %d: got %+v, %v", slot, grant, err)
		}
	}
	f.wantCounts(engine.Counts{Loaded: 6, Free: 6})
	f.forgetAnn(b, itembank.ForgetOptions{WithoutBlock: true})
	if claims, _, err := f.Store.ListClaims(f.ctx, f.name, ""); err != nil || len(claims) > 0 {
		f.Errorf("want no row, got %+v, %v", claims, err)
	}
	f.inSlot(b, 1)
}

// blockKeepsTheClaim: Block does not end a claim, and says that its slot is not blocked. A slot that is blocked stays so.
func blockKeepsTheClaim(f *fixture) {
	f.stocked(3, itembank.Settings{PerClaimant: 2})
	b := f.bank()
	claim := f.inSlot(b, 2).Claim
	for _, changed := range []int{1, 0} {
		report, err := b.Block(f.ctx, f.name, "ann")
		if err != nil || report.Changed != changed || !reflect.DeepEqual(report.Held, []itembank.Claim{claim}) {
			f.Errorf("want %d changes, got %+v, %v", changed, report, err)
		}
	}
	f.refused(b, "ann", itembank.ErrNotEligible)
	if again := f.inSlot(b, 2); !reflect.DeepEqual(again.Claim, claim) {
		f.Errorf("want %+v, got %+v", claim, again)
	}
	if report, err := b.Unblock(f.ctx, f.name, "ann"); err != nil || report.Changed != 1 {
		f.Errorf("got %+v, %v", report, err)
	}
	if again := f.inSlot(b, 2); !reflect.DeepEqual(again.Claim, claim) {
		f.Errorf("want %+v, got %+v", claim, again)
	}
}

// readersPassOverBlocks: no list, count, sweep or check of a campaign has a block.
func readersPassOverBlocks(f *fixture) {
	f.stocked(3, itembank.Settings{Hold: time.Hour, OnEnd: itembank.Return})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	held := f.claim(b, "bob").Claim
	_, err := b.Block(f.ctx, f.name, "ann")
	f.Must(err)
	if page, err := b.ListClaims(f.ctx, f.name, ""); err != nil || page.Next == "" && !reflect.DeepEqual(page.Claims, []itembank.Claim{held}) {
		f.Errorf("list: got %+v, %v", page, err)
	}
	for _, claims := range []func() ([]itembank.Claim, error){
		func() ([]itembank.Claim, error) { return b.ClaimsToForget(f.ctx, f.name, "ann") },
		func() ([]itembank.Claim, error) { return b.ClaimsOf(f.ctx, f.name, "ann") },
	} {
		if claims, err := claims(); err != nil || len(claims) > 0 {
			f.Errorf("claims of ann: got %+v, %v", claims, err)
		}
	}
	if report, err := b.LookUp(f.ctx, f.name, held.Items[0]); err != nil || report.Claim == nil || !reflect.DeepEqual(*report.Claim, held) {
		f.Errorf("look-up: got %+v, %v", report, err)
	}
	clock.Advance(2 * time.Hour)
	if report, err := b.Sweep(f.ctx, f.name, nil); err != nil || report.Returned != 1 {
		f.Errorf("sweep: got %+v, %v", report, err)
	}
	if report, err := b.Reconcile(f.ctx, f.name); err != nil || len(report.Inconsistencies) > 0 || report.Claimed != 0 {
		f.Errorf("reconcile: got %+v, %v", report, err)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Free: 3})
	f.refused(b, "ann", itembank.ErrNotEligible)
}

// replayOfBlocked: a claim of a blocked claimant is refused, and its item stays free for others.
func replayOfBlocked(f *fixture) {
	f.stocked(2, itembank.Settings{})
	b := f.bank()
	claim := f.claim(b, "ann").Claim
	f.forgetAnn(b, itembank.ForgetOptions{})
	free := claim
	free.Items = []string{otherOf(claim.Items[0], codes("code", 2))}
	f.Must(b.CloseCampaign(f.ctx, f.name))
	report := f.replay(claim, free)
	if report.Replayed != 0 || report.Refused != 2 || report.Lines[0].Outcome != "blocked" || report.Lines[1].Outcome != "blocked" {
		f.Errorf("got %+v", report)
	}
	f.wantCounts(engine.Counts{Loaded: 2, Free: 1, Ended: 1})
}

func otherOf(item string, items []string) string {
	if items[0] == item {
		return items[1]
	}
	return items[0]
}

// lastCampaignStays: the last campaign of a scope is not deleted while claimants are blocked there.
func lastCampaignStays(f *fixture) {
	f.create(itembank.Settings{})
	other := f.named("other")
	other.create(itembank.Settings{Scope: f.name})
	b := f.bank()
	_, err := b.Block(f.ctx, f.name, "ann")
	f.Must(err)
	f.Must(b.DeleteCampaign(f.ctx, other.name))
	if err := b.DeleteCampaign(f.ctx, f.name); !errors.Is(err, itembank.ErrBlocksLeft) {
		f.Errorf("want %v, got %v", itembank.ErrBlocksLeft, err)
	}
	_, err = b.Unblock(f.ctx, f.name, "ann")
	f.Must(err)
	f.Must(b.DeleteCampaign(f.ctx, f.name))
	if _, err := b.Block(f.ctx, f.name, "ann"); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
}

// blocksArePurged: blocks stay while a campaign of the scope can be claimed from, and for 30 days after it. A campaign
// that was extended after the claimant was blocked keeps them.
func blocksArePurged(f *fixture) {
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	closes := clock.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	f.stocked(1, itembank.Settings{ClosesAt: closes})
	second := f.named("second")
	second.create(itembank.Settings{Scope: f.name})
	report := f.forgetAnn(b, itembank.ForgetOptions{})
	if !report.PurgedAfter.IsZero() {
		f.Errorf("a campaign has no end: got %+v", report)
	}
	wantPurged := func(when string, want int64) {
		f.Helper()
		if purged, err := b.PurgeBlocks(f.ctx, f.name); purged != want || err != nil {
			f.Errorf("%s: want %d, got %d, %v", when, want, purged, err)
		}
	}
	clock.Advance(60 * 24 * time.Hour)
	wantPurged("while a campaign has no end", 0)
	later := clock.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	_, err := b.ChangeCampaign(f.ctx, second.name, itembank.CampaignChange{ClosesAt: &later})
	f.Must(err)
	if report, err := b.Block(f.ctx, f.name, "bob"); err != nil || !report.PurgedAfter.Equal(later.Add(30*24*time.Hour)) {
		f.Errorf("want the end of the later campaign, got %+v, %v", report, err)
	}
	clock.Advance(29 * 24 * time.Hour)
	wantPurged("within 30 days", 0)
	f.Must(b.OpenCampaign(f.ctx, f.name))
	clock.Advance(30 * 24 * time.Hour)
	wantPurged("while a campaign is open by hand", 0)
	_, err = b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ByTimes: true})
	f.Must(err)
	wantPurged("after all campaigns", 2)
	wantPurged("a repeat", 0)
	report = f.forgetAnn(b, itembank.ForgetOptions{})
	if want := clock.Now().Truncate(time.Millisecond).Add(30 * 24 * time.Hour); !report.PurgedAfter.Equal(want) {
		f.Errorf("a block after all campaigns: want %v, got %+v", want, report)
	}
	wantPurged("a new block", 0)
	clock.Advance(30*24*time.Hour + time.Second)
	wantPurged("the same block later", 1)
}

// TestBlockIsSettledAfterLostReplies: the reply of each write of a Block or an Unblock is lost, and a repeat ends it.
func TestBlockIsSettledAfterLostReplies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, itembankengines.Memory(t))
	f.stocked(1, itembank.Settings{})
	for method, change := range map[string]func(*itembank.Operator) (itembank.BlockReport, error){
		"Take":       func(b *itembank.Operator) (itembank.BlockReport, error) { return b.Block(f.ctx, f.name, "ann") },
		"CloseClaim": func(b *itembank.Operator) (itembank.BlockReport, error) { return b.Unblock(f.ctx, f.name, "ann") },
	} {
		_, _ = f.bank().Block(f.ctx, f.name, "ann")
		if method == "Take" {
			_, _ = f.bank().Unblock(f.ctx, f.name, "ann")
		}
		lost := f.interruptedAt(1, true, func() error { return errLost }, method)
		if _, err := change(itembank.NewOperator(lost)); !errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("%s: want %v, got %v", method, itembank.ErrTryAgain, err)
		}
		if report, err := change(f.bank()); report.Changed != 0 || err != nil {
			t.Errorf("%s: the repeat got %+v, %v", method, report, err)
		}
	}
}
