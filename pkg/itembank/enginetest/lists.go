package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var listCases = []testCase{
	{"list-claims", listClaims},
	{"list-claims-in-pages", listClaimsInPages},
	{"list-item-rows", listItemRows},
	{"list-item-rows-in-pages", listItemRowsInPages},
}

// wantListed compares rows in any order, each of them once.
func wantListed[Row comparable](f *fixture, got, want []Row) {
	f.Helper()
	times := map[Row]int{}
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

// listClaims: ListClaims lists all claims of the scope, in all campaigns, and no others.
func listClaims(f *fixture) {
	none, _ := enginerows.List(f.Rows, f.name, f.Store.ListClaims)
	wantListed(f, none, nil)
	c, items := f.stocked(6, 16)
	inScope, elsewhere := f.campaign(16), f.campaign(16)
	inScope.Name += "-other"
	elsewhere.Name += "-elsewhere"
	elsewhere.Scope = elsewhere.Name
	for _, other := range []engine.Campaign{inScope, elsewhere} {
		f.create(other)
		f.load(other, items...)
	}
	want := []engine.Claim{
		f.takeSlot(c, "ann", 2, items[4]), f.takeSlot(c, "2#ann", 12, items[3]),
		f.Take(c, "ann", items[0]), f.TakeUntil(c, "ann 1 # ½", items[1], end), f.Take(c, "\u00ff💶", items[2]), f.Take(inScope, "Ann", items[0]),
	}
	f.Take(elsewhere, "ann", items[0])
	f.Close(enginerows.ReturnOf(c, f.Take(c, "bob", items[5])))
	got, _ := enginerows.List(f.Rows, c.Scope, f.Store.ListClaims)
	wantListed(f, got, want)
}

// An engine may limit its pages by the number of rows or by their size. It may keep the rows in partitions, by the hash
// of the item or of the claimant. manyRows rows of one partition are more than a page by any of these limits.
const manyRows = 1050

// onePartition reports whether a hash is in a chosen one of 64 partitions.
func onePartition(h engine.Hash) bool { return h.ShardOf(64) == 7 }

func listClaimsInPages(f *fixture) {
	var claims []engine.Claim
	for i := 0; len(claims) < manyRows; i++ {
		claimant := fmt.Sprintf("%s %0250d", "c", i)
		if !onePartition(engine.HashItem(claimant)) {
			continue
		}
		claim := enginerows.NewClaim(f.campaign(16), claimant, strings.Repeat("i", engine.MaxItem))
		claim.ID += strings.Repeat("x", 300)
		claims = append(claims, claim)
	}
	var wg sync.WaitGroup
	const writers = 8
	for w := range writers {
		wg.Go(func() {
			for i := w; i < len(claims); i += writers {
				if err := f.raw.PutClaim(f.Context(), claims[i]); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	listInPages(f, f.name, f.Store.ListClaims, claims, func(c engine.Claim) error {
		return f.raw.DropClaim(f.Context(), c.Key())
	})
}

// listInPages reads a list of several pages, and deletes a row of each page before it reads the next. So a list that
// finds its next page by a number of rows leaves one out.
func listInPages[Row comparable](
	f *fixture, name string, list func(ctx context.Context, name, cursor string) ([]Row, string, error),
	want []Row, drop func(Row) error,
) {
	f.Helper()
	got, pages := enginerows.List(f.Rows, name, func(ctx context.Context, name, cursor string) ([]Row, string, error) {
		page, next, err := list(ctx, name, cursor)
		if len(page) > 0 {
			f.Must(drop(page[0]))
		}
		return page, next, err
	})
	wantListed(f, got, want)
	if pages < 2 {
		f.Errorf("want several pages, got %d", pages)
	}
}

// listItemRows: ListItemRows lists all item rows of the campaign, also of held and ended items, and no others.
func listItemRows(f *fixture) {
	none, _ := enginerows.List(f.Rows, f.name, f.Store.ListItemRows)
	wantListed(f, none, nil)
	c, items := f.stocked(4, 16)
	lives := enginerows.FreeItem(c, "with an end")
	lives.EndsAt = end
	f.Add([]engine.AddRequest{{Item: lives, LoadID: "l", Row: 1}}, engine.AddDone)
	items = append(items, lives.Value)
	f.Take(c, "ann", items[0])
	f.Close(enginerows.BurnOf(c, f.Take(c, "bob", items[1])))
	other := f.campaign(16)
	other.Name += "-other"
	f.load(f.create(other), "not listed")
	var want []engine.ListedItem
	for _, item := range items {
		want = append(want, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: *f.ItemRow(c, item)})
	}
	got, _ := enginerows.List(f.Rows, c.Name, f.Store.ListItemRows)
	wantListed(f, got, want)
}

func listItemRowsInPages(f *fixture) {
	c := f.create(f.campaign(1))
	loadID := strings.Repeat("l", 1000)
	var want []engine.ListedItem
	var chunk []engine.AddRequest
	for i := 0; len(want) < manyRows; i++ {
		free := enginerows.FreeItem(c, fmt.Sprint(i))
		if !onePartition(free.Hash) {
			continue
		}
		row := int64(len(want))
		want = append(want, engine.ListedItem{Hash: free.Hash, ItemRow: engine.ItemRow{LoadID: loadID, Row: row}})
		chunk = append(chunk, engine.AddRequest{Item: free, LoadID: loadID, Row: row})
		if len(chunk) == engine.MaxAddItems || len(want) == manyRows {
			_, err := f.Store.AddItems(f.Context(), chunk)
			f.Must(err)
			chunk = chunk[:0]
		}
	}
	listInPages(f, c.Name, f.Store.ListItemRows, want, func(i engine.ListedItem) error {
		return f.raw.DropItemRow(f.Context(), c.Name, i.Hash)
	})
}
