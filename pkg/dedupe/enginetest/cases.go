package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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
	{"store/find", find},
	{"store/holds-are-read", holdsAreRead},
	{"store/holds-are-taken-over", holdsAreTakenOver},
	{"store/holds-are-finished", holdsAreFinished},
	{"store/holds-race", holdsRace},
	{"store/acks", acks},
	{"store/acks-are-separate", acksAreSeparate},
	{"store/acks-of-one-end", acksOfOneEnd},
	{"store/ack-of-no-number", ackOfNoNumber},
	{"store/many-acks", manyAcks},
	{"store/consumer", consumer},
	{"store/consumer-race", consumersRace},
	{"store/runs", runs},
	{"store/runs-are-closed-once", closedOnce},
	{"store/late-saves-fail", lateSavesFail},
	{"store/void-entries", voidEntries},
	{"store/stopped-run-is-closed", stoppedRun},
}

// epoch is the time of the tests. It is far in the future, so that an engine that deletes by real time deletes nothing.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

// entry is an entry in the fixture's scope that lives for an hour.
func (f *fixture) entry(id, owner string, arrival time.Time) dedupe.Entry {
	return dedupe.Entry{
		Scope: f.scope, Key: format.KeyOf(id), Owner: ownerNamed(owner), Fingerprint: "fp of " + owner, Version: "v1",
		Arrival: arrival, PurgeAt: dedupe.Retention{Window: time.Hour}.PurgeAt(arrival),
	}
}

func ownerNamed(name string) dedupe.Owner {
	return dedupe.Owner{Source: "tests", Sequence: name, Sub: dedupe.Plain}
}

// put puts one entry and returns the existing one, if there was one.
func (f *fixture) put(e dedupe.Entry) *dedupe.Existing {
	f.Helper()
	results, err := f.store.PutIfAbsent(f.ctx, []dedupe.Entry{e})
	f.must(err)
	f.must(results[0].Err)
	return results[0].Existing
}

