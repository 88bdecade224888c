package dedupe

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/format"
)

// MaxDerivations is how many ids are derived at most for one record. Usually the first derived id is free. It is taken
// only where a producer uses derived ids as its own.
const MaxDerivations = 3

// PossibleKeys returns the keys under which a record may be entered in the ledger: the key of its own id, and those of
// the ids that may be derived from it.
func PossibleKeys(id, fingerprint string) (keys [1 + MaxDerivations]Key) {
	keys[0] = format.KeyOf(id)
	for i := range MaxDerivations {
		id = format.DerivedID(id, fingerprint)
		keys[1+i] = format.KeyOf(id)
	}
	return keys
}

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
	Owner       string
	Fingerprint string
	Version     string
	Arrival     time.Time
}

// Decision is what a Decider found out about a Candidate.
type Decision struct {
	Outcome Outcome
	ID      string // the id under which to deliver the record: the candidate's own, or a derived one
	Err     error  // with Undecided: of the family ErrTryAgain, or a fault
}

// Decider decides records by a ledger.
type Decider struct {
	Ledger    Ledger
	Scope     string
	Retention Retention
	// PassSynthetic lets synthetic duplicates keep their ids.
	PassSynthetic bool
}

// Decide decides records as if one by one, in order, with few calls to the ledger. The decisions are in the order of
// the candidates. It is safe to decide a record again at any time: it finds its own entry.
func (d *Decider) Decide(ctx context.Context, candidates []Candidate) []Decision {
	decisions := make([]Decision, len(candidates))
	all := make([]pending, len(candidates))
	open := make([]*pending, len(candidates))
	for i, c := range candidates {
		c.Arrival = c.Arrival.Truncate(time.Millisecond) // as engines store it
		all[i] = pending{Candidate: c, index: i, id: c.ID, key: format.KeyOf(c.ID), decision: &decisions[i]}
		open[i] = &all[i]
	}
	parts := splitAtDerivedIDs(open)
	for i, part := range parts {
		for rest := part; len(rest) > 0; {
			rest = d.decideRound(ctx, rest)
		}
		if err := firstError(part); err != nil {
			// A record of a later part could take the key of a record that failed.
			failAll(slices.Concat(parts[i+1:]...), err)
			break
		}
	}
	return decisions
}

// pending is a candidate on its way to a decision.
type pending struct {
	Candidate
	index       int    // among the candidates
	id          string // under which it is decided now
	key         Key    // of id
	derivations int
	decision    *Decision
}

func (p *pending) decide(o Outcome) { p.decision.Outcome, p.decision.ID = o, p.id }

func (p *pending) fail(err error) { p.decision.Outcome, p.decision.Err = Undecided, err }

// derive gives the record its next id.
func (p *pending) derive() {
	p.id = format.DerivedID(p.id, p.Fingerprint)
	p.key = format.KeyOf(p.id)
	p.derivations++
}

func failAll(all []*pending, err error) {
	for _, p := range all {
		p.fail(err)
	}
}

func firstError(all []*pending) error {
	for _, p := range all {
		if p.decision.Err != nil {
			return p.decision.Err
		}
	}
	return nil
}

// splitAtDerivedIDs splits the candidates before each one whose own id may be derived for an earlier one: the earlier
// one has to be decided first. Derived ids are UUIDs of version 5, so without such an id there is nothing to split.
func splitAtDerivedIDs(all []*pending) [][]*pending {
	if !slices.ContainsFunc(all, func(p *pending) bool { return isUUIDv5(p.id) }) {
		return [][]*pending{all}
	}
	var parts [][]*pending
	begin := 0
	derived := map[Key]bool{}
	for i, p := range all {
		if derived[p.key] {
			parts = append(parts, all[begin:i])
			begin = i
			clear(derived)
		}
		keys := PossibleKeys(p.id, p.Fingerprint)
		for _, key := range keys[1:] {
			derived[key] = true
		}
	}
	return append(parts, all[begin:])
}

func isUUIDv5(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && len(id) == 36 && u.Version() == 5
}

