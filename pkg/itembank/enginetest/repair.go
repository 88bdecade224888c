package enginetest

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var repairCases = []testCase{
	{"repair", repair},
	{"repair-after-its-condition-changed", repairAfterItsConditionChanged},
	{"repair-of-what-is-there-already", repairOfWhatIsThere},
}

// repairTest is an item and a request to repair it.
type repairTest struct {
	c    engine.Campaign
	item string
	engine.RepairRequest
}

func (r *repairTest) putItemRow(f *fixture, row engine.ItemRow) {
	f.Helper()
	f.Must(f.raw.PutItemRow(f.Context(), r.c.Name, engine.ListedItem{Hash: r.Hash, ItemRow: row}))
}

func (r *repairTest) dropItemRow(f *fixture) { f.dropItemRow(r.c, r.item) }

// condition is a condition of a repair. prepare adds it to the request and writes rows for which it holds. After each
// of the changes it does not hold any more.
type condition struct {
	name    string
	prepare func(*fixture, *repairTest)
	changes []func(*fixture, *repairTest)
}

// unconditional is the name of the condition that always holds.
const unconditional = "nothing"

var conditions = []condition{
	{unconditional, func(*fixture, *repairTest) {}, nil},
	{
		"item row",
		func(f *fixture, r *repairTest) {
			r.IfRow = &engine.ItemRow{LoadID: "l", Row: 3}
			r.putItemRow(f, *r.IfRow)
		},
		[]func(*fixture, *repairTest){
			func(f *fixture, r *repairTest) { r.dropItemRow(f) },
			func(f *fixture, r *repairTest) { f.putState(r.c, r.item, engine.Expired) },
			func(f *fixture, r *repairTest) {
				r.putItemRow(f, engine.ItemRow{LoadID: "l", Row: 3, Returns: 1})
			},
			func(f *fixture, r *repairTest) {
				r.putItemRow(f, engine.ItemRow{LoadID: "l", Row: 3, Withdraw: true})
			},
		},
	},
	{
		"item row with returns",
		func(f *fixture, r *repairTest) {
			r.IfRow = &engine.ItemRow{LoadID: "l", Row: 3, Returns: 2}
			r.putItemRow(f, *r.IfRow)
		},
		[]func(*fixture, *repairTest){
			func(f *fixture, r *repairTest) {
				r.putItemRow(f, engine.ItemRow{LoadID: "l", Row: 3})
			},
			func(f *fixture, r *repairTest) {
				r.putItemRow(f, engine.ItemRow{LoadID: "l", Row: 3, Returns: 3})
			},
		},
	},
	{
		"item row with a state",
		func(f *fixture, r *repairTest) {
			r.IfRow = &engine.ItemRow{LoadID: "l", Row: 3, State: engine.Burned}
			r.putItemRow(f, *r.IfRow)
		},
		[]func(*fixture, *repairTest){
			func(f *fixture, r *repairTest) { r.dropItemRow(f) },
			func(f *fixture, r *repairTest) { f.putState(r.c, r.item, engine.Expired) },
			func(f *fixture, r *repairTest) { f.putState(r.c, r.item, "") },
		},
	},
	{
		"claim",
		func(f *fixture, r *repairTest) {
			claim := enginerows.NewClaim(r.c, r.item, r.item)
			r.IfClaim = &claim
			f.Must(f.raw.PutClaim(f.Context(), claim))
		},
		[]func(*fixture, *repairTest){
			func(f *fixture, r *repairTest) {
				f.Must(f.raw.DropClaim(f.Context(), engine.ClaimKey{Scope: r.c.Scope, Claimant: r.item, Slot: 1}))
			},
			func(f *fixture, r *repairTest) { // the same claimant has a newer claim
				f.Must(f.raw.PutClaim(f.Context(), enginerows.NewClaim(r.c, r.item, r.item)))
			},
		},
	},
}

// change is a change that a repair can make. ask adds it to the request and writes the rows that it needs. done reads
// whether it was made. prevent makes it impossible.
type change struct {
	name    string
	ask     func(*fixture, *repairTest)
	done    func(*fixture, *repairTest) bool
	prevent func(*fixture, *repairTest)
}

const (
	putItemRow  = "put item row"
	putEndedRow = "put item row that ended"
	endItem     = "end"
)

