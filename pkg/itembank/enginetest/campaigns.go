package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var campaignCases = []testCase{
	{"campaign-is-read-as-it-was-written", campaignRoundTrip},
	{"campaign-is-put-if-absent", campaignPutIfAbsent},
	{"scope-row-decides", scopeRowDecides},
	{"campaign-with-a-scope-for-itself", soleCampaign},
	{"scope-row-decides-a-race", scopeRowDecidesRace},
	{"scope-of-a-campaign-that-exists", scopeOfExisting},
	{"campaigns-are-listed-by-name", campaignsListed},
	{"deleted-campaigns-are-not-listed", deletedCampaignsListed},
	{"modes-are-read-as-they-were-written", modesRoundTrip},
	{"replace-campaign-conditions", replaceCampaignConditions},
	{"replace-campaign-race", replaceCampaignRace},
	{"create-in-place-of-a-deleted-campaign", createInPlaceOfDeleted},
	{"version-is-counted-up", versionCountedUp},
	{"mark-as-empty-needs-the-version", markEmptyNeedsVersion},
	{"counts", counts},
}

func campaignRoundTrip(f *fixture) {
	opens := time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)
	want := engine.Campaign{
		Name: f.name, Mode: engine.ByTimes, Moved: true, Restored: true, OpensAt: opens, ClosesAt: opens.Add(time.Millisecond), Scope: "s" + f.name, Claimants: "some-1",
		PerClaimant: 7, Choice: true, MaxItems: 3, Publish: true, Columns: true,
		Shards: 256, PageSize: 1000, ItemLife: 100 * 365 * 24 * time.Hour, ClaimLife: 90*time.Minute + time.Millisecond,
		Hold: 15*time.Minute + time.Millisecond, MaxHold: time.Hour + 2*time.Millisecond, OnEnd: engine.Return, CreatedAt: opens.Add(-time.Hour),
		Version: 7_000_000_003, EmptyVersion: 7_000_000_001,
	}
	f.create(want)
	got, err := f.Store.Campaign(f.Context(), f.name)
	f.Must(err)
	if got == nil || *got != want {
		f.Errorf("want %+v, got %+v", want, got)
	}
	none, err := f.Store.Campaign(f.Context(), f.name+"-other")
	if none != nil || err != nil {
		f.Errorf("absent campaign: want nil and no error, got %+v, %v", none, err)
	}
}

func campaignPutIfAbsent(f *fixture) {
	first := f.create(f.campaign(16))
	second := first
	second.PageSize++
	result, err := f.Store.CreateCampaign(f.Context(), second)
	f.Must(err)
	if result.Existing == nil || *result.Existing != first {
		f.Errorf("want the campaign that was there, %+v, got %+v", first, result)
	}
	got, err := f.Store.Campaign(f.Context(), f.name)
	f.Must(err)
	if *got != first {
		f.Errorf("the campaign was changed to %+v", got)
	}
}

// scopeRowDecides: a campaign is created only if it agrees with the row of its scope. A campaign that is not created
// leaves no row.
func scopeRowDecides(f *fixture) {
	for _, first := range []string{"", "some-1"} {
		c := f.campaign(1)
		c.Scope, c.Claimants = f.name+"-scope"+first, first
		c.Name += "-first" + first
		f.create(c)
		other := c
		other.Name += "-other"
		other.Claimants = first + "-2"
		for range 2 {
			f.wantScope(other, c.ScopeRow())
		}
		other.Claimants = c.Claimants
		f.create(other)
	}
}

// soleCampaign: no other campaign can share the scope of a campaign whose claimants have several claims.
func soleCampaign(f *fixture) {
	sole := f.campaign(1)
	sole.Scope, sole.PerClaimant = f.name+"-scope", 2
	f.create(sole)
	other := sole
	other.Name += "-other"
	f.wantScope(other, sole.ScopeRow())
	other.PerClaimant = 0
	f.wantScope(other, sole.ScopeRow())
	other.Scope += "-shared"
	f.create(other)
	sole.Name, sole.Scope = f.name+"-second", other.Scope
	f.wantScope(sole, other.ScopeRow())
}

