package itembanktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// repairStoreCases pin the contract of the methods that read all rows, and of the
// one that repairs them.
var repairStoreCases = []testCase{
	{"store/list-claims", listClaims},
	{"store/list-claims-in-pages", listClaimsInPages},
	{"store/list-item-rows", listItemRows},
	{"store/list-item-rows-in-pages", listItemRowsInPages},
	{"store/repair", repairStore},
	{"store/repair-on-a-basis-that-moved", repairOnMovedBasis},
	{"store/repair-what-is-repaired", repairRepaired},
}

// listed reads all pages of a list, and how many of them held something.
func listed[R any](f *fixture, name string, list func(ctx context.Context, name, cursor string) ([]R, string, error)) (all []R, pages int) {
	f.Helper()
	for cursor := ""; ; {
		rows, next, err := list(f.ctx, name, cursor)
		f.must(err)
		if all = append(all, rows...); len(rows) > 0 {
			pages++
		}
		if cursor = next; cursor == "" {
			return all, pages
		}
	}
}

// wantListed compares rows in any order, each of them once.
func wantListed[R comparable](f *fixture, got, want []R) {
	f.Helper()
	times := map[R]int{}
	for _, r := range got {
		times[r]++
	}
	for _, r := range want {
		if times[r] != 1 {
			f.Errorf("want it once, got it %d times: %+v", times[r], r)
		}
	}
	if len(got) != len(want) {
		f.Errorf("want %d rows, got %d", len(want), len(got))
	}
}

// listClaims: all claims of the scope, whatever their campaigns, and no others.
func listClaims(f *fixture) {
	none, _ := listed(f, f.name, f.Store.ListClaims)
	wantListed(f, none, nil)
	c, items := f.stocked(5, itembank.Settings{})
	inScope := f.createNamed(f.name+"-other", itembank.Settings{Scope: c.Scope})
	elsewhere := f.createNamed(f.name+"-elsewhere", itembank.Settings{})
	for _, other := range []engine.Campaign{inScope, elsewhere} {
		_, err := f.bank().Load(f.ctx, other.Name, itembank.Items(items...), nil)
		f.must(err)
	}
	want := []engine.Claim{
		f.take(c, "ann", items[0]), f.takeUntil(c, "ann 1 # ½", items[1], anEnd), f.take(c, "\u00ff💶", items[2]), f.take(inScope, "Ann", items[0]),
	}
	f.take(elsewhere, "ann", items[0])
	f.closed(returning(c, f.take(c, "bob", items[3])))
	got, _ := listed(f, c.Scope, f.Store.ListClaims)
	wantListed(f, got, want)
}

// manyRows is more than a page of any engine holds: by number for SQLite, by size
// in one partition for DynamoDB.
const manyRows = 1050

