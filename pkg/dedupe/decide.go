package dedupe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// Outcome says what a record is, by the ledger.
type Outcome int

// The outcomes. New, Retry and Synthetic records are delivered.
const (
	Undecided Outcome = iota // the ledger failed: Decision.Err says why
	New                      // the key was free
	Retry                    // the record holds the entry itself: it is the original again
	Natural                  // a copy of the record that holds the entry
	Synthetic                // another record with the same key: Decision.ID is its new id
	NoID                     // synthetic, and all derived ids are taken: it is to be dead-lettered
)

// Candidate is a record to be decided.
type Candidate struct {
	ID          string
	Owner       Owner
	Fingerprint string
	Version     string
	Arrival     time.Time
	// Poison says that the record is only a position among the others: it is not decided.
	Poison bool
	// Derive gives the record a derived id in any case: it is decided under that, and New has it as well.
	Derive bool
}

// Decision is what a Decider found out about a Candidate.
type Decision struct {
	Outcome Outcome
	ID      string // the id under which to deliver the record: the candidate's own, or a derived one
	Err     error  // with Undecided: of the family ErrTryAgain, or a fault
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

// Decide decides records as if one by one, in order, with few calls to the ledger. The decisions are in the order of
// the candidates; that of a poison one is not set. It is safe to decide a record again at any time: it finds its own
// entry. Without a window, and for a candidate without an ID, a Fingerprint or a Sequence of its Owner, the decision is
// an error: copies would be delivered, or other records dropped.
//
// If the ledger fails for some records with an error of the family ErrTryAgain, Decide asks again about these alone,
// with pauses, for at most half of the time that the context has left, or for 30 s if the context has no deadline.
func (d *Decider) Decide(ctx context.Context, candidates []Candidate) []Decision {
	decisions := make([]Decision, len(candidates))
	q := Question{
		Scope: d.Scope, Retention: d.Retention, KeepIDs: d.PassSynthetic, Records: make([]Candidate, len(candidates)),
	}
	open := make([]int, len(candidates)) // index of each record of q among the candidates
	for i, c := range candidates {
		if err := d.check(c); err != nil {
			decisions[i], c.Poison = Decision{Err: err}, true
		}
		c.Arrival = c.Arrival.Truncate(time.Millisecond) // as engines store it
		if c.Derive && !c.Poison {
			c.ID, c.Derive = format.DerivedID(c.ID, c.Fingerprint), false // a ledger must not do it again
		}
		q.Records[i], open[i] = c, i
	}
	clock := d.Clock.OrReal()
	clock.askUntil(ctx, clock.patience(ctx), func() (again bool) {
		q.Records, open = d.ask(ctx, q, open, decisions)
		return len(open) > 0
	})
	return decisions
}

// check refuses what would make copies of different records, or originals of copies.
func (d *Decider) check(c Candidate) error {
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
func (d *Decider) ask(ctx context.Context, q Question, open []int, decisions []Decision) (again []Candidate, at []int) {
	answers, err := d.Ledger.Enter(ctx, q)
	err = checkNumber(len(answers), len(q.Records), err)
	for i, c := range q.Records {
		if c.Poison {
			continue
		}
		answer := Answer{Err: err}
		if err == nil {
			answer = answers[i]
		}
		decision := d.decisionOf(c, answer)
		decisions[open[i]] = decision
		if errors.Is(decision.Err, ErrTryAgain) && ctx.Err() == nil {
			again, at = append(again, c), append(at, open[i])
		}
	}
	return again, at
}

// decisionOf makes the decision about a record of the ledger's answer. An answer that makes no sense is a failure: it
// never makes a record a duplicate.
func (d *Decider) decisionOf(c Candidate, a Answer) Decision {
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
	}
	if outcome == Undecided {
		return Decision{Err: fmt.Errorf("%w: answer %+v", errMisfit, a)}
	}
	id := c.ID
	for range a.Derived {
		id = format.DerivedID(id, c.Fingerprint)
	}
	return Decision{Outcome: outcome, ID: id}
}

// decide asks the ledger about the records of a chunk. A TxSink decides them when it delivers them.
func (r *batchRun) decide(ctx context.Context, c *chunk) {
	if r.parts.Tx != nil {
		return
	}
	candidates := make([]Candidate, len(c.users))
	asked := false
	for i := range c.users {
		u := &c.users[i]
		candidates[i] = Candidate{Owner: r.ownerOf(u), Poison: true}
		if u.open() {
			asked = true
			candidates[i] = Candidate{
				ID: u.fields.ID, Owner: r.ownerOf(u), Fingerprint: u.fields.Fingerprint, Version: u.fields.Version,
				Arrival: u.source.Arrival, Derive: r.settings.Derive,
			}
		}
	}
	if !asked {
		return
	}
	for i, decision := range r.decider.Decide(ctx, candidates) {
		if c.users[i].open() {
			c.users[i].decision = decision
		}
	}
}

// blocks reports whether nothing may be sent after the chunk, since a record of it has no decision.
func (r *batchRun) blocks(c *chunk) bool {
	return r.batch.Order != None && slices.ContainsFunc(c.users, func(u userRecord) bool {
		return u.err != nil || r.parts.Tx == nil && u.open() && u.decision.Outcome == Undecided
	})
}
