package itembank_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var lookUpCases = []testCase{
	{"places-of-an-item", placesOfItem},
	{"item-that-moves-meanwhile", lookUpMoving},
	{"item-that-is-missing", lookUpMissing},
	{"contradictions", lookUpContradictions},
	{"items-of-a-claim-of-several", lookUpSeveral},
	{"claims-in-slots", lookUpSlots},
	{"claims-of-a-campaign", listedClaims},
	{"claims-that-move-meanwhile", listedWhileMoving},
	{"claim-in-the-scope", claimInScope},
	{"rate", lookUpRate},
}

func (f *fixture) lookedUp(b *itembank.Operator, item string, want itembank.ItemPlace, holder string) itembank.ItemReport {
	f.Helper()
	got, err := b.LookUp(f.ctx, f.name, item)
	held := ""
	if got.Claim != nil {
		held = got.Claim.Claimant
	}
	if err != nil || got.Campaign != f.name || got.Item != item || got.Place != want || held != holder {
		f.Errorf("%s: want it %s, held by %q; got %+v held by %q, %v", item, want, holder, got, held, err)
	}
	return got
}

func placesOfItem(f *fixture) {
	clock := itembankfault.NewClock()
	b := itembank.NewOperator(&itembankfault.Store{Store: f.Store, Server: clock}, itembank.WithClock(clock))
	f.create(itembank.Settings{Shards: 2, Hold: time.Minute, ItemLife: time.Hour})
	f.loadAt(clock, "a")
	ann := f.claim(b, "ann").Claim
	report := f.lookedUp(b, "a", itembank.PlaceHeld, "ann")
	if !reflect.DeepEqual(*report.Claim, ann) || report.Row != 1 || report.LoadID == "" || !report.EndsAt.After(clock.Now()) || report.Returns != 0 {
		f.Errorf("unexpected %+v", report)
	}
	if of, err := b.ItemsOfClaim(f.ctx, ann); err != nil || len(of) != 1 || of[0].Place != itembank.PlaceHeld || !reflect.DeepEqual(*of[0].Claim, ann) {
		f.Errorf("item of the claim: got %+v, %v", of, err)
	}
	_, err := b.Confirm(f.ctx, f.name, "ann", ann.ID)
	f.Must(err)
	f.lookedUp(b, "a", itembank.PlaceClaimed, "ann")
	_, err = b.Withdraw(f.ctx, f.name, itembank.Items("a"))
	f.Must(err)
	if !f.lookedUp(b, "a", itembank.PlaceClaimed, "ann").Withdraw {
		f.Error("the report does not say that the item was withdrawn")
	}
	f.released(b, rowOf(ann), itembank.Released{Ended: "withdrawn"})
	f.lookedUp(b, "a", itembank.PlaceWithdrawn, "")
	f.lookedUp(b, "b", itembank.PlaceUnknown, "")
	f.loadAt(clock, "b")
	f.lookedUp(b, "b", itembank.PlaceFree, "")
	f.released(b, rowOf(f.claim(b, "bob").Claim), itembank.Released{Returned: true})
	if got := f.lookedUp(b, "b", itembank.PlaceFree, ""); got.Returns != 1 {
		f.Errorf("want one return, got %+v", got)
	}
	clock.Advance(2 * time.Hour)
	f.lookedUp(b, "b", itembank.PlaceExpired, "") // also before it is taken out
	_, err = b.Sweep(f.ctx, f.name, nil)
	f.Must(err)
	f.lookedUp(b, "b", itembank.PlaceExpired, "")
	f.loadAt(clock, "c", "d")
	carl := f.claim(b, "carl").Claim.Items[0]
	f.ended(b, map[string]itembank.ItemPlace{
		"a": itembank.PlaceWithdrawn, "b": itembank.PlaceExpired, "c": "", "d": "", carl: "", "e": itembank.PlaceUnknown,
	})
	burning := f.named("burning")
	burning.stocked(1, itembank.Settings{})
	burning.released(b, rowOf(burning.claim(b, "ann").Claim), itembank.Released{Ended: "burned"})
	burning.lookedUp(b, "code-00000", itembank.PlaceBurned, "")
	burning.ended(b, map[string]itembank.ItemPlace{"code-00000": itembank.PlaceBurned})
	if _, err := b.EndedItems(f.ctx, "none", nil); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
	for _, wrong := range []string{"", "a\n", strings.Repeat("x", engine.MaxItem+1)} {
		_, err := b.LookUp(f.ctx, f.name, wrong)
		_, errEnded := b.EndedItems(f.ctx, f.name, []string{"a", wrong})
		if !errors.Is(err, itembank.ErrInvalid) || !errors.Is(errEnded, itembank.ErrInvalid) {
			f.Errorf("item %q: want %v, got %v and %v", wrong, itembank.ErrInvalid, err, errEnded)
		}
	}
}