// wantScope tries to create a campaign, and expects that the row of its scope prevents it.
func (f *fixture) wantScope(c engine.Campaign, want engine.Scope) {
	f.Helper()
	result, err := f.Store.CreateCampaign(f.Context(), c)
	f.Must(err)
	if result.Scope == nil || *result.Scope != want {
		f.Errorf("%s: want the scope row that was there, %+v, got %+v", c.Name, want, result)
	}
	if none, err := f.Store.Campaign(f.Context(), c.Name); none != nil || err != nil {
		f.Errorf("the campaign was created in another scope: %+v (%v)", none, err)
	}
}

// scopeRowDecidesRace: of two campaigns that do not agree on their scope, one is created.
func scopeRowDecidesRace(f *fixture) {
	for round := range 5 {
		var created atomic.Int32
		create := func(n int) func() {
			c := f.campaign(1)
			c.Scope, c.Claimants = fmt.Sprintf("%s-scope-%d", f.name, round), fmt.Sprintf("some-%d", n)
			c.Name = fmt.Sprintf("%s-%d-%d", f.name, round, n)
			return func() {
				for range mostTries {
					result, err := f.Store.CreateCampaign(f.Context(), c)
					if errors.Is(err, engine.ErrTryAgain) {
						continue
					}
					if err != nil {
						f.Error(err)
					}
					if result.Created() {
						created.Add(1)
					}
					return
				}
				f.Errorf("%s: no answer in %d tries", c.Name, mostTries)
			}
		}
		enginerows.AtOnce(create(0), create(1))
		if n := created.Load(); n != 1 {
			f.Errorf("want one campaign of the scope, %d were created", n)
		}
	}
}

// mostTries limits the tries of a call that conflicts with other transactions.
const mostTries = 100

// scopeOfExisting: if the campaign exists, the result is this campaign, whatever its scope. The rows of other scopes do
// not change.
func scopeOfExisting(f *fixture) {
	c := f.create(f.campaign(1))
	again := c
	again.Scope, again.Claimants = f.name+"-other", "some-1"
	result, err := f.Store.CreateCampaign(f.Context(), again)
	f.Must(err)
	if result.Existing == nil || *result.Existing != c {
		f.Errorf("want the campaign that was there, %+v, got %+v", c, result)
	}
	free := again
	free.Name, free.Claimants = f.name+"-free", "some-2"
	f.create(free) // no campaign has fixed this scope yet
}

func campaignsListed(f *fixture) {
	a, b := f.campaign(16), f.campaign(16)
	a.Name += "-a"
	b.Name += "-b"
	f.create(b)
	f.create(a)
	all, err := f.Store.Campaigns(f.Context())
	f.Must(err)
	if !slices.IsSortedFunc(all, func(x, y engine.Campaign) int { return strings.Compare(x.Name, y.Name) }) {
		f.Error("campaigns are not sorted by name")
	}
	if !slices.Contains(all, a) || !slices.Contains(all, b) {
		f.Errorf("campaigns are missing from the list of %d", len(all))
	}
}

// deletedCampaignsListed: a campaign is in the list until it is deleted, and again when its name is used again.
func deletedCampaignsListed(f *fixture) {
	old := f.create(f.campaign(1))
	wantListed := func(what string, want bool) {
		f.Helper()
		all, err := f.Store.Campaigns(f.Context())
		f.Must(err)
		if got := slices.ContainsFunc(all, func(c engine.Campaign) bool { return c.Name == old.Name }); got != want {
			f.Errorf("%s: listed %t, want %t", what, got, want)
		}
	}
	changed, gone := old, old
	changed.Version, gone.Mode, gone.Version = 1, engine.Deleted, 2
	f.replace(old, changed)
	if replaced, err := f.Store.ReplaceCampaign(f.Context(), old, gone); replaced || err != nil {
		f.Errorf("a row of another version was deleted: %t, %v", replaced, err)
	}
	wantListed("a deletion was refused", true)
	f.replace(changed, gone)
	wantListed("the campaign was deleted", false)
	next := old
	next.Version = 3
	f.create(next)
	wantListed("the name is used again", true)
	if replaced, err := f.Store.ReplaceCampaign(f.Context(), changed, gone); replaced || err != nil {
		f.Errorf("a row of another version was deleted: %t, %v", replaced, err)
	}
	wantListed("the deletion came again", true)
}

