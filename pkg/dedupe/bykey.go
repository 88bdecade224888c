package dedupe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/internal/shared/lease"
	"github.com/oncebox/oncebox/pkg/format"
)

// MaxDerivations is the largest number of ids that are derived for a record. Usually the first derived id is free. It
// is taken only if a producer uses derived ids as its own.
const MaxDerivations = 3

// PossibleKeys returns the keys under which the ledger may have an entry for a record: the key of its own id, and the
// keys of the ids that may be derived from it.
func PossibleKeys(id, fingerprint string) (keys [1 + MaxDerivations]Key) {
	keys[0] = format.KeyOf(id)
	for i := range MaxDerivations {
		id = format.DerivedID(id, fingerprint)
		keys[1+i] = format.KeyOf(id)
	}
	return keys
}

// maxStuck limits the calls for one Question in which no record makes progress. A record needs one call for each
// derived id, and one more each time another record takes an entry between two calls.
const maxStuck = 10 + MaxDerivations

// ByKey returns the ledger of an engine that stores one row for each key. It puts an entry for the first record of each
// key. With the resulting entry, new or old, it decides the other records of the key in memory. So most records cost
// one put, and a copy in the same call costs nothing.
func ByKey(entries Entries) Ledger { return byKey{entries} }

type byKey struct{ entries Entries }

// Enter implements Ledger.
func (l byKey) Enter(ctx context.Context, q Question) ([]Answer, error) {
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
	e := entering{l.entries, q}
	parts := splitAtDerivedIDs(open)
	for i, part := range parts {
		e.enter(ctx, part)
		if err := firstError(part); err != nil {
			// The key of a failed record must not go to a record of a later part.
			failAll(slices.Concat(parts[i+1:]...), err)
			break
		}
	}
	return answers, nil
}

// entering enters the records of one question.
type entering struct {
	entries Entries
	Question
}

// pending is a record that has no answer yet.
type pending struct {
	*Candidate
	index   int    // in the records of the question
	id      string // the present id: its own or a derived one
	key     Key    // of id
	derived int
	answer  *Answer
}

func (p *pending) found(f Found, s *state) {
	*p.answer = Answer{Found: f, Derived: p.derived, state: s}
}

func (p *pending) fail(err error) { *p.answer = Answer{Err: err} }

// derive replaces the id by the next derived id.
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

// splitAtDerivedIDs splits the records before each record whose own id may be derived for an earlier record, because
// the earlier record has to be entered first. Derived ids are UUIDs of version 5, so records without such an id are
// not split.
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

