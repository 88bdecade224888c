package enginetest

import (
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var campaignCases = []testCase{
	{"campaign-is-read-as-it-was-written", campaignRoundTrip},
	{"campaign-is-put-if-absent", campaignPutIfAbsent},
	{"campaigns-are-listed-by-name", campaignsListed},
	{"mode-changes-nothing-else", modeChangesNothingElse},
	{"version-is-counted-up", versionCountedUp},
	{"mark-as-empty-needs-the-version", markEmptyNeedsVersion},
	{"counts", counts},
}

func campaignRoundTrip(f *fixture) {
	opens := time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)
	want := engine.Campaign{
		Name: f.name, Mode: engine.ByTimes, OpensAt: opens, ClosesAt: opens.Add(time.Millisecond), Scope: "s" + f.name,
		Shards: 256, PageSize: 1000, ItemLife: 100 * 365 * 24 * time.Hour, ClaimLife: 90*time.Minute + time.Millisecond,
		Hold: 15*time.Minute + time.Millisecond, OnEnd: engine.Return, CreatedAt: opens.Add(-time.Hour),
		Version: 7, EmptyVersion: 5,
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
	existing, err := f.Store.CreateCampaign(f.Context(), second)
	f.Must(err)
	if existing == nil || *existing != first {
		f.Errorf("want the campaign that was there, %+v, got %+v", first, existing)
	}
	got, err := f.Store.Campaign(f.Context(), f.name)
	f.Must(err)
	if *got != first {
		f.Errorf("the campaign was changed to %+v", got)
	}
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

func modeChangesNothingElse(f *fixture) {
	want := f.campaign(16)
	want.ClosesAt = time.Date(2033, 1, 1, 0, 0, 0, 0, time.UTC)
	f.create(want)
	found, err := f.Store.SetMode(f.Context(), f.name, engine.ClosedByHand)
	f.Must(err)
	got, err := f.Store.Campaign(f.Context(), f.name)
	f.Must(err)
	want.Mode = engine.ClosedByHand
	want.Version++
	if !found || *got != want {
		f.Errorf("want found and %+v, got %t and %+v", want, found, got)
	}
	found, err = f.Store.SetMode(f.Context(), f.name+"-other", engine.OpenByHand)
	if found || err != nil {
		f.Errorf("absent campaign: want not found, got %t, %v", found, err)
	}
	if none, err := f.Store.Campaign(f.Context(), f.name+"-other"); none != nil || err != nil {
		f.Errorf("setting the mode of an absent campaign made %+v (%v)", none, err)
	}
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

// counts: the rows of a campaign are counted, and none of another one in its scope.
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
