package itembank

import (
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

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
	item, columns := engine.HashItem(l.Item), hashColumns(NewColumns(l.Columns...))
	switch first, known := k.first[item]; {
	case !known:
		k.first[item] = firstLine{l.Number, columns}
	case first.columns != columns:
		return &InvalidError{"columns", fmt.Sprintf("differ from those of line %d, which has the same item", first.number)}
	}
	return nil
}

func hashColumns(c Columns) engine.Hash { return engine.HashItem(string(c)) }
