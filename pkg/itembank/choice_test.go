package itembank_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var choiceCases = []testCase{
	{"one-item", chooseOne},
	{"all-or-none", chooseSeveral},
	{"claim-that-exists-is-the-answer", chooseAnother},
	{"bad-choices", badChoices},
	{"most-items-of-a-claim", mostItems},
	{"release-and-end", chosenReleased},
	{"rows-of-a-claim-are-read-at-once", chosenReadAtOnce},
	{"item-of-a-claim-that-is-due", chooseDue},
	{"reconcile-and-repair", chosenReconciled},
	{"replay", chosenReplayed},
}

// choose claims the items and fails the test if the claimant does not get them.
func (f *fixture) choose(b *itembank.Operator, claimant string, items ...string) itembank.Claim {
	f.Helper()
	grant, err := b.Claim(f.ctx, f.name, claimant, itembank.Choosing(items...))
	if err != nil || !slices.Equal(grant.Claim.Items, items) {
		f.Fatalf("%s chose %v: got %+v, %v", claimant, items, grant, err)
	}
	return grant.Claim
}

// mostItems: a claimant can have MaxItems items in each slot. Where claimants have several slots, four of them are four
// items, unless the campaign was created with more.
func mostItems(f *fixture) {
	for i, c := range []struct {
		settings itembank.Settings
		most     int
	}{
		{itembank.Settings{Choice: true}, engine.MaxClaimItems},
		{itembank.Settings{Choice: true, PerClaimant: 4}, 1},
		{itembank.Settings{Choice: true, PerClaimant: 2, MaxItems: 3}, 3},
		{itembank.Settings{Choice: true, MaxItems: 2}, 2},
		{itembank.Settings{Choice: true, PerClaimant: 2, MaxItems: engine.MaxClaimItems}, engine.MaxClaimItems},
		{itembank.Settings{PerClaimant: 4}, 1},
		{itembank.Settings{MaxItems: 1}, 1},
	} {
		f := f.named(fmt.Sprint(i))
		c.settings.Shards = 2
		created, _, err := f.bank().CreateCampaign(f.ctx, f.name, c.settings)
		f.Must(err)
		read, err := f.bank().Campaign(f.ctx, f.name)
		f.Must(err)
		if created.MaxItems != c.most || read.MaxItems != c.most {
			f.Errorf("%+v: want %d items a claim, got %d and from the store %d", c.settings, c.most, created.MaxItems, read.MaxItems)
		}
		if again, created, err := f.bank().CreateCampaign(f.ctx, f.name, c.settings); created || err != nil || again.MaxItems != c.most {
			f.Errorf("created again: %+v, %t, %v", again, created, err)
		}
		if !c.settings.Choice || c.most == engine.MaxClaimItems {
			continue
		}
		seats := codes("seat", c.most+1)
		f.load(seats...)
		_, err = f.bank().Claim(f.ctx, f.name, "ann", itembank.Choosing(seats...))
		if invalid, ok := errors.AsType[*itembank.InvalidError](err); !ok || invalid.Field != "items" {
			f.Errorf("%d items: want a refusal of items, got %v", len(seats), err)
		}
		f.choose(f.bank(), "ann", seats[:c.most]...)
	}
	for _, s := range []itembank.Settings{
		{MaxItems: 2}, {Choice: true, MaxItems: 21}, {Choice: true, MaxItems: -1}, {PerClaimant: 4, MaxItems: 4},
	} {
		_, _, err := f.bank().CreateCampaign(f.ctx, f.name+"-refused", s)
		if invalid, ok := errors.AsType[*itembank.InvalidError](err); !ok || invalid.Field != "max-items" {
			f.Errorf("%+v: want a refusal of max-items, got %v", s, err)
		}
	}
}

// notChosen claims items of which one is not free, and expects the refusal.
func (f *fixture) notChosen(b *itembank.Operator, claimant string, items ...string) {
	f.Helper()
	if grant, err := b.Claim(f.ctx, f.name, claimant, itembank.Choosing(items...)); !errors.Is(err, itembank.ErrItemTaken) {
		f.Errorf("%s chose %v: want %v, got %+v, %v", claimant, items, itembank.ErrItemTaken, grant, err)
	}
}

