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

// keys estimates the ledger with one row a key. It needs one write unit for each record, and one read unit for each
// copy in a batch of at least one full request. Shorter batches need a request for each record.
func (l Load) keys() Estimate {
	units, requests := Units{Write: float64(l.Batch)}, float64(l.Batch)
	if l.Batch >= dynamostore.FullRequest {
		units.Read, requests = float64(l.Batch)*l.Copies, math.Ceil(requests/dynamostore.FullRequest)
	}
	stored := l.added() * (l.Window + l.Horizon).Seconds() * (entrySize + addedBytes)
	rounds := math.Ceil(requests / dynamostore.DefaultConcurrency)
	return l.estimate(units, Units{}, stored, 0, time.Duration(rounds)*request, plainMemory)
}