// wantPut puts one entry and compares the existing one; nil means that there was none.
func (f *fixture) wantPut(what string, e dedupe.Entry, existing *dedupe.Entry) {
	f.Helper()
	got := f.put(e)
	if (got == nil) != (existing == nil) || got != nil && *got != existing.Existing() {
		f.Errorf("%s: want the existing entry %+v, got %+v", what, existing, got)
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
	other := elsewhere.entry("a", "seven", epoch)
	elsewhere.wantPut("the key in another scope", other, nil)
	both, err := f.store.PutIfAbsent(f.ctx, []dedupe.Entry{f.entry("a", "eight", epoch), elsewhere.entry("a", "nine", epoch)})
	f.must(err)
	for i, want := range []dedupe.Entry{first, other} {
		if got := both[i].Existing; both[i].Err != nil || got == nil || *got != want.Existing() {
			f.Errorf("both scopes in a call: want the existing entry %+v, got %+v", want, both[i])
		}
	}
}

// find tests engines that implement dedupe.Finder.
func find(f *fixture) {
	finder, ok := f.store.(dedupe.Finder)
	if !ok {
		f.Skip("the engine does not implement dedupe.Finder")
	}
	first, forGood := f.entry("a", "one", epoch), f.entry("b", "two", epoch)
	forGood.PurgeAt = dedupe.Never
	f.wantPut("a new key", first, nil)
	f.wantPut("another key", forGood, nil)
	keys := []dedupe.Key{forGood.Key, format.KeyOf("none"), first.Key}
	for _, scope := range []string{f.scope, newScope()} {
		found, err := finder.Find(f.ctx, scope, keys)
		f.must(err)
		if len(found) != len(keys) || found[1] != nil {
			f.Fatalf("want %d answers, and none for a key without an entry, got %v", len(keys), found)
		}
		if scope != f.scope {
			if found[0] != nil || found[2] != nil {
				f.Errorf("entries of another scope: %v", found)
			}
		} else if found[0] == nil || *found[0] != forGood.Existing() || found[2] == nil || *found[2] != first.Existing() {
			f.Errorf("want the entries, got %+v and %+v", found[0], found[2])
		}
	}
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

// purgedEntriesAreAbsent: the purge time decides, to the millisecond. It does not matter whether the row was deleted.
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

// putRace: several records ask for one key at the same time. One of them gets it, and all get its owner.
func putRace(f *fixture) {
	const racers = 16
	var put atomic.Int32
	owners := make([]dedupe.Digest, racers)
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
				owners[i] = e.Owner.Digest()
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
			f.Errorf("the racers saw different owners: %x", owners)
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
		if r.Existing != nil && *r.Existing != entries[i].Existing() {
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
		results, err := f.store.RaisePurge(f.ctx, []dedupe.RaiseRequest{
			{Scope: f.scope, Key: format.KeyOf(id), Owner: ownerNamed(owner).Digest(), PurgeAt: purge},
		})
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

func (f *fixture) ackKey() dedupe.AckKey {
	return dedupe.AckKey{Scope: f.scope, Stream: ordersStream, Shard: "shardId-000000000000", Sink: "kinesis:unique"}
}

var ordersStream = dedupe.Stream{Account: "123456789012", Region: "us-east-1", Name: "orders"}

// ack is an ack of some records.
func ackOf(first, last string, owners ...int) dedupe.Ack {
	a := dedupe.Ack{First: first, Last: last, PurgeAt: epoch.Unix()}
	for _, n := range owners {
		mark := ownerNamed(fmt.Sprint(n)).Mark()
		a.Owners = append(a.Owners, mark[:]...)
	}
	return a
}

// wantAcks reads the acks that overlap some sequence numbers. An engine may return others too, so wantAcks checks
// only the acks that must be returned.
func (f *fixture) wantAcks(first, last string, want ...dedupe.Ack) {
	f.Helper()
	got, err := f.store.ReadAcks(f.ctx, f.ackKey(), first, last)
	f.must(err)
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g dedupe.Ack) bool { return sameAck(g, w) }) {
			f.Errorf("%s to %s: want %+v among %+v", first, last, w, got)
		}
	}
}

func sameAck(a, b dedupe.Ack) bool {
	return a.First == b.First && a.Last == b.Last && a.PurgeAt == b.PurgeAt && bytes.Equal(a.Owners, b.Owners)
}

// acks: acks are found by number, not by text, also if they begin before the batch or end after it.
func acks(f *fixture) {
	f.wantAcks("0", "100")
	const long = "49590338271490256608559692538361571095921575989136588898"
	one, wide, late := ackOf("9", "9", 9), ackOf("2", "30", 2, 30), ackOf("99", long, 99)
	late.PurgeAt = dedupe.Never
	for range 2 { // writing is safe to repeat
		for _, a := range []dedupe.Ack{one, wide, late} {
			f.must(f.store.WriteAck(f.ctx, f.ackKey(), a))
		}
	}
	f.wantAcks("9", "10", one, wide)
	f.wantAcks("5", "6", wide)
	f.wantAcks("25", "40", wide)
	f.wantAcks("1", "200", one, wide, late)
	f.wantAcks(long, long, late)
	f.wantAcks(strings.Repeat("9", 128), strings.Repeat("9", 128))
}

// acksAreSeparate: a new scope replays a stream. Streams, shards and sinks do not skip each other's records.
func acksAreSeparate(f *fixture) {
	f.must(f.store.WriteAck(f.ctx, f.ackKey(), ackOf("1", "3", 1, 2, 3)))
	scope, stream, shard, sink := f.ackKey(), f.ackKey(), f.ackKey(), f.ackKey()
	scope.Scope = newScope()
	stream.Stream.Name = "payments"
	shard.Shard = "shardId-000000000001"
	sink.Sink = "kinesis:other"
	for _, other := range []dedupe.AckKey{scope, stream, shard, sink} {
		if got, err := f.store.ReadAcks(f.ctx, other, "1", "3"); len(got) > 0 || err != nil {
			f.Errorf("%+v: got %+v, %v", other, got, err)
		}
	}
}

// acksOfOneEnd: an ack does not replace another ack that ends at the same record.
func acksOfOneEnd(f *fixture) {
	first, second := ackOf("1", "5", 1, 3), ackOf("2", "5", 2, 5)
	f.must(f.store.WriteAck(f.ctx, f.ackKey(), first))
	f.must(f.store.WriteAck(f.ctx, f.ackKey(), second))
	f.wantAcks("1", "5", first, second)
}

// ackOfNoNumber: a sequence that is not a number is refused, because it would hide acks.
func ackOfNoNumber(f *fixture) {
	for _, sequence := range []string{"", "x", "-8", "8 ", "0x8", "8.0", strings.Repeat("9", 129)} {
		for _, a := range []dedupe.Ack{ackOf(sequence, "9", 1), ackOf("1", sequence, 1)} {
			if err := f.store.WriteAck(f.ctx, f.ackKey(), a); err == nil || errors.Is(err, dedupe.ErrTryAgain) {
				f.Errorf("%q: want a fault, got %v", sequence, err)
			}
		}
	}
	if got, err := f.store.ReadAcks(f.ctx, f.ackKey(), "0", strings.Repeat("9", 128)); len(got) > 0 || err != nil {
		f.Errorf("got %+v, %v", got, err)
	}
}

// manyAcks: a batch may have more acks than one read of an engine returns, and the largest ack fits into a row.
func manyAcks(f *fixture) {
	const n = 250
	var want []dedupe.Ack
	for i := range n {
		want = append(want, ackOf(fmt.Sprint(i), fmt.Sprint(i), i))
	}
	large := ackOf("0", fmt.Sprint(n))
	large.Owners = bytes.Repeat([]byte("8 bytes "), 40_000)
	want = append(want, large)
	for _, a := range want {
		f.must(f.store.WriteAck(f.ctx, f.ackKey(), a))
	}
	f.wantAcks("0", fmt.Sprint(n), want...)
	f.wantAcks("100", "101", want[100], want[101], large)
}

func (f *fixture) claim(scope, stream, function string) (consumer string) {
	f.Helper()
	s := ordersStream
	s.Name = stream
	for {
		consumer, err := f.store.ClaimConsumer(f.ctx, scope, s, function)
		if !errors.Is(err, dedupe.ErrTryAgain) {
			f.must(err)
			return consumer
		}
	}
}

// consumer: the first function stays the consumer of this stream in this scope.
func consumer(f *fixture) {
	for _, c := range []struct{ scope, stream, function, want string }{
		{f.scope, "orders", "one", "one"},
		{f.scope, "orders", "two", "one"},
		{f.scope, "orders", "one", "one"},
		{f.scope, "payments", "two", "two"},
		{newScope(), "orders", "two", "two"},
	} {
		if got := f.claim(c.scope, c.stream, c.function); got != c.want {
			f.Errorf("%+v: got %q", c, got)
		}
	}
}

// consumersRace: several functions ask at the same time. All get the same consumer.
func consumersRace(f *fixture) {
	const racers = 8
	var all sync.WaitGroup
	got := make([]string, racers)
	for i := range racers {
		all.Go(func() { got[i] = f.claim(f.scope, "orders", fmt.Sprint("function-", i)) })
	}
	all.Wait()
	for _, consumer := range got {
		if consumer == "" || consumer != got[0] {
			f.Errorf("the functions saw different consumers: %q", got)
			break
		}
	}
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
	want.ID = "run-2"
	f.must(f.store.SaveRun(f.ctx, f.scope, want))
	if got, err := f.store.ReadRun(f.ctx, f.scope, "digest"); err != nil || got == nil || *got != want {
		f.Errorf("want the latest run, %+v, got %+v, %v", want, got, err)
	}
	if other, err := f.store.ReadRun(f.ctx, newScope(), "digest"); other != nil || err != nil {
		f.Errorf("a run of another scope: got %+v, %v", other, err)
	}
}

// run returns a run at work, whose second line of its first input is saved.
func (f *fixture) run(id string) dedupe.Run {
	f.Helper()
	r := dedupe.Run{
		Digest: "digest", ID: id, OutputID: "output of " + id, About: "{}", Beat: 1, File: 1, Line: 2, Lines: 2, Output: 100,
		Tally: dedupe.Tally{In: 2, New: 2, Out: 2},
	}
	f.must(f.store.SaveRun(f.ctx, f.scope, r))
	return r
}

// lineOf returns the entry of a line of a run.
func (f *fixture) lineOf(r dedupe.Run, id string, file int, line int64) dedupe.Entry {
	e := f.entry(id, fmt.Sprint(file, " ", line), epoch)
	e.Owner.Source, e.Owner.Sequence = dedupe.RunSource(r.ID, file), fmt.Sprint(line)
	return e
}

// puts puts one entry as often as the answer is to try again, and returns the existing one.
func (f *fixture) puts(e dedupe.Entry) *dedupe.Existing {
	f.Helper()
	for {
		results, err := f.store.PutIfAbsent(f.ctx, []dedupe.Entry{e})
		f.must(err)
		if !errors.Is(results[0].Err, dedupe.ErrTryAgain) {
			f.must(results[0].Err)
			return results[0].Existing
		}
	}
}

func lateSavesFail(f *fixture) {
	first := f.run("run-1")
	late, other, last := first, first, first
	late.Beat, late.Line = 2, 5
	other.Beat, other.Line = 3, 9
	last.Beat, last.Line = 3, 4
	for range 2 { // a reply may be lost
		f.must(f.store.SaveRun(f.ctx, f.scope, last))
	}
	for _, r := range []dedupe.Run{first, late, other} {
		if err := f.store.SaveRun(f.ctx, f.scope, r); !errors.Is(err, dedupe.ErrReplaced) {
			f.Errorf("saved with beat %d after beat %d: %v", r.Beat, last.Beat, err)
		}
	}
	if got, err := f.store.RunByID(f.ctx, f.scope, last.ID); err != nil || got == nil || *got != last {
		f.Errorf("want %+v, got %+v, %v", last, got, err)
	}
}

func closedOnce(f *fixture) {
	r, other := f.run("run-1"), f.run("run-2")
	saved := r
	saved.Beat, saved.Line = 2, 5
	f.must(f.store.SaveRun(f.ctx, f.scope, saved))
	for what, c := range map[string]dedupe.Run{"that was saved since": r, "unknown": {ID: "run-9"}} {
		if closed, err := f.store.CloseRun(f.ctx, f.scope, c); closed || err != nil {
			f.Errorf("closed a run %s: %v", what, err)
		}
	}
	saved.Line, saved.Output, saved.Tally.Out = 3, 50, 1
	for i, want := range []bool{true, false} {
		if closed, err := f.store.CloseRun(f.ctx, f.scope, saved); closed != want || err != nil {
			f.Errorf("closing %d: %t, %v", i, closed, err)
		}
	}
	saved.Closed = true
	if got, err := f.store.RunByID(f.ctx, f.scope, r.ID); err != nil || got == nil || *got != saved {
		f.Errorf("want %+v, got %+v, %v", saved, got, err)
	}
	saved.Closed, saved.Beat = false, 3
	if err := f.store.SaveRun(f.ctx, f.scope, saved); !errors.Is(err, dedupe.ErrReplaced) {
		f.Errorf("a closed run was saved: %v", err)
	}
	done := f.run("run-3")
	done.Finished, done.Beat = true, 2
	f.must(f.store.SaveRun(f.ctx, f.scope, done))
	f.must(f.store.SaveRun(f.ctx, f.scope, dedupe.Run{Digest: "import", ID: "run-4"}))
	if open, err := f.store.OpenRuns(f.ctx, f.scope); err != nil || len(open) != 1 || open[0] != other {
		f.Errorf("want only %+v to be open, got %+v, %v", other, open, err)
	}
}

func voidEntries(f *fixture) {
	r := f.run("run-1")
	placed := f.entry("placed", "named", epoch)
	placed.Owner.Place = dedupe.RunSource(r.ID, 1) + "/3"
	saved, unsaved, later := f.lineOf(r, "saved", 1, 2), f.lineOf(r, "unsaved", 1, 3), f.lineOf(r, "later", 2, 1)
	for _, e := range []dedupe.Entry{saved, unsaved, later, placed} {
		f.wantPut("an entry of a run", e, nil)
	}
	f.wantPut("a saved line", f.entry("saved", "B", epoch), &saved)
	f.wantPut("the run itself", f.lineOf(r, "unsaved", 1, 4), &unsaved)
	for _, id := range []string{"unsaved", "later", "placed"} {
		results, err := f.store.PutIfAbsent(f.ctx, []dedupe.Entry{f.entry(id, "B", epoch)})
		f.must(err)
		atWork, ok := errors.AsType[*dedupe.RunAtWorkError](results[0].Err)
		if !ok || atWork.Run != r.ID || !errors.Is(results[0].Err, dedupe.ErrTryAgain) {
			f.Errorf("%s, of a run at work: %+v", id, results[0])
		}
	}
	if closed, err := f.store.CloseRun(f.ctx, f.scope, r); !closed || err != nil {
		f.Fatal(closed, err)
	}
	if existing := f.puts(f.entry("saved", "B", epoch)); existing == nil || existing.Owner != saved.Owner.Digest() {
		f.Errorf("a saved line of a closed run does not count: %+v", existing)
	}
	for _, id := range []string{"unsaved", "later", "placed"} {
		if finder, ok := f.store.(dedupe.Finder); ok {
			if found, err := finder.Find(f.ctx, f.scope, []dedupe.Key{format.KeyOf(id)}); err != nil || found[0] != nil {
				f.Errorf("%s: found %+v, %v", id, found[0], err)
			}
		}
		mine := f.entry(id, "B", epoch)
		if existing := f.puts(mine); existing != nil {
			f.Errorf("%s is not void: %+v", id, *existing)
		}
		if existing := f.puts(f.entry(id, "C", epoch)); existing == nil || *existing != mine.Existing() {
			f.Errorf("%s is not of the record that took it over: %+v", id, existing)
		}
	}
}

// stoppedRun: a run that rests is closed by the first record that meets one of its unsaved lines, but not by others.
func stoppedRun(f *fixture) {
	r := f.run("run-1")
	r.Rests, r.Beat = true, 2
	f.must(f.store.SaveRun(f.ctx, f.scope, r))
	saved, unsaved := f.lineOf(r, "saved", 1, 1), f.lineOf(r, "unsaved", 1, 3)
	f.wantPut("a line", saved, nil)
	f.wantPut("a line", unsaved, nil)
	f.wantPut("a saved line", f.entry("saved", "B", epoch), &saved)
	if open, err := f.store.OpenRuns(f.ctx, f.scope); err != nil || len(open) != 1 {
		f.Errorf("closed by a record that needed nothing: %+v, %v", open, err)
	}
	f.wantPut("an unsaved line", f.entry("unsaved", "B", epoch), nil)
	want := r
	want.Closed = true
	if got, err := f.store.RunByID(f.ctx, f.scope, r.ID); err != nil || got == nil || *got != want {
		f.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}
