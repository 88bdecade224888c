package logledger

import "math/bits"

// table has the entries of a lane in memory. It is an open addressing table with linear probing. Entries are in the
// order of their keys, and never before the home slot of their key. So a search ends at the first greater key, and a
// key may have several entries. The table grows and drops entries in place, page by page, without a second copy.
type table struct {
	pages []*page
	// slack is the number of slots at the end that are no key's home: entries move there from the slots before.
	slack int
	count int
}

const (
	pageSlots = 1024
	slotSize  = 24 // bytes
	pageSize  = pageSlots * slotSize
)

type page [pageSlots]slot

// slot is an entry in memory. It has no pointers, so that the garbage collector does not scan pages.
type slot struct {
	high    uint64
	low     uint32
	content content
	ref     ref // 0: the slot is empty
}

func (s *slot) key() rowKey { return rowKey{s.high, s.low} }

// ref names an item in memory, and says whether the entry is derived.
type ref uint32

const derivedMark ref = 1 << 31

func (r ref) item() int { return int(r &^ derivedMark) }

// derived returns 1 for a derived entry, and 0 otherwise.
func (r ref) derived() int { return int(r >> 31) }

// The table is filled up to the share fullest, and then grows by the share step. So an entry takes at most 24 bytes /
// 0.86 * 1.1 = 31 bytes, and 27.9 when the table is full. A fuller table is slower.
const (
	fullest = 0.86
	step    = 0.1
)

const firstSlack = 64

func (t *table) slots() int { return len(t.pages) * pageSlots }

func (t *table) at(i int) *slot { return &t.pages[i/pageSlots][i%pageSlots] }

// home returns the slot where the search for a key begins. It rises with the key.
func (t *table) home(k rowKey) int {
	place, _ := bits.Mul64(k.high, uint64(t.slots()-t.slack))
	return int(place)
}

// find returns the index of the first slot that has the key, or of the slot where the key belongs.
func (t *table) find(k rowKey) int {
	n := t.slots()
	if n == 0 {
		return 0
	}
	i := t.home(k)
	for i < n {
		s := t.at(i)
		if s.ref == 0 || !s.key().before(k) {
			break
		}
		i++
	}
	return i
}

// each calls f for the entries of a key until it returns false.
func (t *table) each(k rowKey, f func(content, ref) bool) {
	for i := t.find(k); i < t.slots(); i++ {
		s := t.at(i)
		if s.ref == 0 || s.key() != k || !f(s.content, s.ref) {
			return
		}
	}
}

// pagesNeeded returns how many pages must be added before a number of entries can be added: the least number, and the
// usual one.
func (t *table) pagesNeeded(entries int) (least, usual int) {
	if len(t.pages) > 0 && t.count+entries <= t.capacity(len(t.pages)) {
		return 0, 0
	}
	for least = 1; t.capacity(len(t.pages)+least) < t.count+entries; least++ {
	}
	return least, least + int(step*float64(len(t.pages)))
}

// walk calls f for all entries.
func (t *table) walk(f func(*slot)) {
	for i := range t.slots() {
		if s := t.at(i); s.ref != 0 {
			f(s)
		}
	}
}

// capacity returns how many entries a number of pages may have.
func (t *table) capacity(pages int) int {
	return int(fullest * float64(pages*pageSlots-max(t.slack, firstSlack)))
}

// add adds an entry after the entries of the same key. The caller must have made room. If too many entries have their
// home near the end, the table grows nevertheless.
func (t *table) add(k rowKey, c content, r ref) {
	i := t.find(k)
	for i < t.slots() && t.at(i).ref != 0 && t.at(i).key() == k {
		i++
	}
	end := i
	for end < t.slots() && t.at(end).ref != 0 {
		end++
	}
	if end == t.slots() {
		t.widen()
		t.add(k, c, r)
		return
	}
	for ; end > i; end-- {
		*t.at(end) = *t.at(end - 1)
	}
	*t.at(i) = slot{k.high, k.low, c, r}
	t.count++
}

// grow adds pages.
func (t *table) grow(pages int) {
	t.slack = max(t.slack, firstSlack)
	old := t.slots()
	for range pages {
		t.pages = append(t.pages, new(page))
	}
	t.arrange(old, nil)
}

// drop drops the entries for which dropped returns true.
func (t *table) drop(dropped func(ref) bool) { t.arrange(t.slots(), dropped) }

// shrink releases the pages that the entries do not need, and sets the new refs of items.
func (t *table) shrink(moved []ref) {
	n := 0
	for i := range t.slots() {
		if s := *t.at(i); s.ref != 0 {
			*t.at(i) = slot{}
			s.ref = moved[s.ref.item()] | s.ref&derivedMark
			*t.at(n) = s
			n++
		}
	}
	pages := 0
	for n > 0 && pages < len(t.pages) && t.capacity(pages) < n {
		pages++
	}
	t.pages = keep(t.pages, pages)
	t.arrange(n, nil)
}

// widen adds slots at the end that are no key's home.
func (t *table) widen() {
	t.slack *= 2
	t.grow(1 + t.slack/pageSlots)
}

// arrange moves all entries to their present places, and drops some. All entries were in the first occupied slots. It
// first packs them at the end of the table, so that it can then move each of them to the left.
func (t *table) arrange(occupied int, dropped func(ref) bool) {
	end := t.slots()
	first := end
	for i := occupied - 1; i >= 0; i-- {
		s := *t.at(i)
		*t.at(i) = slot{}
		if s.ref != 0 && (dropped == nil || !dropped(s.ref)) {
			first--
			*t.at(first) = s
		}
	}
	t.count = end - first
	next := 0
	for i := first; i < end; i++ {
		s := *t.at(i)
		place := max(next, t.home(s.key()))
		if place > i { // too many entries have their home near the end
			t.widen()
			return
		}
		*t.at(i) = slot{}
		*t.at(place) = s
		next = place + 1
	}
}
