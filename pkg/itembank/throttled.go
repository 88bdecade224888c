package itembank

import "time"

// throttledFor is how long a shard is avoided after DynamoDB throttled a claim of one of its items.
// A hot partition has its full capacity again after a second
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html).
const throttledFor = time.Second

// throttledShards has the shards to avoid. The value is when the avoidance ends.
type throttledShards map[int]time.Time

func (t throttledShards) has(shard int, now time.Time) bool {
	until, ok := t[shard]
	return ok && now.Before(until)
}

// avoid records that the shard of a candidate is throttled. For throttledFor, other shards are preferred.
func (l *freeList) avoid(item candidate) {
	until := l.bank.clock.Now().Add(throttledFor)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.throttled == nil {
		l.throttled = throttledShards{}
	}
	l.throttled[item.page.shard] = until
}

// throttledNow returns the set of throttled shards.
func (l *freeList) throttledNow() map[int]bool {
	now := l.bank.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	set := map[int]bool{}
	for shard := range l.throttled {
		if l.throttled.has(shard, now) {
			set[shard] = true
		}
	}
	return set
}
