package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

func joined(all []string) string {
	slices.Sort(all)
	return strings.Join(all, " ")
}

// derived is the id of record 9 of brokenProducer.
var derived = format.DerivedID("a", "other")

// brokenProducer creates the dead letters of a function whose producer has broken the path of its ids.
func (w *world) brokenProducer() {
	w.Helper()
	w.tooLarge = 200 // with the duplicate context, record 9 is larger
	w.live(record(1, "a", "x", false), record(2, "b", "x", true), record(3, "c", "x", false), record(4, "b", "x", true),
		aggregate(5, payload(5, "d", "x", false), payload(6, "e", "x", true)))
	// The record's entry is its own when the sink refuses the record.
	w.live(record(9, "a", "other", false))
	w.tooLarge = 1 << 20
	w.giveUp(record(7, "f", "x", false), record(8, "g", "x", false))
	w.live(record(7, "f", "x", false)) // by an attempt before
}

// wantDelivered lists the records that must be delivered in the end, each once.
var wantDelivered = joined([]string{"a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1", derived + ":1"})

// TestRedrive checks that every letter is delivered once under its original owner, on each level of sinks.
func TestRedrive(t *testing.T) {
	t.Parallel()
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		for _, level := range levels {
			if level == "transactions" && e.Name != dedupefault.Memory.Name {
				continue // its entries are in memory
			}
			for place, open := range map[string]func(testing.TB) deadletter.Listed{"folder": newFolder, "bucket": newBucket} {
				t.Run(level+"/"+place, func(t *testing.T) {
					w := newWorld(t, level, e.Open(t), open(t))
					w.scope = newScope() // because other tests may use the engine, too
					w.brokenProducer()
					j := w.job()
					j.Concurrency = 8
					reports, err := w.run(j)
					must(t, err)
					if counts := count(reports); counts[redrive.Done] != 5 || len(reports) != 5 {
						t.Errorf("%v", counts)
					}
					if got := w.ids(); got != wantDelivered {
						t.Errorf("delivered %s, want %s", got, wantDelivered)
					}
					reports, err = w.run(w.job())
					must(t, err)
					if counts := count(reports); counts[redrive.AlreadyDone] != 5 || w.ids() != wantDelivered {
						t.Errorf("again: %v, %s", counts, w.ids())
					}
				})
			}
		}
	})
}

// TestMarkers checks that a marker says what happened to its letter.
func TestMarkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	w.brokenProducer()
	j := w.job()
	j.Marker = deadletter.Marker{Patch: "patch", Settings: []string{"id-path=order.id"}, Reason: "friday"}
	reports, err := w.run(j)
	must(t, err)
	var outcomes []string
	archive := deadletter.NewArchive(w.dead)
	for name := range reports {
		m, err := archive.Done(t.Context(), name)
		must(t, err)
		outcomes = append(outcomes, fmt.Sprint(m.Outcome, m.Delivered, m.Dropped, m.DoneBefore))
		if m.Patch != "patch" || m.Settings[0] != "id-path=order.id" || m.Reason != "friday" || m.Scope != scope || !m.At.Equal(w.now) {
			t.Errorf("%+v", m)
		}
	}
	// One of records 2 and 4 is a copy of the other. Record 7 was delivered before.
	want := joined([]string{"delivered1 0 0", "delivered1 0 0", "delivered1 0 0", "dropped0 1 0", "delivered1 0 1"})
	if got := joined(outcomes); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestCopyInBetween checks that a copy that was delivered in the meantime counts as the original.
func TestCopyInBetween(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		w := newWorld(t, level, dedupefault.Memory.Open(t), newMemory())
		w.live(record(1, "a", "x", true))
		w.live(record(2, "a", "x", false))
		reports, err := w.run(w.job())
		must(t, err)
		for _, r := range reports {
			if r.Marker.Outcome != "dropped" || w.ids() != "a:1" {
				t.Errorf("%s: %+v, %s", level, r, w.ids())
			}
		}
	}
}

