package enginetest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Rules are the guarantees that only some ledgers give. The zero value is right for an engine that stores a set of rows
// under the key of an id.
type Rules struct {
	// UntilPurge says that an entry counts for each record that arrives up to its purge time (arrival + window +
	// horizon, rounded up to a second), and for no later record. Without UntilPurge an entry counts for each record
	// that arrives at most the window before or after it. It may count for others, but not for a record that arrives
	// more than window + horizon and an hour later.
	UntilPurge bool
	// ForGood says that entries can be kept for ever. If it is not set, a question with Retention.ForGood gets an error
	// that is not of the family dedupe.ErrTryAgain, and none of its records is entered.
	ForGood bool
	// DerivedNames says that a record is compared with another record whose derived id equals its own id. If it is
	// not set, the two are not compared.
	DerivedNames bool
	// Ahead is how far the arrival of a record may be ahead of the clock that Open is given. A record further ahead gets
	// an error that is not of the family dedupe.ErrTryAgain, and is not entered. With 0 the engine uses no clock.
	Ahead time.Duration
}

// OneRowAKey are the rules of engines that implement dedupe.Entries.
var OneRowAKey = Rules{UntilPurge: true, ForGood: true, DerivedNames: true}

// Open opens the engine under test. Each call opens the same data, as another process would: an engine in memory returns
// the same ledger each time. An engine that needs a clock uses now. No record arrives later than now, except in the
// case of Rules.Ahead.
type Open func(t testing.TB, now func() time.Time) dedupe.Ledger

// RunLedger runs all cases of a ledger as parallel subtests of t.
func RunLedger(t *testing.T, rules Rules, open Open) {
	for _, c := range ledgerCases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, rules, open)
		})
	}
}

// LedgerCase is one requirement on every ledger.
type LedgerCase struct {
	Name string
	test func(*ledgerFixture)
}

// LedgerCases returns all cases, for a test that runs them one by one.
func LedgerCases() []LedgerCase { return slices.Clone(ledgerCases) }

// Run runs the case on a ledger. The case uses its own scopes.
func (c LedgerCase) Run(t testing.TB, rules Rules, open Open) {
	f := &ledgerFixture{TB: t, ctx: t.Context(), rules: rules}
	f.now.Store(epoch.UnixMilli())
	f.open = func() dedupe.Ledger { return open(t, func() time.Time { return time.UnixMilli(f.now.Load()).UTC() }) }
	f.ledger = f.open()
	f.begin(dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour})
	c.test(f)
}

// ledgerFixture is the environment of a ledger case.
type ledgerFixture struct {
	testing.TB
	ctx    context.Context
	rules  Rules
	open   func() dedupe.Ledger
	ledger dedupe.Ledger
	now    atomic.Int64 // the clock, in milliseconds; it never goes back

	scope     string
	retention dedupe.Retention
	keepIDs   bool
	model     *model // of the scope
}

// begin begins a scope.
func (f *ledgerFixture) begin(r dedupe.Retention) {
	f.scope, f.retention = newScope(), r
	f.model = &model{retention: r}
}

func (f *ledgerFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *ledgerFixture) question(records []dedupe.Candidate) dedupe.Question {
	return dedupe.Question{Scope: f.scope, Retention: f.retention, KeepIDs: f.keepIDs, Records: records}
}

// arrived moves the clock forward to the latest arrival.
func (f *ledgerFixture) arrived(records []dedupe.Candidate) {
	for _, c := range records {
		if !c.Poison {
			f.now.Store(max(f.now.Load(), c.Arrival.UnixMilli()))
		}
	}
}

// enter enters records. The model checks each answer.
func (f *ledgerFixture) enter(records ...dedupe.Candidate) []dedupe.Answer {
	f.Helper()
	f.arrived(records)
	return f.enterBy(f.ledger, records)
}

func (f *ledgerFixture) enterBy(ledger dedupe.Ledger, records []dedupe.Candidate) []dedupe.Answer {
	f.Helper()
	answers, err := ledger.Enter(f.ctx, f.question(records))
	if err != nil || len(answers) != len(records) {
		f.Fatalf("want %d answers, got %d, %v", len(records), len(answers), err)
	}
	for i, c := range records {
		if c.Poison {
			continue
		}
		if err := f.model.judge(c, answers[i], f.keepIDs); err != nil {
			f.Fatalf("record %d of %d: %s of %s, content %q, arrived %s: got %s: %v",
				i, len(records), c.Owner, c.ID, c.Fingerprint, c.Arrival.Sub(epoch), text(answers[i]), err)
		}
	}
	return answers
}

// want enters one record and compares the answer.
func (f *ledgerFixture) want(what string, c dedupe.Candidate, want dedupe.Answer) {
	f.Helper()
	if got := f.enter(c)[0]; !sameAnswer(got, want) {
		f.Errorf("%s: want %s, got %s", what, text(want), text(got))
	}
}
