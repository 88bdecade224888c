package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var isolationCases = []testCase{
	{"read-items-while-they-change", readItemsWhileTheyChange},
	{"held-claim-while-it-changes", heldClaimWhileItChanges},
	{"list-claims-while-they-change", listClaimsWhileTheyChange},
}

// changingRounds is the number of rounds of changes in a case. A read that is not isolated shows some of them in part.
const changingRounds = 15

// whileReading makes changes one after the other, and repeats a read until all are made. A change begins when a read
// begins, so that the two overlap on quick engines as well.
func whileReading(read func(), changes []func()) {
	begins, done := make(chan struct{}), make(chan struct{})
	enginerows.AtOnce(func() {
		defer close(done)
		for _, change := range changes {
			<-begins
			change()
		}
	}, func() {
		for {
			select {
			case <-done:
				return
			case begins <- struct{}{}:
			default: // a change is in progress
			}
			read()
		}
	})
}

// readItemsWhileTheyChange: each transaction adds or ends items, so that it writes both rows of an item. ReadItems shows
// both rows before or after it.
func readItemsWhileTheyChange(f *fixture) {
	c := f.create(f.campaign(3))
	var rounds [changingRounds][]engine.FreeItem
	var now atomic.Int64 // the round whose items change
	var changes []func()
	for n := range rounds {
		var add []engine.AddRequest
		var end []engine.EndRequest
		for _, text := range enginerows.Texts(fmt.Sprint("code", n), engine.MaxAddItems) {
			item := enginerows.FreeItem(c, text)
			rounds[n] = append(rounds[n], item)
			add = append(add, engine.AddRequest{Item: item, LoadID: "load", Row: 1})
			end = append(end, engine.EndRequest{Item: item, State: engine.Withdrawn})
		}
		changes = append(changes, func() {
			now.Store(int64(n))
			f.Add(add, slices.Repeat([]engine.AddOutcome{engine.AddDone}, len(add))...)
		}, func() { f.End(end...) })
	}
	whileReading(func() {
		keys := rounds[now.Load()]
		reads, err := f.Store.ReadItems(f.Context(), keys)
		if err != nil {
			f.Error(err)
			return
		}
		for i, read := range reads {
			if !read.Conflict && !isAddedOrEnded(read, keys[i]) {
				f.Errorf("item %d is seen inside a transaction: item row %+v, bank row %+v", i, read.Row, read.Free)
			}
		}
	}, changes)
}

// isAddedOrEnded reports whether the rows of an item are those before, between or after the transactions of
// readItemsWhileTheyChange.
func isAddedOrEnded(read engine.ItemRead, item engine.FreeItem) bool {
	switch {
	case read.Row == nil:
		return read.Free == nil
	case *read.Row == engine.ItemRow{LoadID: "load", Row: 1}:
		return equal(read.Free, &item)
	}
	return *read.Row == engine.ItemRow{LoadID: "load", Row: 1, State: engine.Withdrawn} && read.Free == nil
}

// passOn returns changes of a claimant's claim, and the claims that it becomes. A claim is confirmed. Then its item is
// returned, and at once the next claim is made, so that a read may begin with one claim and end with another. The claims
// have different ids and times, and the items in turn.
func (f *fixture) passOn(c engine.Campaign, claimant string, items ...string) (claims []engine.Claim, changes []func()) {
	var back engine.CloseRequest // of the claim before
	for n := range changingRounds {
		item := items[n%len(items)]
		hold := enginerows.NewClaim(c, claimant, item)
		hold.ClaimedAt = hold.ClaimedAt.Add(time.Duration(n) * time.Second)
		confirmed, last := hold, back
		hold.EndsAt = end
		claims = append(claims, hold, confirmed)
		changes = append(changes, func() {
			if n > 0 {
				f.untilDone("return", func() (bool, error) {
					result, err := f.Store.CloseClaim(f.Context(), last)
					return result.Closed(), err
				})
			}
			f.untilDone("take", func() (bool, error) {
				result, err := f.Store.Take(f.Context(), []engine.FreeItem{enginerows.FreeItem(c, item)}, hold)
				return result.Taken(), err
			})
		}, func() {
			f.untilDone("confirm", func() (bool, error) {
				result, err := f.Store.ConfirmClaim(f.Context(), hold)
				return equal(result.Held, &confirmed), err
			})
		})
		back = enginerows.ReturnOf(c, confirmed)
	}
	return claims, changes
}

// untilDone repeats a change while another transaction is working on its rows.
func (f *fixture) untilDone(what string, change func() (done bool, err error)) {
	f.Helper()
	for range mostTries {
		done, err := change()
		if err != nil {
			f.Error(err)
		}
		if err != nil || done {
			return
		}
	}
	f.Errorf("%s: not done in %d tries", what, mostTries)
}

// heldClaimWhileItChanges: HeldClaim shows a whole claim. It is the claim that the item row tells of, if that has the
// same state before and after the read: the row counts the returns, so that it never comes back to a state.
func heldClaimWhileItChanges(f *fixture) {
	c, items := f.choosing(1, 1)
	claims, changes := f.passOn(c, "ann", items[0])
	item := []engine.FreeItem{enginerows.FreeItem(c, items[0])}
	whileReading(func() {
		first, _, err1 := f.Store.HeldClaim(f.Context(), enginerows.FirstSlot(c, "ann"), engine.Strong)
		before, err2 := f.Store.ReadItems(f.Context(), item)
		held, conflict, err3 := f.Store.HeldClaim(f.Context(), enginerows.FirstSlot(c, "ann"), engine.Strong)
		after, err4 := f.Store.ReadItems(f.Context(), item)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			f.Error(err)
			return
		}
		for _, claim := range []*engine.Claim{first, held} {
			if claim != nil && !slices.Contains(claims, *claim) {
				f.Errorf("no claim was ever %+v", claim)
			}
		}
		if conflict || before[0].Conflict || !equal(before[0].Row, after[0].Row) || !equal(before[0].Free, after[0].Free) {
			return
		}
		returns, free := before[0].Row.Returns, before[0].Free != nil
		if free != (held == nil) || held != nil && held.ID != claims[2*returns].ID {
			f.Errorf("the item returned %d times, and it is %t that it is free; the claim is %+v", returns, free, held)
		}
	}, changes)
}

// listClaimsWhileTheyChange: a list shows whole claims, each key at most once, and all claims that do not change.
func listClaimsWhileTheyChange(f *fixture) {
	c, items := f.choosing(6, 2)
	var stay []engine.Claim
	for n, claimant := range []string{"a", "annabel", "bob", "zoe"} {
		stay = append(stay, f.Take(c, claimant, items[n]))
	}
	claims, changes := f.passOn(c, "ann", items[4:]...)
	whileReading(func() {
		var listed []engine.Claim
		for cursor := ""; ; {
			page, next, err := f.Store.ListClaims(f.Context(), c.Scope, cursor)
			if err != nil {
				f.Error(err)
				return
			}
			if listed = append(listed, page...); next == "" {
				break
			}
			cursor = next
		}
		changing := slices.IndexFunc(listed, func(claim engine.Claim) bool { return claim.Claimant == "ann" })
		if changing >= 0 {
			if !slices.Contains(claims, listed[changing]) {
				f.Errorf("no claim was ever %+v", listed[changing])
			}
			listed = slices.Delete(listed, changing, changing+1)
		}
		wantListed(f, listed, stay)
	}, changes)
}
