package itembankfault

import (
	"fmt"
	"iter"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The columns of an item depend only on its text. So a check needs no history to judge an answer.

// columnsOf returns the columns that an item is loaded with. Some items have no columns.
func columnsOf(item string) []itembank.Column {
	if strings.HasSuffix(item, "1") {
		return nil
	}
	return []itembank.Column{{Name: "of", Value: item}, {Name: "<size>", Value: fmt.Sprint(len(item))}}
}

// itemsFor returns a source of the items, with their columns if the campaign has columns.
func itemsFor(c engine.Campaign, items ...string) itembank.Source {
	plain := itembank.Items(items...)
	if !c.Columns {
		return plain
	}
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for line, err := range plain() {
				line.Columns = columnsOf(line.Item)
				if !yield(line, err) {
					return
				}
			}
		}
	}
}

// wantColumns returns the columns that an answer with this claim must have.
func wantColumns(c engine.Campaign, claim itembank.Claim) (all []itembank.Columns) {
	if !c.Columns {
		return nil
	}
	for _, item := range claim.Items {
		all = append(all, itembank.NewColumns(columnsOf(item)...))
	}
	return all
}
