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

// judges are those that judge a play.
type judges int

const (
	all      judges = iota
	verdicts        // only what callers were told
)

// judge checks the guarantees by what callers were told, and the log row by row.
func (w *world) judge() error {
	checks := []func() error{w.once, w.steady, w.lost}
	if w.judges == all {
		checks = append(checks, w.refusals, w.log)
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// told returns the answers for a record that let it be delivered.
func (w *world) told(n int) (all []verdict) {
	for _, v := range w.verdicts {
		if v.record == n && (v.Found == dedupe.Put || v.Found == dedupe.Mine) {
			all = append(all, v)
		}
	}
	return all
}

// refusals: all records are within their horizon. So a record is refused only if a call has failed or its context has
// ended, the memory is full, or the number of lanes is another one.
func (w *world) refusals() error {
	for _, v := range w.verdicts {
		failed := w.Trouble > 0 && errors.Is(v.Err, dedupe.ErrTryAgain) || v.cut && errors.Is(v.Err, context.Canceled)
		if v.Err != nil && !failed && !v.memoryIsFull() && !w.mixedLanes() {
			return fmt.Errorf("refused: record %d: %w", v.record, v.Err)
		}
	}
	return nil
}

// memoryIsFull reports whether a record was refused since the memory is full, and it is.
func (v verdict) memoryIsFull() bool {
	var full *logledger.MemoryError
	return !v.fits && errors.As(v.Err, &full)
}

func (w *world) mixedLanes() bool {
	return slices.ContainsFunc(w.Settings, func(s setting) bool { return s.Lanes != 0 })
}

// once: of copies at most one is delivered (G7), and records with different contents are not delivered under one id.
// Nothing is promised for a record whose fingerprint has changed.
func (w *world) once() error {
	for a := range w.Records {
		ofA := w.told(a)
		for b := range a {
			r, s := w.Records[a], w.Records[b]
			if r.Key != s.Key || len(ofA) == 0 || w.changed(a) || w.changed(b) {
				continue
			}
			ofB := w.told(b)
			switch {
			case len(ofB) == 0 || (r.Arrival-s.Arrival).Abs() > min(w.windowOf(ofA), w.windowOf(ofB)):
			case r.Content == s.Content:
				return fmt.Errorf("G7: records %d and %d are copies, and both are delivered", b, a)
			case ofA[0].Derived == 0 && ofB[0].Derived == 0:
				return fmt.Errorf("ids: records %d and %d have different contents, and both are delivered as %s", b, a, ids[r.Key])
			}
		}
	}
	return nil
}

// windowOf is the window for which the entry of a record counts, at least: that of the process that put it. Of an entry
// whose process has not answered it is not known.
func (w *world) windowOf(told []verdict) time.Duration {
	if told[0].Found == dedupe.Put {
		return told[0].window
	}
	return w.window()
}

// changed reports whether a record was entered under changed fingerprints.
func (w *world) changed(n int) bool {
	return slices.ContainsFunc(w.Batches, func(b batch) bool { return b.Changed && slices.Contains(b.Records, n) })
}

// steady: a record that may be delivered is never a duplicate afterwards (G8), and has one id (G9), also if its
// fingerprint changes. A call that was running already counts for itself.
func (w *world) steady() error {
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

// lost: a record is a duplicate only if another record with its content is in the log, counts for it, and is no duplicate
// itself (G6). With KeepIDs it keeps its id only if one with another content is. The entries are known by their owners:
// the keys and contents of the log are not asked.
func (w *world) lost() error {
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

// entries are all that were ever appended under a key.
func (w *world) entries(key int) ([]logledger.Entry, error) {
	return logledger.Explain(context.Background(), view{&w.store, true}, scope, format.KeyOf(ids[key]), time.Time{})
}

// justifies reports whether an entry was there, counts for the record of a verdict, and is of a record that makes it a
// duplicate.
func (w *world) justifies(e logledger.Entry, v verdict) bool {
	r := w.Records[v.record]
	if w.cell(e.Place).order > v.appends || !w.counts(e, r) {
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

// counts reports whether an entry counts for a record: whether a record that may be in its item is near enough. What the
// item says of its arrivals is not enough.
func (w *world) counts(e logledger.Entry, r record) bool {
	return slices.ContainsFunc(w.Records, func(other record) bool {
		arrival := begin.Add(other.Arrival)
		return !arrival.Before(e.First) && !arrival.After(e.Last) && (other.Arrival-r.Arrival).Abs() <= e.Window
	})
}

// onlyDuplicate reports whether a record was told to be a duplicate, and never that it may be delivered. If it was told
// nothing, its caller asks again, up to its horizon.
func (w *world) onlyDuplicate(n int) bool {
	return len(w.told(n)) == 0 && slices.ContainsFunc(w.verdicts, func(v verdict) bool {
		return v.record == n && (v.Found == dedupe.Same || v.Found == dedupe.Other)
	})
}

// log: Verify finds nothing, neither in all that was ever appended nor in what is left of it.
func (w *world) log() error {
	now := func() time.Time { return begin.Add(w.now) }
	for _, deleted := range []bool{true, false} {
		var found []string
		_, err := logledger.Verify(context.Background(), view{&w.store, deleted}, scope, now,
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