var changes = []change{
	{
		"put bank row",
		func(_ *fixture, r *repairTest) {
			free := enginerows.FreeItem(r.c, r.item)
			free.EndsAt = end
			r.PutFree = &free
		},
		func(f *fixture, r *repairTest) bool {
			got := f.BankRow(*r.PutFree)
			return got != nil && *got == *r.PutFree
		},
		func(f *fixture, r *repairTest) {
			f.Must(f.raw.PutBankRow(f.Context(), enginerows.FreeItem(r.c, r.item)))
		},
	},
	{
		"put claim",
		func(_ *fixture, r *repairTest) {
			claim := enginerows.NewClaim(r.c, "claimant of "+r.item, r.item)
			claim.EndsAt = end
			r.PutClaim = &claim
		},
		func(f *fixture, r *repairTest) bool {
			got := f.Held(r.c, r.PutClaim.Claimant)
			return got != nil && *got == *r.PutClaim
		},
		func(f *fixture, r *repairTest) {
			f.Must(f.raw.PutClaim(f.Context(), enginerows.NewClaim(r.c, r.PutClaim.Claimant, "another item")))
		},
	},
	{
		"drop bank row",
		func(f *fixture, r *repairTest) {
			free := enginerows.FreeItem(r.c, r.item)
			r.DropFree = &free
			f.Must(f.raw.PutBankRow(f.Context(), free))
		},
		func(f *fixture, r *repairTest) bool { return f.BankRow(*r.DropFree) == nil },
		nil, // an absent bank row looks as if it was deleted
	},
	putRowChange(putItemRow, engine.ItemRow{LoadID: "repaired", EndsAt: end}),
	putRowChange(putEndedRow, engine.ItemRow{LoadID: "repaired", State: engine.Burned}),
	{
		endItem,
		func(_ *fixture, r *repairTest) { r.End = engine.Lost },
		func(f *fixture, r *repairTest) bool {
			got := f.ItemRow(r.c, r.item)
			return got != nil && got.State == engine.Lost
		},
		nil, // its condition names the state before
	},
}

func putRowChange(name string, row engine.ItemRow) change {
	return change{
		name,
		func(_ *fixture, r *repairTest) { r.PutRow = &row },
		func(f *fixture, r *repairTest) bool {
			got := f.ItemRow(r.c, r.item)
			return got != nil && *got == row
		},
		func(f *fixture, r *repairTest) {
			r.putItemRow(f, engine.ItemRow{LoadID: "l", Row: 3})
		},
	}
}

// possible reports whether a change is possible under a condition.
func possible(ch change, c condition) bool {
	onItemRow := strings.HasPrefix(c.name, "item row")
	switch ch.name {
	case putItemRow, putEndedRow: // the row is absent
		return !onItemRow
	case endItem:
		return onItemRow
	}
	return c.name != unconditional
}

// eachRepair calls test for each change under each condition. newTest makes a new item for which the condition holds.
func eachRepair(f *fixture, test func(what string, ch change, c condition, newTest func() *repairTest)) {
	c := f.create(f.campaign(2))
	n := 0
	for _, ch := range changes {
		for _, cond := range conditions {
			if !possible(ch, cond) {
				continue
			}
			test(ch.name+" if "+cond.name, ch, cond, func() *repairTest {
				n++
				item := fmt.Sprintf("item-%d", n)
				r := &repairTest{c, item, engine.RepairRequest{Campaign: c.Name, Hash: engine.HashItem(item)}}
				ch.ask(f, r)
				cond.prepare(f, r)
				return r
			})
		}
	}
}

// wantRepaired repairs, and checks the result and the rows.
func (f *fixture) wantRepaired(what string, want bool, ch change, r *repairTest) {
	f.Helper()
	got, err := f.Store.Repair(f.Context(), r.RepairRequest)
	f.Must(err)
	if done := ch.done(f, r); got != want || done != want {
		f.Errorf("%s: want done %t, got %t, and the rows say %t", what, want, got, done)
	}
}

func repair(f *fixture) {
	eachRepair(f, func(what string, ch change, _ condition, newTest func() *repairTest) {
		r := newTest()
		f.wantRepaired(what, true, ch, r)
		if again, err := f.Store.Repair(f.Context(), r.RepairRequest); again || err != nil {
			f.Errorf("%s again: want not done, got %t, %v", what, again, err)
		}
		if r.IfRow != nil {
			want := *r.IfRow
			switch {
			case r.PutFree != nil, r.PutClaim != nil:
				want.Returns, want.State = want.Returns+1, ""
			case r.End != "":
				want.State = r.End
			}
			if got := f.ItemRow(r.c, r.item); *got != want {
				f.Errorf("%s: want the item row %+v, got %+v", what, want, *got)
			}
		}
	})
}

func repairAfterItsConditionChanged(f *fixture) {
	eachRepair(f, func(what string, ch change, c condition, newTest func() *repairTest) {
		for i, breakIt := range c.changes {
			r := newTest()
			breakIt(f, r)
			f.wantRepaired(fmt.Sprintf("%s, change %d", what, i), false, ch, r)
		}
	})
}

// repairOfWhatIsThere: an existing row is not put again, and stays as it is.
func repairOfWhatIsThere(f *fixture) {
	eachRepair(f, func(what string, ch change, _ condition, newTest func() *repairTest) {
		if ch.prevent != nil {
			r := newTest()
			ch.prevent(f, r)
			f.wantRepaired(what, false, ch, r)
		}
	})
}