// TestRefusedAgain checks that a letter that the sink refuses again stays, and that its attempt is ended: the next run
// sends it without taking the first one over. A copy that came in between is a duplicate of the letter.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	w.refuses = true
	w.live(record(1, "a", "x", false))
	for _, run := range []struct {
		refuses bool
		want    redrive.Status
	}{{true, redrive.StillPoison}, {true, redrive.StillPoison}, {false, redrive.Done}, {false, redrive.AlreadyDone}} {
		w.refuses = run.refuses
		w.live(record(2, "a", "x", false))
		reports, err := w.run(w.job())
		must(t, err)
		for _, r := range reports {
			if r.Status != run.want || run.refuses && r.Why != "declined" {
				t.Errorf("want %s, got %s: %s", run.want, r.Status, r.Why)
			}
		}
		if len(reports) != 1 {
			t.Errorf("%d letters", len(reports))
		}
	}
	if w.ids() != "a:1" {
		t.Errorf("delivered %s", w.ids())
	}
}

// TestNotRedriven checks that letters that do not belong to a run give a reason, and stay.
func TestNotRedriven(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*world)
		change  func(*redrive.Job)
		status  redrive.Status
		why     string
	}{
		"still poison": {func(w *world) { w.live(dedupe.Record{Sequence: "1", Data: []byte("?"), Arrival: epoch}) },
			nil, redrive.StillPoison, "JSON"},
		"past the horizon": {nil, func(j *redrive.Job) { j.Retention.Horizon = time.Minute }, redrive.PastHorizon, "2026-11-20T12:00:01Z"},
		"other scope": {nil, func(j *redrive.Job) {
			target := j.Target
			j.Target = func(ctx context.Context, s dedupe.Stream) (redrive.Processor, string, error) {
				p, _, err := target(ctx, s)
				return p, "other", err
			}
		}, redrive.Refused, "of the scope orders, and this run has other"},
		"its own source": {func(w *world) {
			l := letter(1, "a")
			l.Position.Stream.Name = "sink"
			w.put(l)
		}, nil, redrive.Refused, "the sink is the stream that it comes from"},
		"an owner that is not of its position": {func(w *world) {
			l := letter(1, "a")
			l.Owner = "arn:aws:sqs:eu-central-1:123456789012:orders/1"
			w.put(l)
		}, nil, redrive.Refused, "not that of its position"},
		"not a letter": {func(w *world) {
			_, err := w.dead.Create(w.Context(), "x", []byte("?"))
			must(w, err)
		}, nil, redrive.Refused, "not a dead letter"},
		"a batch without a function": {func(w *world) { w.giveUp(record(1, "a", "x", false)) },
			func(j *redrive.Job) { j.Function = "" }, redrive.Refused, "--function " + function},
		"a batch of another function": {func(w *world) { w.giveUp(record(1, "a", "x", false)) },
			func(j *redrive.Job) { j.Function = "other" }, redrive.Refused, function},
		"a batch past the horizon": {func(w *world) { w.giveUp(record(1, "a", "x", false)) },
			func(j *redrive.Job) { j.Retention.Horizon = time.Minute }, redrive.PastHorizon, "2026-11-20T12:00:01Z"},
		"a patch without a result": {nil, func(j *redrive.Job) { j.Patch = patch("empty") }, redrive.Refused, "no result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
			if test.prepare == nil {
				w.live(record(1, "a", "x", true))
			} else {
				test.prepare(w)
			}
			for _, dry := range []bool{true, false} {
				j := w.job()
				if j.DryRun = dry; test.change != nil {
					test.change(j)
				}
				reports, err := w.run(j)
				must(t, err)
				for name, r := range reports {
					if r.Status != test.status || !strings.Contains(r.Why, test.why) {
						t.Errorf("%s (%s), want %s (%s)", r.Status, r.Why, test.status, test.why)
					}
					if m, err := deadletter.NewArchive(w.dead).Done(t.Context(), name); m != nil || err != nil {
						t.Errorf("marked: %+v, %v", m, err)
					}
				}
				if len(reports) != 1 || w.ids() != "" {
					t.Errorf("%d reports, delivered %s", len(reports), w.ids())
				}
			}
		})
	}
}

