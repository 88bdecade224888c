package simulated

import (
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// table is the partitions of a table.
type table struct {
	name       string
	seed       uint64
	partitions []partition
}

// partition holds the remaining units of a partition.
type partition struct{ writes, reads bucket }

func newTable(name string, m Model) *table {
	t := &table{name: name, seed: m.Seed, partitions: make([]partition, m.Limits.Partitions)}
	for i := range t.partitions {
		t.partitions[i] = partition{
			writes: newBucket(m.Limits.Writes, m.Limits.Burst),
			reads:  newBucket(m.Limits.Reads, m.Limits.Burst),
		}
	}
	return t
}

// place returns the number of the partition that a partition key lies on.
func (t *table) place(key string) int {
	return draw(t.seed, "place "+t.name+" "+key).IntN(len(t.partitions))
}

func (t *table) partition(key string) *partition { return &t.partitions[t.place(key)] }

// fullest returns the writes of the partition with the most writes, as a multiple of its rate over the time.
func (t *table) fullest(took time.Duration) (use float64) {
	for _, p := range t.partitions {
		use = max(use, p.writes.spent/(p.writes.rate*took.Seconds()))
	}
	return use
}

func (t *table) forgetSpent() {
	for i := range t.partitions {
		t.partitions[i].writes.spent, t.partitions[i].reads.spent = 0, 0
	}
}

// bucket is a token bucket.
type bucket struct {
	rate, size float64 // units a second, units
	left       float64
	at         time.Time // when left was right
	spent      float64
}

func newBucket(rate float64, burst time.Duration) bucket {
	size := rate * burst.Seconds()
	return bucket{rate: rate, size: size, left: size, at: time.Now()}
}

// has reports that so many units are left.
func (b *bucket) has(units float64) bool {
	now := time.Now()
	b.left = min(b.size, b.left+b.rate*now.Sub(b.at).Seconds())
	b.at = now
	return b.left >= units
}

func (b *bucket) spend(units float64) {
	b.left -= units
	b.spent += units
}

// The partition keys of the tables.
const (
	campaignKey = "campaign"
	loadsKey    = "loads"
)

func shardKey(shard int) string { return fmt.Sprintf("shard %d", shard) }
func claimKey(key int) string   { return fmt.Sprintf("claims %d", key) }

// itemKey is the partition key of an item row. There are 256.
func itemKey(h engine.Hash) string { return fmt.Sprintf("items %d", h.ShardOf(256)) }
