package enginetest

import (
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var listedCases = []testCase{
	{"take-items-all-or-none", takeItems},
	{"take-items-race", takeItemsRace},
	{"close-claim-of-several-items", closeSeveral},
	{"repair-claim-of-several-items", repairSeveral},
}

// choosing creates a campaign in which claimants choose, with n items.
func (f *fixture) choosing(n, shards int) (engine.Campaign, []string) {
	f.Helper()
	c := f.campaign(shards)
	c.Choice, c.OnEnd = true, engine.Return
	items := enginerows.Texts("seat", n)
	f.load(f.create(c), items...)
	return c, items
}

// claimOfSeveral returns a claim of items, and their bank rows.
func claimOfSeveral(c engine.Campaign, claimant string, items ...string) (engine.Claim, []engine.FreeItem) {
	claim := enginerows.NewClaim(c, claimant, items[0])
	claim.More = engine.NewItemList(items[1:]...)
	var free []engine.FreeItem
	for _, item := range items {
		free = append(free, enginerows.FreeItem(c, item))
	}
	return claim, free
}

// takeAll takes several items, which must succeed.
func (f *fixture) takeAll(c engine.Campaign, claimant string, items ...string) engine.Claim {
	f.Helper()
	claim, free := claimOfSeveral(c, claimant, items...)
	if result, err := f.Store.Take(f.Context(), free, claim); err != nil || !result.Taken() {
		f.Fatalf("%s does not get %v: %+v, %v", claimant, items, result, err)
	}
	return claim
}

// takeItems: if one item is not free or the claimant holds a claim, nothing is taken.
func takeItems(f *fixture) {
	c, items := f.choosing(engine.MaxClaimItems+5, 3)
	all := f.takeAll(c, "ann", items[:engine.MaxClaimItems]...)
	f.wantSlot(all.Key(), all)
	f.WantCounts(c, engine.Counts{Loaded: 25, Free: 5, Claimed: 20})
	free := items[engine.MaxClaimItems:]
	for _, gone := range []string{items[0], items[19], "never loaded"} {
		for at := range 3 {
			claim, rows := claimOfSeveral(c, "bob", slices.Insert(slices.Clone(free[:2]), at, gone)...)
			result, err := f.Store.Take(f.Context(), rows, claim)
			if err != nil || result != (engine.TakeResult{ItemGone: true}) {
				f.Errorf("%s at %d is gone: got %+v, %v", gone, at, result, err)
			}
		}
	}
	claim, rows := claimOfSeveral(c, "ann", free[0], items[1])
	if result, err := f.Store.Take(f.Context(), rows, claim); err != nil || result.Held == nil || *result.Held != all || !result.ItemGone {
		f.Errorf("want the claim that was there, got %+v, %v", result, err)
	}
	ended := enginerows.FreeItem(c, free[4])
	ended.EndsAt = time.Now().Add(-time.Second)
	f.Must(f.raw.PutBankRow(f.Context(), ended))
	claim, rows = claimOfSeveral(c, "bob", free[0], free[4])
	if result, err := f.Store.Take(f.Context(), rows, claim); err != nil || !result.ItemGone {
		f.Errorf("an item that ended was taken: %+v, %v", result, err)
	}
	f.WantCounts(c, engine.Counts{Loaded: 25, Free: 5, Claimed: 20})
	two := f.takeAll(c, "bob", free[0], free[1])
	listed, _ := enginerows.List(f.Rows, c.Scope, f.Store.ListClaims)
	wantListed(f, listed, []engine.Claim{all, two})
}

// takeItemsRace: of several claims that share an item, one gets all of its items.
func takeItemsRace(f *fixture) {
	for range 5 {
		other := f.another()
		c, items := other.choosing(3, 2)
		claimants := []string{"ann", "bob", "cid"}
		var tries []func()
		for n, claimant := range claimants { // each pair of claimants wants one item
			claim, rows := claimOfSeveral(c, claimant, items[n], items[(n+1)%3])
			tries = append(tries, func() {
				for range mostTries {
					result, err := f.Store.Take(f.Context(), rows, claim)
					if err == nil && (result.Taken() || result.ItemGone) {
						return
					}
				}
				f.Errorf("%s: no answer in %d tries", claimant, mostTries)
			})
		}
		enginerows.AtOnce(tries...)
		f.WantCounts(c, engine.Counts{Loaded: 3, Free: 1, Claimed: 2})
	}
}

// closeSeveral: all items return or end in one transaction, each as the request says.
func closeSeveral(f *fixture) {
	c, items := f.choosing(6, 2)
	claim := f.takeAll(c, "ann", items[:4]...)
	closing := enginerows.ReturnOf(c, claim)
	for i, item := range items[1:4] {
		free := enginerows.FreeItem(c, item)
		more := engine.CloseItem{Hash: free.Hash, Return: &free}
		if i == 1 {
			more.Return, more.State = nil, engine.Expired
		}
		closing.More = append(closing.More, more)
	}
	refused := func(what string, want engine.CloseResult, change func(*engine.CloseRequest)) {
		f.Helper()
		r := closing
		r.More = slices.Clone(closing.More)
		change(&r)
		got, err := f.Store.CloseClaim(f.Context(), r)
		if err != nil || got != want {
			f.Errorf("%s: want %+v, got %+v, %v", what, want, got, err)
		}
		f.WantCounts(c, engine.Counts{Loaded: 6, Free: 2, Claimed: 4})
	}
	refused("another state of an item row", engine.CloseResult{ItemChanged: true}, func(r *engine.CloseRequest) { r.More[2].Row.Withdraw = true })
	refused("another claim", engine.CloseResult{ClaimChanged: true}, func(r *engine.CloseRequest) { r.Claim.ID += "x" })
	refused("an item that is free", engine.CloseResult{ItemChanged: true, ItemFree: true}, func(r *engine.CloseRequest) {
		free := enginerows.FreeItem(c, items[4])
		r.More[2].Return, r.More[1].Row.State = &free, engine.Burned
	})
	f.Close(closing)
	for n, want := range []string{"free", "free", "expired", "free", "free", "free"} {
		f.WantWhere(want, c, items[n], "ann")
	}
	if row := f.ItemRow(c, items[3]); row.Returns != 1 {
		f.Errorf("want a return counted, got %+v", row)
	}
	f.takeAll(c, "bob", items[3], items[0])
	f.WantCounts(c, engine.Counts{Loaded: 6, Free: 3, Claimed: 2, Ended: 1})
}

// repairSeveral: a claim is put back with all its items, both free and missing ones.
func repairSeveral(f *fixture) {
	c, items := f.choosing(4, 2)
	claim := f.takeAll(c, "ann", items[:3]...)
	f.Must(f.raw.DropClaim(f.Context(), claim.Key()))
	free := enginerows.FreeItem(c, items[1])
	f.Must(f.raw.PutBankRow(f.Context(), free))
	request := engine.RepairRequest{
		Campaign: c.Name, Hash: claim.ItemHash, PutClaim: &claim, Shard: enginerows.FreeItem(c, items[0]).Shard, IfRow: f.ItemRow(c, items[0]),
		More: []engine.RepairItem{{Hash: free.Hash, Free: &free}, {Hash: engine.HashItem(items[2]), IfRow: f.ItemRow(c, items[2])}},
	}
	for what, change := range map[string]func(*engine.RepairRequest){
		"a free item that is gone": func(r *engine.RepairRequest) {
			gone := enginerows.FreeItem(c, items[0])
			r.More[0].Free = &gone
		},
		"another row": func(r *engine.RepairRequest) { r.More[1].IfRow = &engine.ItemRow{Returns: 7} },
	} {
		other := request
		other.More = slices.Clone(request.More)
		change(&other)
		if done, err := f.Store.Repair(f.Context(), other); done || err != nil {
			f.Errorf("%s: got %t, %v", what, done, err)
		}
	}
	for n, want := range []bool{true, false} {
		if done, err := f.Store.Repair(f.Context(), request); done != want || err != nil {
			f.Errorf("call %d: want %t, got %t, %v", n+1, want, done, err)
		}
	}
	f.wantSlot(claim.Key(), claim)
	f.WantCounts(c, engine.Counts{Loaded: 4, Free: 1, Claimed: 3})
	if row := f.ItemRow(c, items[2]); row.Returns != 1 {
		f.Errorf("want a return counted, got %+v", row)
	}
}

// another returns a fixture with a second campaign of the same engine.
func (f *fixture) another() *fixture {
	other := *f
	other.name = enginerows.NewName()
	return &other
}
