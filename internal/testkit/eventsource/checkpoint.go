package eventsource

import (
	"maps"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Checkpoint stores the progress of a mapping in each shard, from one Run to the next. It is safe
// for concurrent use. Its zero value is the checkpoint of a new mapping.
//
// "Lambda keeps track of the last record processed and resumes processing from that
// point when it's reenabled" (Options).
type Checkpoint struct {
	mu     sync.Mutex
	shards map[string]Progress
}

// Progress is the progress of a mapping in a shard.
type Progress struct {
	// Sequence is the sequence number of the last record up to which all records are delivered,
	// discarded or lost. It is empty before the first.
	Sequence string

	// since is the time when a mapping that starts at LATEST found the shard.
	since time.Time
}

// Of returns the progress in a shard.
func (c *Checkpoint) Of(shard string) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shards[shard]
}

// Clone returns an independent copy, for a second poller that does not know the first.
func (c *Checkpoint) Clone() *Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Checkpoint{shards: maps.Clone(c.shards)}
}

// began reports whether the mapping has found any shard.
func (c *Checkpoint) began() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.shards) > 0
}

// add adds a shard that the mapping has found.
func (c *Checkpoint) add(shard string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shards == nil {
		c.shards = map[string]Progress{}
	}
	if _, known := c.shards[shard]; !known {
		c.shards[shard] = Progress{since: since}
	}
}

// move moves the checkpoint of a shard, but never back.
func (c *Checkpoint) move(shard, sequence string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.shards[shard]
	if dedupe.CompareSequence(p.Sequence, sequence) < 0 {
		p.Sequence = sequence
		c.shards[shard] = p
	}
}