// modesRoundTrip: each mode is stored. A row that gets the mode that it has gets the next version too.
func modesRoundTrip(f *fixture) {
	old := f.campaign(16)
	old.ClosesAt = time.Date(2033, 1, 1, 0, 0, 0, 0, time.UTC)
	f.create(old)
	for _, mode := range []engine.Mode{
		engine.OpenByHand, engine.ClosedByHand, engine.ClosedByHand, engine.ClosedUntilReconciled, engine.ClosedUntilReconciled,
		engine.ByTimes, engine.Deleted,
	} {
		want := old
		want.Mode, want.Version = mode, old.Version+1_000_000_000
		replaced, err := f.Store.ReplaceCampaign(f.Context(), old, want)
		f.Must(err)
		got, err := f.Store.Campaign(f.Context(), f.name)
		f.Must(err)
		if !replaced || *got != want {
			f.Errorf("%s: want replaced and %+v, got %t and %+v", mode, want, replaced, got)
		}
		old = want
	}
}

// replaceCampaignConditions: a row is replaced only if its version has not been raised and it was not marked as empty.
func replaceCampaignConditions(f *fixture) {
	first := f.create(f.campaign(16))
	_, err := f.Store.NextVersion(f.Context(), f.name)
	f.Must(err)
	for _, test := range []struct {
		version, empty int64
		mark           bool // mark the row as empty before
		replaced       bool
	}{
		{version: 0}, {version: 2}, {version: 1, empty: 1}, {version: 1, replaced: true},
		{version: 2, mark: true}, {version: 2, empty: 1}, {version: 1, empty: 2}, {version: 2, empty: 2, replaced: true},
	} {
		if test.mark {
			_, err := f.Store.MarkEmpty(f.Context(), f.name, test.version)
			f.Must(err)
		}
		before, err := f.Store.Campaign(f.Context(), f.name)
		f.Must(err)
		want := first
		want.Mode, want.PageSize, want.ClosesAt = engine.OpenByHand, 31, end
		want.Version, want.EmptyVersion = test.version+1, test.empty
		replaced, err := f.Store.ReplaceCampaign(f.Context(), engine.Campaign{Version: test.version, EmptyVersion: test.empty}, want)
		f.Must(err)
		if !test.replaced {
			want = *before
		}
		got, err := f.Store.Campaign(f.Context(), f.name)
		f.Must(err)
		if replaced != test.replaced || *got != want {
			f.Errorf("%+v: want %+v, got replaced %t and %+v", test, want, replaced, *got)
		}
	}
	other := first
	other.Name += "-other"
	replaced, err := f.Store.ReplaceCampaign(f.Context(), other, other)
	if none, readErr := f.Store.Campaign(f.Context(), other.Name); replaced || err != nil || none != nil || readErr != nil {
		f.Errorf("absent campaign: got %t, %v and %+v, %v", replaced, err, none, readErr)
	}
}

// replaceCampaignRace: of several changes of the same row, one is made.
func replaceCampaignRace(f *fixture) {
	old := f.create(f.campaign(16))
	var replaced atomic.Int32
	var changes []func()
	for n := range 4 {
		now := old
		now.Version, now.PageSize = 1, 100+n
		changes = append(changes, func() {
			done, err := f.Store.ReplaceCampaign(f.Context(), old, now)
			if err != nil {
				f.Error(err)
			}
			if done {
				replaced.Add(1)
			}
		})
	}
	if enginerows.AtOnce(changes...); replaced.Load() != 1 {
		f.Errorf("%d of 4 changes were made, want 1", replaced.Load())
	}
}

