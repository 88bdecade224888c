package logledger_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

var (
	now       = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
	retention = dedupe.Retention{Window: 2 * time.Hour, Horizon: 24 * time.Hour}
)

func newLedger(t *testing.T, log logledger.Storage, o logledger.Options) *logledger.Ledger {
	t.Helper()
	if o.Clock.Now == nil {
		o.Clock.Now = func() time.Time { return now.Add(1000 * time.Hour) }
	}
	l, err := logledger.New(log, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func candidate(id, owner, fingerprint string, after time.Duration) dedupe.Candidate {
	return dedupe.Candidate{
		ID: id, Owner: dedupe.Owner{Source: "s", Sequence: owner, Sub: dedupe.Plain}, Fingerprint: fingerprint,
		Arrival: now.Add(after),
	}
}

func enter(t *testing.T, l dedupe.Ledger, records ...dedupe.Candidate) []dedupe.Answer {
	t.Helper()
	answers, err := l.Enter(t.Context(), dedupe.Question{Scope: "orders", Retention: retention, Records: records})
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// TestTwoProcesses: two processes append in turns. Each copy is found, whichever process entered the record, in every
// order of arrivals, over many epochs.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	onEngines(t, twoProcesses)
}

func twoProcesses(t *testing.T, log logledger.Storage, share int) {
	ledgers := []*logledger.Ledger{
		newLedger(t, log, logledger.Options{Lanes: 2}), newLedger(t, log, logledger.Options{Lanes: 2}),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 / share {
		at := time.Duration(n) * time.Minute
		id := fmt.Sprint("id-", n)
		first, second := ledgers[random.IntN(2)], ledgers[random.IntN(2)]
		skew := time.Duration(random.IntN(241)-120) * time.Minute
		for _, step := range []struct {
			by     *logledger.Ledger
			record dedupe.Candidate
			want   dedupe.Answer
		}{
			{first, candidate(id, fmt.Sprint(10*n), "x", at), dedupe.Answer{Found: dedupe.Put}},
			{second, candidate(id, fmt.Sprint(10*n+1), "x", at+skew), dedupe.Answer{Found: dedupe.Same}},
			{second, candidate(id, fmt.Sprint(10*n), "x", at), dedupe.Answer{Found: dedupe.Mine}},
			{first, candidate(id, fmt.Sprint(10*n+2), "y", at+skew), dedupe.Answer{Found: dedupe.Put, Derived: 1}},
			{second, candidate(id, fmt.Sprint(10*n+2), "y", at+skew), dedupe.Answer{Found: dedupe.Mine, Derived: 1}},
			{first, candidate(id, fmt.Sprint(10*n+3), "y", at), dedupe.Answer{Found: dedupe.Same}},
		} {
			if got := enter(t, step.by, step.record)[0]; got != step.want {
				t.Fatalf("%s of %s, %s apart: want %+v, got %+v", step.record.Owner, id, skew, step.want, got)
			}
		}
	}
	t.Logf("%+v", ledgers[0].Stats())
}

// TestColdStart: a process that starts late loads only the entries that count.
func TestColdStart(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	writer := newLedger(t, log, logledger.Options{Lanes: 1})
	for n := range 1000 {
		enter(t, writer, candidate(fmt.Sprint(n), fmt.Sprint(n), "x", time.Duration(n)*time.Minute))
	}
	reader := newLedger(t, log, logledger.Options{Lanes: 1})
	if got := enter(t, reader, candidate("950", "again", "x", 999*time.Minute))[0]; got.Found != dedupe.Same {
		t.Errorf("got %+v", got)
	}
	if read := reader.Stats().ItemsRead; read < 120 || read > 160 {
		t.Errorf("%d items were read, of which 121 count", read)
	}
	if got := enter(t, reader, candidate("100", "again", "x", 120*time.Minute))[0]; got.Found != dedupe.Same {
		t.Errorf("late: got %+v", got)
	}
}

// TestAnotherLayout: what another version of oncebox wrote decides nothing, and is not appended to.
func TestAnotherLayout(t *testing.T) {
	t.Parallel()
	for _, layout := range []int{0, 2} {
		log := memlog.New()
		there := logledger.Epoch{Window: retention.Window, Horizon: retention.Horizon, Lanes: 1, Layout: layout}
		if _, err := log.PutEpoch(t.Context(), logledger.LaneID{Scope: "orders"}, there); err != nil {
			t.Fatal(err)
		}
		err := enter(t, newLedger(t, log, logledger.Options{Lanes: 1}), candidate("1", "1", "x", 0))[0].Err
		if err == nil || errors.Is(err, dedupe.ErrTryAgain) || !strings.Contains(err.Error(), "use that version, or another scope") {
			t.Errorf("layout %d: %v", layout, err)
		}
	}
}

// TestMemoryRefusal: entries that do not fit are refused with numbers. Entries that no longer count make room.
func TestMemoryRefusal(t *testing.T) {
	t.Parallel()
	l := newLedger(t, memlog.New(), logledger.Options{Lanes: 1, Memory: 100_000})
	batch := func(n int, after time.Duration) []dedupe.Answer {
		var records []dedupe.Candidate
		for i := range 500 {
			records = append(records, candidate(fmt.Sprint(n, "-", i), fmt.Sprint(n*1000+i), "x", after))
		}
		return enter(t, l, records...)
	}
	var full *logledger.MemoryError
	for n := 0; full == nil; n++ {
		if needed := l.Stats().Needed; needed != int64((31*500+88)*n) {
			t.Errorf("after %d batches: %d bytes are needed", n, needed)
		}
		errors.As(batch(n, time.Duration(n)*time.Minute)[0].Err, &full)
		if n > 20 {
			t.Fatal("no refusal")
		}
	}
	refused := l.Stats()
	if full.Entries < 2000 || refused.Memory > 100_000 || refused.Needed != int64((31*500+88)*(full.Entries/500+1)) {
		t.Errorf("%v: %+v", full, refused)
	}
	for n := range 20 {
		if a := batch(100+n, 10*time.Hour+time.Duration(n)*time.Hour)[0]; a.Found != dedupe.Put {
			t.Errorf("%d hours later: %+v", n, a)
		}
	}
}

// TestMemoryOfItems: items that no longer count make room for others, also if each has only one entry.
func TestMemoryOfItems(t *testing.T) {
	t.Parallel()
	l := newLedger(t, memlog.New(), logledger.Options{Lanes: 1, Memory: 100_000})
	for n := range 2000 {
		if a := enter(t, l, candidate(fmt.Sprint(n), fmt.Sprint(n), "x", time.Duration(n)*time.Minute))[0]; a.Err != nil {
			t.Fatalf("record %d: %v", n, a.Err)
		}
	}
}

// TestMemoryOfOthers: lanes and scopes release memory that they no longer need if another lane or scope has no room.
func TestMemoryOfOthers(t *testing.T) {
	t.Parallel()
	clock := now
	l := newLedger(t, memlog.New(), logledger.Options{
		Lanes: 2, Memory: 200_000, Clock: dedupe.Clock{Now: func() time.Time { return clock }},
	})
	n := 0
	step := func(scope string, lane, records int, after time.Duration) (err error) {
		t.Helper()
		q := dedupe.Question{Scope: scope, Retention: retention}
		for ; len(q.Records) < records; n++ {
			if id := fmt.Sprint("id-", n); laneOf(t, id) == lane {
				q.Records = append(q.Records, candidate(id, id, "x", after))
			}
		}
		answers, err := l.Enter(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if err = cmp.Or(err, a.Err); a.Err == nil && a.Found != dedupe.Put {
				t.Fatalf("%+v", a)
			}
		}
		if s := l.Stats(); s.Memory > s.MemoryLimit {
			t.Fatalf("%+v", s)
		}
		return err
	}
	fill := func(scope string, lane int, after time.Duration) {
		t.Helper()
		clock = now.Add(after)
		var full *logledger.MemoryError
		for n := 0; full == nil; n++ {
			if err := step(scope, lane, 100, after+time.Duration(n)*time.Second); err != nil && !errors.As(err, &full) {
				t.Fatal(err)
			}
		}
		if full.Entries < 3000 {
			t.Fatal(full)
		}
	}
	fill("orders", 0, 0)
	fill("orders", 1, 10*time.Hour)  // the memory has entries of another lane
	fill("returns", 0, 20*time.Hour) // and of another scope
	fill("orders", 0, 30*time.Hour)
	if s := l.Stats(); s.Needed > s.MemoryLimit+32*200 {
		t.Errorf("scopes that need nothing are counted: %+v", s)
	}
}

// laneOf returns which of two lanes a record is in.
func laneOf(t *testing.T, id string) int {
	l := newLedger(t, memlog.New(), logledger.Options{Lanes: 2})
	enter(t, l, candidate(id, id, "x", 0))
	return slices.Index(l.Stats().LaneUnits, 1)
}

// TestMemoryOfLateBatches: entries of old batches that another process enters do not fill the memory.
func TestMemoryOfLateBatches(t *testing.T) {
	t.Parallel()
	const aMinute = 100
	log := memlog.New()
	needed := logledger.NeededMemory(aMinute/60.0, retention.Window, aMinute)
	live := newLedger(t, log, logledger.Options{Lanes: 1, Memory: int64(1.3 * needed)})
	redrive := newLedger(t, log, logledger.Options{Lanes: 1})
	batch := func(l *logledger.Ledger, name string, after time.Duration) {
		t.Helper()
		var records []dedupe.Candidate
		for n := range aMinute {
			id := fmt.Sprint(name, "-", after, "-", n)
			records = append(records, candidate(id, id, "x", after))
		}
		if a := enter(t, l, records...)[0]; a.Found != dedupe.Put {
			t.Fatalf("%s at %s: %+v", name, after, a)
		}
	}
	for n := range 480 {
		minute := time.Duration(n) * time.Minute
		batch(live, "live", minute)
		if n >= 240 && n < 330 {
			batch(redrive, "redrive", minute-12*time.Hour)
		}
	}
	if got := enter(t, live, candidate("live-7h30m0s-5", "again", "x", 7*time.Hour+40*time.Minute))[0]; got.Found != dedupe.Same {
		t.Errorf("a late copy: %+v", got)
	}
}

// TestLateCopyOfADroppedItem: items that were dropped while another scope needed the memory are read again when they
// count.
func TestLateCopyOfADroppedItem(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	live := newLedger(t, log, logledger.Options{Lanes: 1, Memory: 120_000})
	redrive := newLedger(t, log, logledger.Options{Lanes: 1})
	batch := func(l dedupe.Ledger, scope, name string, size int, after time.Duration) []dedupe.Answer {
		t.Helper()
		q := dedupe.Question{Scope: scope, Retention: retention}
		for n := range size {
			q.Records = append(q.Records, candidate(fmt.Sprint(name, "-", n), fmt.Sprint(scope, name, n, after), "x", after))
		}
		answers, err := l.Enter(t.Context(), q)
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers[0])
		}
		return answers
	}
	batch(live, "returns", "a", 10, 0)
	batch(live, "orders", "a", 700, 6*time.Hour)
	batch(redrive, "orders", "b", 800, 0)
	batch(live, "orders", "c", 300, 6*time.Hour)
	if s := live.Stats(); s.Evictions != 1 {
		t.Fatalf("nothing was dropped: %+v", s)
	}
	for _, a := range batch(live, "orders", "b", 800, time.Second) {
		if a.Found != dedupe.Same {
			t.Fatalf("got %+v", a)
		}
	}
}

// TestLoadInParts: a cold load that is interrupted continues where it stopped.
func TestLoadInParts(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	log.Page = 1
	writer := newLedger(t, log, logledger.Options{Lanes: 1})
	for n := range 1000 {
		enter(t, writer, candidate(fmt.Sprint(n), fmt.Sprint(n), "x", time.Duration(n)*time.Minute))
	}
	failing := &betweenCalls{Log: log}
	reader := newLedger(t, failing, logledger.Options{Lanes: 1})
	for calls := 1; ; calls++ {
		ctx, cancel := context.WithCancel(t.Context())
		failing.at, failing.work = 20, cancel
		answers, err := reader.Enter(ctx, dedupe.Question{
			Scope: "orders", Retention: retention, Records: []dedupe.Candidate{candidate("950", "again", "x", 999*time.Minute)},
		})
		cancel()
		if err == nil && answers[0].Err == nil {
			if answers[0].Found != dedupe.Same {
				t.Errorf("got %+v", answers[0])
			}
			if calls < 5 {
				t.Errorf("it was loaded in %d calls", calls)
			}
			return
		}
		if calls > 20 {
			t.Fatalf("not loaded after %d calls: %v, %v", calls, err, answers[0].Err)
		}
	}
}

// TestCallsAtOnce: several calls of a ledger at once, in two scopes, with little memory. One record of each id is put.
func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	const calls, batches, size = 8, 40, 300
	l := newLedger(t, memlog.New(), logledger.Options{Lanes: 2, Memory: 300_000})
	for n := range batches {
		var group sync.WaitGroup
		var put [2]atomic.Int64
		for call := range calls {
			group.Go(func() {
				q := dedupe.Question{Scope: fmt.Sprint("scope-", call%2), Retention: retention}
				for i := range size {
					owner := fmt.Sprint(call, "-", n, "-", i)
					q.Records = append(q.Records, candidate(fmt.Sprint(n, "-", i), owner, "x", time.Duration(n)*time.Hour))
				}
				answers, err := l.Enter(t.Context(), q)
				if err != nil {
					t.Error(err)
				}
				for _, a := range answers {
					switch {
					case a.Found == dedupe.Put:
						put[call%2].Add(1)
					case a.Found != dedupe.Same:
						t.Errorf("got %+v", a)
					}
				}
			})
		}
		if group.Wait(); put[0].Load() != size || put[1].Load() != size {
			t.Fatalf("at %d hours %d and %d records are put, want %d", n, put[0].Load(), put[1].Load(), size)
		}
	}
	if s := l.Stats(); s.Memory > s.MemoryLimit || s.Evictions == 0 {
		t.Errorf("%+v", s)
	}
}