// seats creates a campaign with the seats seat-0 to seat-n.
func (f *fixture) seats(n int, s itembank.Settings) engine.Campaign {
	f.Helper()
	s.Choice = true
	if s.Shards == 0 {
		s.Shards = 3
	}
	c := f.create(s)
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf("seat-%d", i))
	}
	f.load(items...)
	return c
}

// chooseOne: a chosen item costs one transaction, and no read of the bank.
func chooseOne(f *fixture) {
	f.seats(4, itembank.Settings{OnEnd: itembank.Return})
	counted := f.counted()
	b := itembank.NewOperator(counted)
	claim := f.choose(b, "ann", "seat-2")
	f.wantCalls("a chosen item", counted, "Campaign", "Take")
	if again := f.choose(b, "ann", "seat-2"); !reflect.DeepEqual(again, claim) {
		f.Errorf("want %+v, got %+v", claim, again)
	}
	counted.Calls()
	f.notChosen(b, "bob", "seat-2")
	f.wantCalls("an item that is taken", counted, "Take", "HeldClaim")
	f.notChosen(b, "dan", "seat-77")
	f.choose(b, "bob", "seat-1")
	f.claim(b, "cid") // any item
	f.wantCounts(engine.Counts{Loaded: 4, Free: 1, Claimed: 3})
	f.Must(b.CloseCampaign(f.ctx, f.name))
	if _, err := b.Claim(f.ctx, f.name, "dan", itembank.Choosing("seat-0")); !errors.Is(err, itembank.ErrClosed) {
		f.Errorf("want %v, got %v", itembank.ErrClosed, err)
	}
	if again := f.choose(b, "ann", "seat-2"); !reflect.DeepEqual(again, claim) {
		f.Errorf("want %+v, got %+v", claim, again)
	}
}

func chooseSeveral(f *fixture) {
	f.seats(25, itembank.Settings{OnEnd: itembank.Return})
	counted := f.counted()
	b := itembank.NewOperator(counted)
	var twenty []string
	for i := range engine.MaxClaimItems {
		twenty = append(twenty, fmt.Sprintf("seat-%d", i))
	}
	claim := f.choose(b, "ann", twenty...)
	f.wantCalls("twenty items", counted, "Campaign", "Take")
	held, err := b.HeldClaim(f.ctx, f.name, "ann")
	if err != nil || !reflect.DeepEqual(held, claim) {
		f.Errorf("want %+v, got %+v, %v", claim, held, err)
	}
	f.notChosen(b, "bob", "seat-20", "seat-19", "seat-21")
	f.notChosen(b, "bob", "seat-20", "seat-99")
	f.wantCounts(engine.Counts{Loaded: 25, Free: 5, Claimed: 20})
	f.choose(b, "bob", "seat-24", "seat-20")
	f.wantCounts(engine.Counts{Loaded: 25, Free: 3, Claimed: 22})
}

// chooseAnother: a claimant who holds a claim gets that claim, whatever items the request names.
func chooseAnother(f *fixture) {
	f.seats(4, itembank.Settings{OnEnd: itembank.Return})
	b := f.bank()
	claim := f.choose(b, "ann", "seat-0", "seat-1")
	for _, other := range [][]string{{"seat-2"}, {"seat-0"}, {"seat-1", "seat-0"}, {"seat-2", "seat-3"}, nil} {
		grant, err := b.Claim(f.ctx, f.name, "ann", itembank.Choosing(other...))
		if err != nil || !reflect.DeepEqual(grant.Claim, claim) || !grant.Replayed {
			f.Errorf("%v: want %+v, got %+v, %v", other, claim, grant, err)
		}
	}
	f.wantCounts(engine.Counts{Loaded: 4, Free: 2, Claimed: 2})
}

