package offline

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/memstore"
)

// whole returns a job that publishes the whole data each time, because its ledger is in memory.
func (p *past) whole(input string) Job {
	j := p.next(true, input)
	j.Store, j.Forgets = memstore.NewRecords(), true
	return j
}

// TestPublish checks which outputs count: with a ledger, the outputs of all runs; with a ledger in memory, only the
// output of the latest run. The files of earlier runs do not change.
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
	other := p.next(true, rec("1", "x"))
	other.Scope = "other"
	for _, j := range []Job{other, p.whole(rec("9", "x"))} {
		report := p.finish(j)
		m, err := readManifest(p.path("pub"))
		if err != nil || len(m.Outputs) != 1 || m.Run != report.Run || m.Scope != j.Scope {
			t.Errorf("want run %s alone, got %+v, %v", report.Run, m, err)
		}
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

func TestPublishedNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"lake/orders": "lake/orders.json lake/orders.RUN.ndjson", "orders.ndjson": "orders.json orders.RUN.ndjson",
		"a.b": "a.b.json a.b.RUN.ndjson", "events.tsv": "events.json events.RUN.tsv",
	} {
		if got := ManifestOf(name) + " " + OutputOf(name, "RUN"); got != want {
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