// TestShorterWindow: after the window was made shorter, earlier entries still count for their own window. Later entries
// are not purged before them.
func TestShorterWindow(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	question := func(window time.Duration, records ...dedupe.Candidate) dedupe.Question {
		keep := dedupe.Retention{Window: window, Horizon: 24 * time.Hour}
		return dedupe.Question{Scope: "orders", Retention: keep, Records: records}
	}
	ask := func(q dedupe.Question) dedupe.Answer {
		t.Helper()
		answers, err := newLedger(t, log, logledger.Options{Lanes: 1}).Enter(t.Context(), q)
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
		return answers[0]
	}
	ask(question(48*time.Hour, candidate("a", "1", "x", 0)))
	for n := range 10 { // these begin epochs with the shorter window
		ask(question(time.Hour, candidate("b", fmt.Sprint("b", n), fmt.Sprint(n), time.Duration(4+n)*time.Hour)))
	}
	log.Purge("orders", now.Add(20*time.Hour+24*time.Hour).Unix(), func(logledger.Place) bool { return true })
	if got := ask(question(time.Hour, candidate("a", "2", "x", 20*time.Hour))); got.Found != dedupe.Same {
		t.Errorf("got %+v", got)
	}
}

// TestStats: Since returns the work since an earlier time, by lane.
func TestStats(t *testing.T) {
	t.Parallel()
	l := newLedger(t, memlog.New(), logledger.Options{Lanes: 2})
	batch := func(n int) (records []dedupe.Candidate) {
		for i := range 200 {
			records = append(records, candidate(fmt.Sprint(n, "-", i), fmt.Sprint(n*1000+i), "x", time.Minute))
		}
		return records
	}
	enter(t, l, batch(0)...)
	enter(t, l, batch(1)[:1]...)
	before := l.Stats()
	enter(t, l, batch(2)...)
	got := l.Stats().Since(before)
	// 200 entries of 26 bytes are 5.1 KB, in two items.
	if got.Appends != 2 || got.Loads != 0 || got.Conflicts != 0 || got.Units < 5 || got.Units > 8 ||
		got.BusiestLane != slices.Max(got.LaneUnits) || got.LaneUnits[0]+got.LaneUnits[1] != got.Units ||
		got.Needed != 31*401+88*5 || got.MemoryLimit != logledger.DefaultMemory {
		t.Errorf("%+v", got)
	}
}