func badChoices(f *fixture) {
	f.seats(2, itembank.Settings{})
	codes := f.named("codes")
	codes.stocked(2, itembank.Settings{})
	var many []string
	for i := range engine.MaxClaimItems + 1 {
		many = append(many, fmt.Sprintf("seat-%d", i))
	}
	for _, test := range []struct {
		*fixture
		items []string
		want  string
	}{
		{f, many, "at most 20"}, {f, []string{"seat-0", "seat-0"}, "twice"}, {f, []string{""}, "empty"}, {f, []string{"a\nb"}, "control"},
		{codes, []string{"code-00000"}, "cannot be chosen"},
	} {
		_, err := test.bank().Claim(f.ctx, test.name, "ann", itembank.Choosing(test.items...))
		if !errors.Is(err, itembank.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			f.Errorf("%v: want %q, got %v", test.items, test.want, err)
		}
	}
}

// chosenReleased: all items of a claim end or return with it, each by its own row.
func chosenReleased(f *fixture) {
	c := f.seats(6, itembank.Settings{Hold: time.Minute})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	claim := f.choose(b, "ann", "seat-0", "seat-1", "seat-2")
	if r, err := b.Withdraw(f.ctx, f.name, itembank.Items("seat-1", "seat-5")); err != nil || r.Held != 1 || r.Withdrawn != 1 {
		f.Errorf("got %+v, %v", r, err)
	}
	ends := itembank.NewItemEnds(itembank.ItemEnd{Item: "seat-0"}, itembank.ItemEnd{Item: "seat-1", Ended: "withdrawn"}, itembank.ItemEnd{Item: "seat-2"})
	f.released(b, rowOf(claim), itembank.Released{Ended: "withdrawn", Items: ends})
	f.wantCounts(engine.Counts{Loaded: 6, Free: 4, Ended: 2})

	confirmed := f.choose(b, "bob", "seat-0", "seat-3")
	if now, err := b.Confirm(f.ctx, f.name, "bob", confirmed.ID); err != nil || !slices.Equal(now.Items, confirmed.Items) {
		f.Errorf("got %+v, %v", now, err)
	}
	f.choose(b, "cid", "seat-2", "seat-4")
	clock.Advance(2 * time.Minute)
	report, err := b.Sweep(f.ctx, f.name, nil)
	if err != nil || report != (itembank.SweepReport{Returned: 2}) {
		f.Errorf("want two items returned, got %+v, %v", report, err)
	}
	f.WantWhere("held by bob", c, "seat-0", "bob", "cid")
	f.WantWhere("free", c, "seat-4", "bob", "cid")
	r, err := b.Release(f.ctx, f.name, "bob", confirmed.ID)
	want := []itembank.ItemEnd{{Item: "seat-0"}, {Item: "seat-3"}}
	if err != nil || !r.Returned || r.Ended != "" || !slices.Equal(r.Items.All(), want) {
		f.Errorf("got %+v, %v", r, err)
	}
	f.wantCounts(engine.Counts{Loaded: 6, Free: 4, Ended: 2})
}

// chosenReadAtOnce: closing a claim takes as many requests with twenty items as with one.
func chosenReadAtOnce(f *fixture) {
	f.seats(engine.MaxClaimItems, itembank.Settings{Hold: time.Minute, Shards: 1})
	clock := itembankfault.NewClock()
	var seats []string
	for i := range engine.MaxClaimItems {
		seats = append(seats, fmt.Sprintf("seat-%d", i))
	}
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	claim := f.choose(b, "ann", seats...)
	counted.Calls()
	_, err := b.Release(f.ctx, f.name, "ann", claim.ID)
	f.Must(err)
	f.wantCalls("a release", counted, "HeldClaim", "ItemRows", "CloseClaim")
	f.choose(b, "bob", seats...)
	clock.Advance(2 * time.Minute)
	counted.Calls()
	if report, err := b.SweepDue(f.ctx, f.name, nil); err != nil || report.Returned != engine.MaxClaimItems {
		f.Errorf("got %+v, %v", report, err)
	}
	f.wantCalls("a sweep", counted, "Campaign", "DueClaims", "HeldClaimEventuallyConsistent", "ItemRows", "CloseClaim")
}

