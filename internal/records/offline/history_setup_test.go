package offline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// past is a ledger with a history of runs, which can be killed. All runs are in one folder.
type past struct {
	*bench
	store *sqlitestore.Store
	as    storeWithHistory // the store as the jobs see it
	// ledger is the name of the store.
	ledger string
	runs   int
}

type storeWithHistory interface {
	dedupe.Store
	History
}

func newPast(t testing.TB) *past {
	t.Helper()
	store, err := sqlitestore.OpenMemory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b := newBench(t)
	b.tick, b.job.BatchSize, b.job.PoisonLimit.Off = recordEvery/3, 3, true
	return &past{bench: b, store: store, as: store, ledger: "seen.db"}
}

// ledgerFile closes the ledger. The jobs that follow use one in a file.
func (p *past) ledgerFile(name string) {
	p.Helper()
	err := p.store.Close()
	if err == nil {
		p.store, err = sqlitestore.Create(p.Context(), p.path(name))
	}
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = p.store.Close() })
	p.as, p.ledger = p.store, p.path(name)
}

// copyLedger copies the ledger seen.db, and goes on with seen.db.
func (p *past) copyLedger(name string) {
	p.Helper()
	if err := p.store.Close(); err != nil { // so that the file has everything
		p.Fatal(err)
	}
	p.write(name, p.read("seen.db"))
	p.ledgerFile("seen.db")
}

// next returns the job of the next run. Its output is out1, out2 and so on, or it is published.
func (p *past) next(publish bool, inputs ...string) Job {
	p.runs++
	p.now = p.now.Add(time.Hour)
	j := p.job
	j.Inputs, j.Store, j.LedgerName = texts(inputs...), p.as, p.ledger
	j.Out, j.DeadLetters = p.path("out")+string(rune('0'+p.runs)), p.path("dead")+string(rune('0'+p.runs))
	if publish {
		j.Out, j.DeadLetters, j.Publish = "", "", p.path("pub")
	}
	return j
}

// finish runs a job to its end.
func (p *past) finish(j Job) Report {
	p.Helper()
	report, err := j.Run(context.Background())
	if err != nil {
		p.Fatal(err)
	}
	return report
}

// refuses runs a job that must be refused.
func (p *past) refuses(j Job, text string) {
	p.Helper()
	runs, files := len(p.history()), p.files()
	_, err := j.Run(context.Background())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), text) {
		p.Errorf("want a refusal that says %q, got %v", text, err)
	}
	if after := p.history(); len(after) != runs || p.files() != files {
		p.Errorf("a refused job began a run: %+v, or left a file: %s, and before %s", after, p.files(), files)
	}
}

// files returns the names of all files in the folder.
func (p *past) files() string {
	p.Helper()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		p.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func (p *past) history() []sqlitestore.PastRun {
	p.Helper()
	runs, err := p.store.Runs(context.Background(), p.job.Scope)
	if err != nil {
		p.Fatal(err)
	}
	return runs
}

// die runs a job and kills it at its nth operation. It reports whether the job reached that operation.
func (p *past) die(j Job, n int, mode deathMode) (killed bool) {
	p.Helper()
	d := &death{at: n, mode: mode}
	j.Store, j.open, j.rename = mortal(p.as, d.step), d.open, steps(d.step).rename
	_, err := j.Run(context.Background())
	d.bury(p)
	if d.killed != errors.Is(err, errKilled) {
		p.Fatalf("killed: %t, and the job said %v", d.killed, err)
	}
	return d.killed
}

// published returns the content of all outputs in the manifest. Each output must be complete.
func (p *past) published() string {
	p.Helper()
	text, err := os.ReadFile(ManifestOf(p.path("pub")))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	var m Manifest
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		p.Fatal(err)
	}
	var all strings.Builder
	for _, o := range m.Outputs {
		content := p.read(filepath.Base(o.File))
		if int64(len(content)) != o.Bytes || int64(strings.Count(content, "\n")) != o.Records {
			p.Errorf("%s does not have %d records and %d bytes:\n%s", o.File, o.Records, o.Bytes, content)
		}
		all.WriteString(content)
	}
	if m.Run != latestOf(m.Outputs) {
		p.Errorf("the manifest says that %s is the latest of %+v", m.Run, m.Outputs)
	}
	return all.String()
}

// mortalStore counts each call of a store as an operation that can kill the run.
type mortalStore struct {
	History
	dedupe.Store // through the hook of the steps
	step         steps
}

func mortal(s storeWithHistory, step steps) mortalStore {
	return mortalStore{s, dedupefault.HookStore(s, step.hook), step}
}

func (s mortalStore) Runs(ctx context.Context, scope string) (runs []sqlitestore.PastRun, err error) {
	dead := s.step(func() { runs, err = s.History.Runs(ctx, scope) }, nothing)
	return runs, errors.Join(dead, err)
}

// HoldRuns can end between the work and the commit.
func (s mortalStore) HoldRuns(ctx context.Context, scope string, do func([]sqlitestore.PastRun) error) (err error) {
	dead := s.step(func() { err = s.History.HoldRuns(ctx, scope, do) }, func() {
		_ = s.History.HoldRuns(ctx, scope, func(runs []sqlitestore.PastRun) error { return errors.Join(do(runs), errKilled) })
	})
	return errors.Join(dead, err)
}

func (s mortalStore) ReplaceRuns(
	ctx context.Context, scope string, by dedupe.Run, choose func([]sqlitestore.PastRun) (int64, error),
) (err error) {
	dead := s.step(func() { err = s.History.ReplaceRuns(ctx, scope, by, choose) }, func() {
		_ = s.History.ReplaceRuns(ctx, scope, by, func(runs []sqlitestore.PastRun) (int64, error) {
			_, err := choose(runs)
			return 0, errors.Join(err, errKilled)
		})
	})
	return errors.Join(dead, err)
}

func (s mortalStore) ForRun(scope, id string) dedupe.Ledger {
	return mortalLedger{s.History.ForRun(scope, id), s.step}
}

type mortalLedger struct {
	dedupe.Ledger
	step steps
}

// Enter can end halfway through the records.
func (l mortalLedger) Enter(ctx context.Context, q dedupe.Question) (answers []dedupe.Answer, err error) {
	dead := l.step(func() { answers, err = l.Ledger.Enter(ctx, q) }, func() {
		q.Records = q.Records[:len(q.Records)/2]
		_, _ = l.Ledger.Enter(ctx, q)
	})
	return answers, errors.Join(dead, err)
}
