package offline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// whole returns a job that publishes the whole data each time, because its ledger is in memory.
func (p *past) whole(input string) Job {
	j := p.next(true, input)
	j.Store, j.Forgets = memstore.NewRecords(), true
	return j
}

// TestPublish checks which outputs count: the outputs of all runs of the ledger. Their files do not change.
func TestPublish(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	for i, want := range []string{rec("1", "x"), rec("1", "x") + rec("2", "x")} {
		if p.finish(p.next(true, want)); p.published() != want {
			t.Errorf("run %d: readers see\n%s, want\n%s", i, p.published(), want)
		}
	}
	p.finish(p.next(false, rec("3", "x")))
	p.finish(p.next(true, rec("3", "x")+"poison\n"+rec("4", "x")))
	if want := rec("1", "x") + rec("2", "x") + rec("4", "x"); p.published() != want {
		t.Errorf("readers see\n%s, want\n%s", p.published(), want)
	}
	for _, r := range p.history() {
		if a := AboutRun(r.Run); a.Published != "" {
			if text, err := os.ReadFile(a.Output); err != nil || int64(len(text)) != r.Output {
				t.Errorf("%s has %d bytes, want %d: %v", a.Output, len(text), r.Output, err)
			}
		}
	}
	checkNoLeftovers(p)
}

// staysListed publishes from one ledger and then, under the same name, from another ledger, another scope, and one in
// memory. Readers must see the first output after each.
func staysListed(p *past, others ...Job) {
	p.Helper()
	first := p.finish(p.next(true, rec("1", "x")))
	for i, j := range others {
		if _, err := j.Run(p.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "pub.json lists ") ||
			!strings.Contains(err.Error(), ". Publish under another name") {
			p.Errorf("%d: want a refusal, got %v", i, err)
		}
		if p.published() != rec("1", "x") {
			p.Errorf("%d: readers see %s, and not the output of run %s", i, p.published(), first.Run)
		}
	}
}

// TestListOfAnotherLedger checks that a list is never taken over: readers would no longer see what it lists.
func TestListOfAnotherLedger(t *testing.T) {
	t.Parallel()
	p, elsewhere := newPast(t), newPast(t)
	otherScope, otherLedger := p.next(true, rec("2", "x")), p.next(true, rec("2", "x"))
	otherScope.Scope, otherLedger.Store = "other", elsewhere.as
	staysListed(p, otherScope, otherLedger, p.whole(rec("2", "x")))
	if got := p.finish(p.next(true, rec("2", "x"))); got.New != 1 || p.published() != rec("1", "x")+rec("2", "x") {
		t.Errorf("the ledger itself: %+v, readers see %s", got, p.published())
	}

	// A ledger in memory has a list of its own.
	p = newPast(t)
	for _, want := range []string{rec("1", "x"), rec("2", "x")} {
		if p.finish(p.whole(want)); p.published() != want {
			t.Errorf("in memory: readers see\n%s, want\n%s", p.published(), want)
		}
	}
	p.refuses(p.next(true, rec("3", "x")), "of the ledger :memory:, and the ledger seen.db does not have that run")

	// A folder that was moved keeps its list, too.
	p = newPast(t)
	p.finish(p.next(true, rec("1", "x")))
	p.write("moved.json", p.read("pub.json"))
	j := p.next(true, rec("2", "x"))
	j.Publish = p.path("moved")
	p.refuses(j, "which was published as "+p.path("pub"))
}

// TestListOfACopiedLedger checks a copy of a ledger that was made while a listed run was not finished: it is another
// ledger.
func TestListOfACopiedLedger(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.ledgerFile("seen.db")
	first := p.next(true, lines(1, 9))
	p.cutAfterABatch(first)
	p.copyLedger("copy.db")
	first.Store = p.as
	p.finish(first)
	p.ledgerFile("copy.db")
	p.refuses(p.next(true, lines(20, 21)), "copy.db that run has no output that counts. Publish under another name")
	if p.published() != lines(1, 9) {
		t.Errorf("readers see %s", p.published())
	}
}