// ended checks the places of EndedItems, with more items than one request reads, each of them twice.
func (f *fixture) ended(b *itembank.Operator, want map[string]itembank.ItemPlace) {
	f.Helper()
	items := slices.Sorted(maps.Keys(want))
	items = slices.Repeat(items, 2*engine.MaxItemRows/len(items))
	got, err := b.EndedItems(f.ctx, f.name, items)
	if err != nil || len(got) != len(items) {
		f.Fatalf("got %d places of %d items, %v", len(got), len(items), err)
	}
	for i, item := range items {
		if got[i] != want[item] {
			f.Errorf("%s: want %q, got %q", item, want[item], got[i])
		}
	}
}

// lookUpMoving: the item goes back to the bank while LookUp reads the claims, before it reads the item's claim.
func lookUpMoving(f *fixture) {
	f.stocked(1, itembank.Settings{OnEnd: itembank.Return, Shards: 1})
	ann := f.claim(f.bank(), "ann").Claim
	store := f.interruptedAt(1, false, func() error {
		f.released(f.bank(), rowOf(ann), itembank.Released{Returned: true})
		return nil
	}, "ListClaims")
	b := itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	f.lookedUp(b, "code-00000", itembank.PlaceFree, "")
	f.claim(f.bank(), "bob")
	f.lookedUp(b, "code-00000", itembank.PlaceClaimed, "bob")
}

func lookUpMissing(f *fixture) {
	c, items := f.stocked(2, itembank.Settings{})
	f.dropBankRow(enginerows.FreeItem(c, items[0]))
	store := f.counted()
	b := itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	f.lookedUp(b, items[0], itembank.PlaceMissing, "")
	if reads := slices.DeleteFunc(store.Calls(), func(m string) bool { return m != "ReadItems" }); len(reads) != 3 {
		f.Errorf("want 3 reads of the item, got %d", len(reads))
	}
}

func lookUpContradictions(f *fixture) {
	c, items := f.stocked(2, itembank.Settings{})
	f.putState(c, items[0], engine.Burned)
	f.dropItemRow(c, items[1])
	for i, kind := range []string{"free-and-ended", "free-not-loaded"} {
		if _, err := f.bank().LookUp(f.ctx, f.name, items[i]); !errors.Is(err, &itembank.InconsistentError{Kind: kind}) {
			f.Errorf("want %s, got %v", kind, err)
		}
	}
}

// lookUpSeveral: LookUp finds a claim by each of its items.
func lookUpSeveral(f *fixture) {
	f.seats(4, itembank.Settings{OnEnd: itembank.Return})
	b := f.bank()
	f.choose(b, "bob", "seat-3")
	ann := f.choose(b, "ann", "seat-2", "seat-0")
	for _, item := range ann.Items {
		if got := f.lookedUp(b, item, itembank.PlaceClaimed, "ann"); !reflect.DeepEqual(*got.Claim, ann) {
			f.Errorf("%s: want %+v, got %+v", item, ann, *got.Claim)
		}
	}
	of, err := b.ItemsOfClaim(f.ctx, ann)
	if err != nil || len(of) != 2 || of[0].Item != "seat-2" || of[1].Item != "seat-0" || of[1].Place != itembank.PlaceClaimed {
		f.Errorf("items of the claim: got %+v, %v", of, err)
	}
	if listed := f.listed(b); len(listed) != 2 || !slices.ContainsFunc(listed, func(c itembank.Claim) bool { return reflect.DeepEqual(c, ann) }) {
		f.Errorf("want the claim %+v, got %+v", ann, listed)
	}
	f.lookedUp(b, "seat-1", itembank.PlaceFree, "")
}

// lookUpSlots: a claimant is found in any spelling and in each slot.
func lookUpSlots(f *fixture) {
	f.stocked(3, itembank.Settings{PerClaimant: 2, ClaimantAs: itembank.Email})
	b := f.bank()
	var want []itembank.Claim
	for slot := range 2 {
		grant, err := b.Claim(f.ctx, f.name, "Ann@example.com", itembank.InSlot(slot+1))
		f.Must(err)
		want = append(want, grant.Claim)
		got, err := b.FindClaim(f.ctx, f.name, " ANN@example.com", itembank.InSlot(slot+1))
		if err != nil || !reflect.DeepEqual(got, grant.Claim) {
			f.Errorf("want %+v, got %+v, %v", grant.Claim, got, err)
		}
		if report := f.lookedUp(b, got.Items[0], itembank.PlaceClaimed, "ann@example.com"); !reflect.DeepEqual(*report.Claim, got) {
			f.Errorf("want %+v, got %+v", got, *report.Claim)
		}
	}
	if _, err := b.FindClaim(f.ctx, f.name, "ann@example.com", itembank.InSlot(3)); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("want %v, got %v", itembank.ErrInvalid, err)
	}
	if all, err := b.ClaimsOf(f.ctx, f.name, "ANN@example.com"); err != nil || !reflect.DeepEqual(all, want) {
		f.Errorf("want %+v, got %+v, %v", want, all, err)
	}
	listed := f.listed(b)
	slices.SortFunc(listed, func(x, y itembank.Claim) int { return x.Slot - y.Slot })
	if !reflect.DeepEqual(listed, want) {
		f.Errorf("want %+v, got %+v", want, listed)
	}
}

