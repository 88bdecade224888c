package snowplowmanifest

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
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

// Candidate is the row as a record that was processed before. It has an owner of its own. So a row that is entered again
// is a retry, and an event of a stream never is: the copy of an event that the batch job has seen is a natural
// duplicate, even if it is that very event.
func (r Row) Candidate() dedupe.Candidate {
	return dedupe.Candidate{
		ID: r.EventID, Fingerprint: r.Fingerprint, Version: version,
		Owner:   dedupe.Owner{Source: source, Sequence: r.EventID + "/" + r.Fingerprint, Sub: dedupe.Plain},
		Arrival: r.ETLTime.Add(LongestBatch),
	}
}

// Report counts the rows of an import.
type Report struct {
	Rows    int64 // all
	Entered int64 // new in the ledger
	Known   int64 // entered before, by an import that was repeated
	// Late are rows whose event the ledger has from elsewhere. A function may have delivered these events although the
	// batch job has seen them: it began before the import had ended.
	Late int64
}

// chunk is how many rows are entered at a time.
const chunk = 1000

// Import enters rows in the ledger of a Decider, under its scope and retention. These, and derive, have to be those of
// the function that reads the events: derive says that every event gets a derived id. Import is safe to repeat, and to
// interrupt. The report is also valid with an error.
func Import(
	ctx context.Context, decider *dedupe.Decider, derive bool, rows iter.Seq2[Row, error],
) (report Report, err error) {
	candidates := make([]dedupe.Candidate, 0, chunk)
	for row, err := range rows {
		if err != nil {
			return report, err
		}
		c := row.Candidate()
		c.Derive = derive
		candidates = append(candidates, c)
		if len(candidates) == chunk {
			if err := report.enter(ctx, decider, candidates); err != nil {
				return report, err
			}
			candidates = candidates[:0]
		}
	}
	return report, report.enter(ctx, decider, candidates)
}

func (r *Report) enter(ctx context.Context, decider *dedupe.Decider, candidates []dedupe.Candidate) error {
	for i, decision := range decider.Decide(ctx, candidates) {
		switch decision.Outcome {
		case dedupe.New, dedupe.Synthetic:
			r.Entered++
		case dedupe.Retry:
			r.Known++
		case dedupe.Natural:
			r.Late++
		case dedupe.NoID:
			return fmt.Errorf("event %s: all ids that can be derived for it are taken", candidates[i].ID)
		default:
			return decision.Err
		}
		r.Rows++
	}
	return nil
}
