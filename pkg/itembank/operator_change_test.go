package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var changeCases = []testCase{
	{"settings-of-a-campaign", changeSettings},
	{"change-against-a-change", changeAgainstChange},
	{"change-against-a-load", changeAgainstLoad},
	{"change-sent-twice", changeSentTwice},
	{"load-against-a-change", loadAgainstChange},
	{"change-while-the-bank-is-marked-as-empty", changeWhileMarked},
	{"delete-what-was-never-loaded", deleteNeverLoaded},
	{"delete-what-was-loaded", deleteLoaded},
	{"load-against-a-new-campaign-of-the-name", loadAgainstNewCampaign},
	{"delete-against-a-new-campaign-of-the-name", deleteAgainstNewCampaign},
	{"name-of-a-deleted-campaign", deletedName},
	{"copy-of-a-deleted-campaign", deletedCopy},
	{"deleted-name-against-a-creation", deletedNameAgainstCreation},
	{"deleted-name-against-a-campaign-of-its-scope", deletedNameAgainstScope},
	{"scope-of-a-deleted-campaign", scopeOfDeleted},
}

var (
	changedOpens  = time.Date(2031, 3, 1, 9, 0, 0, 0, time.UTC)
	changedCloses = time.Date(2031, 3, 2, 9, 0, 0, 0, time.UTC)
)

// atEachCall runs an operation once for each of its calls, on a new campaign each time. It runs meanwhile before that
// call.
func (f *fixture) atEachCall(do func(f *fixture, b *itembank.Operator), meanwhile func(f *fixture)) {
	f.Helper()
	f.atCallsFrom(1, do, meanwhile)
}

// atCallsFrom is atEachCall without the first calls.
func (f *fixture) atCallsFrom(first int, do func(f *fixture, b *itembank.Operator), meanwhile func(f *fixture)) {
	f.Helper()
	for n := first; ; n++ {
		one, called := f.named(fmt.Sprint(n)), false
		store := one.interruptedAt(n, false, func() error {
			called = true
			meanwhile(one)
			return nil
		})
		do(one, itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock())))
		if !called {
			if n < 3 {
				f.Errorf("the operation has %d calls", n-1)
			}
			return
		}
	}
}

// secondCall is the number of an operation's first call after it has read the campaign.
const secondCall = 2

func (f *fixture) campaign() itembank.Campaign {
	f.Helper()
	c, err := f.bank().Campaign(f.ctx, f.name)
	f.Must(err)
	return c
}

func changeSettings(f *fixture) {
	f.create(itembank.Settings{})
	b, pageSize := f.bank(), 50
	want := f.campaign()
	change := func(change itembank.CampaignChange) {
		f.Helper()
		got, err := b.ChangeCampaign(f.ctx, f.name, change)
		if stored := f.campaign(); err != nil || got != want || stored != want {
			f.Errorf("want %+v, got %+v, stored %+v, %v", want, got, stored, err)
		}
	}
	want.OpensAt, want.ClosesAt, want.PageSize = changedOpens, changedCloses, pageSize
	change(itembank.CampaignChange{OpensAt: &changedOpens, ClosesAt: &changedCloses, PageSize: &pageSize})
	change(itembank.CampaignChange{})
	f.wantState(b, itembank.Scheduled)
	f.Must(b.OpenCampaign(f.ctx, f.name))
	want.Override, want.ClosesAt = itembank.Open, time.Time{}
	change(itembank.CampaignChange{ClosesAt: &time.Time{}})
	want.Override = ""
	change(itembank.CampaignChange{ByTimes: true})
	f.wantState(b, itembank.Scheduled)
	none := 0
	for _, wrong := range []itembank.CampaignChange{{PageSize: &none}, {ClosesAt: &changedOpens}} {
		if _, err := b.ChangeCampaign(f.ctx, f.name, wrong); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("%+v: want %v, got %v", wrong, itembank.ErrInvalid, err)
		}
	}
	f.Must(b.CloseUntilReconciled(f.ctx, f.name))
	want.Override, want.UntilReconciled = itembank.Closed, true
	if _, err := b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ByTimes: true}); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("closed until reconciled: want %v, got %v", itembank.ErrInvalid, err)
	}
	if got := f.campaign(); got != want {
		f.Errorf("want %+v, got %+v", want, got)
	}
	if _, err := b.ChangeCampaign(f.ctx, f.name+"-other", itembank.CampaignChange{}); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
}

