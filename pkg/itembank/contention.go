package itembank

import (
	"sync/atomic"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Contention counts how often claims of a Bank conflicted with other requests. Each conflict costs one transaction,
// which is tried again. No such claim is refused for it.
type Contention struct {
	LostRaces int64 // another claimant had taken the item
	Conflicts int64 // another transaction was working on the item's row or on the claim's
	Throttles int64 // DynamoDB throttled the key range of one of these rows, or the table
}

// Contention returns the counts since the Bank was made. It is cheap and never fails.
func (b *Bank) Contention() Contention {
	c := &b.contention
	return Contention{c.lostRaces.Load(), c.conflicts.Load(), c.throttles.Load()}
}

// Since returns the counts since an earlier Contention.
func (c Contention) Since(before Contention) Contention {
	return Contention{c.LostRaces - before.LostRaces, c.Conflicts - before.Conflicts, c.Throttles - before.Throttles}
}

// contention holds the counters of a Bank's Contention.
type contention struct{ lostRaces, conflicts, throttles atomic.Int64 }

// count counts a transaction that made no claim. It does not count a transaction that found the claimant's own claim:
// that is a repeat.
func (c *contention) count(taken engine.TakeResult) {
	if taken.Held != nil {
		return
	}
	if taken.ItemGone {
		c.lostRaces.Add(1)
	}
	if taken.ClaimConflict || taken.ItemConflict {
		c.conflicts.Add(1)
	}
	if taken.ClaimThrottled || taken.ItemThrottled {
		c.throttles.Add(1)
	}
}
