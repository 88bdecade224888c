package cost

import (
	"math"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
)

const (
	// entrySize is the size of an entry with an id and a fingerprint of usual lengths, in bytes.
	entrySize = 250
	// addedBytes is what DynamoDB adds to the size of each stored item (Developer Guide, "DynamoDB item sizes and
	// formats").
	addedBytes = 100
)

// keys estimates the ledger with one row a key. It needs one write unit for each record, even for a copy.
func (l Load) keys() Estimate {
	puts := Units{Write: float64(l.Batch)}
	stored := l.added() * (l.Window + l.Horizon).Seconds() * (entrySize + addedBytes)
	rounds := math.Ceil(float64(l.Batch) / dynamostore.DefaultConcurrency)
	return l.estimate(puts, Units{}, stored, 0, time.Duration(rounds)*request, plainMemory)
}
