package itembank

import (
	"context"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The columns of an item are stored once: in its item row, which the load puts and nothing changes. Bank rows and
// claims have no copy. So columns cannot get lost or mixed up when an item moves. An answer that names items reads
// their item rows (docs/adr/0002-data-model.md).

// withColumns returns a claim of the campaign with the columns of its items.
func (b *Bank) withColumns(ctx context.Context, c Campaign, claim Claim) (Claim, error) {
	claims := [1]Claim{claim}
	if err := b.addColumns(ctx, c, claims[:]); err != nil {
		return Claim{}, err
	}
	return claims[0], nil
}

// addColumns adds the columns of their items to claims of the campaign.
func (b *Bank) addColumns(ctx context.Context, c Campaign, claims []Claim) error {
	if !c.Columns {
		return nil
	}
	var items []string
	for _, claim := range claims {
		items = append(items, claim.Items...)
	}
	columns, err := b.columnsOf(ctx, c, items)
	if err != nil {
		return err
	}
	for i := range claims {
		n := len(claims[i].Items)
		claims[i].Columns, columns = columns[:n:n], columns[n:]
	}
	return nil
}

// columnsOf returns the columns of items, in order. In a campaign without columns it reads nothing.
func (b *Bank) columnsOf(ctx context.Context, c Campaign, items []string) ([]Columns, error) {
	columns := make([]Columns, len(items))
	if !c.Columns {
		return columns, nil
	}
	places := map[engine.Hash][]int{} // an item that moves while claims are listed may be in two of them
	var hashes []engine.Hash
	for i, item := range items {
		h := engine.HashItem(item)
		if places[h] == nil {
			hashes = append(hashes, h)
		}
		places[h] = append(places[h], i)
	}
	for some := range slices.Chunk(hashes, engine.MaxItemRows) {
		rows, err := b.store.ItemRows(ctx, c.Name, some, engine.Strong)
		if err != nil {
			return nil, err
		}
		for n, h := range some {
			if rows[n] == nil {
				if rows[n], err = b.halfVisibleRow(ctx, c, h); err != nil {
					return nil, err
				}
			}
			for _, i := range places[h] {
				columns[i] = Columns(rows[n].Columns)
			}
		}
	}
	return columns, nil
}

// halfVisibleRow reads again an item row that was not found: while a load runs, the bank row may be visible before
// the item row. An item that was never loaded is an inconsistency, and has no columns.
func (b *Bank) halfVisibleRow(ctx context.Context, c Campaign, h engine.Hash) (*engine.ItemRow, error) {
	row, err := whileBusy(ctx, b, rowsBusy, func() (*engine.ItemRow, bool, error) {
		rows, busy, err := b.loadedRows(ctx, c, []engine.Hash{h})
		if err != nil {
			return nil, false, err
		}
		return rows[0], busy, nil
	})
	if err != nil || row == nil {
		return &engine.ItemRow{}, err
	}
	return row, nil
}