// TestOptionsPermitRedrives checks the options that permit a redrive.
func TestOptionsPermitRedrives(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*world)
		change  func(*redrive.Job)
	}{
		"past the horizon": {nil, func(j *redrive.Job) { j.Retention.Horizon, j.PastHorizon = time.Minute, true }},
		"a patch": {func(w *world) {
			l := letter(1, "a")
			l.Data = []byte(`{"wrong":"a","fp":"x"}`)
			w.put(l)
		}, func(j *redrive.Job) { j.Patch = patch(".order.id = .wrong") }},
	} {
		w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
		if test.prepare == nil {
			w.live(record(1, "a", "x", true))
		} else {
			test.prepare(w)
		}
		j := w.job()
		test.change(j)
		reports, err := w.run(j)
		must(t, err)
		if counts := count(reports); counts[redrive.Done] != 1 || w.ids() != "a:1" {
			t.Errorf("%s: %v, delivered %s", name, reports, w.ids())
		}
	}
}

func letter(n int, id string) dedupe.DeadLetter {
	p := dedupe.Position{Stream: stream, Shard: shard, Sequence: fmt.Sprint(n), Sub: dedupe.Plain}
	r := record(n, id, "x", true)
	return dedupe.DeadLetter{
		Owner: p.Owner().String(), Scope: scope, Position: p, Reason: "the id is missing", PartitionKey: "pk",
		Arrival: r.Arrival, Data: r.Data,
	}
}

func (w *world) put(l dedupe.DeadLetter) {
	w.Helper()
	_, err := deadletter.New(poisonPrefix{w}).Put(w.Context(), []dedupe.DeadLetter{l})
	must(w, err)
}

func patch(program string) func(context.Context, []byte) ([]byte, error) {
	p, err := redrive.NewPatch(program)
	if err != nil {
		panic(err)
	}
	return p
}

// TestDryRun checks that a dry run reports what a run would do, and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		w := newWorld(t, level, dedupefault.Memory.Open(t), newMemory())
		w.brokenProducer()
		before := w.ids()
		w.step = func(what string, do func() error) error {
			if what != "list" && what != "read" {
				t.Errorf("%s: a dry run calls %s", level, what)
			}
			return do()
		}
		j := w.job()
		j.DryRun = true
		reports, err := w.run(j)
		must(t, err)
		if counts := count(reports); counts[redrive.Ready] != 5 || w.ids() != before {
			t.Errorf("%s: %v", level, counts)
		}
	}
}

// TestSameIDs checks that a dry run names the records that get the id of another record. A run would drop them as
// copies, or give them new ids, and a patch may have given them the id by mistake.
func TestSameIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	var names []string
	for n, fingerprint := range []string{"x", "y", "x", "x"} {
		l := letter(n+1, "one")
		if l.Data = payload(n+1, "one", fingerprint, true); n == 3 {
			l.Data = payload(n+1, "other", fingerprint, true)
		}
		w.put(l)
		names = append(names, "poison/"+scope+"/"+deadletter.Name(l.Scope, l.Owner, l.Data))
	}
	for _, concurrency := range []int{1, 4} {
		j := w.job()
		j.DryRun, j.Concurrency = true, concurrency
		reports, err := w.run(j)
		must(t, err)
		for n, want := range [][]redrive.SameID{
			nil, {{ID: "one", Letter: names[0]}}, {{ID: "one", Letter: names[0], Copy: true}}, nil,
		} {
			if got := reports[names[n]]; got.Status != redrive.Ready || !slices.Equal(got.Same, want) {
				t.Errorf("letter %d: %s, %v, want %v", n, got.Status, got.Same, want)
			}
		}
	}
	reports, err := w.run(w.job())
	must(t, err)
	for name, r := range reports {
		if r.Same != nil {
			t.Errorf("%s: %v, and it was no dry run", name, r.Same)
		}
	}
}

