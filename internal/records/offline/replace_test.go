package offline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestReplace replaces the second of three runs, which had a wrong input.
func TestReplace(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.finish(p.next(false, rec("1", "x")))
	wrong := p.finish(p.next(false, rec("1", "x")+rec("2", "wrong")+rec("3", "wrong")))
	later := rec("2", "x") + rec("3", "x")
	last := p.finish(p.next(false, later))
	if got, want := p.read("out3"), renamed("2", "x")+renamed("3", "x"); got != want {
		t.Fatalf("before: %s, want %s", got, want)
	}
	j := p.next(false, rec("1", "x")+rec("2", "x"), later)
	j.Replaces = wrong.Run
	got := p.finish(j)
	if want := rec("2", "x") + rec("3", "x"); p.read("out4") != want {
		t.Errorf("got %s, want %s", p.read("out4"), want)
	}
	if len(got.Replaced) != 2 || got.Replaced[0] != (ReplacedRun{wrong.Run, p.path("out2")}) ||
		got.Replaced[1] != (ReplacedRun{last.Run, p.path("out3")}) {
		t.Errorf("it names as replaced %+v", got.Replaced)
	}
	about := AboutRun(p.history()[3].Run)
	if about.Output != p.path("out4") || strings.Join(about.Inputs, " ") != "a b" {
		t.Errorf("the history says %+v", about)
	}
}

// TestReplaceWithOwners: an entry names its run beside the owner that the record names, so the run can be undone.
func TestReplaceWithOwners(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	setFormat(&p.job, func(o *format.Options) { o.OwnerPath = "o" })
	sent := func(id, fp, owner string) string { return fmt.Sprintf(`{"id":%q,"fp":%q,"o":%q}`+"\n", id, fp, owner) }
	p.finish(p.next(false, sent("1", "x", "o1")))
	wrong := p.finish(p.next(false, sent("1", "x", "o2")+sent("2", "wrong", "o3")+sent("1", "x", "o1")))
	p.finish(p.next(false, sent("2", "x", "o4")))
	right := sent("1", "x", "o2") + sent("2", "x", "o3") + sent("1", "x", "o1") + sent("2", "x", "o4")
	j := p.next(false, right)
	j.Replaces = wrong.Run
	p.finish(j)
	if want := sent("2", "x", "o3") + sent("1", "x", "o1"); p.read("out4") != want {
		t.Errorf("got %s, want %s", p.read("out4"), want)
	}
}

