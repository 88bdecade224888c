package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var cases = []Case{
	{"store/put-if-absent", putIfAbsent},
	{"store/owner-is-not-a-condition", ownerIsNotACondition},
	{"store/purged-entries-are-absent", purgedEntriesAreAbsent},
	{"store/put-race", putRace},
	{"store/batches", batches},
	{"store/raise-purge", raisePurge},
	{"store/checkpoint", checkpoint},
	{"store/checkpoints-are-separate", checkpointsAreSeparate},
	{"store/checkpoint-of-another-consumer", otherConsumer},
	{"store/checkpoint-that-is-not-a-number", checkpointNotANumber},
	{"store/checkpoint-race", checkpointRace},
	{"store/checkpoint-race-of-consumers", consumersRace},
	{"store/runs", runs},
}

// epoch is the time of the tests. It is far in the future, so that an engine that deletes by the real clock deletes
// nothing.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

// entry is an entry in the fixture's scope that lives for an hour.
func (f *fixture) entry(id, owner string, arrival time.Time) dedupe.Entry {
	return dedupe.Entry{
		Scope: f.scope, Key: format.KeyOf(id), Owner: owner, Fingerprint: "fp of " + owner, Version: "v1",
		Arrival: arrival, PurgeAt: dedupe.Retention{Window: time.Hour}.PurgeAt(arrival),
	}
}

// put puts one entry and returns the one that was there.
func (f *fixture) put(e dedupe.Entry) *dedupe.Entry {
	f.Helper()
	results, err := f.store.PutIfAbsent(f.ctx, []dedupe.Entry{e})
	f.must(err)
	f.must(results[0].Err)
	return results[0].Existing
}

// wantPut puts one entry and compares the one that was there; nil means none.
func (f *fixture) wantPut(what string, e dedupe.Entry, existing *dedupe.Entry) {
	f.Helper()
	got := f.put(e)
	if (got == nil) != (existing == nil) || got != nil && *got != *existing {
		f.Errorf("%s: want %+v to be there, got %+v", what, existing, got)
	}
}

func putIfAbsent(f *fixture) {
	first := f.entry("a", "one", epoch.Add(123*time.Millisecond))
	f.wantPut("a new key", first, nil)
	f.wantPut("a copy", f.entry("a", "two", epoch), &first)
	f.wantPut("a copy that arrived before", f.entry("a", "three", epoch.Add(-time.Hour)), &first)
	f.wantPut("another key", f.entry("b", "four", epoch), nil)
	forGood := f.entry("c", "five", epoch)
	forGood.PurgeAt = dedupe.Never
	f.wantPut("an entry for ever", forGood, nil)
	f.wantPut("a century later", f.entry("c", "six", epoch.AddDate(100, 0, 0)), &forGood)

	elsewhere := *f
	elsewhere.scope = newScope()
	elsewhere.wantPut("the key in another scope", elsewhere.entry("a", "seven", epoch), nil)
}

// ownerIsNotACondition: the owner finds its entry like every other record. If it could put the entry again, a
// redelivery would look like a first delivery.
func ownerIsNotACondition(f *fixture) {
	first := f.entry("a", "one", epoch)
	f.wantPut("a new key", first, nil)
	again := f.entry("a", "one", epoch.Add(time.Minute))
	again.Fingerprint = "another"
	f.wantPut("the owner again", again, &first)
	f.wantPut("and again", again, &first)
}

// purgedEntriesAreAbsent: the purge time decides, to the millisecond, and not whether the row was deleted.
func purgedEntriesAreAbsent(f *fixture) {
	first := f.entry("a", "one", epoch)
	purge := time.Unix(first.PurgeAt, 0).UTC()
	f.wantPut("a new key", first, nil)
	f.wantPut("just before the purge time", f.entry("a", "two", purge.Add(-time.Millisecond)), &first)
	f.wantPut("at the purge time", f.entry("a", "three", purge), &first)
	second := f.entry("a", "four", purge.Add(time.Millisecond))
	f.wantPut("just after it", second, nil)
	f.wantPut("the new entry replaced all of the old one", f.entry("a", "one", epoch), &second)
}

// putRace: several records ask for one key at the same time. One of them gets it, and all learn which.
func putRace(f *fixture) {
	const racers = 16
	var put atomic.Int32
	owners := make([]string, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			e := f.entry("a", fmt.Sprintf("racer-%d", i), epoch)
			results, err := f.store.PutIfAbsent(f.ctx, []dedupe.Entry{e})
			switch {
			case err != nil || results[0].Err != nil:
				f.Errorf("put: %v, %v", err, results)
			case results[0].Existing == nil:
				put.Add(1)
				owners[i] = e.Owner
			default:
				owners[i] = results[0].Existing.Owner
			}
		})
	}
	wg.Wait()
	if put.Load() != 1 {
		f.Errorf("%d records put the same key", put.Load())
	}
	for _, owner := range owners {
		if owner != owners[0] {
			f.Errorf("the racers saw different owners: %q", owners)
			break
		}
	}
}