// TestList checks that List reports all letters in order.
func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	w.brokenProducer()
	old := letter(20, "z")
	old.Arrival = epoch.AddDate(0, -1, 0)
	w.put(old)
	_, message := w.giveUp(record(30, "y", "x", false))
	_, err := w.dead.Create(t.Context(), "aws/lambda/message", message)
	must(t, err)
	_, err = w.run(w.job())
	must(t, err)
	for _, concurrency := range []int{1, 3} {
		j := w.job()
		j.Concurrency = concurrency
		counts, last := map[redrive.Status]int{}, ""
		must(t, j.List(t.Context(), func(r redrive.Report) error {
			if counts[r.Status]++; r.Name <= last {
				t.Errorf("%s comes after %s", r.Name, last)
			}
			last = r.Name
			return nil
		}))
		if fmt.Sprint(counts) != "map[done:6 lost:1 past-horizon:1]" {
			t.Error(counts)
		}
	}
}

// manyLetters is more than the failures in a row that end a run.
const manyLetters = 30

func withManyLetters(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	for i := range manyLetters {
		w.put(letter(100+i, fmt.Sprint("id", i)))
	}
	return w
}

// TestErasedMeanwhile checks that letters which were erased or have expired since they were listed do not end a command.
func TestErasedMeanwhile(t *testing.T) {
	t.Parallel()
	w := withManyLetters(t)
	listed := slices.Collect(maps.Keys(w.dead.(*inMemory).objects))
	for _, do := range []func(*redrive.Job, context.Context, func(redrive.Report) error) error{
		(*redrive.Job).List, (*redrive.Job).Run,
	} {
		j, seen := w.job(), 0
		j.Items = redrive.Named(deadletter.NewArchive(newMemory()), listed)
		must(t, do(j, t.Context(), func(r redrive.Report) error {
			if seen++; r.Status != redrive.Refused {
				t.Errorf("%+v", r)
			}
			return nil
		}))
		if seen != manyLetters {
			t.Errorf("%d letters", seen)
		}
	}
}

// TestDown checks that a part that is down ends the run, and that a single failing letter does not.
func TestDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	const letters = 60
	for i := range letters {
		w.put(letter(100+i, fmt.Sprint("id", i)))
	}
	sends, down := 0, true
	w.step = func(what string, do func() error) error {
		if what != "Send" && what != "send" {
			return do()
		}
		if sends++; down || sends%2 == 0 {
			return errCrash
		}
		return do()
	}
	reports, err := w.run(w.job())
	if !errors.Is(err, redrive.ErrDown) || !errors.Is(err, errCrash) || len(reports) >= letters {
		t.Errorf("%v after %d letters", err, len(reports))
	}
	down = false
	reports, err = w.run(w.job())
	must(t, err)
	if counts := count(reports); counts[redrive.Failed] != letters/2 || counts[redrive.Done] != letters/2 {
		t.Error(counts)
	}
}

// untagged stores markers of letters that it could not tag.
type untagged struct{ redrive.Markers }

func (u untagged) MarkDone(ctx context.Context, name string, m deadletter.Marker) (bool, error) {
	created, err := u.Markers.MarkDone(ctx, name, m)
	return created, errors.Join(err, deadletter.ErrUntagged)
}

// TestUntagged checks that letters which could not be tagged are done, and do not end the run: they are not failures.
func TestUntagged(t *testing.T) {
	t.Parallel()
	w := withManyLetters(t)
	j := w.job()
	j.Markers = untagged{j.Markers}
	reports, err := w.run(j)
	must(t, err)
	for name, r := range reports {
		if r.Status != redrive.Done || r.Marker.Delivered != 1 || !errors.Is(r.Untagged, deadletter.ErrUntagged) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if len(reports) != manyLetters {
		t.Errorf("%d letters", len(reports))
	}
}

// TestPanic checks that a panic affects only one letter.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	w.put(letter(1, "a"))
	w.put(letter(2, "b"))
	w.step = func(what string, do func() error) error {
		if what == "send" && len(w.delivered) == 0 {
			w.step = func(_ string, do func() error) error { return do() }
			panic("in the sink")
		}
		return do()
	}
	reports, err := w.run(w.job())
	must(t, err)
	if counts := count(reports); counts[redrive.Failed] != 1 || counts[redrive.Done] != 1 {
		t.Errorf("%v", reports)
	}
}