// chooseDue: a hold that has ended does not keep a seat from the next claimant who names it.
func chooseDue(f *fixture) {
	f.seats(3, itembank.Settings{Hold: time.Minute, Shards: 1})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	f.choose(b, "ann", "seat-0", "seat-1")
	clock.Advance(time.Minute + endGrace/2)
	f.notChosen(b, "bob", "seat-1")
	clock.Advance(endGrace)
	f.choose(b, "bob", "seat-1")
	f.wantCounts(engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
}

// chosenReconciled: Reconcile knows all items of a claim, and Repair gives none of them away.
func chosenReconciled(f *fixture) {
	c := f.seats(4, itembank.Settings{OnEnd: itembank.Return})
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	claim := f.choose(b, "ann", "seat-0", "seat-1", "seat-2")
	report, err := b.Reconcile(f.ctx, f.name)
	if err != nil || len(report.Inconsistencies) > 0 || report.Counts != (itembank.Counts{Loaded: 4, Free: 1, Claimed: 3}) {
		f.Errorf("got %+v, %v", report, err)
	}
	f.putBankRow(enginerows.FreeItem(c, "seat-1"))
	f.dropItemRow(c, "seat-2")
	f.Must(b.CloseCampaign(f.ctx, f.name))
	repaired, err := b.Repair(f.ctx, f.name, itembank.RepairOptions{Items: itembank.Items("seat-0", "seat-1", "seat-2")})
	f.Must(err)
	kinds := map[string]string{}
	for _, i := range repaired.Inconsistencies {
		if !slices.Equal(i.Claims, []string{claim.ID}) || !i.Repaired {
			f.Errorf("got %+v", i)
		}
		kinds[i.Item] = i.Kind
	}
	if len(kinds) != 2 || kinds["seat-1"] != "held-and-free" || kinds["seat-2"] != "held-not-loaded" {
		f.Errorf("got %v", kinds)
	}
	if report, err := b.Reconcile(f.ctx, f.name); err != nil || len(report.Inconsistencies) > 0 {
		f.Errorf("after the repair: %+v, %v", report, err)
	}
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); !reflect.DeepEqual(held, claim) || err != nil {
		f.Errorf("want %+v, got %+v, %v", claim, held, err)
	}
}

// chosenReplayed: a lost claim goes back with all its items, or not at all.
func chosenReplayed(f *fixture) {
	c := f.seats(6, itembank.Settings{OnEnd: itembank.Return})
	b := f.bank()
	free, mixed, gone := f.choose(b, "ann", "seat-0", "seat-1"), f.choose(b, "bob", "seat-2", "seat-3"), f.choose(b, "cid", "seat-4", "seat-5")
	f.Must(b.CloseCampaign(f.ctx, f.name))
	for _, claim := range []itembank.Claim{free, mixed, gone} {
		f.Must(f.raw.DropClaim(f.ctx, rowOf(claim).Key()))
	}
	for _, item := range []string{"seat-0", "seat-1", "seat-2"} {
		f.putBankRow(enginerows.FreeItem(c, item))
	}
	f.putState(c, "seat-5", engine.Burned)
	report := f.replay(free, mixed, gone)
	if report.Replayed != 2 || report.Refused != 1 || report.Lines[2].Outcome != "item-ended" {
		f.Errorf("got %+v", report)
	}
	for _, claim := range []itembank.Claim{free, mixed} {
		if held, err := b.HeldClaim(f.ctx, f.name, claim.Claimant); !reflect.DeepEqual(held, claim) || err != nil {
			f.Errorf("want %+v, got %+v, %v", claim, held, err)
		}
	}
	if again := f.replay(free, mixed); again.Already != 2 {
		f.Errorf("got %+v", again)
	}
	f.wantCounts(engine.Counts{Loaded: 6, Claimed: 4, Ended: 1})
}
