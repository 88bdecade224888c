package cost

import (
	"math"
	"time"
)

const (
	// putsAtOnce is dynamostore.DefaultConcurrency.
	putsAtOnce = 32
	// entrySize is that of an entry with an id and a fingerprint of usual lengths, and the 100 bytes that DynamoDB adds to
	// each item (Developer Guide, "DynamoDB item sizes and formats").
	entrySize = 250 + 100
)

// keys is the ledger with one row a key: one write unit for each record, also for a copy.
func (l Load) keys() Estimate {
	puts := Units{Write: float64(l.Batch)}
	stored := l.added() * (l.Window + l.Horizon).Seconds() * entrySize
	rounds := math.Ceil(float64(l.Batch) / putsAtOnce)
	return l.estimate(puts, Units{}, stored, 0, time.Duration(rounds)*request, plainMemory)
}