// changeAgainstChange: two operators change a campaign at once. Either both changes are made, or one operator gets an
// error. So the times never end up in a wrong order.
func changeAgainstChange(f *fixture) {
	late, changed := changedCloses.Add(time.Hour), false // the change of the other operator
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.create(itembank.Settings{ClosesAt: changedCloses.Add(24 * time.Hour)})
		changed = false
		_, err := b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ClosesAt: &changedCloses})
		got := f.campaign()
		refused := errors.Is(err, itembank.ErrChanged) || errors.Is(err, itembank.ErrInvalid) // the other operator was first
		if refused != changed || got.OpensAt.Equal(late) != changed || got.ClosesAt.Equal(changedCloses) == changed {
			f.Errorf("got %v, and the times %s to %s", err, got.OpensAt, got.ClosesAt)
		}
	}, func(f *fixture) {
		changed = true
		_, err := f.bank().ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{OpensAt: &late})
		f.Must(err)
	})
}

// changeAgainstLoad: a load only raises the version, so the change is still made.
func changeAgainstLoad(f *fixture) {
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.create(itembank.Settings{})
		_, err := b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ClosesAt: &changedCloses})
		f.Must(err)
		if got := f.campaign(); !got.ClosesAt.Equal(changedCloses) {
			f.Errorf("the change is lost: %+v", got)
		}
	}, func(f *fixture) { f.load("a", "b") })
}

// changesTwice sends each change of a campaign twice, as a client does if the reply to the first one is lost.
type changesTwice struct{ engine.Store }

func (s changesTwice) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	if _, err := s.Store.ReplaceCampaign(ctx, old, now); err != nil {
		return false, err
	}
	return s.Store.ReplaceCampaign(ctx, old, now)
}

// changeSentTwice: a change that was sent twice is not taken for a change by another operator.
func changeSentTwice(f *fixture) {
	f.create(itembank.Settings{})
	got, err := itembank.NewOperator(changesTwice{f.Store}).ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ClosesAt: &changedCloses})
	if err != nil || got != f.campaign() || !got.ClosesAt.Equal(changedCloses) {
		f.Errorf("got %+v, %v", got, err)
	}
	if err := f.deleted(itembank.NewOperator(changesTwice{f.Store})); err != nil {
		f.Errorf("the deletion: got %v", err)
	}
	f.wantGone()
}

func loadAgainstChange(f *fixture) {
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.create(itembank.Settings{})
		_, err := b.Load(f.ctx, f.name, itembank.Items("a", "b"), nil)
		f.Must(err)
		f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
		f.claim(f.bank(), "ann")
	}, func(f *fixture) {
		_, err := f.bank().ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ClosesAt: &changedCloses})
		f.Must(err)
	})
}

// changeWhileMarked: a container proves the bank empty while the campaign is changed. The next load still waits until
// no container believes that.
func changeWhileMarked(f *fixture) {
	marked := false
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.stocked(1, itembank.Settings{Shards: 1})
		f.claim(f.bank(), "ann")
		marked = false
		_, err := b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ClosesAt: &changedCloses})
		f.Must(err)
		clock := itembankfault.NewClock()
		before := clock.Now()
		f.loadAt(clock, "new")
		if waited := clock.Now().Sub(before); marked && waited <= 5*time.Second {
			f.Errorf("the load waited %s", waited)
		}
	}, func(f *fixture) {
		f.refused(f.bank(), "bob", itembank.ErrSoldOut)
		if marked = f.marked(); !marked {
			f.Error("the row does not say that the bank is empty")
		}
	})
}

