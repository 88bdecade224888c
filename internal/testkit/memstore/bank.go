package memstore

import (
	"bytes"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// bank holds the free items of one shard. Reading a page is quick even in a large bank: it skips items that were
// removed since the hashes were sorted, and does not look at them one by one.
type bank struct {
	shard engine.Shard
	items map[engine.Hash]bankRow

	// order holds the hashes of all items in order, and hashes of items that were removed since it was sorted. It is
	// nil if the hashes must be sorted again. next[i] is i if the item at i still exists. Otherwise it is a place
	// after i, and no item exists between the two. next has one entry more than order, for the end.
	order []engine.Hash
	next  []int32
}

// bankRow holds the columns of a bank row that are not in its key.
type bankRow struct {
	value  string
	endsAt time.Time
}

func (b *bank) add(item engine.FreeItem) {
	b.items[item.Hash] = bankRow{item.Value, item.EndsAt}
	b.order = nil
}

// item returns a free item, or nil if it is absent.
func (b *bank) item(h engine.Hash) *engine.FreeItem {
	row, found := b.items[h]
	if !found {
		return nil
	}
	return &engine.FreeItem{Shard: b.shard, Hash: h, Value: row.value, EndsAt: row.endsAt}
}

func (b *bank) remove(h engine.Hash) {
	delete(b.items, h)
	if place, found := b.find(h); found {
		b.next[place] = int32(place) + 1
	}
}

// page returns the items of a range, up to limit.
func (b *bank) page(r engine.Range, limit int) (page engine.FreePage) {
	b.sort()
	place := 0
	if r.After != nil {
		var found bool
		if place, found = b.find(*r.After); found {
			place++
		}
	}
	for place = b.present(place); place < len(b.order); place = b.present(place + 1) {
		h := b.order[place]
		if r.Through != nil && bytes.Compare(h[:], r.Through[:]) > 0 {
			return page
		}
		if len(page.Items) == limit {
			page.More = true
			return page
		}
		page.Items = append(page.Items, *b.item(h))
	}
	return page
}

// sort sorts the hashes, if items were added since the last time.
func (b *bank) sort() {
	if b.order != nil {
		return
	}
	b.order = make([]engine.Hash, 0, len(b.items))
	for h := range b.items {
		b.order = append(b.order, h)
	}
	slices.SortFunc(b.order, compareHashes)
	b.next = make([]int32, len(b.order)+1)
	for i := range b.next {
		b.next[i] = int32(i)
	}
}

// find returns the place of a hash in the order. For an absent hash it returns the place where the hash would be.
func (b *bank) find(h engine.Hash) (place int, found bool) {
	return slices.BinarySearchFunc(b.order, h, compareHashes)
}

// present returns the place of the first existing item at or after a place, or the end. It shortens the way for later
// calls.
func (b *bank) present(place int) int {
	for int(b.next[place]) != place {
		b.next[place] = b.next[b.next[place]]
		place = int(b.next[place])
	}
	return place
}

func compareHashes(x, y engine.Hash) int { return bytes.Compare(x[:], y[:]) }