func TestReplaceIsRefused(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	first := p.finish(p.next(false, rec("1", "x")))
	cut := p.next(false, rec("2", "x")+rec("3", "x"))
	p.cutAfterABatch(cut)
	unfinished := p.history()[len(p.history())-1].ID
	atWork, err := lockOutput(cut.Out)
	if err != nil {
		t.Fatal(err)
	}
	second := p.finish(p.next(false, rec("4", "x")))

	replacing := func(id string) Job {
		j := p.next(false, rec("5", "x"))
		j.Replaces = id
		return j
	}
	p.refuses(replacing("20200101T000000.000Z-abcdefgh"), "has no run 20200101T000000.000Z-abcdefgh. `oncebox ledger runs`")
	p.refuses(replacing(unfinished), "run "+unfinished+" is not finished")
	p.refuses(replacing(second.Run), "run "+unfinished+" began before run "+second.Run+" and is not finished")
	j := replacing(first.Run)
	j.Retention = dedupe.Retention{Window: time.Hour}
	p.refuses(j, "without a window")
	j = replacing(first.Run)
	j.Store = p.bench.store
	p.refuses(j, "only a SQLite ledger")
	j = replacing(first.Run)
	j.Forgets = true
	p.refuses(j, "only a SQLite ledger")

	atWork.release()
	p.finish(cut)
	p.refuses(replacing(second.Run), "run "+unfinished+" may have been at work when run "+second.Run+" began. Replace run "+
		unfinished+", with its inputs and those of all later runs")
	foreign := p.next(false, rec("8", "x"))
	foreign.Scope = "other"
	ofOther := p.finish(foreign)
	ofFunction := dedupe.Entry{Scope: "other", Key: format.KeyOf("7"), Owner: dedupe.Owner{Sequence: "elsewhere", Sub: dedupe.Plain}}
	if _, err := p.store.PutIfAbsent(t.Context(), []dedupe.Entry{ofFunction}); err != nil {
		t.Fatal(err)
	}
	j = replacing(ofOther.Run)
	j.Scope = "other"
	p.refuses(j, "the entry of elsewhere does not belong to a run")

	silent := dedupe.Run{Digest: "d", ID: "20260101T000000.000Z", Finished: true}
	if err := p.store.SaveRun(t.Context(), "third", silent); err != nil {
		t.Fatal(err)
	}
	j = replacing(silent.ID)
	j.Scope = "third"
	p.refuses(j, silent.ID+" is an import: imports cannot be undone")

	meanwhile := dedupe.Run{Digest: "d", ID: "20260101T000000.000Z"}
	if err := p.store.SaveRun(t.Context(), "fourth", meanwhile); err != nil {
		t.Fatal(err)
	}
	j = p.next(false, rec("1", "x"))
	j.Scope = "fourth"
	beside := p.finish(j)
	meanwhile.Finished = true
	if err := p.store.SaveRun(t.Context(), "fourth", meanwhile); err != nil {
		t.Fatal(err)
	}
	j = replacing(beside.Run)
	j.Scope = "fourth"
	p.refuses(j, "the import "+meanwhile.ID+" was at work when run "+beside.Run+" began")

	for i, name := range []string{"taken", "taken2"} { // two runs that claim one dead-letter file at once
		l, err := lockOutput(p.path(name))
		if err != nil {
			t.Fatal(err)
		}
		err = l.claimFiles(runFile{Run: name, File: p.path(name), DeadLetters: p.path("letters")})
		if l.release(); (err == nil) != (i == 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
	j = replacing(unfinished)
	j.DeadLetters = p.path("letters")
	p.refuses(j, "letters belongs to the unfinished run of "+p.path("taken"))
	j.DeadLetters = p.path("written")
	atWork, err = lockOutput(j.DeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	p.refuses(j, "another process is writing to "+j.DeadLetters)
	atWork.release()

	p.finish(replacing(unfinished))
	p.refuses(replacing(second.Run), "run "+second.Run+" was replaced by run "+p.history()[len(p.history())-1].ID)
}

// TestReplaceAgain abandons an unfinished replacing run for a run with other inputs.
func TestReplaceAgain(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	wrong := p.finish(p.next(false, rec("1", "wrong")))
	j := p.next(false, rec("1", "also wrong")+rec("2", "x")+rec("3", "x")+rec("4", "x"))
	j.Replaces = wrong.Run
	p.cutAfterABatch(j)
	again := p.next(false, rec("1", "x"))
	again.Replaces = wrong.Run
	out := again.Out
	again.Out, again.DeadLetters = j.Out, j.DeadLetters
	p.refuses(again, "out2 has the first 1 records of the stopped run "+p.history()[len(p.history())-1].ID)
	again.Out = out
	p.finish(again)
	if want := rec("1", "x"); p.read("out3") != want {
		t.Errorf("got %s, want %s", p.read("out3"), want)
	}
	p.refuses(j, "out2 is not empty")
}

// TestReplaceAgainLate: a replacing run is killed, and another run closes it and finishes. The same command would undo
// that run, too, so it is refused. Its advice puts it right.
func TestReplaceAgainLate(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	wrong := p.finish(p.next(true, rec("1", "wrong")))
	j := p.next(true, lines(1, 3))
	j.Replaces = wrong.Run
	p.cutAfterABatch(j)
	closed := p.history()[1].ID
	p.finish(p.next(true, rec("4", "x")))
	want := p.published()
	p.refuses(j, "run "+wrong.Run+" was replaced by run "+closed+", and other runs have begun since. To replace these, too, "+
		"replace run "+closed+", with its inputs and those of all later runs")
	if p.published() != want {
		t.Errorf("readers see %s, want %s", p.published(), want)
	}
	j = p.next(true, lines(1, 3), rec("4", "x"))
	j.Replaces = closed
	if p.finish(j); p.published() != lines(1, 4) {
		t.Errorf("readers see %s", p.published())
	}
}

// TestRefusedAfterClosing: a refusal that comes after a stopped run was closed says so.
func TestRefusedAfterClosing(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	first := p.finish(p.next(false, rec("1", "x")))
	p.cutAfterABatch(p.next(false, lines(2, 9)))
	ofFunction := dedupe.Entry{Scope: p.job.Scope, Key: format.KeyOf("7"), Owner: dedupe.Owner{Sequence: "elsewhere", Sub: dedupe.Plain}}
	if _, err := p.store.PutIfAbsent(t.Context(), []dedupe.Entry{ofFunction}); err != nil {
		t.Fatal(err)
	}
	j := p.next(false, rec("1", "y"))
	j.Replaces = first.Run
	r, err := j.Run(context.Background())
	if !errors.Is(err, ErrRefused) || len(r.Closed) != 1 ||
		!strings.HasSuffix(err.Error(), "(nothing was changed but the stopped runs, which are closed)") {
		t.Errorf("got %v, and closed %+v", err, r.Closed)
	}
}

// cutAfterABatch kills a job after one of its batches was recorded.
func (p *past) cutAfterABatch(j Job) {
	p.Helper()
	runs := len(p.history())
	j.BatchSize = 1
	begun := func() bool {
		now := p.history()
		return len(now) > runs && now[len(now)-1].Lines > 0
	}
	for n := 1; !begun(); n++ {
		if !p.die(j, n, after) {
			p.Fatal("it was never cut after its first batch")
		}
	}
}

// TestReplaceStartsOver checks that a replacing run without its files starts over, and undoes nothing a second time.
func TestReplaceStartsOver(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	wrong := p.finish(p.next(false, rec("1", "wrong")))
	j := p.next(false, rec("1", "x")+rec("2", "x")+rec("3", "x"))
	j.Replaces = wrong.Run
	p.cutAfterABatch(j)
	p.remove("out2", "out2.run")
	if got := p.finish(j); len(got.Closed) != 1 || got.Replaced[0].ID != wrong.Run {
		t.Errorf("unexpected %+v", got)
	}
	if want := rec("1", "x") + rec("2", "x") + rec("3", "x"); p.read("out2") != want {
		t.Errorf("got %s, want %s", p.read("out2"), want)
	}
}

// TestReplaceIsAnotherRun checks that an unfinished run with the same inputs that replaces nothing is not continued.
func TestReplaceIsAnotherRun(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	wrong := p.finish(p.next(false, rec("1", "wrong")))
	p.cutAfterABatch(p.next(false, rec("1", "x")+rec("2", "x")))
	j := p.next(false, rec("1", "x")+rec("2", "x"))
	j.Replaces = wrong.Run
	p.finish(j)
	if want := rec("1", "x") + rec("2", "x"); p.read("out3") != want {
		t.Errorf("got %s, want %s", p.read("out3"), want)
	}
}

// TestReplacedWhileAtWork checks a run that is replaced while it works. It writes nothing more to the ledger, does
// not finish, and is not published.
func TestReplacedWhileAtWork(t *testing.T) {
	t.Parallel()
	replacedWhileAtWork(t, func(s *sqlitestore.Store) storeWithHistory { return s })
}

func replacedWhileAtWork(t testing.TB, as func(*sqlitestore.Store) storeWithHistory) {
	t.Helper()
	for _, publish := range []bool{false, true} {
		for at := 1; ; at++ {
			p := newPast(t)
			first := p.finish(p.next(publish, rec("0", "wrong")))
			alive := p.next(publish, rec("1", "x")+rec("2", "x")+rec("3", "x")+rec("4", "x")+rec("5", "x"))
			j := p.next(publish, rec("0", "x")+rec("5", "other"))
			j.Replaces = first.Run
			calls, ran := 0, false
			alive.Store = mortal(as(p.store), func(do, _ func()) error {
				if calls++; calls == at && len(p.history()) > 1 { // the run has begun
					p.finish(j)
					ran = true
				}
				do()
				return nil
			})
			alive.BatchSize = 2
			_, err := alive.Run(context.Background())
			if !ran && calls >= at {
				continue // the call is before the run began
			}
			if !ran {
				if at < 6 {
					t.Errorf("only %d calls", at)
				}
				break
			}
			if !errors.Is(err, ErrStopped) || !errors.Is(err, sqlitestore.ErrReplaced) ||
				!strings.Contains(err.Error(), "Its output does not count any more: delete ") {
				t.Errorf("replaced at call %d: %v", at, err)
			}
			if want := rec("0", "x") + rec("5", "other"); publish && p.published() != want {
				t.Errorf("replaced at call %d: published is\n%s, want\n%s", at, p.published(), want)
			}
			last := p.finish(p.next(false, rec("1", "x")+rec("5", "x")+rec("0", "x")))
			if last.New != 1 || last.Synthetic != 1 || last.Natural != 1 {
				t.Errorf("replaced at call %d: the ledger knows other records: %+v", at, last.Tally)
			}
		}
	}
}

// story is a history of inputs. One of them is corrected later.
type story struct {
	inputs    []string
	wrong     int // the index of the wrong input
	corrected string
	after     string // the input of a run after the correction
}

func drawStory(t *rapid.T) story {
	line := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 19).Draw(t, "poison") == 0 {
			return "poison\n"
		}
		return rec(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id"),
			rapid.SampledFrom([]string{"x", "y"}).Draw(t, "fp"))
	})
	input := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(line, 0, 8).Draw(t, "lines"), "") })
	s := story{inputs: rapid.SliceOfN(input, 1, 4).Draw(t, "inputs")}
	s.wrong = rapid.IntRange(0, len(s.inputs)-1).Draw(t, "wrong")
	s.corrected, s.after = input.Draw(t, "corrected"), input.Draw(t, "after")
	return s
}

