package itembank

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The columns of an item are stored once: in its item row, which the load puts and nothing changes. Bank rows and
// claims have no copy. So columns cannot get lost or mixed up when an item moves. An answer that names items reads
// their item rows (docs/adr/0034-columns.md).

// Column is a name and a value that a load gives to an item.
type Column = engine.Column

// Columns are the columns of an item, in the order of its load, as one comparable value. Its method All lists them.
// In JSON they are an object.
type Columns = engine.Columns

// ColumnsList has the Columns of several items, as one comparable value. It is empty if no item has columns.
type ColumnsList string

// NewColumnsList makes a list.
func NewColumnsList(all ...Columns) ColumnsList {
	var list strings.Builder
	for _, columns := range all {
		list.WriteString(string(columns) + "\n") // a line without a name
	}
	if list.Len() == len(all) {
		return ""
	}
	return ColumnsList(list.String())
}

// Of returns the columns of the item at place i of the list, from 0.
func (l ColumnsList) Of(i int) Columns {
	var columns strings.Builder
	for line := range strings.Lines(string(l)) {
		switch {
		case line == "\n":
			i--
		case i == 0:
			columns.WriteString(line)
		}
	}
	return Columns(columns.String())
}

// ValidateColumns checks the columns of an item: up to [engine.MaxColumns], with different names that are not empty.
// Names and values are UTF-8 without control characters, and together have up to [engine.MaxColumnBytes] bytes. The
// error is an *InvalidError.
func ValidateColumns(columns []Column) error {
	if n := len(columns); n > engine.MaxColumns {
		return &InvalidError{"columns", fmt.Sprintf("are %d, at most %d are allowed", n, engine.MaxColumns)}
	}
	size := 0
	for i, c := range columns {
		field := fmt.Sprintf("column %q", c.Name)
		isSame := func(other Column) bool { return other.Name == c.Name }
		switch {
		case c.Name == "":
			return &InvalidError{"columns", fmt.Sprintf("the name of column %d is empty", i+1)}
		case textProblem(c.Name) != "":
			return &InvalidError{field, "its name " + textProblem(c.Name)}
		case slices.ContainsFunc(columns[:i], isSame):
			return &InvalidError{field, "occurs twice"}
		case textProblem(c.Value) != "":
			return &InvalidError{field, textProblem(c.Value)}
		}
		size += len(c.Name) + len(c.Value)
	}
	if size > engine.MaxColumnBytes {
		const form = "have %d bytes with their names, at most %d are allowed"
		return &InvalidError{"columns", fmt.Sprintf(form, size, engine.MaxColumnBytes)}
	}
	return nil
}

// lineCheck checks the lines of a source for a campaign.
type lineCheck struct {
	campaign Campaign
	first    map[engine.Hash]firstLine // by item; used only if items may have columns
}

// firstLine is the first line that has an item, with a hash of its columns.
type firstLine struct {
	number  int64
	columns engine.Hash
}

func newLineCheck(c Campaign) lineCheck { return lineCheck{c, map[engine.Hash]firstLine{}} }

func (k lineCheck) line(l Line) error {
	if err := ValidateItem(l.Item); err != nil {
		return err
	}
	if !k.campaign.Columns {
		if len(l.Columns) > 0 {
			const form = "campaign %q has none; columns is set when a campaign is created"
			return &InvalidError{"columns", fmt.Sprintf(form, k.campaign.Name)}
		}
		return nil
	}
	if err := ValidateColumns(l.Columns); err != nil {
		return err
	}
	item, columns := engine.HashItem(l.Item), hashColumns(engine.NewColumns(l.Columns...))
	switch first, known := k.first[item]; {
	case !known:
		k.first[item] = firstLine{l.Number, columns}
	case first.columns != columns:
		return &InvalidError{"columns", fmt.Sprintf("differ from those of line %d, which has the same item", first.number)}
	}
	return nil
}

func hashColumns(c Columns) engine.Hash { return engine.HashItem(string(c)) }

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
		items = append(items, claim.Items()...)
	}
	columns, err := b.columnsOf(ctx, c, items)
	if err != nil {
		return err
	}
	for i := range claims {
		n := len(claims[i].Items())
		claims[i].Columns, columns = NewColumnsList(columns[:n]...), columns[n:]
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
				columns[i] = rows[n].Columns
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