// listed reads all pages of ListClaims.
func (f *fixture) listed(b *itembank.Operator) (claims []itembank.Claim) {
	f.Helper()
	for from, first := "", true; first || from != ""; first = false {
		page, err := b.ListClaims(f.ctx, f.name, from)
		f.Must(err)
		claims, from = append(claims, page.Claims...), page.Next
	}
	return claims
}

// listedClaims: the list has the claims of the campaign, and no claim of another campaign in its scope.
func listedClaims(f *fixture) {
	f.stocked(5, itembank.Settings{ClaimLife: time.Hour})
	other := f.named("other")
	other.stocked(2, itembank.Settings{Scope: f.name})
	b := f.bank()
	other.claim(b, "zoe")
	var want []itembank.Claim
	for _, claimant := range []string{"ann", "bob, the \"1st\"", "cid"} {
		want = append(want, f.claim(b, claimant).Claim)
	}
	got := f.listed(f.bank())
	slices.SortFunc(got, func(x, y itembank.Claim) int { return strings.Compare(x.Claimant, y.Claimant) })
	if !reflect.DeepEqual(got, want) {
		f.Errorf("want %+v, got %+v", want, got)
	}
	if got := other.listed(b); len(got) != 1 || got[0].Claimant != "zoe" {
		f.Errorf("the other campaign has %+v", got)
	}
	if _, err := b.ListClaims(f.ctx, f.name+"-none", ""); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
}

// listedWhileMoving: claims that stay are listed once, and no claimant is listed twice, whatever happens between two
// pages.
func listedWhileMoving(f *fixture) {
	f.stocked(300, itembank.Settings{OnEnd: itembank.Return, Shards: 1})
	b := f.bank()
	stay := map[string]bool{}
	for _, claimant := range codes("stays", 40) {
		stay[f.claim(b, claimant).Claim.ID] = true
	}
	moves := codes("moves", 8)
	n := 0
	store := &itembankfault.Store{Store: f.Store, After: func(method string) error {
		if method != "ListClaims" {
			return nil
		}
		claimant := moves[n%len(moves)]
		if n++; n > 64 { // enough for all pages of an engine with few pages
			return nil
		}
		if held, err := f.bank().HeldClaim(f.ctx, f.name, claimant); err == nil {
			f.released(f.bank(), rowOf(held), itembank.Released{Returned: true})
		} else {
			f.claim(f.bank(), claimant)
		}
		return nil
	}}
	claimants := map[string]int{}
	for _, claim := range f.listed(itembank.NewOperator(store)) {
		if claimants[claim.Claimant]++; claimants[claim.Claimant] > 1 {
			f.Errorf("%s is listed twice", claim.Claimant)
		}
		delete(stay, claim.ID)
	}
	if len(stay) > 0 {
		f.Errorf("%d claims that existed all the time are not listed", len(stay))
	}
}

func claimInScope(f *fixture) {
	f.stocked(1, itembank.Settings{})
	other := f.named("other")
	other.create(itembank.Settings{Scope: f.name})
	b := f.bank()
	ann := f.claim(b, "ann").Claim
	if got, err := b.FindClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(got, ann) {
		f.Errorf("want %+v, got %+v, %v", ann, got, err)
	}
	if _, err := b.FindClaim(f.ctx, f.name, "bob"); !errors.Is(err, itembank.ErrNoClaim) {
		f.Errorf("want %v, got %v", itembank.ErrNoClaim, err)
	}
	var elsewhere *itembank.ClaimedElsewhereError
	if _, err := b.FindClaim(f.ctx, other.name, "ann"); !errors.As(err, &elsewhere) || elsewhere.Campaign != f.name {
		f.Errorf("want it claimed in %s, got %v", f.name, err)
	}
}

// lookUpRate: operations that read many rows keep to the rate.
func lookUpRate(f *fixture) {
	f.stocked(120, itembank.Settings{Shards: 1})
	b := f.bank()
	for _, claimant := range codes("claimant", 60) {
		f.claim(b, claimant)
	}
	for what, do := range map[string]func(b *itembank.Operator){
		"list":  func(b *itembank.Operator) { f.listed(b) },
		"count": func(b *itembank.Operator) { _, err := b.CountFree(f.ctx, f.name); f.Must(err) },
	} {
		clock := itembankfault.NewClock()
		began := clock.Now()
		do(f.bank(itembank.WithClock(clock), itembank.WithRate(1)))
		if took := clock.Now().Sub(began); took < 9*time.Second { // 50 rows at once
			f.Errorf("%s of 60 rows at one a second took %s", what, took)
		}
	}
}