// views holds the outputs that readers may see at different times, and the outputs of the last two runs.
type views struct{ before, less, finally, output, after string }

// fresh returns the outputs of a fresh ledger that gets the corrected history in order.
func (s story) fresh(t testing.TB, publish bool) (is views) {
	p := newPast(t)
	for _, input := range s.inputs[:s.wrong] {
		p.finish(p.next(publish, input))
	}
	is.less = p.published()
	j := p.next(publish, append([]string{s.corrected}, s.inputs[s.wrong+1:]...)...)
	p.finish(j)
	is.finally = p.published()
	is.output = p.last(j)
	j = p.next(false, s.after)
	p.finish(j)
	is.after = p.last(j)
	return is
}

// last returns the output of the last run, and its dead letters.
func (p *past) last(j Job) string {
	runs := p.history()
	a := AboutRun(runs[len(runs)-1].Run)
	dead := j.DeadLetters
	if j.Publish != "" {
		dead = deadLettersOf(a.Output)
	}
	var all []string
	for _, path := range []string{a.Output, dead} {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			p.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "dead letters:\n")
}

// checkTold compares the outputs that readers see with the outputs that they may see after a crash: fewer records,
// and no record twice.
func (p *past) checkTold(is views, wrong string) {
	p.Helper()
	allowed := []string{is.less, is.before}
	if find(p.history(), wrong).ReplacedBy != "" {
		allowed[1] = is.finally
	}
	if got := p.published(); !slices.Contains(allowed, got) {
		p.Errorf("readers see\n%s\nand not\n%s", got, strings.Join(allowed, "or\n"))
	}
}