func (f *fixture) deleted(b *itembank.Operator) error {
	f.Helper()
	return b.DeleteCampaign(f.ctx, f.name)
}

// wantGone checks that the campaign and its loads do not exist.
func (f *fixture) wantGone() {
	f.Helper()
	if _, err := f.bank().Campaign(f.ctx, f.name); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
	some, _, err := f.Store.Loads(f.ctx, f.name)
	f.Must(err)
	if some {
		f.Error("a deleted campaign has a load")
	}
	f.wantCounts(engine.Counts{})
}

func deleteNeverLoaded(f *fixture) {
	f.create(itembank.Settings{})
	b := f.bank()
	f.Must(f.deleted(b))
	f.wantGone()
	if err := f.deleted(b); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("deleted again: want %v, got %v", itembank.ErrNoCampaign, err)
	}
	all, err := b.Campaigns(f.ctx)
	f.Must(err)
	for _, c := range all {
		if c.Name == f.name {
			f.Error("the campaign is listed")
		}
	}
	for what, do := range map[string]func() error{
		"open":  func() error { return b.OpenCampaign(f.ctx, f.name) },
		"close": func() error { return b.CloseCampaign(f.ctx, f.name) },
		"claim": func() error { _, err := b.Claim(f.ctx, f.name, "ann"); return err },
		"load":  func() error { _, err := b.Load(f.ctx, f.name, itembank.Items("a"), nil); return err },
		"page":  func() error { return b.SetPageDocument(f.ctx, f.name, []byte("{}")) },
		"change": func() error {
			_, err := b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{})
			return err
		},
	} {
		if err := do(); !errors.Is(err, itembank.ErrNoCampaign) {
			f.Errorf("%s: want %v, got %v", what, itembank.ErrNoCampaign, err)
		}
	}
	f.wantGone()
}

// deleteLoaded: a campaign is not deleted if a load stopped before its first item, or if a restored table left rows.
func deleteLoaded(f *fixture) {
	for suffix, prepare := range map[string]func(f *fixture){
		"loaded": func(f *fixture) { f.load("a") },
		"cut": func(f *fixture) {
			if _, err := itembank.NewOperator(f.cutAt(1, false, "AddItems")).Load(f.ctx, f.name, itembank.Items("a"), nil); !errors.Is(err, errCut) {
				f.Fatal(err)
			}
		},
		"claim": func(f *fixture) {
			f.putClaim(enginerows.NewClaim(engine.Campaign{Name: f.name, Scope: f.name}, "ann", "a"))
		},
	} {
		one := f.named(suffix)
		one.create(itembank.Settings{})
		prepare(one)
		if err := one.deleted(one.bank()); !errors.Is(err, itembank.ErrLoaded) {
			f.Errorf("%s: want %v, got %v", suffix, itembank.ErrLoaded, err)
		}
		one.campaign()
	}
}

// loadAgainstNewCampaign: just before a load begins, the campaign is deleted and created again with other settings. The
// load adds its items by the new settings, so that requests find them.
func loadAgainstNewCampaign(f *fixture) {
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.create(itembank.Settings{Shards: 64})
		if _, err := b.Load(f.ctx, f.name, itembank.Items("a", "b"), nil); errors.Is(err, itembank.ErrNoCampaign) {
			return
		} else if err != nil {
			f.Error(err)
		}
		f.reconciled()
		f.claim(f.bank(), "ann")
		f.claim(f.bank(), "bob")
	}, func(f *fixture) {
		if err := f.deleted(f.bank()); errors.Is(err, itembank.ErrLoaded) {
			return
		}
		f.passDrainTime()
		f.create(itembank.Settings{Shards: 2, ItemLife: time.Hour})
	})
}

// wantListed checks whether the campaign is in the list of all: sweeps, forget and other commands find it there.
func (f *fixture) wantListed(want bool) {
	f.Helper()
	all, err := f.bank().Campaigns(f.ctx)
	f.Must(err)
	if got := slices.ContainsFunc(all, func(c itembank.Campaign) bool { return c.Name == f.name }); got != want {
		f.Errorf("the campaign is listed: %t, want %t", got, want)
	}
}

