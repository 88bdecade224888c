package itembank

import (
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// emptyFor is how long an empty shard is remembered, from the start of the read that showed it empty. So a request
// that starts more than a second after an item was committed to the bank never gets "sold out".
const emptyFor = time.Second

// emptyShards records the shards that reads showed empty. The reader of the bank adds shards. An item that comes back
// removes its shard.
type emptyShards struct {
	version int64             // of the campaign, read before the reads in since
	since   map[int]time.Time // by shard: the start of the read that showed it empty
	returns map[int]int       // by shard: how many items may have come back through this Bank
}

func (l *freeList) startRead(c Campaign, shard int) shardRead {
	started := l.bank.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return shardRead{shard, started, l.empty.returns[shard], c.copied.version}
}

// setEmpty records that a read showed its shard empty, unless an item came back during the read, which the read may
// have missed. Afterwards the campaign has to be read again.
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

// itemReturned removes a shard from the empty shards, because an item may have come back to it.
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

// notKnownEmpty lists the shards that a request which began at start has to read. It leaves out shards that were read
// during the request. So a request reads each shard once, even if that takes longer than emptyFor.
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
