package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// DefaultTransactions is how many transactions of a Processor run at the same time, each on its own connection.
const DefaultTransactions = 32

// inTransactions is the level of a TxSink: the effect of each record happens once. It decides a record when it delivers
// it, so it needs no ledger.
type inTransactions struct {
	TxSink
	byAcks
}

func (s inTransactions) forLetter(string) level { return s }

// suspect checks nothing: more poison is found when the records are delivered.
func (inTransactions) suspect(*batchRun, []userRecord) error { return nil }

func (inTransactions) decide(context.Context, *batchRun, []userRecord) time.Duration { return 0 }

// deliver decides and delivers user records in transactions, and then dead-letters the poison among them. Records that
// depend on each other are processed one by one, in order. These are records with the same partition key, so that
// effects come in the order of the stream, and records with the same key, so that the first one gets the entry.
func (s inTransactions) deliver(ctx context.Context, r *batchRun, users []userRecord) error {
	lanes := r.lanes(users)
	until := r.clock.patience(ctx)
	var failed atomic.Bool
	r.clock.Each(len(lanes), r.settings.Transactions, func(i int) {
		lane := txLane{batchRun: r, sink: s.TxSink, until: until, holders: map[Key]Existing{}}
		for _, u := range lanes[i] {
			if failed.Load() && r.ordered() {
				return // from the failed record on, the batch comes again
			}
			if u.err == nil {
				lane.do(ctx, u)
			}
			if u.err != nil {
				failed.Store(true)
				return
			}
		}
	})
	failure := failRestOf(users)
	r.countTransactions(users)
	// Effects that the sink refuses count as poison too. If nearly all have the same reason, a setting is wrong.
	if err := r.suspectSetting(users); err != nil {
		return err
	}
	_, err := r.putDeadLetters(ctx, users)
	return cmp.Or(failure, err)
}

// failRestOf sets the error of the records that have no transaction to the error of the first record that failed, and
// returns it. Records without a transaction say nothing about the settings.
func failRestOf(users []userRecord) (failure error) {
	for i := range users {
		failure = cmp.Or(failure, users[i].err)
	}
	for i := range users {
		if u := &users[i]; !u.done && u.poison == nil && u.err == nil {
			u.err = cmp.Or(failure, errIncomplete) // failure is nil if an effect ended its goroutine
		}
	}
	return failure
}

func (r *batchRun) countTransactions(users []userRecord) {
	for i := range users {
		if u := &users[i]; u.deliver {
			r.result.Tally.Out++
			if u.superseded {
				r.result.Tally.Superseded++
			}
		}
	}
}

// lanes divides user records into lists, so that no record depends on a record of another list. Each list is in order.
// Acked records and poison depend on no other record.
func (r *batchRun) lanes(users []userRecord) (lanes [][]*userRecord) {
	group := newGroups(len(users))
	partition, key := map[string]int{}, map[Key]int{}
	derived := r.settings.Derive || containsUUIDv5(users) // if so, an id may equal the derived id of another record
	for i := range users {
		u := &users[i]
		if !u.open() {
			continue
		}
		if u.output.PartitionKey != "" {
			join(group, partition, u.output.PartitionKey, i)
		}
		if !derived {
			join(group, key, format.KeyOf(u.fields.ID), i)
			continue
		}
		for _, k := range PossibleKeys(r.firstID(u), u.fields.Fingerprint) {
			join(group, key, k, i)
		}
	}
	at := map[int]int{}
	for i := range users {
		u := &users[i]
		if u.acked {
			u.done = true
		}
		if u.acked || u.poison != nil {
			continue
		}
		root := group.root(i)
		lane, known := at[root]
		if !known {
			lane = len(lanes)
			at[root] = lane
			lanes = append(lanes, nil)
		}
		lanes[lane] = append(lanes[lane], u)
	}
	return lanes
}

// firstID returns the id under which a record is entered first.
func (r *batchRun) firstID(u *userRecord) string {
	if r.settings.Derive {
		return format.DerivedID(u.fields.ID, u.fields.Fingerprint)
	}
	return u.fields.ID
}

func containsUUIDv5(users []userRecord) bool {
	for i := range users {
		if isUUIDv5(users[i].fields.ID) {
			return true
		}
	}
	return false
}

// groups are disjoint sets of the numbers from 0 up. The root of a set is its lowest number.
type groups []int

func newGroups(n int) groups {
	g := make(groups, n)
	for i := range g {
		g[i] = i
	}
	return g
}

func (g groups) root(i int) int {
	for g[i] != i {
		g[i] = g[g[i]]
		i = g[i]
	}
	return i
}

func (g groups) unite(i, j int) {
	i, j = g.root(i), g.root(j)
	g[max(i, j)] = min(i, j)
}

// join unites number i with the last number of the same key.
func join[K comparable](g groups, last map[K]int, key K, i int) {
	if before, ok := last[key]; ok {
		g.unite(before, i)
	}
	last[key] = i
}

// txLane processes records that depend on each other.
type txLane struct {
	*batchRun
	sink    TxSink
	until   time.Time        // until when busy stores are asked again
	holders map[Key]Existing // the entries that this lane has put or found
}