// TestListBegunMeanwhile checks a list that another ledger begins while the run is at work. The output of the run is
// published by the same command when the list is gone.
func TestListBegunMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	j := p.next(true, rec("1", "x"))
	j.Progress = func(Progress) { p.finish(p.whole(rec("2", "x"))) }
	_, err := j.Run(t.Context())
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "is complete. To publish it, move that list away") {
		t.Errorf("got %v", err)
	}
	if p.published() != rec("2", "x") {
		t.Errorf("readers see %s", p.published())
	}
	p.remove("pub.json")
	if j.Progress = nil; p.finish(j).New != 1 || p.published() != rec("1", "x") {
		t.Errorf("readers see %s", p.published())
	}
}

// forgetfulList is a ledger that looks as if it had each listed run.
type forgetfulList struct {
	storeWithHistory
	publish string
}

func (f forgetfulList) Runs(ctx context.Context, scope string) ([]sqlitestore.PastRun, error) {
	runs, err := f.storeWithHistory.Runs(ctx, scope)
	return f.add(runs), err
}

func (f forgetfulList) HoldRuns(ctx context.Context, scope string, do func([]sqlitestore.PastRun) error) error {
	return f.storeWithHistory.HoldRuns(ctx, scope, func(runs []sqlitestore.PastRun) error { return do(f.add(runs)) })
}

func (f forgetfulList) add(runs []sqlitestore.PastRun) []sqlitestore.PastRun {
	m, err := readManifest(f.publish)
	about, _ := json.Marshal(About{Published: f.publish})
	for _, o := range m.Outputs {
		if err == nil && find(runs, o.Run) == nil {
			runs = append(runs, sqlitestore.PastRun{Run: dedupe.Run{ID: o.Run, About: string(about), Finished: true}})
		}
	}
	return runs
}

// TestListMutant checks that a list without its ledger is found.
func TestListMutant(t *testing.T) {
	t.Parallel()
	mutanttest.MustFail(t, func(tb testing.TB) {
		p := newPast(tb)
		j := p.next(true, rec("2", "x"))
		j.Store = forgetfulList{newPast(tb).as, j.Publish}
		staysListed(p, j)
	})
}

func TestPublishedNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"lake/orders": "lake/orders.json lake/orders.RUN.usual", "orders.ndjson": "orders.json orders.RUN.ndjson",
		"a.b": "a.b.json a.b.RUN.usual", "events.tsv": "events.json events.RUN.tsv",
	} {
		if got := ManifestOf(name) + " " + OutputOf(name, "RUN", ".usual"); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func checkNoLeftovers(p *past) {
	p.Helper()
	for _, suffix := range []string{".lock", runSuffix, ".tmp"} {
		if strings.Contains(p.files(), suffix) {
			p.Errorf("%s was left behind: %s", suffix, p.files())
		}
	}
}

// TestPublishLate checks that a run that finishes after a later run does not move the manifest back.
func TestPublishLate(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	late := p.whole(rec("1", "late"))
	var newer Report
	late.Progress = func(Progress) { newer = p.finish(p.whole(rec("1", "newer"))) }
	got := p.finish(late)
	if p.published() != rec("1", "newer") || got.NewerRun != newer.Run {
		t.Errorf("readers see %s, and the late run says %+v", p.published(), got)
	}
	for _, id := range []string{got.Run, newer.Run} {
		if p.read("pub."+id+".ndjson") == "" {
			t.Errorf("the output of %s is missing", id)
		}
	}

	// With a ledger, the outputs of both runs are parts of the ledger's records.
	p = newPast(t)
	late = p.next(true, rec("1", "x"))
	late.Progress = func(at Progress) {
		if at.Doing == passDeciding {
			p.finish(p.next(true, rec("2", "x")))
		}
	}
	if p.finish(late); p.published() != rec("1", "x")+rec("2", "x") {
		t.Errorf("readers see %s", p.published())
	}
}

// TestPublishAfterClockWasSetBack checks that the next run still gets a later id.
func TestPublishAfterClockWasSetBack(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	first := p.finish(p.whole(rec("1", "x")))
	p.now = p.now.Add(-240 * time.Hour)
	second := p.finish(p.whole(rec("2", "x")))
	if second.Run <= first.Run || p.published() != rec("2", "x") {
		t.Errorf("run %s came after %s; readers see %s", second.Run, first.Run, p.published())
	}
}

func TestPublishIsRefused(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.write("pub.json", `{"name":"mine"}`)
	p.refuses(p.next(true, rec("1", "x")), "is not a list of published outputs")
	p.remove("pub.json")
	j := p.next(true, rec("1", "x"))
	j.Store = p.bench.store
	p.refuses(j, "only with a ledger in a SQLite file or in memory")
	j = p.next(true, rec("1", "x"))
	j.Publish = p.path("none/pub")
	p.refuses(j, "cannot be used")

	first := p.finish(p.next(true, rec("1", "x")))
	j = p.next(false, rec("2", "x"))
	j.Replaces = first.Run
	p.refuses(j, "is published as "+p.path("pub")+". Publish this run under the same name")
	if p.published() != rec("1", "x") {
		t.Errorf("readers see %s", p.published())
	}
}

// TestPublishingRunKilledAnywhere checks that readers see the complete outputs of the finished runs at any time.
func TestPublishingRunKilledAnywhere(t *testing.T) {
	t.Parallel()
	first, input := rec("0", "0")+rec("1", "x"), rec("1", "x")+rec("2", "x")+"poison\n"+rec("0", "1")+rec("3", "x")
	reference := newPast(t)
	reference.finish(reference.next(true, first))
	reference.finish(reference.next(true, input))
	for mode := range modes {
		for n := 1; ; n++ {
			p := newPast(t)
			p.finish(p.next(true, first))
			old := p.published()
			j := p.next(true, input)
			killed := p.die(j, n, mode)
			if got := p.published(); killed && got != old && len(p.history()) > 1 && !p.history()[1].Finished {
				t.Fatalf("killed at %d (%d): readers see\n%s, want\n%s", n, mode, got, old)
			}
			if n%3 == 0 {
				j.BatchSize = 2
				p.die(j, n/2+1, (mode+1)%modes)
			}
			if runs := p.history(); len(runs) < 2 || !runs[1].Finished || p.lastIsOpen() {
				p.finish(j)
			}
			if got, want := p.published(), reference.published(); got != want {
				t.Fatalf("killed at %d (%d): readers see\n%s, want\n%s", n, mode, got, want)
			}
			if !killed {
				if n < 15 {
					t.Errorf("only %d operations", n)
				}
				break
			}
		}
	}
}

// lastIsOpen reports whether the last run still has its FILE.run.
func (p *past) lastIsOpen() bool {
	runs := p.history()
	_, err := os.Stat(AboutRun(runs[len(runs)-1].Run).Output + runSuffix)
	return err == nil
}

// closingStore closes the open runs of a scope before it saves a run for the first time.
type closingStore struct {
	storeWithHistory
	once *sync.Once
}

func (s closingStore) SaveRun(ctx context.Context, scope string, r dedupe.Run) (err error) {
	s.once.Do(func() {
		var open []dedupe.Run
		if open, err = s.OpenRuns(ctx, scope); err == nil {
			_, err = s.CloseRun(ctx, scope, open[0])
		}
	})
	if err != nil {
		return err
	}
	return s.storeWithHistory.SaveRun(ctx, scope, r)
}

// TestPublishedRunClosedWhileItResumes: a function closes a stopped run while its command continues it. The command
// begins a new run with the rest, in a file of its own.
func TestPublishedRunClosedWhileItResumes(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	j := p.next(true, lines(1, 9))
	p.cutAfterABatch(j)
	j.Store = closingStore{p.as, new(sync.Once)}
	if r := p.finish(j); r.Resumed != 0 {
		t.Errorf("unexpected report %+v", r)
	}
	p.wantOnce("closed meanwhile", 9, p.published())
}

// TestReplacingRunClosedWhileItBegins: another command closes a run that replaces a published one, before it has its
// file. The command begins another run, and writes to that run's file.
func TestReplacingRunClosedWhileItBegins(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	wrong := p.finish(p.next(true, lines(1, 9)))
	j := p.next(true, lines(1, 9))
	j.Replaces, j.Store = wrong.Run, closingStore{p.as, new(sync.Once)}
	r := p.finish(j)
	text, err := os.ReadFile(r.Output)
	if err != nil {
		t.Fatal(err)
	}
	p.wantOnce("closed meanwhile", 9, string(text))
}
