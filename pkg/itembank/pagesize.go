package itembank

import (
	"encoding/binary"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A page of a large bank costs less for each claim the larger it is; in a small one
// Banks with large pages meet. So a page is a small share of the bank, within limits.
// These numbers are the best of a simulation (docs/benchmarks.md, "Claims"), with
// others near them as good.
const (
	pageShare    = 200 // items of the bank for each one of the page
	mostPageSize = 100 // beyond that a claim gets no cheaper
	smallShard   = 2   // pages at most; such a shard is read whole
	wholePages   = 4   // how much of it is asked for: the size is an estimate
)

// bankSize estimates how many free items a bank has. The zero value knows nothing.
type bankSize struct {
	known bool
	items float64
}

// measure reads the estimate off items of a shard that were read from a place on,
// and round its end: hashes are spread evenly, so the items' share of a shard's
// hashes is their share of its items.
func (s *bankSize) measure(c Campaign, items []engine.FreeItem, place engine.Hash) {
	if len(items) == 0 { // an engine that has more may still bring none
		return
	}
	stretch := fraction(items[len(items)-1].Hash) - fraction(place)
	if stretch <= 0 {
		stretch++
	}
	s.known, s.items = true, float64(len(items)*c.Shards)/max(stretch, 1e-9)
}

// measureWhole reads the estimate off all items of a shard.
func (s *bankSize) measureWhole(c Campaign, items []engine.FreeItem) {
	s.known, s.items = true, float64(len(items)*c.Shards)
}

// fraction is where a hash stands in the order of all, from 0 to 1.
func fraction(h engine.Hash) float64 { return float64(binary.BigEndian.Uint64(h[:8])) / (1 << 64) }

// pageSize is the campaign's own, and more in a large bank.
func (s bankSize) pageSize(c Campaign) int {
	return max(c.PageSize, min(int(s.items)/pageShare, mostPageSize))
}

// smallShards tells that a shard is thought to hold a few pages at most.
func (s bankSize) smallShards(c Campaign) bool {
	return s.known && s.items <= float64(smallShard*s.pageSize(c)*c.Shards)
}

// wholeLimit is how many items of a small shard are asked for.
func (s bankSize) wholeLimit(c Campaign) int { return wholePages * s.pageSize(c) }
