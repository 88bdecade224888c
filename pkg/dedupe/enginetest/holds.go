package enginetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// held is an entry in the fixture's scope that a run holds.
func (f *fixture) held(id, owner string, run byte, ends time.Time) dedupe.Entry {
	e := f.entry(id, owner, epoch)
	e.Fingerprint = "fp" // of all: a message takes over only the entry of a record with its content
	e.Hold = dedupe.Hold{Token: dedupe.Token{run, 15: run}, Ends: ends.UnixMilli()}
	return e
}

func (f *fixture) takeOver(old dedupe.Existing, e dedupe.Entry) (taken bool) {
	f.Helper()
	results, err := f.store.TakeOver(f.ctx, []dedupe.TakeOverRequest{{Old: old, Entry: e}})
	f.must(err)
	f.must(results[0].Err)
	return results[0].Taken
}

func (f *fixture) finish(e dedupe.Entry) (finished bool) {
	f.Helper()
	results, err := f.store.Finish(f.ctx, []dedupe.FinishRequest{
		{Scope: e.Scope, Key: e.Key, Owner: e.Owner.Digest(), Token: e.Hold.Token},
	})
	f.must(err)
	f.must(results[0].Err)
	return results[0].Finished
}

// checkDate checks the time of an answer: tests run on the machine of the engine.
func (f *fixture) checkDate(what string, date time.Time) {
	f.Helper()
	if apart := time.Since(date).Abs(); date.IsZero() || apart > time.Hour {
		f.Errorf("%s: the engine says that it is %s", what, date)
	}
}

// holdsAreRead: a put finds the hold of an entry, and says the engine's time.
func holdsAreRead(f *fixture) {
	now, err := f.store.ServerTime(f.ctx, f.scope)
	f.must(err)
	f.checkDate("ServerTime", now)
	first, plain := f.held("a", "one", 1, epoch.Add(123*time.Millisecond)), f.entry("b", "two", epoch)
	late := f.held("c", "three", 2, epoch.AddDate(100, 0, 0))
	all := []dedupe.Entry{first, plain, late}
	for _, round := range []string{"first", "second"} {
		results, err := f.store.PutIfAbsent(f.ctx, all)
		f.must(err)
		for i, r := range results {
			f.must(r.Err)
			if all[i].Hold != (dedupe.Hold{}) {
				f.checkDate(round+" put", r.Date)
			}
			if (r.Existing == nil) != (round == "first") || r.Existing != nil && *r.Existing != all[i].Existing() {
				f.Errorf("%s put of entry %d: got %+v, want %+v", round, i, r.Existing, all[i].Existing())
			}
		}
	}
	// An entry that is purged leaves nothing behind.
	again := f.entry("a", "four", epoch.AddDate(1, 0, 0))
	f.wantPut("after the purge time", again, nil)
	f.wantPut("the new entry", f.entry("a", "five", epoch.AddDate(1, 0, 0)), &again)
}

// holdsAreTakenOver: an entry is taken over only if nothing of it has changed since it was read.
func holdsAreTakenOver(f *fixture) {
	ends := epoch.Add(time.Minute)
	old := f.held("a", "one", 1, ends)
	next := f.held("a", "two", 2, ends.Add(time.Minute))
	if f.takeOver(old.Existing(), next) {
		f.Error("an absent entry was taken over")
	}
	f.wantPut("a new key", old, nil)
	is := old.Existing()
	for what, change := range map[string]func(*dedupe.Existing){
		"owner":             func(e *dedupe.Existing) { e.Owner = ownerNamed("other").Digest() },
		"content":           func(e *dedupe.Existing) { e.Content = dedupe.ContentDigest("other") },
		"purge time":        func(e *dedupe.Existing) { e.PurgeAt-- },
		"purge time, never": func(e *dedupe.Existing) { e.PurgeAt = dedupe.Never },
		"token":             func(e *dedupe.Existing) { e.Hold.Token[0]++ },
		"end of the lease":  func(e *dedupe.Existing) { e.Hold.Ends-- },
		"hold":              func(e *dedupe.Existing) { e.Hold = dedupe.Hold{} },
		"done":              func(e *dedupe.Existing) { e.Done = true },
	} {
		read := is
		if change(&read); f.takeOver(read, next) {
			f.Errorf("an entry was taken over that had another %s", what)
		}
	}
	f.wantPut("after all refusals", next, &old)
	if !f.takeOver(is, next) {
		f.Error("an unchanged entry was not taken over")
	}
	f.wantPut("after the take-over", old, &next)
	if f.takeOver(is, next) {
		f.Error("an entry was taken over a second time")
	}
	if f.finish(old) || !f.finish(next) {
		f.Error("an entry belongs to the run that has taken it over")
	}
	next.Done = true
	f.wantPut("after the end", old, &next)
	read := next.Existing()
	if read.Done = false; f.takeOver(read, old) {
		f.Error("a done entry was taken over")
	}

	// An entry that no queue has made, and one that is kept for ever.
	plain := f.entry("b", "three", epoch)
	plain.PurgeAt, plain.Fingerprint = dedupe.Never, "fp"
	f.wantPut("a new key", plain, nil)
	over := f.held("b", "three", 3, ends)
	over.PurgeAt = dedupe.Never
	if !f.takeOver(plain.Existing(), over) {
		f.Error("an entry without a hold was not taken over")
	}
	f.wantPut("after the take-over", plain, &over)
}

// holdsAreFinished: an entry is done by the run that holds it, for its record, and no entry is made.
func holdsAreFinished(f *fixture) {
	e, plain := f.held("a", "one", 1, epoch), f.entry("b", "two", epoch)
	other := f.held("a", "one", 2, epoch)
	if f.finish(e) {
		f.Error("an absent entry was finished")
	}
	f.wantPut("a new key", e, nil)
	f.wantPut("another key", plain, nil)
	if f.finish(other) {
		f.Error("another run has finished an entry")
	}
	other = e
	if other.Owner = ownerNamed("another"); f.finish(other) {
		f.Error("a run has finished the entry of another of its records")
	}
	if other.Owner, other.Key = plain.Owner, plain.Key; f.finish(other) {
		f.Error("a run has finished an entry that no run holds")
	}
	f.wantPut("before the end", e, &e)
	for range 2 {
		if !f.finish(e) {
			f.Error("a run has not finished its entry")
		}
	}
	done := e
	done.Done = true
	f.wantPut("after the end", e, &done)
	f.wantPut("the other key", plain, &plain)
	raised, err := f.store.RaisePurge(f.ctx, []dedupe.RaiseRequest{
		{Scope: e.Scope, Key: e.Key, Owner: e.Owner.Digest(), PurgeAt: e.PurgeAt + 60},
	})
	f.must(err)
	if done.PurgeAt += 60; !raised[0].Raised {
		f.Error("the purge time of a done entry was not raised")
	}
	f.wantPut("after the purge time was raised", e, &done)
}

// holdsRace: of several runs that take one entry over, one has it.
func holdsRace(f *fixture) {
	const rounds, runs = 10, 4
	for round := range rounds {
		id := format.DerivedID(f.scope, string(rune('a'+round)))
		old := f.held(id, "one", 1, epoch)
		f.wantPut("a new key", old, nil)
		var taken atomic.Int32
		var all sync.WaitGroup
		for run := range byte(runs) {
			all.Go(func() {
				if f.takeOver(old.Existing(), f.held(id, "one", 2+run, epoch)) {
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != 1 {
			f.Errorf("%d runs have taken an entry over", n)
		}
	}
}
