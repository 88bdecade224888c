package eventsource

import (
	"maps"
	"sync"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Checkpoint stores the progress of a mapping in each shard, from one Run to the next. It is safe
// for concurrent use. Its zero value is the checkpoint of a new mapping.
//
// "Lambda keeps track of the last record processed and resumes processing from that
// point when it's reenabled" (Options).
type Checkpoint struct {
	mu   sync.Mutex
	done map[string]string // by shard
}

// Of returns the sequence number of the last record of a shard up to which all records are delivered,
// discarded or lost. It is empty before the first.
func (c *Checkpoint) Of(shard string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[shard]
}

// Clone returns an independent copy, for a second poller that does not know the first.
func (c *Checkpoint) Clone() *Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Checkpoint{done: maps.Clone(c.done)}
}

// move moves the checkpoint of a shard, but never back.
func (c *Checkpoint) move(shard, sequence string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = map[string]string{}
	}
	if dedupe.CompareSequence(c.done[shard], sequence) < 0 {
		c.done[shard] = sequence
	}
}