func listClaimsInPages(f *fixture) {
	var claims []engine.Claim
	for i := 0; len(claims) < manyRows; i++ {
		claimant := fmt.Sprintf("%s %0250d", "c", i)
		if engine.HashItem(claimant).ShardOf(64) != 7 {
			continue
		}
		claim := f.newClaim(engine.Campaign{Name: f.name, Scope: f.name}, claimant, strings.Repeat("i", engine.MaxItem))
		claim.ID += strings.Repeat("x", 300)
		claims = append(claims, claim)
	}
	var wg sync.WaitGroup
	const writers = 8
	for w := range writers {
		wg.Go(func() {
			for i := w; i < len(claims); i += writers {
				if err := f.Raw.PutClaim(f.ctx, claims[i]); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	got, pages := listed(f, f.name, f.Store.ListClaims)
	wantListed(f, got, claims)
	if pages < 2 {
		f.Errorf("want several pages, got %d", pages)
	}
}

func listItemRows(f *fixture) {
	none, _ := listed(f, f.name, f.Store.ListItemRows)
	wantListed(f, none, nil)
	c, items := f.stocked(5, itembank.Settings{ItemLife: 100 * 365 * 24 * time.Hour})
	f.take(c, "ann", items[0])
	f.closed(burning(c, f.take(c, "bob", items[1])))
	other := f.createNamed(f.name+"-other", itembank.Settings{Scope: c.Scope})
	_, err := f.bank().Load(f.ctx, other.Name, itembank.Items("unlisted"), nil)
	f.must(err)
	var want []engine.ListedItem
	for _, item := range items {
		want = append(want, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: *f.itemRow(c, item)})
	}
	got, _ := listed(f, c.Name, f.Store.ListItemRows)
	wantListed(f, got, want)
}

func listItemRowsInPages(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	loadID := strings.Repeat("l", 1000)
	var want []engine.ListedItem
	var chunk []engine.AddRequest
	for i := 0; len(want) < manyRows; i++ {
		free := f.freeItem(c, fmt.Sprint(i))
		if free.Hash.ShardOf(64) != 7 {
			continue
		}
		row := int64(len(want))
		want = append(want, engine.ListedItem{Hash: free.Hash, ItemRow: engine.ItemRow{LoadID: loadID, Row: row, Generation: 1}})
		chunk = append(chunk, engine.AddRequest{Item: free, LoadID: loadID, Row: row})
		if len(chunk) == engine.MaxAddItems || len(want) == manyRows {
			_, err := f.Store.AddItems(f.ctx, chunk)
			f.must(err)
			chunk = chunk[:0]
		}
	}
	got, pages := listed(f, c.Name, f.Store.ListItemRows)
	wantListed(f, got, want)
	if pages < 2 {
		f.Errorf("want several pages, got %d", pages)
	}
}

// patient is an item that is repaired, and how.
type patient struct {
	c    engine.Campaign
	item string
	engine.RepairRequest
}

func (p *patient) put(f *fixture, row engine.ItemRow) {
	f.Helper()
	f.must(f.Raw.PutItemRow(f.ctx, p.c.Name, engine.ListedItem{Hash: p.Hash, ItemRow: row}))
}

func (p *patient) dropRow(f *fixture) { f.must(f.Raw.DropItemRow(f.ctx, p.c.Name, p.Hash)) }

// basis is what a change can rest on, and the ways in which it is so no more.
type basis struct {
	name  string
	put   func(*fixture, *patient)
	moves []func(*fixture, *patient)
}

var bases = []basis{
	{
		"item row",
		func(f *fixture, p *patient) {
			p.IfRow = &engine.ItemRow{LoadID: "l", Row: 3, Generation: 1}
			p.put(f, *p.IfRow)
		},
		[]func(*fixture, *patient){
			func(f *fixture, p *patient) { p.dropRow(f) },
			func(f *fixture, p *patient) { f.putState(p.c, p.item, engine.Expired) },
			func(f *fixture, p *patient) { p.put(f, engine.ItemRow{LoadID: "l", Row: 3, Generation: 2}) },
			func(f *fixture, p *patient) {
				p.put(f, engine.ItemRow{LoadID: "l", Row: 3, Generation: 1, Returns: 1})
			},
		},
	},
	{
		"item row that returned",
		func(f *fixture, p *patient) {
			p.IfRow = &engine.ItemRow{LoadID: "l", Row: 3, Generation: 1, Returns: 2}
			p.put(f, *p.IfRow)
		},
		[]func(*fixture, *patient){
			func(f *fixture, p *patient) { p.put(f, engine.ItemRow{LoadID: "l", Row: 3, Generation: 1}) },
			func(f *fixture, p *patient) {
				p.put(f, engine.ItemRow{LoadID: "l", Row: 3, Generation: 1, Returns: 3})
			},
		},
	},
	{
		"item row with a state",
		func(f *fixture, p *patient) {
			p.IfRow = &engine.ItemRow{LoadID: "l", Row: 3, Generation: 1, State: engine.Burned}
			p.put(f, *p.IfRow)
		},
		[]func(*fixture, *patient){
			func(f *fixture, p *patient) { p.dropRow(f) },
			func(f *fixture, p *patient) { f.putState(p.c, p.item, engine.Expired) },
			func(f *fixture, p *patient) { f.putState(p.c, p.item, "") },
		},
	},
	{
		"claim",
		func(f *fixture, p *patient) {
			claim := f.newClaim(p.c, p.item, p.item)
			p.IfClaim = &claim
			f.must(f.Raw.PutClaim(f.ctx, claim))
		},
		[]func(*fixture, *patient){
			func(f *fixture, p *patient) { f.must(f.Raw.DropClaim(f.ctx, p.c.Scope, p.item)) },
			func(f *fixture, p *patient) { // released, and claimed again by the same
				f.must(f.Raw.PutClaim(f.ctx, f.newClaim(p.c, p.item, p.item)))
			},
		},
	},
	{
		"bank row",
		func(f *fixture, p *patient) {
			elsewhere := f.freeItem(p.c, p.item)
			elsewhere.Shard.Number = (elsewhere.Shard.Number + 1) % p.c.Shards
			p.IfFree = &elsewhere
			f.must(f.Raw.PutBankRow(f.ctx, elsewhere))
		},
		[]func(*fixture, *patient){
			func(f *fixture, p *patient) { f.must(f.Raw.DropBankRow(f.ctx, *p.IfFree)) },
		},
	},
}

// change is what Repair can do: how it is asked for, what has then been done, and
// what keeps it from being done.
type change struct {
	name    string
	ask     func(*fixture, *patient)
	done    func(*fixture, *patient) bool
	prevent func(*fixture, *patient)
}

var changes = []change{
	{
		"put bank row",
		func(f *fixture, p *patient) {
			free := f.freeItem(p.c, p.item)
			free.EndsAt = anEnd
			p.PutFree = &free
		},
		func(f *fixture, p *patient) bool {
			got := f.bankRow(*p.PutFree)
			return got != nil && *got == *p.PutFree
		},
		func(f *fixture, p *patient) { f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(p.c, p.item))) },
	},
	{
		"drop bank row",
		func(f *fixture, p *patient) {
			free := f.freeItem(p.c, p.item)
			p.DropFree = &free
			f.must(f.Raw.PutBankRow(f.ctx, free))
		},
		func(f *fixture, p *patient) bool { return f.bankRow(*p.DropFree) == nil },
		nil, // where it is not there it need not be dropped, and nothing can be seen
	},
	{
		"put item row",
		func(_ *fixture, p *patient) {
			p.PutRow = &engine.ItemRow{LoadID: "repaired", Generation: 1, EndsAt: anEnd}
		},
		func(f *fixture, p *patient) bool {
			got := f.itemRow(p.c, p.item)
			return got != nil && *got == *p.PutRow
		},
		func(f *fixture, p *patient) { p.put(f, engine.ItemRow{LoadID: "l", Row: 3, Generation: 1}) },
	},
}

// eachRepairRequest prepares every change on every basis.
func eachRepairRequest(f *fixture, do func(what string, ch change, b basis, newPatient func() *patient)) {
	c := f.create(itembank.Settings{Shards: 2})
	n := 0
	for _, ch := range changes {
		for _, b := range bases {
			if ch.name == "put item row" && strings.HasPrefix(b.name, "item row") {
				continue // a row that is absent is not a basis
			}
			do(ch.name+" if "+b.name, ch, b, func() *patient {
				n++
				item := fmt.Sprintf("item-%d", n)
				p := &patient{c, item, engine.RepairRequest{Campaign: c.Name, Hash: engine.HashItem(item)}}
				ch.ask(f, p)
				b.put(f, p)
				return p
			})
		}
	}
}

// wantRepaired repairs and compares the answer with what is there.
func (f *fixture) wantRepaired(what string, want bool, ch change, p *patient) {
	f.Helper()
	got, err := f.Store.Repair(f.ctx, p.RepairRequest)
	f.must(err)
	if done := ch.done(f, p); got != want || done != want {
		f.Errorf("%s: want done %t, got %t, and it is done %t", what, want, got, done)
	}
}

func repairStore(f *fixture) {
	eachRepairRequest(f, func(what string, ch change, _ basis, newPatient func() *patient) {
		p := newPatient()
		f.wantRepaired(what, true, ch, p)
		if again, err := f.Store.Repair(f.ctx, p.RepairRequest); again || err != nil {
			f.Errorf("%s again: want not done, got %t, %v", what, again, err)
		}
		if p.IfRow != nil {
			want := *p.IfRow
			if p.PutFree != nil {
				want.Returns++
			}
			if got := f.itemRow(p.c, p.item); *got != want {
				f.Errorf("%s: want the item row %+v, got %+v", what, want, *got)
			}
		}
	})
}

func repairOnMovedBasis(f *fixture) {
	eachRepairRequest(f, func(what string, ch change, b basis, newPatient func() *patient) {
		for i, move := range b.moves {
			p := newPatient()
			move(f, p)
			f.wantRepaired(fmt.Sprintf("%s, move %d", what, i), false, ch, p)
		}
	})
}

// repairRepaired: what is there is not put again, and stays as it is.
func repairRepaired(f *fixture) {
	eachRepairRequest(f, func(what string, ch change, _ basis, newPatient func() *patient) {
		if ch.prevent != nil {
			p := newPatient()
			ch.prevent(f, p)
			f.wantRepaired(what, false, ch, p)
		}
	})
}
