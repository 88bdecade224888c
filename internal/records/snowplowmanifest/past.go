package snowplowmanifest

import (
	"context"
	"iter"
	"time"

	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// LongestBatch is how much later than the ETLTime of its row an event can have arrived. ETLTime is the earliest time
// in a batch, and the job runs on folders with some minutes to some hours of events.
const LongestBatch = 24 * time.Hour

// source is the source of the rows' owners. It does not name the table, so that a table and its export have the same
// owners.
const source = "snowplow-manifest"

// version is the version of all fingerprints, because the settings of Enrich's fingerprints are not known here.
const version = "manifest"

// Since returns the earliest ETLTime of the rows that still count at time now, in a ledger with this retention.
func Since(now time.Time, r dedupe.Retention) time.Time {
	if r.ForGood {
		return time.Time{}
	}
	return now.Add(-r.Window - r.Horizon - LongestBatch)
}

// Past yields all rows of a manifest that still count, for package history to enter in a ledger. Their order is not
// always the same. So an import has no digest of them, and always reads all rows.
type Past func(context.Context) iter.Seq2[Row, error]

// Digest returns nil: the rows have no digest.
func (Past) Digest(context.Context) ([]byte, error) { return nil, nil }

// Records returns the rows as records.
func (p Past) Records(ctx context.Context) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for row, err := range p(ctx) {
			if err != nil {
				yield(history.Record{}, err)
				return
			}
			if !yield(row.Record(), nil) {
				return
			}
		}
	}
}

// Record returns the row as a record that was processed before. The record has its own owner. So a row that is
// entered again is a retry, but an event of a stream is not: an event that the batch job has seen is a natural
// duplicate, even if it is the same event.
func (r Row) Record() history.Record {
	return history.Record{
		Fields: format.Fields{
			ID: r.EventID, Fingerprint: r.Fingerprint, Version: version, Time: r.ETLTime.Add(LongestBatch),
		},
		Owner: dedupe.Owner{Source: source, Sequence: r.EventID + "/" + r.Fingerprint, Sub: dedupe.Plain},
		Place: r.EventID,
	}
}