// createInPlaceOfDeleted: the row of a deleted campaign is replaced by the next version, together with the scope row of
// the new campaign. Otherwise nothing changes.
func createInPlaceOfDeleted(f *fixture) {
	other := f.campaign(1)
	other.Name, other.Scope, other.Claimants = f.name+"-other", f.name+"-taken", "some-2"
	f.create(other)
	now := f.campaign(3)
	now.Scope, now.Claimants = f.name+"-scope", "some-1"
	there := f.campaign(16)
	there.Version, there.EmptyVersion = 4, 3
	f.create(there)
	create := func(version, empty int64, scope string) engine.CreateResult {
		f.Helper()
		next := now
		next.Version, next.EmptyVersion, next.Scope = version, empty, scope
		result, err := f.Store.CreateCampaign(f.Context(), next)
		f.Must(err)
		want := there
		if result.Created() {
			want = next
		}
		if got, err := f.Store.Campaign(f.Context(), f.name); err != nil || *got != want {
			f.Errorf("want %+v, got %+v, %v", want, got, err)
		}
		return result
	}
	wantThere := func(result engine.CreateResult) {
		f.Helper()
		if result.Existing == nil || *result.Existing != there {
			f.Errorf("want the campaign that was there, %+v, got %+v", there, result)
		}
	}
	wantThere(create(5, 3, now.Scope)) // the campaign is not deleted
	gone := there
	gone.Mode, gone.Version = engine.Deleted, 5
	if replaced, err := f.Store.ReplaceCampaign(f.Context(), there, gone); err != nil || !replaced {
		f.Fatalf("not deleted: %v", err)
	}
	there = gone
	for _, versions := range [][2]int64{{0, 0}, {5, 3}, {7, 3}, {6, 0}, {6, 5}} {
		wantThere(create(versions[0], versions[1], now.Scope))
	}
	if result := create(6, 3, other.Scope); result.Scope == nil || *result.Scope != other.ScopeRow() {
		f.Errorf("want the scope row that was there, %+v, got %+v", other.ScopeRow(), result)
	}
	if result := create(6, 3, now.Scope); !result.Created() {
		f.Errorf("not created: %+v", result)
	}
	now.Version, now.EmptyVersion = 6, 3
	there = now
	third := other
	third.Name, third.Scope = f.name+"-third", now.Scope
	f.wantScope(third, now.ScopeRow())
	wantThere(create(7, 3, now.Scope)) // the campaign is not deleted any more
}

func versionCountedUp(f *fixture) {
	want := f.create(f.campaign(16))
	for want.Version = 1; want.Version <= 2; want.Version++ {
		got, err := f.Store.NextVersion(f.Context(), f.name)
		f.Must(err)
		if got == nil || *got != want {
			f.Errorf("want %+v, got %+v", want, got)
		}
	}
	if none, err := f.Store.NextVersion(f.Context(), f.name+"-other"); none != nil || err != nil {
		f.Errorf("absent campaign: want nil and no error, got %+v, %v", none, err)
	}
	if none, err := f.Store.Campaign(f.Context(), f.name+"-other"); none != nil || err != nil {
		f.Errorf("counting up an absent campaign made %+v (%v)", none, err)
	}
}

func markEmptyNeedsVersion(f *fixture) {
	want := f.create(f.campaign(16))
	for range 3 {
		_, err := f.Store.NextVersion(f.Context(), f.name)
		f.Must(err)
	}
	want.Version = 3
	for _, test := range []struct {
		version int64
		marked  bool
	}{{2, false}, {4, false}, {3, true}, {3, true}, {2, false}} {
		marked, err := f.Store.MarkEmpty(f.Context(), f.name, test.version)
		f.Must(err)
		if test.marked {
			want.EmptyVersion = test.version
		}
		got, err := f.Store.Campaign(f.Context(), f.name)
		f.Must(err)
		if marked != test.marked || *got != want {
			f.Errorf("version %d: want marked %t and %+v, got %t and %+v", test.version, test.marked, want, marked, got)
		}
	}
	marked, err := f.Store.MarkEmpty(f.Context(), f.name+"-other", 0)
	if none, readErr := f.Store.Campaign(f.Context(), f.name+"-other"); marked || err != nil || none != nil || readErr != nil {
		f.Errorf("absent campaign: got %t, %v and %+v, %v", marked, err, none, readErr)
	}
}

// counts: Counts counts the rows of a campaign, and no row of another campaign in its scope.
func counts(f *fixture) {
	c := f.create(f.campaign(3))
	f.WantCounts(c, engine.Counts{})
	other := c
	other.Name += "-other"
	f.create(other)
	f.load(other, "x", "y")
	f.Take(other, "zoe", "x")
	items := enginerows.Texts("code", 40)
	f.load(c, items...)
	for _, item := range items[:4] {
		f.Take(c, "holder of "+item, item)
	}
	f.Close(enginerows.BurnOf(c, *f.Held(c, "holder of "+items[0])))
	f.WantCounts(c, engine.Counts{Loaded: 40, Free: 36, Claimed: 3, Ended: 1})
}