// kill says when a run is killed.
type kill struct {
	at   int
	mode deathMode
}

// tell plays the story with kills of the replacing run, and compares it with the story on a fresh ledger. It reports
// whether all kills happened.
func (s story) tell(t testing.TB, publish bool, kills ...kill) (killed bool) {
	t.Helper()
	return s.tellTo(newPast(t), publish, s.fresh(t, publish), kills...)
}

func (s story) tellTo(t *past, publish bool, is views, kills ...kill) (killed bool) {
	t.Helper()
	p := t
	var wrong string
	for i, input := range s.inputs {
		if report := p.finish(p.next(publish, input)); i == s.wrong {
			wrong = report.Run
		}
	}
	is.before = p.published()
	j := p.next(publish, append([]string{s.corrected}, s.inputs[s.wrong+1:]...)...)
	j.Replaces = wrong
	killed = true
	for _, k := range kills {
		killed = killed && p.die(j, k.at, k.mode)
		p.checkTold(is, wrong)
	}
	if j.BatchSize = 2; !p.ended(wrong) {
		p.finish(j)
	}
	if got := p.last(j); got != is.output {
		t.Fatalf("kills %v: want\n%s\ngot\n%s", kills, is.output, got)
	}
	if got := p.published(); got != is.finally {
		t.Fatalf("kills %v: readers see\n%s\nwant\n%s", kills, got, is.finally)
	}
	last := p.next(false, s.after)
	p.finish(last)
	if got := p.last(last); got != is.after {
		t.Fatalf("kills %v: the next run wrote\n%s\nwant\n%s", kills, got, is.after)
	}
	return killed
}

// ended reports whether the replacing run has ended, and has removed its FILE.run.
func (p *past) ended(wrong string) bool {
	runs := p.history()
	by := find(runs, find(runs, wrong).ReplacedBy)
	return by != nil && by.Finished && !p.lastIsOpen()
}