// TestProcessesInTurns: a process that has conflicted with another one reads before it decides. An append that fails
// costs much more than a read.
func TestProcessesInTurns(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	ledgers := []*logledger.Ledger{
		newLedger(t, log, logledger.Options{Lanes: 1}), newLedger(t, log, logledger.Options{Lanes: 1}),
	}
	for n := range 100 {
		enter(t, ledgers[n%2], candidate(fmt.Sprint(n), fmt.Sprint(n), "x", 0))
	}
	for n, l := range ledgers {
		if s := l.Stats(); s.Conflicts > 1 {
			t.Errorf("process %d: %d conflicts", n, s.Conflicts)
		}
	}
}

// TestOthersAlwaysFirst: a process that loses every race gives up with dedupe.ErrTryAgain.
func TestOthersAlwaysFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the pauses take no time
		log, n := memlog.New(), 0
		other := newLedger(t, log, logledger.Options{Lanes: 1})
		always := &betweenCalls{Log: log, always: true, work: func() {
			n++
			enter(t, other, candidate(fmt.Sprint("other-", n), fmt.Sprint("other-", n), "x", 0))
		}}
		ledger := newLedger(t, always, logledger.Options{Lanes: 1})
		if got := enter(t, ledger, candidate("a", "1", "x", 0))[0]; !errors.Is(got.Err, dedupe.ErrTryAgain) {
			t.Errorf("got %+v", got)
		}
		if conflicts := ledger.Stats().Conflicts; conflicts < 32 {
			t.Errorf("it gave up after %d conflicts", conflicts)
		}
		always.always = false
		if got := enter(t, ledger, candidate("a", "1", "x", 0))[0]; got.Found != dedupe.Put {
			t.Errorf("got %+v", got)
		}
	})
}

// betweenCalls is a storage that runs a function before a call.
type betweenCalls struct {
	*memlog.Log
	at     int
	always bool // before each call
	work   func()
}

func (b *betweenCalls) step() {
	if b.at--; b.at == -1 || b.always {
		b.work()
	}
}

func (b *betweenCalls) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	b.step()
	return b.Log.Epochs(ctx, lane, below, limit)
}

func (b *betweenCalls) PutEpoch(ctx context.Context, lane logledger.LaneID, e logledger.Epoch) (*logledger.Epoch, error) {
	b.step()
	return b.Log.PutEpoch(ctx, lane, e)
}

func (b *betweenCalls) Append(ctx context.Context, at logledger.Place, data []byte, purgeAt int64) ([]byte, error) {
	b.step()
	return b.Log.Append(ctx, at, data, purgeAt)
}

func (b *betweenCalls) Read(ctx context.Context, from logledger.Place, limit int, consistent bool) (
	[]logledger.Item, bool, error,
) {
	b.step()
	return b.Log.Read(ctx, from, limit, consistent)
}
