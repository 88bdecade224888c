package snowplowmanifest

import (
	"context"
	"iter"
	"time"

	"github.com/oncebox/oncebox/internal/history"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// LongestBatch is how much later than the ETLTime of its row an event can have arrived: that time is the earliest of its
// batch. The job runs on folders of some minutes to some hours of events.
const LongestBatch = 24 * time.Hour

// source is the source of the owners of rows. It names no table, so that a table and its export have the same owners.
const source = "snowplow-manifest"

// version stands for the settings of the fingerprints: those of Enrich are not known here.
const version = "manifest"

// Since is the earliest ETLTime of the rows that still count at a time, in a ledger with this retention.
func Since(now time.Time, r dedupe.Retention) time.Time {
	if r.ForGood {
		return time.Time{}
	}
	return now.Add(-r.Window - r.Horizon - LongestBatch)
}

// Past is a manifest as the past, which package history enters in a ledger: all rows that still count. Their order is not
// always the same, so an import has no digest of them, and always reads all of them.
type Past func(context.Context) iter.Seq2[Row, error]

// Digest returns none.
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

// Record is the row as a record that was processed before. It has an owner of its own. So a row that is entered again
// is a retry, and an event of a stream never is: the copy of an event that the batch job has seen is a natural
// duplicate, even if it is that very event.
func (r Row) Record() history.Record {
	return history.Record{
		Fields: format.Fields{
			ID: r.EventID, Fingerprint: r.Fingerprint, Version: version, Time: r.ETLTime.Add(LongestBatch),
		},
		Owner: dedupe.Owner{Source: source, Sequence: r.EventID + "/" + r.Fingerprint, Sub: dedupe.Plain},
		Place: r.EventID,
	}
}