// do decides and delivers one user record. It sets the record's decision, and done, poison or err.
func (l *txLane) do(ctx context.Context, u *userRecord) {
	err := l.decide(ctx, u)
	if err != nil {
		u.setErr(err)
	}
}

// decide applies the rule of ByKey to one record, with a transaction instead of a put.
func (l *txLane) decide(ctx context.Context, u *userRecord) (err error) {
	defer poisonOnPanic(&err)
	id, derived := l.firstID(u), 0
	for range maxStuck {
		holder, err := l.enter(ctx, u, id, derived)
		switch {
		case err != nil || u.done:
			return err
		case holder == nil: // the entry is gone: enter the record again
		case holder.Content == ContentDigest(u.fields.Fingerprint):
			u.decision, u.done = Decision{Outcome: Natural, ID: id}, true
			return nil
		case derived == MaxDerivations:
			u.decision = Decision{Outcome: NoID}
			return &PoisonError{reasonNoID}
		default:
			raised, err := l.raise(ctx, u, format.KeyOf(id), *holder)
			if err != nil {
				return err
			}
			if raised {
				id, derived = format.DerivedID(id, u.fields.Fingerprint), derived+1
			} else {
				delete(l.holders, format.KeyOf(id))
			}
		}
	}
	return fmt.Errorf("%w: the ledger was asked %d times, and its answers still change", ErrTryAgain, maxStuck)
}

// enter puts the entry of a record under an id, together with the effect. If the effect is done, now or before, the
// record is done. Otherwise enter returns the entry of another record, or nil if the record has to be entered again.
func (l *txLane) enter(ctx context.Context, u *userRecord, id string, derived int) (*Existing, error) {
	entry := l.entryOf(u, id)
	holder, known := l.holders[entry.Key]
	if !known || holder.PurgedAt(entry.Arrival) {
		existing, err := l.apply(ctx, u, Transaction{Entry: entry}, id, outcomeOf(derived))
		switch {
		case err != nil:
			return nil, err
		case existing == nil:
			l.holders[entry.Key] = entry.Existing()
			return nil, nil
		}
		holder = *existing
	}
	l.holders[entry.Key] = holder
	switch {
	case holder.Owner != entry.Owner.Digest():
		return &holder, nil
	case holder.Done:
		u.decision, u.done = Decision{Outcome: Retry, ID: id}, true
		return nil, nil
	}
	existing, err := l.apply(ctx, u, Transaction{Entry: entry, Finish: true}, id, Retry)
	switch {
	case err != nil:
	case existing == nil:
		holder.Done = true // the other fields are unchanged
		l.holders[entry.Key] = holder
	default: // the entry has changed in between
		delete(l.holders, entry.Key)
	}
	return nil, err
}

func (l *txLane) entryOf(u *userRecord, id string) Entry {
	arrival := u.source.Arrival.Truncate(time.Millisecond) // as engines store it
	return Entry{
		Scope: l.settings.Scope, Key: format.KeyOf(id), Owner: l.ownerOf(u), Fingerprint: u.fields.Fingerprint,
		Version: u.fields.Version, Arrival: arrival, PurgeAt: l.settings.Retention.PurgeAt(arrival), Done: true,
	}
}

func outcomeOf(derived int) Outcome {
	if derived == 0 {
		return New
	}
	return Synthetic
}

// apply runs a transaction under an id. If it takes effect, the record is done.
func (l *txLane) apply(ctx context.Context, u *userRecord, t Transaction, id string, o Outcome) (*Existing, error) {
	decision := Decision{Outcome: o, ID: id}
	out, _, err := l.delivery.Prepare(ctx, u.output, u.fields, decision)
	if err != nil {
		return nil, err
	}
	t.Output = out
	var result TxResult
	err = l.patiently(ctx, func() (err error) {
		result, err = l.sink.Transact(ctx, t)
		return err
	})
	if err != nil || result.Existing != nil {
		return result.Existing, err
	}
	u.decision, u.done, u.deliver, u.superseded = decision, true, true, result.Superseded
	return nil, nil
}

// patiently calls ask, and calls it again while the store is busy.
func (l *txLane) patiently(ctx context.Context, ask func() error) (err error) {
	l.clock.askUntil(ctx, l.until, func() (again bool) {
		err = ask()
		return errors.Is(err, ErrTryAgain) && ctx.Err() == nil
	})
	return err
}

// raise makes the entry of another record outlive the entry under the next derived id. It reports whether that record
// still holds its entry.
func (l *txLane) raise(ctx context.Context, u *userRecord, key Key, holder Existing) (raised bool, err error) {
	raises := []RaiseRequest{{
		Scope: l.settings.Scope, Key: key, Owner: holder.Owner, PurgeAt: l.settings.Retention.PurgeAt(u.source.Arrival),
	}}
	err = l.patiently(ctx, func() error {
		results, err := l.sink.RaisePurge(ctx, raises)
		if err = checkNumber(len(results), 1, err); err != nil {
			return err
		}
		raised = results[0].Raised
		return results[0].Err
	})
	return raised, err
}