// passDrainTime moves the deletion of a campaign into the past.
func (f *fixture) passDrainTime() {
	f.Helper()
	row, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	old := *row
	old.ClosesAt = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if replaced, err := f.Store.ReplaceCampaign(f.ctx, *row, old); err != nil || !replaced {
		f.Fatalf("not deleted: %v", err)
	}
}

// deleteAgainstNewCampaign: a campaign is deleted and created again while another operator deletes it. The new campaign
// stays.
func deleteAgainstNewCampaign(f *fixture) {
	created := false
	f.atCallsFrom(secondCall, func(f *fixture, b *itembank.Operator) {
		f.create(itembank.Settings{})
		created = false
		if err := f.deleted(b); created != errors.Is(err, itembank.ErrChanged) || !created && err != nil {
			f.Errorf("created %t, got %v", created, err)
		}
		if _, err := f.bank().Campaign(f.ctx, f.name); created == errors.Is(err, itembank.ErrNoCampaign) {
			f.Errorf("created %t, got %v", created, err)
		}
		f.wantListed(created)
	}, func(f *fixture) {
		created = true
		f.Must(f.deleted(f.bank()))
		f.passDrainTime()
		f.create(itembank.Settings{})
	})
}

// deletedName: the name is free again when no Bank uses the old rules any more.
func deletedName(f *fixture) {
	clock := itembankfault.NewClock()
	b := itembank.NewOperator(&itembankfault.Store{Store: f.Store, Server: clock}, itembank.WithClock(clock))
	f.create(itembank.Settings{})
	f.Must(f.deleted(b))
	f.wantListed(false)
	settings := itembank.Settings{Scope: f.name + "-scope", Shards: 3, OnEnd: itembank.Return}
	for _, d := range []time.Duration{0, itembank.DrainTime - time.Millisecond} {
		if clock.Advance(d); d > 0 {
			clock.Advance(-time.Millisecond) // ClosesAt has whole milliseconds
		}
		if _, created, err := b.CreateCampaign(f.ctx, f.name, settings); created || !errors.Is(err, itembank.ErrDeleted) {
			f.Errorf("want %v, got created %t, %v", itembank.ErrDeleted, created, err)
		}
	}
	clock.Advance(2 * time.Millisecond)
	got, created, err := b.CreateCampaign(f.ctx, f.name, settings)
	if err != nil || !created || got.Scope != settings.Scope || f.campaign() != got {
		f.Errorf("got created %t, %+v, %v", created, got, err)
	}
	f.wantListed(true)
	if _, again, err := b.CreateCampaign(f.ctx, f.name, settings); again || err != nil {
		f.Errorf("created again: %t, %v", again, err)
	}
	f.load("a")
	if claim := f.claim(b, "ann").Claim; claim.Scope != settings.Scope {
		f.Errorf("claimed in scope %s", claim.Scope)
	}
	if row, err := f.Store.Campaign(f.ctx, f.name); err != nil || row.Version < 3 {
		f.Errorf("the version went back: %+v, %v", row, err)
	}
}

// deletedCopy: a Bank that has a copy of a deleted campaign's rules answers and releases by the rules of the campaign
// that has the name now.
func deletedCopy(f *fixture) {
	clock := itembankfault.NewClock()
	store := &itembankfault.Store{Store: f.Store, Server: clock}
	old := itembank.NewOperator(store, itembank.WithClock(clock))
	now := itembank.NewOperator(store, itembank.WithClock(clock))
	f.create(itembank.Settings{Shards: 1})
	f.refused(old, "ann", itembank.ErrSoldOut)
	f.Must(f.deleted(now))
	clock.Advance(itembank.DrainTime + time.Second)
	_, _, err := now.CreateCampaign(f.ctx, f.name, itembank.Settings{Scope: f.name + "-scope", Shards: 200, OnEnd: itembank.Return})
	f.Must(err)
	f.load(codes("code", 5)...)
	claim := f.claim(now, "ann").Claim
	if held, err := old.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, claim) {
		f.Errorf("want %+v, got %+v, %v", claim, held, err)
	}
	f.released(old, rowOf(claim), itembank.Released{Returned: true})
	f.reconciled()
}

