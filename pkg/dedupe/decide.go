package dedupe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// Outcome is the result of deciding a record by the ledger.
type Outcome int

// The outcomes. New, Retry and Synthetic records are delivered.
const (
	Undecided Outcome = iota // the ledger failed; Decision.Err has the error
	New                      // the key was free
	Retry                    // the record itself holds the entry: it came before
	Natural                  // a copy of the record that holds the entry
	Synthetic                // another record with the same key: Decision.ID is its new id
	NoID                     // synthetic, and all derived ids are taken: store the record as a dead letter
	TooOld                   // the ledger may have deleted the entry of a copy: store the record as a dead letter
)

// Candidate is a record to decide.
type Candidate struct {
	ID          string
	Owner       Owner
	Fingerprint string
	Version     string
	Arrival     time.Time
	// Poison says that the record is not decided: it only has a place among the others.
	Poison bool
	// Derive gives the record a derived id in any case. It is decided under that id, also if it is New.
	Derive bool
}

// Decision is the decision about a Candidate.
type Decision struct {
	Outcome Outcome
	ID      string // the id under which to deliver the record: its own, or a derived one
	Err     error  // if Undecided: of the family ErrTryAgain, or a fault

	state *state
}

// Decider decides records by a ledger. A program that reads a queue or a topic can use it without a Processor: see the
// package documentation.
type Decider struct {
	Ledger    Ledger
	Scope     string
	Retention Retention
	// PassSynthetic lets synthetic duplicates keep their ids.
	PassSynthetic bool
	Clock         Clock
}

// Decide decides records, with the same result as deciding them one by one, in order, but with few calls to the
// ledger. The decisions are in the order of the candidates. The decision of a poison candidate is not set. It is safe
// to decide a record again at any time: it finds its own entry. The decision is an error if the Decider has no
// window, or if a candidate has no ID, no Fingerprint or no Owner.Sequence: otherwise copies would be delivered, or
// other records dropped.
//
// If the ledger fails for some records with an error of the family ErrTryAgain, Decide asks again about only these
// records, with pauses. It does so for at most half of the context's remaining time, or for 30 s if the context has no
// deadline.
func (d *Decider) Decide(ctx context.Context, candidates []Candidate) []Decision {
	decisions := make([]Decision, len(candidates))
	d.decide(ctx, slices.Clone(candidates), nil, func(i int) *Decision { return &decisions[i] })
	return decisions
}

// decide decides candidates, which it changes, for the run of a batch with this hold. of returns where the decision of
// a candidate is stored, by its index.
func (d *Decider) decide(ctx context.Context, candidates []Candidate, hold *holding, of func(i int) *Decision) {
	open := make([]int, len(candidates)) // by record of the question: its index in candidates
	for i := range candidates {
		c := &candidates[i]
		if err := d.check(c); err != nil {
			*of(i), c.Poison = Decision{Err: err}, true
		}
		c.Arrival = c.Arrival.Truncate(time.Millisecond) // as engines store it
		if c.Derive && !c.Poison {
			c.ID, c.Derive = format.DerivedID(c.ID, c.Fingerprint), false // false, so that no second id is derived
		}
		open[i] = i
	}
	q := Question{Scope: d.Scope, Retention: d.Retention, KeepIDs: d.PassSynthetic, Records: candidates, hold: hold}
	clock := d.Clock.OrReal()
	clock.askUntil(ctx, clock.patience(ctx), func() (again bool) {
		q.Records, open = d.ask(ctx, q, open, of)
		return len(open) > 0
	})
}

// check refuses candidates that would make different records look like copies, or copies like originals.
func (d *Decider) check(c *Candidate) error {
	switch {
	case c.Poison:
	case !d.Retention.ForGood && d.Retention.Window <= 0:
		return errNoWindow
	case c.ID == "" || c.Fingerprint == "" || c.Owner.Sequence == "":
		return errNoIdentity
	}
	return nil
}

// ask asks the ledger once. It returns the records that may be asked about again, in order, and their indexes.
func (d *Decider) ask(
	ctx context.Context, q Question, open []int, of func(i int) *Decision,
) (again []Candidate, at []int) {
	answers, err := d.Ledger.Enter(ctx, q)
	err = checkNumber(len(answers), len(q.Records), err)
	for i := range q.Records {
		c := &q.Records[i]
		if c.Poison {
			continue
		}
		answer := Answer{Err: err}
		if err == nil {
			answer = answers[i]
		}
		decision := of(open[i])
		*decision = d.decisionOf(c, answer)
		if errors.Is(decision.Err, ErrTryAgain) && ctx.Err() == nil {
			again, at = append(again, *c), append(at, open[i])
		}
	}
	return again, at
}

// decisionOf returns the decision from the ledger's answer for a record. An answer that makes no sense is a failure,
// never a duplicate.
func (d *Decider) decisionOf(c *Candidate, a Answer) Decision {
	if a.Err != nil {
		return Decision{Err: a.Err}
	}
	outcome := Undecided
	switch {
	case a.Derived < 0 || a.Derived > MaxDerivations:
	case a.Found == Put && a.Derived == 0:
		outcome = New
	case a.Found == Put, a.Found == Other && d.PassSynthetic:
		outcome = Synthetic
	case a.Found == Mine:
		outcome = Retry
	case a.Found == Same:
		outcome = Natural
	case a.Found == Other:
		outcome = NoID
	case a.Found == Forgotten:
		outcome = TooOld
	}
	if outcome == Undecided {
		return Decision{Err: fmt.Errorf("%w: answer %+v", errMisfit, a)}
	}
	id := c.ID
	for range a.Derived {
		id = format.DerivedID(id, c.Fingerprint)
	}
	return Decision{Outcome: outcome, ID: id, state: a.state}
}
