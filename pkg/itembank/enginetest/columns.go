package enginetest

import (
	"strings"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var columnCases = []testCase{
	{"columns-of-each-item", columnsOfEach},
	{"columns-stay-when-an-item-moves", columnsStay},
}

// columnsOfEach: every read of an item row returns the columns with which the item was added.
func columnsOfEach(f *fixture) {
	c := f.campaign(4)
	c.Columns = true
	f.create(c)
	want := []string{
		"price\t12.50\nrow\t\n",
		"",
		"größe\t" + strings.Repeat("ü", (engine.MaxColumnBytes-7)/2) + "\n",
		"row\t" + `<"A", {B}> \ 'C'` + "\nprice\t=1+1\n",
	}
	items := enginerows.Texts("seat", len(want))
	var requests []engine.AddRequest
	var hashes []engine.Hash
	var keys []engine.FreeItem
	for i, item := range items {
		free := enginerows.FreeItem(c, item)
		requests = append(requests, engine.AddRequest{Item: free, LoadID: "load", Row: int64(i), Columns: want[i]})
		hashes, keys = append(hashes, free.Hash), append(keys, free)
	}
	f.Add(requests, engine.AddDone, engine.AddDone, engine.AddDone, engine.AddDone)
	rows, err := f.Store.ItemRows(f.Context(), c.Name, hashes, engine.Strong)
	f.Must(err)
	reads, err := f.Store.ReadItems(f.Context(), keys)
	f.Must(err)
	listed, _ := enginerows.List(f.Rows, c.Name, f.Store.ListItemRows)
	found := map[engine.Hash]string{}
	for _, row := range listed {
		found[row.Hash] = row.Columns
	}
	for i, item := range items {
		requests[i].Columns = "other\tx\n"
		known := f.Add(requests[i:i+1], engine.AddKnown)[0].Existing
		for what, got := range map[string]string{
			"ItemRow": f.ItemRow(c, item).Columns, "ItemRows": rows[i].Columns, "ReadItems": reads[i].Row.Columns,
			"ListItemRows": found[hashes[i]], "AddItems": known.Columns,
		} {
			if got != want[i] {
				f.Errorf("%s of %s: want %q, got %q", what, item, want[i], got)
			}
		}
	}
}

// columnsStay: no operation changes the columns of an item.
func columnsStay(f *fixture) {
	c := f.campaign(2)
	c.Columns, c.OnEnd = true, engine.Return
	f.create(c)
	columns := func(item string) string { return "of\t" + item + "\n" }
	items := enginerows.Texts("seat", 6)
	var requests []engine.AddRequest
	for i, item := range items {
		requests = append(requests, engine.AddRequest{
			Item: enginerows.FreeItem(c, item), LoadID: "load", Row: int64(i), Columns: columns(item),
		})
	}
	done := engine.AddDone
	f.Add(requests, done, done, done, done, done, done)
	stay := func(after string) {
		f.Helper()
		for _, item := range items {
			if got := f.ItemRow(c, item).Columns; got != columns(item) {
				f.Fatalf("after %s: want %q, got %q", after, columns(item), got)
			}
		}
	}
	claim := f.Take(c, "ann", items[0])
	stay("a claim")
	f.Close(enginerows.ReturnOf(c, claim))
	stay("a return")
	f.Close(enginerows.BurnOf(c, f.Take(c, "ann", items[0])))
	stay("a burn")
	several := f.takeAll(c, "ann", items[1:3]...)
	closing, second := enginerows.ReturnOf(c, several), enginerows.FreeItem(c, items[2])
	closing.More = []engine.CloseItem{{Hash: second.Hash, Return: &second}}
	f.Close(closing)
	stay("a return of several")
	f.Take(c, "bob", items[3])
	f.mustMark(c, items[3])
	stay("a withdrawal of a held item")
	if ended, err := f.Store.EndItems(f.Context(), []engine.EndRequest{
		{Item: enginerows.FreeItem(c, items[4]), State: engine.Withdrawn},
	}); err != nil || ended[0] != engine.EndDone {
		f.Errorf("want it ended, got %v, %v", ended, err)
	}
	stay("an end")
	f.repairsKeep(c, items[5], stay)
}

// repairsKeep makes all repairs of a missing item.
func (f *fixture) repairsKeep(c engine.Campaign, item string, stay func(after string)) {
	f.Helper()
	free := enginerows.FreeItem(c, item)
	repair := func(what string, r engine.RepairRequest) {
		f.Helper()
		r.Campaign, r.Hash, r.IfRow = c.Name, free.Hash, f.ItemRow(c, item)
		if done, err := f.Store.Repair(f.Context(), r); !done || err != nil {
			f.Fatalf("%s: got %t, %v", what, done, err)
		}
		stay(what)
	}
	f.Must(f.raw.DropBankRow(f.Context(), free))
	repair("a repair into the bank", engine.RepairRequest{PutFree: &free})
	f.Must(f.raw.DropBankRow(f.Context(), free))
	repair("a repair as lost", engine.RepairRequest{End: engine.Lost})
	claim := enginerows.NewClaim(c, "cid", item)
	repair("a repair of a claim", engine.RepairRequest{PutClaim: &claim, Shard: free.Shard})

	row := *f.ItemRow(c, item)
	f.dropItemRow(c, item)
	if done, err := f.Store.Repair(f.Context(), engine.RepairRequest{
		Campaign: c.Name, Hash: free.Hash, PutRow: &row, IfClaim: &claim,
	}); !done || err != nil {
		f.Fatalf("got %t, %v", done, err)
	}
	stay("a repair of the row")
}
