package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var ledgerCases = []LedgerCase{
	{"ledger/answers", answersOfALedger},
	{"ledger/derived", derived},
	{"ledger/one-id-on-every-attempt", oneID},
	{"ledger/owner-before-content", ownerBeforeContent},
	{"ledger/keep-ids", keepIDs},
	{"ledger/poison", poison},
	{"ledger/in-order", inOrderOfTheBatch},
	{"ledger/window", window},
	{"ledger/purged", purged},
	{"ledger/for-good", forGood},
	{"ledger/late-batch", lateBatch},
	{"ledger/arrivals-ahead", arrivalsAhead},
	{"ledger/scopes-are-separate", scopesAreSeparate},
	{"ledger/derived-names", derivedNames},
	{"ledger/large-batch", largeBatch},
	{"ledger/histories", histories},
	{"ledger/race", race},
	{"ledger/ended-context", endedContext},
}

// The answers that most cases want.
var (
	isPut        = dedupe.Answer{Found: dedupe.Put}
	isMine       = dedupe.Answer{Found: dedupe.Mine}
	isSame       = dedupe.Answer{Found: dedupe.Same}
	isOther      = dedupe.Answer{Found: dedupe.Other}
	putDerived   = dedupe.Answer{Found: dedupe.Put, Derived: 1}
	mineDerived  = dedupe.Answer{Found: dedupe.Mine, Derived: 1}
	poisonRecord = dedupe.Candidate{Owner: ownerNamed("poison"), Poison: true}
)

// sameAnswer compares answers. For a copy it ignores under which id it was found, because a copy is not delivered.
func sameAnswer(got, want dedupe.Answer) bool {
	if want.Found == dedupe.Same {
		got.Derived = 0
	}
	return got == want
}

// record is a record that arrives some time after the epoch.
func record(id, owner, content string, after time.Duration) dedupe.Candidate {
	return dedupe.Candidate{
		ID: id, Owner: ownerNamed(owner), Fingerprint: content, Version: "v1", Arrival: epoch.Add(after),
	}
}

// answersOfALedger: ids are compared by format.KeyOf, owners and contents exactly.
func answersOfALedger(f *ledgerFixture) {
	const uuid = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
	first, copied := record("a", "one", "x", 0), record("a", "two", "x", time.Minute)
	f.want("a new id", first, isPut)
	f.want("a copy", copied, isSame)
	f.want("the record again", first, isMine)
	f.want("the copy again", copied, isSame)
	f.want("an id of other case", record("A", "three", "x", 0), isPut)
	f.want("a UUID", record(uuid, "four", "x", 0), isPut)
	f.want("a UUID of other case", record(strings.ToUpper(uuid), "five", "x", 0), isSame)

	shard, part := first, first
	shard.Owner.Source += "/another shard"
	part.Owner.Sub = 0
	f.want("the position in another shard", shard, isSame)
	f.want("the position in an aggregate", part, isSame)
	f.want("a content that begins alike", record("a", "six", "x ", 0), putDerived)
}

// derived: each content of an id is entered once, the first under the id, the others under derived ids.
func derived(f *ledgerFixture) {
	contents := []string{"x", "y", "z", "w", "v"}
	for i, content := range contents {
		put, mine := putDerived, mineDerived
		if i == 0 {
			put, mine = isPut, isMine
		}
		first := record("a", "first of "+content, content, time.Duration(i)*time.Minute)
		f.want("content "+content, first, put)
		f.want("a copy of it", record("a", "second of "+content, content, 10*time.Minute), isSame)
		f.want("it again", first, mine)
	}
	for _, content := range contents {
		f.want("a late copy of "+content, record("a", "third of "+content, content, 30*time.Minute), isSame)
	}
}

// oneID: a Decider gives a record the same id on every attempt, and never gives two contents one id.
func oneID(f *ledgerFixture) {
	x, y, z := record("a", "one", "x", 0), record("a", "two", "y", 0), record("a", "three", "z", 0)
	ofY, ofZ := format.DerivedID("a", "y"), format.DerivedID("a", "z")
	decider := dedupe.Decider{Ledger: f.ledger, Scope: f.scope, Retention: f.retention}
	for _, want := range [][]dedupe.Decision{
		{{Outcome: dedupe.New, ID: "a"}, {Outcome: dedupe.Synthetic, ID: ofY}, {Outcome: dedupe.Synthetic, ID: ofZ}},
		{{Outcome: dedupe.Retry, ID: "a"}, {Outcome: dedupe.Retry, ID: ofY}, {Outcome: dedupe.Retry, ID: ofZ}},
	} {
		if got := decider.Decide(f.ctx, []dedupe.Candidate{x, y, z}); !slices.Equal(got, want) {
			f.Errorf("want %+v, got %+v", want, got)
		}
	}
}