// orders is a story in which each record of the wrong input affects a later record.
var orders = story{
	inputs: []string{
		rec("1", "x") + rec("2", "x"), rec("2", "wrong") + rec("3", "wrong") + "poison\n" + rec("4", "x"),
		rec("3", "x") + rec("4", "x") + rec("5", "x"), rec("5", "x") + rec("5", "y") + rec("6", "x"),
	},
	wrong: 1, corrected: rec("2", "x") + rec("3", "x") + "poison\n" + rec("1", "y"),
	after: rec("1", "y") + rec("2", "wrong") + rec("3", "wrong") + rec("4", "x") + rec("5", "y"),
}

// TestReplacingRunKilledAnywhere kills a replacing run at each of its operations, in each way, and then a second time.
func TestReplacingRunKilledAnywhere(t *testing.T) {
	t.Parallel()
	s := orders
	for _, publish := range []bool{false, true} {
		if testing.Short() && !publish { // the steps are among those with publishing
			continue
		}
		is := s.fresh(t, publish)
		for mode := range modes {
			for n := 1; ; n++ {
				kills := []kill{{n, mode}}
				if n%3 == 0 {
					kills = append(kills, kill{n/2 + 1, (mode + 1) % modes})
				}
				if !s.tellTo(newPast(t), publish, is, kills...) {
					if n < 20 {
						t.Errorf("only %d operations", n)
					}
					break
				}
			}
		}
	}
}

// TestReplaceModel plays random histories and kills.
func TestReplaceModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt)
		var kills []kill
		for range rapid.IntRange(0, 3).Draw(rt, "kills") {
			kills = append(kills, kill{
				rapid.IntRange(1, 40).Draw(rt, "operation"), deathMode(rapid.IntRange(0, int(modes)-1).Draw(rt, "mode")),
			})
		}
		publish := rapid.Bool().Draw(rt, "publish")
		t.Run("", func(t *testing.T) { s.tell(t, publish, kills...) })
		if t.Failed() {
			rt.Fatal(fmt.Sprintf("%+v, publish %t, kills %v", s, publish, kills))
		}
	})
}

// undoMutant is a store that breaks a rule when runs are replaced.
type undoMutant struct {
	*sqlitestore.Store
	mutant string
}

const (
	keepsTheFirst = "the entries of the run itself stay"
	keepsAll      = "no entry is deleted"
	forgetsToStop = "a replaced run can put entries and be saved"
	publishesAll  = "replaced runs look as if they were not"
)

func (s undoMutant) ReplaceRuns(
	ctx context.Context, scope string, by dedupe.Run, choose func([]sqlitestore.PastRun) (int64, error),
) error {
	switch s.mutant {
	case keepsTheFirst:
		return s.Store.ReplaceRuns(ctx, scope, by, func(runs []sqlitestore.PastRun) (int64, error) {
			from, err := choose(runs)
			return from + 1, err
		})
	case keepsAll:
		err := s.HoldRuns(ctx, scope, func(runs []sqlitestore.PastRun) error {
			_, err := choose(runs)
			return err
		})
		return errors.Join(err, s.SaveRun(ctx, scope, by))
	}
	return s.Store.ReplaceRuns(ctx, scope, by, choose)
}

func (s undoMutant) ForRun(scope, id string) dedupe.Ledger {
	if s.mutant == forgetsToStop {
		return s.Store
	}
	return s.Store.ForRun(scope, id)
}

func (s undoMutant) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	if err := s.Store.SaveRun(ctx, scope, r); s.mutant != forgetsToStop || !errors.Is(err, sqlitestore.ErrReplaced) {
		return err
	}
	return nil
}

func (s undoMutant) HoldRuns(ctx context.Context, scope string, do func([]sqlitestore.PastRun) error) error {
	return s.Store.HoldRuns(ctx, scope, func(runs []sqlitestore.PastRun) error {
		for i := range runs {
			if s.mutant == publishesAll {
				runs[i].ReplacedBy = ""
			}
		}
		return do(runs)
	})
}

// TestReplaceMutants checks that the tests of this file find each mutant.
func TestReplaceMutants(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{keepsTheFirst, keepsAll, publishesAll} {
		t.Run(mutant, func(t *testing.T) {
			mutanttest.MustFail(t, func(tb testing.TB) {
				p := newPast(tb)
				p.as = undoMutant{p.store, mutant}
				orders.tellTo(p, true, orders.fresh(tb, true))
			})
		})
	}
	t.Run(forgetsToStop, func(t *testing.T) {
		mutanttest.MustFail(t, func(tb testing.TB) {
			replacedWhileAtWork(tb, func(s *sqlitestore.Store) storeWithHistory { return undoMutant{s, forgetsToStop} })
		})
	})
}
