package logfault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
)

// judges says which checks judge a play.
type judges int

const (
	all      judges = iota
	verdicts        // only the answers that callers got
)

// judge checks the guarantees on the answers that callers got, and on the log, row by row.
func (w *world) judge() error {
	checks := []func() error{w.checkOnce, w.checkSteady, w.checkNoLoss}
	if w.judges == all {
		checks = append(checks, w.checkRefusals, w.checkLog)
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// deliveries returns the answers for a record that permit its delivery.
func (w *world) deliveries(n int) (all []verdict) {
	for _, v := range w.verdicts {
		if v.record == n && (v.Found == dedupe.Put || v.Found == dedupe.Mine) {
			all = append(all, v)
		}
	}
	return all
}

// checkRefusals checks the refused records. All records are within their horizon. So a record may be refused only for
// these reasons: a call has failed, the context has ended, the memory is full, or the number of lanes differs from
// the scope's.
func (w *world) checkRefusals() error {
	for _, v := range w.verdicts {
		failed := w.Trouble > 0 && errors.Is(v.Err, dedupe.ErrTryAgain) || v.cut && errors.Is(v.Err, context.Canceled)
		if v.Err != nil && !failed && !v.memoryIsFull() && !w.mixedLanes() {
			return fmt.Errorf("refused: record %d: %w", v.record, v.Err)
		}
	}
	return nil
}

// memoryIsFull reports whether a record was refused because the memory is full, and the memory really is full.
func (v verdict) memoryIsFull() bool {
	var full *logledger.MemoryError
	return !v.fits && errors.As(v.Err, &full)
}

func (w *world) mixedLanes() bool {
	return slices.ContainsFunc(w.Settings, func(s setting) bool { return s.Lanes != 0 })
}

// checkOnce checks that at most one of several copies is delivered (G7), and that records with different contents are
// not delivered under one id. It ignores records whose fingerprint has changed, because nothing is promised for them.
func (w *world) checkOnce() error {
	for a := range w.Records {
		answersA := w.deliveries(a)
		for b := range a {
			r, s := w.Records[a], w.Records[b]
			if r.Key != s.Key || len(answersA) == 0 || w.changed(a) || w.changed(b) {
				continue
			}
			answersB := w.deliveries(b)
			switch {
			case len(answersB) == 0 || (r.Arrival-s.Arrival).Abs() > min(w.windowOf(answersA), w.windowOf(answersB)):
			case r.Content == s.Content:
				return fmt.Errorf("G7: records %d and %d are copies, and both are delivered", b, a)
			case answersA[0].Derived == 0 && answersB[0].Derived == 0:
				return fmt.Errorf("ids: records %d and %d have different contents, and both are delivered as %s", b, a, ids[r.Key])
			}
		}
	}
	return nil
}

// windowOf returns the smallest window for which the entry of a record counts. It is the window of the process that
// put the entry. If the process has not answered, it is not known which process that was.
func (w *world) windowOf(answers []verdict) time.Duration {
	if answers[0].Found == dedupe.Put {
		return answers[0].window
	}
	return w.window()
}

// changed reports whether a record was entered under changed fingerprints.
func (w *world) changed(n int) bool {
	return slices.ContainsFunc(w.Batches, func(b batch) bool { return b.Changed && slices.Contains(b.Records, n) })
}

// checkSteady checks that a record that may be delivered is never a duplicate afterwards (G8), and that it keeps one id
// (G9), even if its fingerprint changes. "Afterwards" includes calls that are already running.
func (w *world) checkSteady() error {
	for n := range w.Records {
		first := slices.IndexFunc(w.verdicts, func(v verdict) bool {
			return v.record == n && (v.Found == dedupe.Put || v.Found == dedupe.Mine)
		})
		if first < 0 {
			continue
		}
		derived := w.verdicts[first].Derived
		for _, v := range w.verdicts[first+1:] {
			switch {
			case v.record != n || v.begun <= first || v.Found == dedupe.NotKnown:
			case v.Found == dedupe.Same || v.Found == dedupe.Other:
				return fmt.Errorf("G8: record %d was to be delivered, and is a duplicate later", n)
			case v.Derived != derived:
				return fmt.Errorf("G9: record %d has another id later", n)
			}
		}
	}
	return nil
}

// checkNoLoss checks that no record is lost (G6). A record may be a duplicate only if another record with the same
// content is in the log, counts for it, and is not a duplicate itself. With KeepIDs a duplicate keeps its id only
// because of a record with another content. This check finds the entries by their owners, and does not use the keys
// and contents in the log.
func (w *world) checkNoLoss() error {
	var entries [3][]logledger.Entry
	for _, v := range w.verdicts {
		if v.Found != dedupe.Same && v.Found != dedupe.Other {
			continue
		}
		key := w.Records[v.record].Key
		if entries[key] == nil {
			var err error
			if entries[key], err = w.entries(key); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(entries[key], func(e logledger.Entry) bool { return w.justifies(e, v) }) {
			return fmt.Errorf("G6: record %d is a duplicate of nothing", v.record)
		}
	}
	return nil
}

// entries returns all entries that were ever appended under a key.
func (w *world) entries(key int) ([]logledger.Entry, error) {
	return logledger.Explain(context.Background(), w.log.Ever(), scope, format.KeyOf(ids[key]), time.Time{})
}

// justifies reports whether an entry makes the record of a verdict a duplicate: it existed, it counts for that
// record, and its own record has the content that makes the other a duplicate.
func (w *world) justifies(e logledger.Entry, v verdict) bool {
	r := w.Records[v.record]
	if w.log.Order(e.Place) > v.appends || !w.counts(e, r) {
		return false
	}
	for n, other := range w.Records {
		if n == v.record || !e.HasOwner(other.owner()) {
			continue
		}
		copies := other.Key == r.Key && other.fingerprint(false) == r.fingerprint(v.changed)
		if other.Key == r.Key && w.changed(n) || copies == (v.Found == dedupe.Same) && !w.onlyDuplicate(n) {
			return true
		}
	}
	return false
}

// counts reports whether an entry counts for a record: a record that may be in the entry's item must have arrived
// close enough to it. The arrivals that the item names are not sufficient for this.
func (w *world) counts(e logledger.Entry, r record) bool {
	return slices.ContainsFunc(w.Records, func(other record) bool {
		arrival := begin.Add(other.Arrival)
		return !arrival.Before(e.First) && !arrival.After(e.Last) && (other.Arrival-r.Arrival).Abs() <= e.Window
	})
}

// onlyDuplicate reports whether callers were told that a record is a duplicate, and never that it may be delivered. A
// caller that got no answer asks again, until the record's horizon.
func (w *world) onlyDuplicate(n int) bool {
	return len(w.deliveries(n)) == 0 && slices.ContainsFunc(w.verdicts, func(v verdict) bool {
		return v.record == n && (v.Found == dedupe.Same || v.Found == dedupe.Other)
	})
}

// checkLog checks that Verify finds nothing, neither in all items that were ever appended nor in those that are left.
func (w *world) checkLog() error {
	now := func() time.Time { return begin.Add(w.now) }
	for _, log := range []logledger.Storage{w.log.Ever(), w.log} {
		var found []string
		_, err := logledger.Verify(context.Background(), log, scope, now,
			func(p logledger.Problem) { found = append(found, fmt.Sprintf("%s: %s", placeOf(p.Place), p.What)) })
		if err != nil {
			return err
		}
		if len(found) > 0 {
			slices.Sort(found)
			return fmt.Errorf("log: %s", found[0])
		}
	}
	return nil
}