// ownerBeforeContent: after its fingerprint has changed, a record is a copy neither of another record nor of itself.
func ownerBeforeContent(f *ledgerFixture) {
	f.want("a new id", record("a", "one", "x", 0), isPut)
	f.want("it again with another fingerprint", record("a", "one", "changed", 0), isMine)
	f.want("another content", record("a", "two", "y", 0), putDerived)
	f.want("the first one with the content of the second", record("a", "one", "y", 0), isMine)
	f.want("a third content, which none of them entered", record("a", "three", "changed", 0), putDerived)
}

// keepIDs: with KeepIDs a record is not entered if its id has another content.
func keepIDs(f *ledgerFixture) {
	f.keepIDs = true
	f.want("a new id", record("a", "one", "x", 0), isPut)
	f.want("a copy", record("a", "two", "x", 0), isSame)
	other := record("a", "three", "y", 0)
	for range 2 {
		f.want("another content", other, isOther)
	}
	f.want("a copy of the other content", record("a", "four", "y", 0), isOther)
	f.want("the first one again", record("a", "one", "x", 0), isMine)
	f.keepIDs = false
	f.want("the other content was not entered", other, putDerived)
}

// poison: a poison record has a place among the answers, and no other effect.
func poison(f *ledgerFixture) {
	first, second := record("a", "one", "x", 0), record("b", "two", "x", 0)
	f.enter(poisonRecord)
	f.enter()
	answers := f.enter(poisonRecord, first, poisonRecord, poisonRecord, record("a", "three", "x", 0), second, poisonRecord)
	for i, want := range map[int]dedupe.Answer{1: isPut, 4: isSame, 5: isPut} {
		if !sameAnswer(answers[i], want) {
			f.Errorf("record %d: want %s, got %s", i, text(want), text(answers[i]))
		}
	}
	f.want("a record after the poison ones", first, isMine)
}

// inOrderOfTheBatch: the records of a batch are decided as if one by one.
func inOrderOfTheBatch(f *ledgerFixture) {
	known := record("known", "one", "x", 0)
	f.want("a new id", known, isPut)
	x, y := record("a", "two", "x", time.Minute), record("a", "three", "y", 0)
	questions := []struct {
		record dedupe.Candidate
		want   dedupe.Answer
	}{
		{x, isPut},
		{record("known", "four", "y", 0), putDerived},
		{record("a", "five", "x", 0), isSame},
		{y, putDerived},
		{record("new", "six", "y", 0), isPut},
		{known, isMine},
		{record("a", "seven", "y", 0), isSame},
		{x, isMine},
		{y, mineDerived},
		{record("a", "eight", "z", 0), putDerived},
		{record("known", "nine", "y", 0), isSame},
	}
	var records []dedupe.Candidate
	for _, q := range questions {
		records = append(records, q.record)
	}
	for i, got := range f.enter(records...) {
		if !sameAnswer(got, questions[i].want) {
			f.Errorf("record %d: want %s, got %s", i, text(questions[i].want), text(got))
		}
	}
}

// window: an entry counts within the window on either side, to the millisecond, whichever record comes first.
func window(f *ledgerFixture) {
	w := f.retention.Window
	const ms = time.Millisecond
	for _, after := range []time.Duration{-w, -w + ms, -w / 2, -ms, ms, w / 2, w - ms, w} {
		id := "at " + after.String()
		f.want(id+": a new id", record(id, "one", "x", 123*ms), isPut)
		f.want(id+": a copy", record(id, "two", "x", after+123*ms), isSame)
		f.want(id+": another content", record(id, "three", "y", after+123*ms), putDerived)
		f.want(id+": it again", record(id, "one", "x", 123*ms), isMine)
		f.want(id+": the other content again", record(id, "three", "y", after+123*ms), mineDerived)
	}
	// Between two entries of one content, both ends of the second entry's window count too.
	f.want("a new id", record("twice", "one", "x", 0), isPut)
	f.enter(record("twice", "two", "x", 2*w+w/2))
	f.want("a copy between", record("twice", "three", "x", w+w/2), isSame)
}