// createDeleted makes the row of a campaign that was deleted long ago.
func (f *fixture) createDeleted(s itembank.Settings) {
	f.Helper()
	old := f.create(s)
	gone := old
	gone.Mode, gone.ClosesAt, gone.Version = engine.Deleted, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), old.Version+1
	if replaced, err := f.Store.ReplaceCampaign(f.ctx, old, gone); err != nil || !replaced {
		f.Fatalf("not deleted: %v", err)
	}
}

// deletedNameAgainstCreation: if two operators use the name of a deleted campaign, one campaign is created.
func deletedNameAgainstCreation(f *fixture) {
	created := false // by the other operator
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.createDeleted(itembank.Settings{})
		created = false
		mine := itembank.Settings{Scope: f.name + "-scope", ClaimantAs: itembank.Email}
		_, ok, err := b.CreateCampaign(f.ctx, f.name, mine)
		if ok == created || created != errors.Is(err, itembank.ErrInvalid) || !created && err != nil {
			f.Errorf("the other operator created it: %t; got created %t, %v", created, ok, err)
		}
		if scope := f.campaign().Scope; (scope == mine.Scope) != ok {
			f.Errorf("created %t, and the scope is %s", ok, scope)
		}
	}, func(f *fixture) {
		created = true
		f.create(itembank.Settings{})
		f.load("a")
	})
}

// deletedNameAgainstScope: the name of a deleted campaign is used in a scope while another operator creates a campaign
// with another ClaimantAs there. One of the two campaigns is created.
func deletedNameAgainstScope(f *fixture) {
	created := false // the campaign of the other operator
	f.atEachCall(func(f *fixture, b *itembank.Operator) {
		f.createDeleted(itembank.Settings{})
		created = false
		_, ok, err := b.CreateCampaign(f.ctx, f.name, itembank.Settings{Scope: f.name + "-scope", ClaimantAs: itembank.Email})
		if ok == created || created != errors.Is(err, itembank.ErrInvalid) || !created && err != nil {
			f.Errorf("the other campaign was created: %t; got created %t, %v", created, ok, err)
		}
		if _, err := f.bank().Campaign(f.ctx, f.name); errors.Is(err, itembank.ErrNoCampaign) == ok {
			f.Errorf("created %t, and got %v", ok, err)
		}
		if ok { // the scope has a row now
			f.wantRefusedScope(f.name+"-other", itembank.Settings{Scope: f.name + "-scope"})
		}
	}, func(f *fixture) {
		created = true
		f.createNamed(f.name+"-other", itembank.Settings{Scope: f.name + "-scope"})
	})
}

// scopeOfDeleted: the settings of a scope stay when its campaigns are deleted.
func scopeOfDeleted(f *fixture) {
	scope := f.name + "-scope"
	old := f.named("old")
	old.createDeleted(itembank.Settings{Scope: scope})
	email := itembank.Settings{Scope: scope, ClaimantAs: itembank.Email}
	wantRefused := func(name string, s itembank.Settings, field string) {
		f.Helper()
		_, created, err := f.bank().CreateCampaign(f.ctx, name, s)
		var invalid *itembank.InvalidError
		if created || !errors.As(err, &invalid) || invalid.Field != field {
			f.Errorf("want another %s, got %t, %v", field, created, err)
		}
	}
	wantRefused(old.name, email, "claimant-as")
	wantRefused(f.name, email, "claimant-as")

	several := f.named("several")
	several.createDeleted(itembank.Settings{PerClaimant: 3})
	wantRefused(several.name, itembank.Settings{}, "scope")
	several.create(itembank.Settings{PerClaimant: 2})
}
