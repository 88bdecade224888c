package dedupe

import (
	"context"
	"fmt"
	"slices"

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

// maxStuck bounds the calls for one Question that bring no record further. A record needs a call for each derived id,
// and one more each time that another record takes an entry between two calls.
const maxStuck = 10 + MaxDerivations

// EnterByKey is Ledger.Enter for an engine that stores one row a key. It puts an entry for the first record of each
// key. The entry that is there afterwards, new or old, decides the other records of the key in memory. So most records
// cost one put, and a copy in the same call costs nothing.
func EnterByKey(ctx context.Context, store Entries, q Question) []Answer {
	answers := make([]Answer, len(q.Records))
	all := make([]pending, len(q.Records))
	open := make([]*pending, 0, len(q.Records))
	for i := range q.Records {
		c := &q.Records[i]
		if c.Poison {
			continue
		}
		all[i] = pending{Candidate: c, index: i, id: c.ID, key: format.KeyOf(c.ID), answer: &answers[i]}
		open = append(open, &all[i])
	}
	e := byKey{store, q}
	parts := splitAtDerivedIDs(open)
	for i, part := range parts {
		e.enter(ctx, part)
		if err := firstError(part); err != nil {
			// A record of a later part could take the key of a record that failed.
			failAll(slices.Concat(parts[i+1:]...), err)
			break
		}
	}
	return answers
}

// byKey enters the records of one question.
type byKey struct {
	store Entries
	Question
}

// pending is a record on its way to an answer.
type pending struct {
	*Candidate
	index   int    // among the records
	id      string // under which it is entered now
	key     Key    // of id
	derived int
	answer  *Answer
}

func (p *pending) found(f Found) { *p.answer = Answer{Found: f, Derived: p.derived} }

func (p *pending) fail(err error) { *p.answer = Answer{Err: err} }

// derive gives the record its next id.
func (p *pending) derive() {
	p.id = format.DerivedID(p.id, p.Fingerprint)
	p.key = format.KeyOf(p.id)
	p.derived++
}

func failAll(all []*pending, err error) {
	for _, p := range all {
		p.fail(err)
	}
}

func firstError(all []*pending) error {
	for _, p := range all {
		if p.answer.Err != nil {
			return p.answer.Err
		}
	}
	return nil
}

// splitAtDerivedIDs splits the records before each one whose own id may be derived for an earlier one: the earlier one
// has to be entered first. Derived ids are UUIDs of version 5, so without such an id there is nothing to split.
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

func (e byKey) enter(ctx context.Context, open []*pending) {
	for stuck := 0; len(open) > 0; {
		again := e.round(ctx, open)
		if stuck++; len(again) < len(open) {
			stuck = 0
		}
		if open = again; stuck == maxStuck {
			failAll(open, fmt.Errorf("%w: the ledger was asked %d times, and its answers still change", ErrTryAgain, stuck))
			return
		}
	}
}

// round puts an entry for the first record of each key. It returns the records that need another round, in order.
func (e byKey) round(ctx context.Context, open []*pending) (again []*pending) {
	groups := groupByKey(open)
	entries := make([]Entry, len(groups))
	for i, group := range groups {
		entries[i] = e.entryOf(group[0])
	}
	results, err := e.store.PutIfAbsent(ctx, entries)
	if err := checkNumber(len(results), len(entries), err); err != nil {
		failAll(open, err)
		return nil
	}
	var synthetic []*pending
	var holders []Existing // of the keys of the synthetic ones
	for i, group := range groups {
		if err := results[i].Err; err != nil {
			failAll(group, err)
			continue
		}
		rest := group
		if results[i].Existing == nil {
			group[0].found(Put)
			if rest = group[1:]; len(rest) == 0 {
				continue
			}
		}
		holder := holderOf(entries[i], results[i].Existing)
		for j, p := range rest {
			if p != group[0] && purgedAt(holder.PurgeAt, p.Arrival) { // the engine has tested the first record itself
				again = append(again, rest[j:]...)
				break
			}
			if e.compare(holder, p) {
				synthetic, holders = append(synthetic, p), append(holders, holder)
			}
		}
	}
	again = append(again, e.deriveAll(ctx, synthetic, holders)...)
	slices.SortFunc(again, func(a, b *pending) int { return a.index - b.index })
	return again
}

// holderOf returns the entry that a put left: the one that was there, or the new one.
func holderOf(put Entry, existing *Existing) Existing {
	if existing != nil {
		return *existing
	}
	return put.Existing()
}

// compare answers a record by the entry that holds its key. It reports whether the record needs another id.
func (e byKey) compare(holder Existing, p *pending) (needsID bool) {
	found := Seen{
		Mine: holder.Owner == p.Owner.Digest(), Same: holder.Content == ContentDigest(p.Fingerprint), Other: true,
	}.Found()
	if found == Other && !e.KeepIDs && p.derived < MaxDerivations {
		return true
	}
	p.found(found)
	return false
}

// deriveAll gives synthetic records their next ids. Before that it raises the purge times of the entries that hold
// their present keys, so that these outlive the derived entries. Otherwise a present key could be purged first; then a
// copy of the synthetic record would take it and be delivered a second time. If an entry has another owner by now, the
// record is entered again under its present key.
func (e byKey) deriveAll(ctx context.Context, synthetic []*pending, holders []Existing) (again []*pending) {
	if len(synthetic) == 0 {
		return nil
	}
	raises := make([]RaiseRequest, 0, len(synthetic))
	indexOf := map[Key]int{}
	for i, p := range synthetic {
		purge := e.Retention.PurgeAt(p.Arrival)
		at, ok := indexOf[p.key]
		if !ok {
			at = len(raises)
			indexOf[p.key] = at
			raises = append(raises, RaiseRequest{Scope: e.Scope, Key: p.key, Owner: holders[i].Owner, PurgeAt: purge})
		}
		raises[at].PurgeAt = max(raises[at].PurgeAt, purge) // both are Never, or none
	}
	results, err := e.store.RaisePurge(ctx, raises)
	if err := checkNumber(len(results), len(raises), err); err != nil {
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

func (e byKey) entryOf(p *pending) Entry {
	return Entry{
		Scope: e.Scope, Key: p.key, Owner: p.Owner, Fingerprint: p.Fingerprint, Version: p.Version,
		Arrival: p.Arrival, PurgeAt: e.Retention.PurgeAt(p.Arrival),
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
