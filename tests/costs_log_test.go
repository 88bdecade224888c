package tests

import (
	"fmt"
	"math"
	"testing"
	"time"

	ledgercost "github.com/oncebox/oncebox/internal/records/cost"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	dedupestore "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// logLedgers are log ledgers over a metered table.
type logLedgers struct {
	*testing.T
	*meter
	storage logledger.Storage
	at      time.Time // the arrival of the records
	ids     int
}

func newLogLedgers(t *testing.T) *logLedgers {
	m, client, own := metered(t)
	return &logLedgers{T: t, meter: m, storage: dedupestore.NewLog(client, own.dedupe), at: time.Now()}
}

// environment returns a ledger that has read nothing yet.
func (l *logLedgers) environment() *logledger.Ledger {
	ledger, err := logledger.New(l.storage, logledger.Options{})
	must(l, err)
	return ledger
}

// enter enters a batch of records from a number on.
func (l *logLedgers) enter(ledger *logledger.Ledger, first, n int, want dedupe.Found) {
	l.Helper()
	q := dedupe.Question{
		Scope: "clicks", Retention: dedupe.Retention{Window: time.Hour, Horizon: 14 * 24 * time.Hour},
		Records: make([]dedupe.Candidate, n),
	}
	for i := range q.Records {
		l.ids++
		q.Records[i] = dedupe.Candidate{
			ID: fmt.Sprintf("7a1d9c52-0f67-4d8e-8d5e-%07d", first+i), Fingerprint: "x", Arrival: l.at,
			Owner: dedupe.Owner{Source: "clicks 1", Sequence: fmt.Sprintf("4967%052d", l.ids), Sub: dedupe.Plain},
		}
	}
	answers, err := ledger.Enter(l.Context(), q)
	must(l, err)
	for _, a := range answers {
		if a.Found != want {
			l.Fatalf("want %d, got %+v", want, a)
		}
	}
}

// batches enters batches of new records, each in the next environment, and returns the cost of a record.
func (l *logLedgers) batches(times, n int, environments ...*logledger.Ledger) cost {
	l.Helper()
	first := l.ids
	return l.during(func() {
		for i := range times {
			l.enter(environments[i%len(environments)], first+i*n, n, dedupe.Put)
		}
	}).each(times * n)
}

// costsOfLogs counts the rows of docs/costs.md about the log ledger.
func costsOfLogs(t *testing.T) map[string]cost {
	l := newLogLedgers(t)
	one := l.environment()
	l.batches(1, counted, one) // begins the epoch
	costs := map[string]cost{}
	costs["log: a new record, in batches of 1,000"] = l.batches(40, counted, one)
	costs["log: a new record, in batches of 5,000"] = l.batches(8, 5*counted, one)
	costs["log: a copy in a later batch"] = l.during(func() { l.enter(one, 0, counted, dedupe.Same) }).each(counted)
	entries := l.ids - counted
	load := l.during(func() {
		must(t, l.environment().Warm(t.Context(), "clicks", dedupe.Retention{Window: time.Hour, Horizon: 14 * 24 * time.Hour}))
	})
	costs["log: an entry that a new environment reads"] = load.each(entries)
	return costs
}

// TestCostsOfLogs compares the formulas of `oncebox cost` with the units that real log ledgers take on the wire.
// bench/simulated does it for ledgers that meet each other.
func TestCostsOfLogs(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for _, environments := range []int{1, 2, 4} {
		for _, batch := range []int{100, counted, 4 * counted} {
			t.Run(fmt.Sprintf("%d environments, batches of %d", environments, batch), func(t *testing.T) {
				l, ledgers := newLogLedgers(t), make([]*logledger.Ledger, environments)
				for n := range ledgers {
					ledgers[n] = l.environment()
				}
				l.batches(2*environments, batch, ledgers...) // they begin, and meet each other
				got := l.batches(8*environments, batch, ledgers...)
				want := ledgercost.Load{
					Rate: 1, Batch: batch, Shards: environments, Parallelization: 1, Lanes: logledger.DefaultLanes,
				}.LogUnits()
				t.Logf("counted %.4f and %.4f, calculated %.4f and %.4f", got.writeUnits, got.readUnits, want.Write, want.Read)
				if math.Abs(got.writeUnits-want.Write) > 0.05*want.Write || math.Abs(got.readUnits-want.Read) > 0.1*want.Read {
					t.Errorf("counted %+v, calculated %+v", got, want)
				}
			})
		}
	}
}