func (e entering) enter(ctx context.Context, open []*pending) {
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
func (e entering) round(ctx context.Context, open []*pending) (again []*pending) {
	groups := groupByKey(open)
	entries := make([]Entry, len(groups))
	for i, group := range groups {
		entries[i] = e.entryOf(group[0])
	}
	sent := e.hold.moment()
	results, err := e.entries.PutIfAbsent(ctx, entries)
	if err := checkNumber(len(results), len(entries), err); err != nil {
		failAll(open, err)
		return nil
	}
	var over []takeOver
	var synthetic []*pending
	var holders []Digest // for each synthetic record, the owner of the entry that holds its key
	for i, group := range groups {
		if err := results[i].Err; err != nil {
			failAll(group, err)
			continue
		}
		if results[i].Forgotten {
			again = append(again, answerForgotten(group)...)
			continue
		}
		rest := group
		if results[i].Existing == nil {
			group[0].found(Put, e.held())
			if rest = group[1:]; len(rest) == 0 {
				continue
			}
		}
		holder := holderOf(entries[i], results[i].Existing)
		for j, p := range rest {
			if p != group[0] && holder.PurgedAt(p.Arrival) { // the put has tested the first record
				again = append(again, rest[j:]...)
				break
			}
			step := e.compare(holder, p)
			if step == heldBy {
				step = e.compareHold(holder, results[i].Date, sent, p)
			}
			if step == needsID {
				synthetic, holders = append(synthetic, p), append(holders, holder.Owner)
			}
			if step == takesOver { // those behind it find the new entry
				over, again = append(over, takeOver{p, holder}), append(again, rest[j+1:]...)
				break
			}
		}
	}
	again = append(again, e.takeOverAll(ctx, over)...)
	again = append(again, e.deriveAll(ctx, synthetic, holders)...)
	slices.SortFunc(again, func(a, b *pending) int { return a.index - b.index })
	return again
}

// answerForgotten answers the first record of a key that is Forgotten, and those after it with the same arrival. It
// returns the others: an entry may count for them.
func answerForgotten(group []*pending) (rest []*pending) {
	for i, p := range group {
		if !p.Arrival.Equal(group[0].Arrival) {
			return group[i:]
		}
		p.found(Forgotten, nil)
	}
	return nil
}

// holderOf returns the entry after a put: the existing one, or the new one.
func holderOf(put Entry, existing *Existing) Existing {
	if existing != nil {
		return *existing
	}
	return put.Existing()
}

// step is what a record needs after it was compared with the entry that holds its key.
type step int

const (
	answered  step = iota // nothing
	needsID               // another id
	heldBy                // to be compared with the Hold of the entry
	takesOver             // the entry itself
)

// compare compares a record with the entry that holds its key, and answers it if possible.
func (e entering) compare(holder Existing, p *pending) step {
	found := Seen{
		Mine: holder.Owner == p.Owner.Digest(), Same: holder.Content == ContentDigest(p.Fingerprint), Other: true,
	}.Found()
	if found == Other && !e.KeepIDs && p.derived < MaxDerivations {
		return needsID
	}
	if e.hold != nil && found != Other {
		return heldBy
	}
	p.found(found, nil)
	return answered
}

// compareHold compares a message with the state of the entry of an equal record, which may be the message itself.
func (e entering) compareHold(holder Existing, date time.Time, sent serverclock.Moment, p *pending) step {
	if date.IsZero() {
		p.fail(fmt.Errorf("%w: the engine has not said its time", errMisfit))
		return answered
	}
	found, mine := Same, &state{waitsFor: holder.Owner}
	if holder.Owner == p.Owner.Digest() {
		found, mine = Mine, e.held()
	}
	if holder.Hold == (Hold{}) && !holder.Done { // no queue made it: it is not known whether its effect is done
		if found == Mine {
			return takesOver
		}
		p.found(Same, nil)
		return answered
	}
	switch e.hold.decide(holder, date, sent) {
	case lease.Free:
		return takesOver
	case lease.Mine:
		p.found(found, mine)
	case lease.Done:
		p.found(found, &state{done: true})
	default:
		p.fail(ErrInWork)
	}
	return answered
}

// takeOver is a record that takes the entry of its key over.
type takeOver struct {
	*pending
	old Existing
}

// takeOverAll puts the entries of records in place of those that were read. It returns the records that need another
// round. Whichever record held such an entry before, this one is a retry: the effect may be done.
func (e entering) takeOverAll(ctx context.Context, over []takeOver) (again []*pending) {
	if len(over) == 0 {
		return nil
	}
	requests := make([]TakeOverRequest, len(over))
	for i, t := range over {
		requests[i] = TakeOverRequest{t.old, e.entryOf(t.pending)}
		requests[i].Entry.PurgeAt = later(t.old.PurgeAt, requests[i].Entry.PurgeAt)
	}
	results, err := e.hold.store.TakeOver(ctx, requests)
	err = checkNumber(len(results), len(requests), err)
	for i, t := range over {
		switch {
		case err != nil:
			t.fail(err)
		case results[i].Err != nil:
			t.fail(results[i].Err)
		case results[i].Taken:
			t.found(Mine, e.held())
		default:
			again = append(again, t.pending)
		}
	}
	return again
}

// deriveAll replaces the ids of synthetic records by their next ids. Before that it raises the purge times of the
// entries that hold their present keys, so that these entries outlive the derived ones. Otherwise a present key could
// be purged first. A copy of the synthetic record would then take that key and be delivered a second time. If an
// entry has another owner by now, the record is entered again under its present key.
func (e entering) deriveAll(ctx context.Context, synthetic []*pending, holders []Digest) (again []*pending) {
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
			raises = append(raises, RaiseRequest{Scope: e.Scope, Key: p.key, Owner: holders[i], PurgeAt: purge})
		}
		raises[at].PurgeAt = max(raises[at].PurgeAt, purge) // either both are Never or neither is
	}
	results, err := e.entries.RaisePurge(ctx, raises)
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

// held returns the state of a record whose entry was put.
func (e entering) held() *state {
	if e.hold == nil {
		return nil
	}
	return &state{held: true}
}

func (e entering) entryOf(p *pending) Entry {
	entry := Entry{
		Scope: e.Scope, Key: p.key, Owner: p.Owner, Fingerprint: p.Fingerprint, Version: p.Version,
		Arrival: p.Arrival, PurgeAt: e.Retention.PurgeAt(p.Arrival),
	}
	if e.hold != nil {
		entry.Hold = e.hold.Hold
	}
	return entry
}

// groupByKey groups records by key. The groups and the records in them are in the order of the records.
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
		groups = append(groups, open[i:i+1:i+1]) // most keys have one record, which needs no new slice
	}
	return groups
}
