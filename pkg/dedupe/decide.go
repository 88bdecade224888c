package dedupe

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/format"
)

// maxDerivations is how often a record is given a new id before it is kept
// instead. Once is usual; twice means that somebody uses derived ids as their own.
const maxDerivations = 3

// Outcome is what a record is, by the ledger.
type Outcome int

// The outcomes. New, Retry and Synthetic records are delivered.
const (
	Undecided Outcome = iota // Decision.Err says why
	New                      // nobody had the key
	Retry                    // the record itself had it: it is the original again
	Natural                  // a copy of the record that has the key
	Synthetic                // another record under a used key; Decision.ID is its new id
	NoID                     // synthetic, and its derived ids are taken as well: to be kept
)

// Candidate is a record to be decided.
type Candidate struct {
	ID          string
	Owner       string
	Fingerprint string
	Version     string
	Arrival     time.Time
}

// Decision is what became of a Candidate.
type Decision struct {
	Outcome Outcome
	ID      string // to deliver it under; another than the candidate's if it was derived
	Err     error  // with Undecided: the family ErrTryAgain, or a fault
}

// Decider decides records by a ledger.
type Decider struct {
	Ledger    Ledger
	Scope     string
	Retention Retention
	// PassSynthetic leaves synthetic records as they are: they keep their ids.
	PassSynthetic bool
}

// Decide decides records as if one by one and in order, with few calls to the
// ledger. Decisions are in the order of the candidates. Deciding a record again
// is safe at any time: it finds its own entry.
func (d *Decider) Decide(ctx context.Context, candidates []Candidate) []Decision {
	decisions := make([]Decision, len(candidates))
	all := make([]undecided, len(candidates))
	open := make([]*undecided, len(candidates))
	for i, c := range candidates {
		c.Arrival = c.Arrival.Truncate(time.Millisecond) // as engines keep it
		all[i] = undecided{Candidate: c, place: i, id: c.ID, key: format.KeyOf(c.ID), decision: &decisions[i]}
		open[i] = &all[i]
	}
	parts := independent(open)
	for i, part := range parts {
		for rest := part; len(rest) > 0; {
			rest = d.round(ctx, rest)
		}
		if err := failureOf(part); err != nil {
			// A record of a later part would take the key of one that failed.
			failAll(slices.Concat(parts[i+1:]...), err)
			break
		}
	}
	return decisions
}

// failureOf returns why the first of the records failed that did.
func failureOf(all []*undecided) error {
	for _, u := range all {
		if u.decision.Err != nil {
			return u.decision.Err
		}
	}
	return nil
}

// undecided is a candidate on its way.
type undecided struct {
	Candidate
	place       int
	id          string // the id under which it is decided now
	key         Key
	derivations int
	decision    *Decision
}

func (u *undecided) settle(o Outcome) { u.decision.Outcome, u.decision.ID = o, u.id }

func (u *undecided) fail(err error) { u.decision.Outcome, u.decision.Err = Undecided, err }

// derive gives the record its next id.
func (u *undecided) derive() {
	u.id = format.DerivedID(u.id, u.Fingerprint)
	u.key = format.KeyOf(u.id)
	u.derivations++
}

// independent cuts the candidates before each one whose own id an earlier one
// may be given: that one has to be decided first. It takes an id of UUID version
// 5 for that, so it is looked for only among such.
func independent(all []*undecided) [][]*undecided {
	if !slices.ContainsFunc(all, func(u *undecided) bool { return isDerivedForm(u.id) }) {
		return [][]*undecided{all}
	}
	var parts [][]*undecided
	begin := 0
	derived := map[Key]bool{}
	for i, u := range all {
		if derived[u.key] {
			parts = append(parts, all[begin:i])
			begin = i
			clear(derived)
		}
		id := u.id
		for range maxDerivations {
			id = format.DerivedID(id, u.Fingerprint)
			derived[format.KeyOf(id)] = true
		}
	}
	return append(parts, all[begin:])
}

// isDerivedForm reports whether an id could be a derived one.
func isDerivedForm(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && len(id) == 36 && u.Version() == 5
}