func batches(f *fixture) {
	const n = 300
	entries := make([]dedupe.Entry, n)
	for i := range entries {
		entries[i] = f.entry(fmt.Sprintf("id-%d", i), fmt.Sprintf("owner-%d", i), epoch)
	}
	put := func(entries []dedupe.Entry) []dedupe.PutResult {
		f.Helper()
		results, err := f.store.PutIfAbsent(f.ctx, entries)
		f.must(err)
		if len(results) != len(entries) {
			f.Fatalf("want %d results, got %d", len(entries), len(results))
		}
		return results
	}
	for i, r := range put(entries[:n/2]) {
		if r.Existing != nil || r.Err != nil {
			f.Errorf("entry %d: want it put, got %+v", i, r)
		}
	}
	for i, r := range put(entries) {
		if r.Err != nil || (i < n/2) != (r.Existing != nil) {
			f.Errorf("entry %d: got %+v", i, r)
		}
		if r.Existing != nil && *r.Existing != entries[i] {
			f.Errorf("entry %d: want %+v, got %+v", i, entries[i], *r.Existing)
		}
	}
	put(nil)
}

func raisePurge(f *fixture) {
	first := f.entry("a", "one", epoch)
	f.wantPut("a new key", first, nil)
	raise := func(what, id, owner string, purge int64, raised bool) {
		f.Helper()
		results, err := f.store.RaisePurge(f.ctx, []dedupe.RaiseRequest{{Scope: f.scope, Key: format.KeyOf(id), Owner: owner, PurgeAt: purge}})
		f.must(err)
		if results[0].Err != nil || results[0].Raised != raised {
			f.Errorf("%s: want raised %t, got %+v", what, raised, results[0])
		}
	}
	wantPurge := func(purge int64) {
		f.Helper()
		want := first
		want.PurgeAt = purge
		f.wantPut("the entry", f.entry("a", "two", epoch), &want)
	}
	raise("another owner", "a", "two", first.PurgeAt+100, false)
	wantPurge(first.PurgeAt)
	raise("no entry", "b", "one", first.PurgeAt, false)
	f.wantPut("no entry was made", f.entry("b", "three", epoch), nil)
	raise("later", "a", "one", first.PurgeAt+100, true)
	wantPurge(first.PurgeAt + 100)
	raise("earlier", "a", "one", first.PurgeAt+50, true)
	wantPurge(first.PurgeAt + 100)
	raise("for ever", "a", "one", dedupe.Never, true)
	wantPurge(dedupe.Never)
	raise("later than for ever", "a", "one", first.PurgeAt+500, true)
	wantPurge(dedupe.Never)
}

func (f *fixture) checkpointKey() dedupe.CheckpointKey {
	stream := dedupe.Stream{Account: "123456789012", Region: "us-east-1", Name: "orders"}
	return dedupe.CheckpointKey{Scope: f.scope, Stream: stream, Shard: "shardId-000000000000"}
}

// wantCheckpoint reads a checkpoint and compares its sequence number; "" means none.
func (f *fixture) wantCheckpoint(k dedupe.CheckpointKey, sequence string) {
	f.Helper()
	got, err := f.store.ReadCheckpoint(f.ctx, k)
	f.must(err)
	if sequence == "" && got != nil || sequence != "" && (got == nil || *got != dedupe.Checkpoint{Sequence: sequence, Consumer: "me"}) {
		f.Errorf("want checkpoint %q, got %+v", sequence, got)
	}
}

func (f *fixture) advance(k dedupe.CheckpointKey, sequence string) {
	f.Helper()
	f.must(f.store.AdvanceCheckpoint(f.ctx, k, dedupe.Checkpoint{Sequence: sequence, Consumer: "me"}))
}

// checkpoint: it moves forward only, by the number and not by the text.
func checkpoint(f *fixture) {
	k := f.checkpointKey()
	longest := strings.Repeat("9", 128)
	f.wantCheckpoint(k, "")
	for _, step := range []struct{ advance, want string }{
		{"0", "0"}, {"9", "9"}, {"10", "10"}, {"9", "10"}, {"10", "10"},
		{"49590338271490256608559692538361571095921575989136588898", "49590338271490256608559692538361571095921575989136588898"},
		{"5", "49590338271490256608559692538361571095921575989136588898"},
		{longest, longest}, {"1" + strings.Repeat("0", 127), longest},
	} {
		f.advance(k, step.advance)
		f.wantCheckpoint(k, step.want)
	}
}

// checkpointsAreSeparate: a new scope replays a stream, and streams and shards do not skip each other's records.
func checkpointsAreSeparate(f *fixture) {
	f.advance(f.checkpointKey(), "7")
	scope, stream, shard := f.checkpointKey(), f.checkpointKey(), f.checkpointKey()
	scope.Scope = newScope()
	stream.Stream.Name = "payments"
	shard.Shard = "shardId-000000000001"
	for _, other := range []dedupe.CheckpointKey{scope, stream, shard} {
		f.wantCheckpoint(other, "")
	}
}