// purged: an entry does not count for ever.
func purged(f *ledgerFixture) {
	first := record("a", "one", "x", time.Millisecond)
	f.want("a new id", first, isPut)
	purge := time.Unix(f.retention.PurgeAt(first.Arrival), 0).Sub(epoch)
	if f.rules.UntilPurge {
		f.want("a copy at the purge time", record("a", "two", "x", purge), isSame)
		f.want("a copy just after it", record("a", "three", "x", purge+time.Millisecond), isPut)
	}
	f.want("another id", record("b", "one", "x", purge), isPut)
	f.want("a copy an hour after its purge time", record("b", "two", "x", 2*purge+time.Hour), isPut)
}

// forGood: entries that are kept for ever count for all records. A ledger that cannot keep them returns an error.
func forGood(f *ledgerFixture) {
	window := f.retention
	f.begin(dedupe.Retention{ForGood: true})
	first := record("a", "one", "x", 0)
	century := 100 * 365 * 24 * time.Hour
	if f.rules.ForGood {
		f.want("a new id", first, isPut)
		f.want("a copy a century later", record("a", "two", "x", century), isSame)
		f.want("another content", record("a", "three", "y", century), putDerived)
		f.want("a copy from long ago", record("a", "four", "y", 0), isSame)
		f.want("the first one again", first, isMine)
		return
	}
	f.refused("entries for ever", first)
	f.retention, f.model.retention = window, window
	f.want("the record was not entered", first, isPut)
}

// refused enters a record, and expects an error after which asking again is useless.
func (f *ledgerFixture) refused(what string, c dedupe.Candidate) {
	f.Helper()
	answers, err := f.ledger.Enter(f.ctx, f.question([]dedupe.Candidate{c}))
	if err == nil && len(answers) == 1 {
		err = answers[0].Err
	}
	if err == nil || errors.Is(err, dedupe.ErrTryAgain) {
		f.Errorf("%s: want a fault, got %+v, %v", what, answers, err)
	}
}

// lateBatch: a batch from days ago comes after a current one, for example after an outage or with redrive.
func lateBatch(f *ledgerFixture) {
	const hour, day = time.Hour, 24 * time.Hour
	f.begin(dedupe.Retention{Window: 6 * hour, Horizon: 7 * day})
	batch := func(owner, content string, at time.Duration) (all []dedupe.Candidate) {
		for i := range 12 {
			id, spread := fmt.Sprint("id-", i), time.Duration(i)*time.Minute
			all = append(all, record(id, fmt.Sprint(owner, i), content, at+spread))
		}
		return all
	}
	wantAll := func(what string, records []dedupe.Candidate, want ...dedupe.Found) {
		f.Helper()
		for i, a := range f.enter(records...) {
			if !slices.Contains(want, a.Found) {
				f.Errorf("%s: record %d: got %s", what, i, text(a))
			}
		}
	}
	current, late, older := batch("current", "x", 0), batch("late", "y", -5*day), batch("older", "y", -5*day-12*hour)
	wantAll("a current batch", current, dedupe.Put)
	wantAll("a late batch with other contents", late, dedupe.Put)
	wantAll("the current batch again", current, dedupe.Mine)
	wantAll("a copy of the late batch", batch("copy", "y", -5*day+5*hour), dedupe.Same)
	wantAll("a copy that arrived before it", batch("before", "y", -5*day-5*hour), dedupe.Same)
	wantAll("an older batch, outside of the window", older, dedupe.Put, dedupe.Same)
	wantAll("a copy of the current batch", batch("next", "x", 5*hour), dedupe.Same)
	wantAll("all batches in one", slices.Concat(current, late), dedupe.Mine)
	wantAll("the late batch once more", late, dedupe.Mine)
}

func arrivalsAhead(f *ledgerFixture) {
	if f.rules.Ahead == 0 {
		f.Skip("the engine uses no clock")
	}
	edge, beyond := record("a", "one", "x", f.rules.Ahead), record("b", "two", "x", f.rules.Ahead+time.Second)
	if answers := f.enterBy(f.ledger, []dedupe.Candidate{edge}); answers[0] != isPut {
		f.Errorf("just inside: got %s", text(answers[0]))
	}
	f.refused("further ahead", beyond)
	f.want("when its time has come", beyond, isPut)
}

func scopesAreSeparate(f *ledgerFixture) {
	first := record("a", "one", "x", 0)
	f.want("a new id", first, isPut)
	own := *f.model
	scope := f.scope
	f.begin(f.retention)
	f.want("the record in another scope", first, isPut)
	f.want("a copy there", record("a", "two", "x", 0), isSame)
	f.want("another content there", record("a", "three", "y", 0), putDerived)
	f.scope, f.model = scope, &own
	f.want("the other content in the first scope", record("a", "four", "y", 0), putDerived)
	f.want("the record in the first scope", first, isMine)
}

