package recordhandler

import (
	"time"

	"github.com/oncebox/oncebox/internal/aws/emf"
)

// metrics are the metrics of a batch, in the order of numbers. The counts of a log ledger and the records past the
// horizon are not among them: alarms need those also without metrics, and get them from the log lines by metric
// filters.
var metrics = []emf.Metric{
	{Name: "RecordsIn", Unit: emf.Count},
	{Name: "RecordsNew", Unit: emf.Count},
	{Name: "RecordsFailed", Unit: emf.Count},
	{Name: "NaturalDuplicates", Unit: emf.Count},
	{Name: "SyntheticDuplicates", Unit: emf.Count},
	{Name: "DeadLetters", Unit: emf.Count},
	{Name: "LedgerTime", Unit: emf.Milliseconds},
	{Name: "SinkTime", Unit: emf.Milliseconds},
	{Name: "OldestRecordAge", Unit: emf.Milliseconds},
}

// numbers returns the metrics of an invocation. An event that is not a batch has no metrics.
func (h *Handler) numbers(i invocation, begun time.Time) (v emf.Values) {
	if h.metrics == nil || len(i.sources) == 0 {
		return v
	}
	t := i.result.Tally
	v.Metrics = []float64{
		float64(t.In), float64(t.New), float64(t.Failed), float64(t.Natural), float64(t.Synthetic), float64(t.DeadLettered),
		emf.Milli(i.result.LedgerTime), emf.Milli(i.result.SinkTime), emf.Milli(i.ageAt(begun)),
	}
	return v
}

// ageAt returns how long before now the oldest record of the event arrived. The clock of Kinesis may be ahead.
func (i invocation) ageAt(now time.Time) (age time.Duration) {
	for _, s := range i.sources {
		for _, r := range s.batch.Records {
			age = max(age, now.Sub(r.Arrival))
		}
	}
	return age
}
