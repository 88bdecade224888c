package eventsource

import (
	"maps"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Checkpoint is what a mapping remembers of each shard, longer than a Run. It is
// safe for concurrent use, and its zero value is that of a new mapping.
//
// "Lambda keeps track of the last record processed and resumes processing from that
// point when it's reenabled" (Options).
type Checkpoint struct {
	mu     sync.Mutex
	shards map[string]Progress
}

// Progress is how far a mapping is in a shard.
type Progress struct {
	// Sequence is that of the last record through which all are delivered, given up
	// or lost; empty before the first.
	Sequence string

	// since is when a mapping that starts at LATEST first saw the shard.
	since time.Time
}

// Of returns the progress in a shard.
func (c *Checkpoint) Of(shard string) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shards[shard]
}

// Clone returns a copy that goes its own way: that of a second poller which does
// not know of the first.
func (c *Checkpoint) Clone() *Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Checkpoint{shards: maps.Clone(c.shards)}
}

// began tells whether any shard was seen before.
func (c *Checkpoint) began() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.shards) > 0
}

// see makes a shard known.
func (c *Checkpoint) see(shard string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shards == nil {
		c.shards = map[string]Progress{}
	}
	if _, known := c.shards[shard]; !known {
		c.shards[shard] = Progress{since: since}
	}
}

// move moves the shard's checkpoint, forward only.
func (c *Checkpoint) move(shard, sequence string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.shards[shard]
	if dedupe.CompareSequence(p.Sequence, sequence) < 0 {
		p.Sequence = sequence
		c.shards[shard] = p
	}
}