// derivedNames: a producer uses an id that is the derived id of another record. The model does not compare the two.
func derivedNames(f *ledgerFixture) {
	if !f.rules.DerivedNames {
		f.Skip("the engine does not compare ids with derived ids")
	}
	ids := []string{"a"}
	for i := range dedupe.MaxDerivations {
		ids = append(ids, format.DerivedID(ids[i], "y"))
	}
	want := func(what string, c dedupe.Candidate, found dedupe.Found, derived int) {
		f.Helper()
		answers, err := f.ledger.Enter(f.ctx, f.question([]dedupe.Candidate{c}))
		f.must(err)
		if want := (dedupe.Answer{Found: found, Derived: derived}); answers[0] != want {
			f.Errorf("%s: want %s, got %s", what, text(want), text(answers[0]))
		}
	}
	synthetic := record("a", "two", "y", 0)
	want("a new id", record("a", "one", "x", 0), dedupe.Put, 0)
	want("another content", synthetic, dedupe.Put, 1)
	want("its output comes in again", record(ids[1], "three", "y", 0), dedupe.Same, 0)
	want("the derived id with a content of its own", record(ids[1], "four", "z", 0), dedupe.Put, 1)
	want("the synthetic record again", synthetic, dedupe.Mine, 1)

	f.begin(f.retention)
	want("a derived id as an id", record(ids[1], "one", "x", 0), dedupe.Put, 0)
	want("the id that it is derived from", record("a", "two", "x", 0), dedupe.Put, 0)
	want("the record that it is derived for", record("a", "three", "y", 0), dedupe.Put, 2)
	f.begin(f.retention)
	for i, id := range ids {
		want("all ids as ids", record(id, fmt.Sprint("taken-", i), "x", 0), dedupe.Put, 0)
	}
	want("no id is left", record("a", "two", "y", 0), dedupe.Other, dedupe.MaxDerivations)
}

// largeBatch: a batch of the largest size that Lambda allows, and parts of it again.
func largeBatch(f *ledgerFixture) {
	const n = 5000
	batch := func(begin int) []dedupe.Candidate {
		all := make([]dedupe.Candidate, n)
		for i := range all {
			id, content := begin+i, "x"
			switch {
			case i%10 == 9:
				id = begin + i/10*10 // a copy
			case i%100 == 38:
				id, content = begin+i/10*10, "y" // another content
			}
			all[i] = record(fmt.Sprint("id-", id), fmt.Sprint("owner-", begin, "-", i), content, time.Duration(i)*time.Millisecond)
		}
		return all
	}
	first := batch(0)
	for i, a := range f.enter(first...) {
		want := isPut
		switch {
		case i%10 == 9:
			want = isSame
		case i%100 == 38:
			want = putDerived
		}
		if !sameAnswer(a, want) {
			f.Fatalf("record %d: want %s, got %s", i, text(want), text(a))
		}
	}
	f.enter(slices.Concat(first[n/2:], batch(n)[:n/2])...) // the model knows the answers
}

// histories: two processes ask random questions in turns. The clock moves forward from question to question. Records
// arrive up to the horizon before it, and come again until then.
func histories(f *ledgerFixture) {
	const runs, questions, most = 40, 12, 10
	const minute, hour = time.Minute, time.Hour
	ledgers := []dedupe.Ledger{f.ledger, f.open()}
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 16))
		pick := func(from ...time.Duration) time.Duration { return from[random.IntN(len(from))] }
		retention := dedupe.Retention{Window: pick(hour, 24*hour), Horizon: pick(hour, 24*hour)}
		retention.ForGood = f.rules.ForGood && seed%4 == 3
		f.begin(retention)
		f.keepIDs = seed%5 == 4
		var all []dedupe.Candidate // so far
		window, horizon := retention.Window, retention.Horizon
		now := time.UnixMilli(f.now.Load()).UTC()
		for range questions {
			now = now.Add(pick(0, time.Second, minute, window/2, window, window+horizon+2*hour))
			f.now.Store(now.UnixMilli())
			var batch []dedupe.Candidate
			for range random.IntN(most + 1) {
				arrival := now.Add(-pick(0, time.Duration(random.Int64N(int64(horizon))), horizon))
				if len(all) > 0 && random.IntN(3) == 0 { // at the edge of a window
					arrival = all[random.IntN(len(all))].Arrival.Add(pick(-window, 0, window))
				}
				c := record(fmt.Sprint("id-", random.IntN(3)), fmt.Sprint("owner-", len(all)), fmt.Sprint(random.IntN(3)), 0)
				c.Arrival = arrival.Truncate(time.Millisecond)
				if len(all) > 0 && random.IntN(4) == 0 {
					c = all[random.IntN(len(all))] // it comes again
				}
				switch {
				case random.IntN(10) == 0:
					batch = append(batch, poisonRecord)
				case !c.Arrival.After(now) && now.Sub(c.Arrival) <= horizon:
					all, batch = append(all, c), append(batch, c)
				}
			}
			f.enterBy(ledgers[random.IntN(len(ledgers))], batch)
		}
	}
}

