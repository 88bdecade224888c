package logledger

import (
	"math"
	"math/rand/v2"
	"testing"
)

// all returns the entries of a table under a key.
func (t *table) all(k rowKey) (refs []ref) {
	t.each(k, func(_ content, r ref) bool {
		refs = append(refs, r)
		return true
	})
	return refs
}

// checkOrder checks the conditions of searches: keys rise, and no entry is before the home slot of its key.
func (t *table) checkOrder(tt *testing.T) {
	tt.Helper()
	var before rowKey
	count := 0
	for i := range t.slots() {
		s := t.at(i)
		if s.ref == 0 {
			continue
		}
		if count++; s.key().before(before) || t.home(s.key()) > i {
			tt.Fatalf("slot %d of %d has %+v, whose home is %d", i, t.slots(), *s, t.home(s.key()))
		}
		before = s.key()
	}
	if count != t.count {
		tt.Fatalf("%d entries, and the count is %d", count, t.count)
	}
}

// TestTable compares a table with a map while it grows and drops entries. Keys near the end, and many entries of one
// key, need slots after the last home.
func TestTable(t *testing.T) {
	t.Parallel()
	for name, keyOf := range map[string]func(*rand.Rand) rowKey{
		"any key":         func(r *rand.Rand) rowKey { return rowKey{r.Uint64(), r.Uint32()} },
		"few keys":        func(r *rand.Rand) rowKey { return rowKey{r.Uint64N(50) << 58, 0} },
		"the last keys":   func(r *rand.Rand) rowKey { return rowKey{math.MaxUint64 - r.Uint64N(3), r.Uint32N(3)} },
		"the first key":   func(*rand.Rand) rowKey { return rowKey{} },
		"the largest key": func(*rand.Rand) rowKey { return rowKey{math.MaxUint64, math.MaxUint32} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 1))
			var table table
			want := map[rowKey][]ref{}
			for n := ref(1); n <= 20_000; n++ {
				k := keyOf(random)
				if _, pages := table.pagesNeeded(1); pages > 0 {
					table.grow(pages)
				}
				table.add(k, content{}, n)
				want[k] = append(want[k], n)
				if n%5000 == 0 {
					table.checkOrder(t)
					dropped := func(r ref) bool { return r%3 == 0 }
					table.drop(dropped)
					for k, refs := range want {
						want[k] = nil
						for _, r := range refs {
							if !dropped(r) {
								want[k] = append(want[k], r)
							}
						}
					}
					table.checkOrder(t)
					moved := make([]ref, n+1)
					for r := ref(1); r <= n; r++ {
						moved[r] = n + 1 - r
					}
					for _, refs := range want {
						for i, r := range refs {
							refs[i] = moved[r]
						}
					}
					before := len(table.pages)
					table.shrink(moved)
					table.checkOrder(t)
					if least, _ := table.pagesNeeded(0); least > 0 || len(table.pages) > before {
						t.Fatalf("%d pages after shrink, for %d entries", len(table.pages), table.count)
					}
				}
			}
			for k, refs := range want {
				got := table.all(k)
				seen := map[ref]bool{}
				for _, r := range got {
					seen[r] = true
				}
				for _, r := range refs {
					if !seen[r] {
						t.Fatalf("%v: want %v, got %v", k, refs, got)
					}
				}
				if len(got) != len(refs) {
					t.Fatalf("%v: want %v, got %v", k, refs, got)
				}
			}
			if got := table.all(rowKey{1, 1}); got != nil {
				t.Errorf("a key that was never added: %v", got)
			}
		})
	}
}

// TestMemoryOfEntries: an entry, with the items of its lane, takes at most 32 bytes at every size of the table.
func TestMemoryOfEntries(t *testing.T) {
	t.Parallel()
	const first, ofItem, most = 100_000, 125, 32
	last := 2_000_000
	if testing.Short() { // several sizes, too
		last = 500_000
	}
	random := rand.New(rand.NewPCG(1, 1))
	l := &lane{ledger: &Ledger{memory: budget{limit: math.MaxInt64}}, epochs: []Epoch{{}}}
	worst := 0.0
	for n := ofItem; n <= last; n += ofItem {
		it := item{rows: make([]row, ofItem), plain: ofItem, at: arrivals{1, 1}}
		for i := range it.rows {
			it.rows[i].key = rowKey{random.Uint64(), random.Uint32()}
		}
		if err := l.hold(Epoch{}, n, it); err != nil {
			t.Fatal(err)
		}
		if n < first {
			continue
		}
		if worst = max(worst, float64(l.bytes())/float64(n)); int64(l.bytes()) != l.ledger.memory.used.Load() {
			t.Fatalf("%d bytes, and %d are counted", l.bytes(), l.ledger.memory.used.Load())
		}
	}
	if worst > most {
		t.Errorf("an entry takes %.1f bytes, want at most %d", worst, most)
	}
	t.Logf("at most %.1f bytes an entry", worst)
}

// TestMemoryOfAnEmptyLane: a lane that took memory for entries whose append failed releases all of it, so that
// another lane has room.
func TestMemoryOfAnEmptyLane(t *testing.T) {
	t.Parallel()
	failed := &lane{ledger: &Ledger{memory: budget{limit: 50_000}}, epochs: []Epoch{{Until: 2}}, rows: []int{0}}
	if err := failed.makeRoom(1); err != nil {
		t.Fatal(err)
	}
	failed.giveBack(1)
	if n := failed.bytes(); n != 0 {
		t.Errorf("it keeps %d bytes", n)
	}
	for _, l := range []*lane{{ledger: failed.ledger}, failed} {
		it := item{rows: make([]row, 1), plain: 1, at: arrivals{1, 1}}
		if err := l.hold(Epoch{}, 0, it); err != nil {
			t.Fatal(err)
		}
		if n := l.bytes(); int64(n) != l.ledger.memory.used.Load() || l.entries.count != 1 {
			t.Errorf("%d entries in %d bytes, and %d are counted", l.entries.count, n, l.ledger.memory.used.Load())
		}
		l.forget()
	}
}