// TestInterrupted checks that an interrupted run returns an error, and begins no further letter.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	for i := range 50 {
		w.put(letter(100+i, fmt.Sprint("id", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	j := w.job()
	j.Concurrency = 4
	seen := 0
	err := j.Run(ctx, func(redrive.Report) error {
		if seen++; seen == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen != 10 {
		t.Errorf("%v after %d", err, seen)
	}
	_, err = w.run(w.job())
	must(t, err)
	if len(w.delivered) != 50 {
		t.Errorf("delivered %d", len(w.delivered))
	}
}

// TestBoundedLetters checks that the number of letters in memory depends only on the concurrency.
func TestBoundedLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	const letters, atOnce = 300, 8
	for i := range letters {
		w.put(letter(1000+i, fmt.Sprint("id", i)))
	}
	j := w.job()
	j.Concurrency = atOnce
	items, open, most := j.Items, 0, 0
	j.Items = func(yield func(redrive.Item, error) bool) {
		for item, err := range items {
			w.mu.Lock()
			open++
			most = max(most, open)
			w.mu.Unlock()
			if !yield(item, err) {
				return
			}
		}
	}
	must(t, j.Run(t.Context(), func(redrive.Report) error {
		w.mu.Lock()
		open--
		w.mu.Unlock()
		return nil
	}))
	if most > atOnce+2 || len(w.delivered) != letters { // one more is taken, and one more waits to begin
		t.Errorf("%d letters at once, %d delivered", most, len(w.delivered))
	}
}

// TestPace checks that only letters that run wait for Pace.
func TestPace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	w.brokenProducer()
	for _, want := range []int{5, 0} {
		waits := 0
		j := w.job()
		j.Pace = func(context.Context) error { waits++; return nil }
		_, err := w.run(j)
		must(t, err)
		if waits != want {
			t.Errorf("%d waits, want %d", waits, want)
		}
	}
}

// TestFaults fails each call of each part once, before or after its effect, and repeats the run. Every record must be
// delivered under one id. Sinks with transactions or objects must deliver it once.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, e := range []dedupefault.Engine{dedupefault.Memory, dedupefault.SQLiteMemory, dedupefault.Dynoxide} {
		for _, level := range levels {
			if level == "transactions" && e.Name != dedupefault.Memory.Name {
				continue // its entries are in memory
			}
			t.Run(e.Name+"/"+level, func(t *testing.T) {
				t.Parallel()
				if e.Name != dedupefault.Memory.Name {
					testengine.CheckOnly(t)
				}
				for _, after := range []bool{false, true} {
					for at, more := 0, true; more; at++ {
						w := newWorld(t, level, e.Open(t), newMemory())
						w.scope = newScope()
						var problem string
						if more, problem = w.survives(at, after, nil); problem != "" {
							t.Errorf("call %d fails, after its effect: %t: %s", at, after, problem)
						}
					}
				}
			})
		}
	}
}

// survives redrives the letters of brokenProducer with a call that fails, and then until all are done. more is false if there
// is no such call.
func (w *world) survives(at int, after bool, mutant func(*world, *redrive.Job)) (more bool, problem string) {
	w.Helper()
	w.brokenProducer()
	calls := 0
	w.step = func(_ string, do func() error) error {
		w.mu.Lock()
		fails := calls == at
		calls++
		w.mu.Unlock()
		switch {
		case !fails:
			return do()
		case after:
			return errors.Join(do(), errCrash)
		}
		return errCrash
	}
	var ended []string
	for range 3 { // because nothing has run after a failed listing
		j := w.job()
		j.Runner.TakesOver = ended
		ended = append(ended, j.Runner.Run)
		if mutant != nil {
			mutant(w, j)
		}
		_, _ = w.run(j) // may fail
	}
	return calls > at, w.judge()
}

// judge returns the violation after a redrive, or "".
func (w *world) judge() string {
	got := w.ids()
	if w.level == "stream" { // this sink delivers at least once
		for id, payloads := range w.delivered {
			got = strings.Replace(got, fmt.Sprint(id, ":", len(payloads)), id+":1", 1)
		}
	}
	if got != wantDelivered {
		return "delivered " + w.ids()
	}
	for e, err := range deadletter.NewArchive(w.dead).All(w.Context()) {
		if err != nil || !e.Done {
			return fmt.Sprintf("not done: %+v, %v", e, err)
		}
	}
	return ""
}
