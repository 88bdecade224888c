package itembank

import (
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// emptyFor is how long an empty shard is remembered, counted from the start of the
// read that showed it. So a request that starts more than a second after an item was
// committed to the bank never gets "sold out".
const emptyFor = time.Second

// emptyShards says which shards were seen empty. The reader of the
// bank adds shards; an item that comes back removes its shard.
type emptyShards struct {
	version int64             // of the campaign: it was read before all the reads in since
	since   map[int]time.Time // from a shard to the start of the read that showed it empty
	returns map[int]int       // how many items may have come back to a shard through this Bank
}

func (l *freeList) startRead(c Campaign, shard int) shardRead {
	started := l.bank.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return shardRead{shard, started, l.empty.returns[shard], c.copied.version}
}

// setEmpty notes that a read showed its shard empty, unless an item came back during
// the read, which may have missed it. The campaign has to be read again afterwards.
func (l *freeList) setEmpty(r shardRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.empty
	if r.returns != e.returns[r.shard] {
		return
	}
	if e.since == nil || e.version != r.version {
		e.version, e.since = r.version, map[int]time.Time{}
	}
	e.since[r.shard] = r.started
	l.confirmed = false
	if l.loads == noLoads {
		l.loads = loadsUnknown
	}
}

// emptyVersion returns the version of the campaign that was read before the empty shards.
func (l *freeList) emptyVersion() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.empty.version
}

// itemReturned removes a shard from the empty ones, since an item may have come back
// to it.
func (l *freeList) itemReturned(shard engine.Shard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.empty
	if e.returns == nil {
		e.returns = map[int]int{}
	}
	e.returns[shard.Number]++
	delete(e.since, shard.Number)
}

// unknown returns how many shards a search has to read.
func (l *freeList) unknown(c Campaign, s *search) int { return len(l.notKnownEmpty(c, s.started)) }

// notKnownEmpty lists the shards that a request which began at start has to read. A
// shard that was read during the request is not among them, so that a request reads
// each shard once, however long that takes.
func (l *freeList) notKnownEmpty(c Campaign, start time.Time) (shards []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.empty
	for n := range c.Shards {
		since, ok := e.since[n]
		if !ok || e.version != c.copied.version || elapsed(since, start) >= emptyFor {
			shards = append(shards, n)
		}
	}
	return shards
}
