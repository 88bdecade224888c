package itembank

import (
	"encoding/binary"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// In a large bank a larger page makes a claim cheaper. In a small bank, Banks with large pages take each other's
// items. So a page is a small share of the bank, within limits. These numbers were the best in a simulation; similar
// numbers are as good (docs/benchmarks.md, "Claims").
const (
	itemsPerPageItem = 200 // items in the bank for each item of a page
	largestPage      = 100 // a larger page does not make a claim cheaper
	smallShardPages  = 2   // a shard of at most this many pages is read whole
	wholeReadPages   = 4   // the limit of that read, because the size is an estimate
)

// bankSize estimates how many free items a bank has. Its zero value means "not known".
type bankSize struct {
	known bool
	items float64
}

// measure estimates the size from items that were read from a place of a shard onward. Hashes are spread evenly, so
// the items' share of the range of hashes is their share of the shard.
func (s *bankSize) measure(c Campaign, items []engine.FreeItem, place engine.Hash) {
	if len(items) == 0 { // a page may be empty without being the last
		return
	}
	share := fraction(items[len(items)-1].Hash) - fraction(place)
	if share <= 0 { // the read continued at the beginning of the shard
		share++
	}
	s.known, s.items = true, float64(len(items)*c.Shards)/max(share, 1e-9)
}

// measureWhole estimates the size from all items of a shard.
func (s *bankSize) measureWhole(c Campaign, items []engine.FreeItem) {
	s.known, s.items = true, float64(len(items)*c.Shards)
}

// fraction maps hashes, in their order, to the numbers from 0 to 1.
func fraction(h engine.Hash) float64 { return float64(binary.BigEndian.Uint64(h[:8])) / (1 << 64) }

// pageSize returns the campaign's page size, or a larger one in a large bank. A Bank that works on several claims reads
// as many items for each, as a Bank for each of them would.
func (s bankSize) pageSize(c Campaign, claims int) int {
	forOne := max(c.PageSize, min(int(s.items)/itemsPerPageItem, largestPage))
	return max(forOne, min(forOne*claims, largestPage))
}

// smallShards reports whether shards are estimated to hold at most smallShardPages pages.
func (s bankSize) smallShards(c Campaign, claims int) bool {
	return s.known && s.items <= float64(smallShardPages*s.pageSize(c, claims)*c.Shards)
}

// wholeLimit returns how many items of a small shard are read.
func (s bankSize) wholeLimit(c Campaign, claims int) int {
	return wholeReadPages * s.pageSize(c, claims)
}