// race: processes decide copies of the same records at the same time. Each content is delivered once, and one content
// of each id keeps the id.
func race(f *ledgerFixture) {
	const processes, ids, batch = 4, 40, 20
	contents := []string{"x", "y"}
	deciders, records := make([]dedupe.Decider, processes), make([][]dedupe.Candidate, processes)
	for p := range processes {
		deciders[p] = dedupe.Decider{Ledger: f.open(), Scope: f.scope, Retention: f.retention}
		for i := range ids * len(contents) {
			id, content := fmt.Sprint("id-", i/len(contents)), contents[i%len(contents)]
			records[p] = append(records[p], record(id, fmt.Sprint("owner-", p, "-", i), content, time.Duration(p)*time.Second))
		}
		rand.New(rand.NewPCG(uint64(p), 0)).Shuffle(len(records[p]), func(i, j int) {
			records[p][i], records[p][j] = records[p][j], records[p][i]
		})
		f.arrived(records[p])
	}
	decideAll := func() [][]dedupe.Decision {
		decisions := make([][]dedupe.Decision, processes)
		var all sync.WaitGroup
		for p := range processes {
			all.Go(func() {
				for part := range slices.Chunk(records[p], batch) {
					decisions[p] = append(decisions[p], deciders[p].Decide(f.ctx, part)...)
				}
			})
		}
		all.Wait()
		return decisions
	}
	first := decideAll()
	again := decideAll()
	names, delivered := map[string]int{}, map[string]int{}
	for p := range processes {
		for i, c := range records[p] {
			d, id := first[p][i], c.ID
			want := dedupe.Decision{Outcome: dedupe.Natural}
			switch d.Outcome {
			case dedupe.New:
				names[c.ID]++
			case dedupe.Synthetic:
				id = format.DerivedID(c.ID, c.Fingerprint)
			}
			if d.Outcome == dedupe.New || d.Outcome == dedupe.Synthetic {
				delivered[c.ID+" "+c.Fingerprint]++
				want = dedupe.Decision{Outcome: dedupe.Retry, ID: id}
			} else if d.Outcome != dedupe.Natural {
				f.Errorf("%s: got %+v", c.Owner, d)
			}
			if got := again[p][i]; got.Outcome != want.Outcome || want.Outcome == dedupe.Retry && got != want {
				f.Errorf("%s: first %+v; again want %+v, got %+v", c.Owner, d, want, again[p][i])
			}
		}
	}
	for i := range ids * len(contents) {
		id, content := fmt.Sprint("id-", i/len(contents)), contents[i%len(contents)]
		if names[id] != 1 || delivered[id+" "+content] != 1 {
			f.Errorf("%s, content %s: the id was kept %d times, the content delivered %d times",
				id, content, names[id], delivered[id+" "+content])
		}
	}
}

// endedContext: if the context has ended or ends during an Enter, the answers are still true.
func endedContext(f *ledgerFixture) {
	for round := range 6 {
		var records []dedupe.Candidate
		for i := range 100 {
			records = append(records, record(fmt.Sprint("id-", round, "-", i), fmt.Sprint("owner-", round, "-", i), "x", 0))
		}
		ctx, cancel := context.WithCancel(f.ctx)
		if round%2 == 0 {
			cancel()
		} else {
			go cancel()
		}
		reported, err := f.ledger.Enter(ctx, f.question(records))
		cancel()
		answers, againErr := f.ledger.Enter(f.ctx, f.question(records))
		f.must(againErr)
		for i, a := range answers {
			switch {
			case err == nil && reported[i].Err == nil && (reported[i] != isPut || a != isMine):
				f.Errorf("record %d: want it put, and then mine, got %s and %s", i, text(reported[i]), text(a))
			case a != isPut && a != isMine:
				f.Errorf("record %d: want put or mine after an error, got %s", i, text(a))
			}
		}
	}
}
