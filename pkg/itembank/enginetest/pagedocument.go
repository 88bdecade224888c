package enginetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var pageCases = []testCase{
	{"page-is-replaced", pageIsReplaced},
	{"page-goes-with-its-campaign", pageGoesWithItsCampaign},
	{"page-against-deletion", pageAgainstDeletion},
}

func (f *fixture) putPage(campaign, document string) (put bool) {
	f.Helper()
	put, err := f.Store.PutPageDocument(f.Context(), campaign, []byte(document))
	f.Must(err)
	return put
}

// wantPage compares the page of a campaign; "": the campaign has no page.
func (f *fixture) wantPage(campaign, want string) {
	f.Helper()
	got, err := f.Store.PageDocument(f.Context(), campaign, true)
	f.Must(err)
	if string(got) != want || (got == nil) != (want == "") {
		f.Errorf("the page of %s: want %q, got %q", campaign, want, got)
	}
}

func pageIsReplaced(f *fixture) {
	c := f.create(f.campaign(1))
	f.wantPage(c.Name, "")
	for _, document := range []string{"\x00\xff\"", `{"a":1}`} {
		if !f.putPage(c.Name, document) {
			f.Error("the page of a campaign was not put")
		}
		f.wantPage(c.Name, document)
	}
	after, err := f.Store.Campaign(f.Context(), c.Name)
	f.Must(err)
	if *after != c {
		f.Errorf("the campaign was %+v and is %+v", c, *after)
	}
	f.wantPage(c.Name+"-other", "")
}

// pageGoesWithItsCampaign: a page needs a campaign. The next campaign of a deleted name has no page.
func pageGoesWithItsCampaign(f *fixture) {
	old := f.campaign(1)
	if f.putPage(old.Name, "early") {
		f.Error("a page without a campaign was put")
	}
	f.create(old)
	f.wantPage(old.Name, "")
	f.putPage(old.Name, "old")
	changed := old
	changed.Version, changed.PageSize = 1, 31
	f.replace(old, changed)
	f.wantPage(old.Name, "old")
	gone := changed
	gone.Mode, gone.Version = engine.Deleted, 2
	if replaced, err := f.Store.ReplaceCampaign(f.Context(), old, gone); replaced || err != nil {
		f.Errorf("a row of another version was deleted: %t, %v", replaced, err)
	}
	f.wantPage(old.Name, "old")
	f.replace(changed, gone)
	f.wantPage(old.Name, "")
	if f.putPage(old.Name, "late") {
		f.Error("the page of a deleted campaign was put")
	}
	next := old
	next.Version = 3
	f.create(next)
	f.wantPage(old.Name, "")
}

func (f *fixture) replace(old, now engine.Campaign) {
	f.Helper()
	if replaced, err := f.Store.ReplaceCampaign(f.Context(), old, now); err != nil || !replaced {
		f.Fatalf("not replaced: %v", err)
	}
}

// pageAgainstDeletion: if a put and a deletion run at once, no page is left.
func pageAgainstDeletion(f *fixture) {
	old := f.create(f.campaign(1))
	gone := old
	gone.Mode, gone.Version = engine.Deleted, 1
	var deleted atomic.Bool
	enginerows.AtOnce(func() {
		f.persist(func(ctx context.Context) (bool, error) { return f.Store.PutPageDocument(ctx, old.Name, []byte("late")) })
	}, func() {
		deleted.Store(f.persist(func(ctx context.Context) (bool, error) { return f.Store.ReplaceCampaign(ctx, old, gone) }))
	})
	if !deleted.Load() {
		f.Error("the campaign was not deleted")
	}
	f.wantPage(old.Name, "")
}

// persist repeats a call while the engine is busy.
func (f *fixture) persist(call func(context.Context) (bool, error)) (done bool) {
	for {
		done, err := call(f.Context())
		if errors.Is(err, engine.ErrTryAgain) {
			continue
		}
		if err != nil {
			f.Error(err)
		}
		return done
	}
}