func otherConsumer(f *fixture) {
	f.advance(f.checkpointKey(), "7")
	err := f.store.AdvanceCheckpoint(f.ctx, f.checkpointKey(), dedupe.Checkpoint{Sequence: "8", Consumer: "you"})
	if !errors.Is(err, dedupe.ErrOtherConsumer) {
		f.Errorf("want %v, got %v", dedupe.ErrOtherConsumer, err)
	}
	f.wantCheckpoint(f.checkpointKey(), "7")
}

// checkpointNotANumber: another text among the numbers would stop the checkpoint, or skip records.
func checkpointNotANumber(f *fixture) {
	f.advance(f.checkpointKey(), "7")
	for _, sequence := range []string{"", "x", "-8", "8 ", "0x8", "8.0", strings.Repeat("9", 129)} {
		err := f.store.AdvanceCheckpoint(f.ctx, f.checkpointKey(), dedupe.Checkpoint{Sequence: sequence, Consumer: "me"})
		if err == nil || errors.Is(err, dedupe.ErrTryAgain) || errors.Is(err, dedupe.ErrOtherConsumer) {
			f.Errorf("%q: want a fault, got %v", sequence, err)
		}
		f.wantCheckpoint(f.checkpointKey(), "7")
	}
}

// consumersRace: several consumers write the first checkpoint at the same time. One gets it, and the others get
// ErrOtherConsumer.
func consumersRace(f *fixture) {
	const racers = 8
	var all sync.WaitGroup
	errs := make([]error, racers)
	for i := range racers {
		all.Go(func() {
			c := dedupe.Checkpoint{Sequence: fmt.Sprint(1 + i), Consumer: fmt.Sprint("consumer-", i)}
			for {
				errs[i] = f.store.AdvanceCheckpoint(f.ctx, f.checkpointKey(), c)
				if !errors.Is(errs[i], dedupe.ErrTryAgain) {
					return
				}
			}
		})
	}
	all.Wait()
	got, err := f.store.ReadCheckpoint(f.ctx, f.checkpointKey())
	f.must(err)
	for i, err := range errs {
		mine := got != nil && *got == dedupe.Checkpoint{Sequence: fmt.Sprint(1 + i), Consumer: fmt.Sprint("consumer-", i)}
		if mine && err != nil || !mine && !errors.Is(err, dedupe.ErrOtherConsumer) {
			f.Errorf("consumer %d got %v, and the checkpoint is %+v", i, err, got)
		}
	}
}

// checkpointRace: several writers try to move the checkpoint forward and back. A reader never sees it go back.
func checkpointRace(f *fixture) {
	var writers, readers sync.WaitGroup
	written := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			last := "0"
			for done := false; !done; {
				select {
				case <-written:
					done = true // read once more
				default:
				}
				c, err := f.store.ReadCheckpoint(f.ctx, f.checkpointKey())
				switch {
				case errors.Is(err, dedupe.ErrTryAgain):
				case err != nil:
					f.Error(err)
					return
				case c != nil && dedupe.CompareSequence(c.Sequence, last) < 0:
					f.Errorf("the checkpoint went back from %s to %s", last, c.Sequence)
				case c != nil:
					last = c.Sequence
				}
			}
		})
	}
	for i := range 20 {
		writers.Go(func() {
			for _, n := range []int{1 + i*7%20, 1 + i*13%20, 9 + i%4} { // some of one digit
				c := dedupe.Checkpoint{Sequence: fmt.Sprint(n), Consumer: "me"}
				for {
					err := f.store.AdvanceCheckpoint(f.ctx, f.checkpointKey(), c)
					if err == nil {
						break
					}
					if !errors.Is(err, dedupe.ErrTryAgain) {
						f.Error(err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	close(written)
	readers.Wait()
	f.wantCheckpoint(f.checkpointKey(), "20")
}

func runs(f *fixture) {
	none, err := f.store.ReadRun(f.ctx, f.scope, "digest")
	if none != nil || err != nil {
		f.Fatalf("absent run: want nil and no error, got %+v, %v", none, err)
	}
	want := dedupe.Run{Digest: "digest", ID: "run-1", Input: 1 << 40, Lines: 7, Output: 3, DeadLetters: 2, Tally: dedupe.Tally{In: 7, New: 6, DeadLettered: 1, Out: 6}}
	for range 2 {
		f.must(f.store.SaveRun(f.ctx, f.scope, want))
		got, err := f.store.ReadRun(f.ctx, f.scope, "digest")
		f.must(err)
		if got == nil || *got != want {
			f.Errorf("want %+v, got %+v", want, got)
		}
		want.Finished, want.Lines = true, 8
	}
	if other, err := f.store.ReadRun(f.ctx, newScope(), "digest"); other != nil || err != nil {
		f.Errorf("a run of another scope: got %+v, %v", other, err)
	}
}