// decideRound puts an entry for the first record of each key. The entry that is there afterwards, new or old, decides
// the other records of the key in memory. It returns the records that need another round, in order.
func (d *Decider) decideRound(ctx context.Context, open []*pending) (again []*pending) {
	groups := groupByKey(open)
	entries := make([]Entry, len(groups))
	for i, group := range groups {
		entries[i] = d.entryOf(group[0])
	}
	results, err := d.Ledger.PutIfAbsent(ctx, entries)
	if err != nil {
		failAll(open, err)
		return nil
	}
	var synthetic []*pending
	var holders []Entry // of the keys of the synthetic ones
	for i, group := range groups {
		if err := results[i].Err; err != nil {
			failAll(group, err)
			continue
		}
		holder, rest := entries[i], group
		if results[i].Existing != nil {
			holder = *results[i].Existing
		} else {
			group[0].decide(outcomeOfPut(group[0]))
			rest = group[1:]
		}
		for j, p := range rest {
			if p != group[0] && holder.purgedAt(p.Arrival) { // the ledger has tested the first record itself
				again = append(again, rest[j:]...)
				break
			}
			if d.decideBy(holder, p) {
				synthetic, holders = append(synthetic, p), append(holders, holder)
			}
		}
	}
	again = append(again, d.deriveAll(ctx, synthetic, holders)...)
	slices.SortFunc(again, func(a, b *pending) int { return a.index - b.index })
	return again
}

// outcomeOfPut is the outcome of a record whose key was free.
func outcomeOfPut(p *pending) Outcome {
	if p.derivations > 0 {
		return Synthetic
	}
	return New
}

// decideBy decides a record by the entry that holds its key. The owner is compared first: a record is never a duplicate
// of itself, even if its fingerprint has changed. It reports whether the record needs another id.
func (d *Decider) decideBy(holder Entry, p *pending) (needsID bool) {
	switch {
	case holder.Owner == p.Owner:
		p.decide(Retry)
	case holder.Fingerprint == p.Fingerprint:
		p.decide(Natural)
	case d.PassSynthetic:
		p.decide(Synthetic)
	case p.derivations == MaxDerivations:
		p.decide(NoID)
	default:
		return true
	}
	return false
}

// deriveAll gives synthetic records their next ids. Before that it raises the purge times of the entries that hold
// their present keys, so that these outlive the derived entries. Otherwise a present key could be purged first; then a
// copy of the synthetic record would take it and be delivered a second time. If an entry has another owner by now, the
// record is decided again under its present key.
func (d *Decider) deriveAll(ctx context.Context, synthetic []*pending, holders []Entry) (again []*pending) {
	if len(synthetic) == 0 {
		return nil
	}
	raises := make([]RaiseRequest, 0, len(synthetic))
	indexOf := map[Key]int{}
	for i, p := range synthetic {
		purge := d.Retention.PurgeAt(p.Arrival)
		at, ok := indexOf[p.key]
		if !ok {
			at = len(raises)
			indexOf[p.key] = at
			raises = append(raises, RaiseRequest{Scope: d.Scope, Key: p.key, Owner: holders[i].Owner, PurgeAt: purge})
		}
		raises[at].PurgeAt = max(raises[at].PurgeAt, purge) // both are Never, or none
	}
	results, err := d.Ledger.RaisePurge(ctx, raises)
	if err != nil {
		failAll(synthetic, err)
		return nil
	}
	for _, p := range synthetic {
		result := results[indexOf[p.key]]
		if result.Err != nil {
			p.fail(result.Err)
			continue
		}
		if result.Raised {
			p.derive()
		}
		again = append(again, p)
	}
	return again
}

func (d *Decider) entryOf(p *pending) Entry {
	return Entry{
		Scope: d.Scope, Key: p.key, Owner: p.Owner, Fingerprint: p.Fingerprint, Version: p.Version,
		Arrival: p.Arrival, PurgeAt: d.Retention.PurgeAt(p.Arrival),
	}
}

// groupByKey groups records by key. Groups and their records are in order.
func groupByKey(open []*pending) [][]*pending {
	indexOf := make(map[Key]int, len(open))
	groups := make([][]*pending, 0, len(open))
	for i, p := range open {
		at, ok := indexOf[p.key]
		if ok {
			groups[at] = append(groups[at], p)
			continue
		}
		indexOf[p.key] = len(groups)
		groups = append(groups, open[i:i+1:i+1]) // most keys have one record: it needs no memory of its own
	}
	return groups
}

// decide asks the ledger about the records of a chunk that are not poison.
func (r *batchRun) decide(ctx context.Context) {
	candidates := make([]Candidate, 0, len(r.users))
	asked := make([]*userRecord, 0, len(r.users))
	for i := range r.users {
		u := &r.users[i]
		if u.poison != nil {
			continue
		}
		asked = append(asked, u)
		candidates = append(candidates, Candidate{
			ID: u.fields.ID, Owner: r.position(u).String(), Fingerprint: u.fields.Fingerprint,
			Version: u.fields.Version, Arrival: u.source.Arrival,
		})
	}
	if len(asked) == 0 {
		return
	}
	for i, decision := range r.decider.Decide(ctx, candidates) {
		asked[i].decision = decision
	}
}
