package logledger

import (
	"sync/atomic"
	"unsafe"
)

// held is an item in memory. Its entries count for the arrivals from since to until, in milliseconds since 1970.
type held struct {
	since, until int64
	epoch, index int32
	span         span
}

const (
	heldSize      = 88 // bytes
	heldPageItems = 256
)

var _ [heldSize]byte = [unsafe.Sizeof(held{})]byte{}

// heldItems are the items of a lane in memory. Item 0 is not used, because ref 0 marks an empty slot.
type heldItems struct {
	pages []*[heldPageItems]held
	next  int // the first one that was never used
	free  []ref
}

func (h *heldItems) at(r ref) *held {
	return &h.pages[r.item()/heldPageItems][r.item()%heldPageItems]
}

// needsPage reports whether one more item needs a page.
func (h *heldItems) needsPage() bool {
	return len(h.free) == 0 && max(h.next, 1) == len(h.pages)*heldPageItems || len(h.pages) == 0
}

func (h *heldItems) grow() { h.pages = append(h.pages, new([heldPageItems]held)) }

// add adds an item. The caller must have made room.
func (h *heldItems) add(i held) (r ref) {
	if n := len(h.free); n > 0 {
		r, h.free = h.free[n-1], h.free[:n-1]
	} else {
		r = ref(max(h.next, 1))
		h.next = r.item() + 1
	}
	*h.at(r) = i
	return r
}

// drop removes the items for which dropped returns true.
func (h *heldItems) drop(dropped func(*held) bool) {
	for n := 1; n < h.next; n++ {
		if i := h.at(ref(n)); *i != (held{}) && dropped(i) {
			*i = held{}
			h.free = append(h.free, ref(n))
		}
	}
}

// count returns the number of items.
func (h *heldItems) count() int { return max(0, h.next-1) - len(h.free) }

// shrink releases the pages that the items do not need. It returns the new ref of each item.
func (h *heldItems) shrink() (moved []ref) {
	moved = make([]ref, h.next)
	next := 1
	for n := 1; n < h.next; n++ {
		if i := *h.at(ref(n)); i != (held{}) {
			*h.at(ref(next)), moved[n] = i, ref(next)
			next++
		}
	}
	h.next, h.free = next, nil
	pages := 0 // item 0 alone needs no page
	if next > 1 {
		pages = (next + heldPageItems - 1) / heldPageItems
	}
	h.pages = keep(h.pages, pages)
	return moved
}

// keep keeps the first n pages, and releases the memory of the others.
func keep[P any](pages []*P, n int) []*P {
	clear(pages[n:])
	return pages[:n]
}

// budget limits the memory of a Ledger's entries, in bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take takes memory if enough is left.
func (b *budget) take(bytes int) bool {
	if b.used.Add(int64(bytes)) <= b.limit {
		return true
	}
	b.give(bytes)
	return false
}

// add takes memory, even if it exceeds the limit.
func (b *budget) add(bytes int) { b.used.Add(int64(bytes)) }

func (b *budget) give(bytes int) { b.used.Add(-int64(bytes)) }