// round puts the first record of each key and decides the key's other records
// in memory, by the row that this leaves or finds. It returns those that go
// round again, in order.
func (d *Decider) round(ctx context.Context, open []*undecided) (again []*undecided) {
	groups := byKey(open)
	entries := make([]Entry, len(groups))
	for i, g := range groups {
		entries[i] = d.entry(g[0])
	}
	results, err := d.Ledger.PutIfAbsent(ctx, entries)
	if err != nil {
		failAll(open, err)
		return nil
	}
	var derive []*undecided
	var rows []Entry // for each of derive: the entry that has its key
	for i, g := range groups {
		if err := results[i].Err; err != nil {
			failAll(g, err)
			continue
		}
		row, rest := entries[i], g
		if results[i].Existing != nil {
			row = *results[i].Existing
		} else {
			g[0].settle(firstOutcome(g[0]))
			rest = g[1:]
		}
		for j, u := range rest {
			if u != g[0] && row.purged(u.Arrival) { // of the first the ledger has said that it is not
				again = append(again, rest[j:]...)
				break
			}
			if d.byRow(u, row) {
				derive, rows = append(derive, u), append(rows, row)
			}
		}
	}
	again = append(again, d.deriveAll(ctx, derive, rows)...)
	slices.SortFunc(again, func(a, b *undecided) int { return a.place - b.place })
	return again
}

func firstOutcome(u *undecided) Outcome {
	if u.derivations > 0 {
		return Synthetic
	}
	return New
}

// byRow decides a record by the entry that has its key. The owner comes first:
// a record is never a duplicate of itself, whatever its fingerprint is now. It
// reports whether the record needs another id.
func (d *Decider) byRow(u *undecided, row Entry) (derive bool) {
	switch {
	case row.Owner == u.Owner:
		u.settle(Retry)
	case row.Fingerprint == u.Fingerprint:
		u.settle(Natural)
	case d.PassSynthetic:
		u.settle(Synthetic)
	case u.derivations == maxDerivations:
		u.settle(NoID)
	default:
		return true
	}
	return false
}

// deriveAll gives synthetic records their next ids, after the entries that
// have their names were made to outlive the derived ones: else the name could
// be purged first, a copy of the synthetic record take it, and go out a second
// time. Where that entry is another's by now, the record is decided again.
func (d *Decider) deriveAll(ctx context.Context, derive []*undecided, rows []Entry) (again []*undecided) {
	if len(derive) == 0 {
		return nil
	}
	raises := make([]RaiseRequest, 0, len(derive))
	place := map[Key]int{}
	for i, u := range derive {
		purge := d.Retention.PurgeAt(u.Arrival)
		at, ok := place[u.key]
		if !ok {
			at = len(raises)
			place[u.key] = at
			raises = append(raises, RaiseRequest{Scope: d.Scope, Key: u.key, Owner: rows[i].Owner, PurgeAt: purge})
		}
		raises[at].PurgeAt = max(raises[at].PurgeAt, purge) // both or neither are Never
	}
	results, err := d.Ledger.RaisePurge(ctx, raises)
	if err != nil {
		failAll(derive, err)
		return nil
	}
	for _, u := range derive {
		switch r := results[place[u.key]]; {
		case r.Err != nil:
			u.fail(r.Err)
			continue
		case r.Raised:
			u.derive()
		}
		again = append(again, u)
	}
	return again
}

func (d *Decider) entry(u *undecided) Entry {
	return Entry{
		Scope: d.Scope, Key: u.key, Owner: u.Owner, Fingerprint: u.Fingerprint, Version: u.Version,
		Arrival: u.Arrival, PurgeAt: d.Retention.PurgeAt(u.Arrival),
	}
}

// byKey groups records by key, groups and records in order.
func byKey(open []*undecided) [][]*undecided {
	place := make(map[Key]int, len(open))
	groups := make([][]*undecided, 0, len(open))
	for i, u := range open {
		at, ok := place[u.key]
		if ok {
			groups[at] = append(groups[at], u)
			continue
		}
		place[u.key] = len(groups)
		groups = append(groups, open[i:i+1:i+1]) // most keys have one record; a second one moves it to room of its own
	}
	return groups
}

func failAll(all []*undecided, err error) {
	for _, u := range all {
		u.fail(err)
	}
}
