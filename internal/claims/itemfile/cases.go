package itemfile

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// maxCompared is the largest number of items that are compared. It limits the memory of the comparison to 24 MB.
const maxCompared = 1 << 20

// CaseConflict counts groups of items that differ only in upper and lower case. A person who types such a code may
// get another item. Only the first million items with letters are compared.
type CaseConflict struct {
	Groups        int
	First, Second int64 // the lines of two items of the first group
}

// caseCheck collects hashes of items.
type caseCheck struct {
	seed  maphash.Seed
	items []hashedItem
}

type hashedItem struct {
	folded, exact uint64
	line          int64
}

func (c *caseCheck) add(line itembank.Line) {
	lower := strings.ToLower(line.Item)
	if len(c.items) == maxCompared || lower == line.Item && strings.ToUpper(line.Item) == line.Item {
		return // an item without letters has one case
	}
	if c.items == nil {
		c.seed = maphash.MakeSeed()
	}
	c.items = append(c.items, hashedItem{maphash.String(c.seed, lower), maphash.String(c.seed, line.Item), line.Number})
}

// result sorts the items so that items that differ only in case are adjacent.
func (c *caseCheck) result() (found CaseConflict) {
	slices.SortFunc(c.items, func(a, b hashedItem) int {
		return cmp.Or(cmp.Compare(a.folded, b.folded), cmp.Compare(a.line, b.line))
	})
	for begin := 0; begin < len(c.items); {
		end := begin + 1
		second := int64(0)
		for ; end < len(c.items) && c.items[end].folded == c.items[begin].folded; end++ {
			if second == 0 && c.items[end].exact != c.items[begin].exact {
				second = c.items[end].line
			}
		}
		if second > 0 {
			found.Groups++
			if found.First == 0 || c.items[begin].line < found.First {
				found.First, found.Second = c.items[begin].line, second
			}
		}
		begin = end
	}
	return found
}
