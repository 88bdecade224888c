package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/shared/durable"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// Manifest is the content of NAME.json, where NAME is Job.Publish. It names the outputs that count. It is replaced by
// a rename, so a reader sees the old or the new manifest, and only complete outputs. A symbolic link would do the
// same for a single output on some file systems. A plain file does it on all of them, and can name several outputs.
type Manifest struct {
	Run     string            `json:"run"`    // the latest of the runs below; "" without runs
	Ledger  string            `json:"ledger"` // Job.LedgerName, for people: the runs below say which ledger it is
	Scope   string            `json:"scope"`
	Outputs []PublishedOutput `json:"outputs"`
}

// PublishedOutput is the output of a finished run. It is never changed.
type PublishedOutput struct {
	Run     string `json:"run"`
	File    string `json:"file"` // the name of the file, in the folder of the manifest
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
}

// ManifestOf returns the path of the manifest of published outputs.
func ManifestOf(publish string) string {
	name, _ := splitName(publish)
	return name + ".json"
}

// OutputOf returns the path of the published output of a run. Lines of the format usually have the extension usual.
func OutputOf(publish, run, usual string) string {
	name, extension := splitName(publish)
	return name + "." + run + cmp.Or(extension, usual)
}

// splitName splits the extension of outputs from Job.Publish. It is "" if the name has none.
func splitName(publish string) (name, extension string) {
	for _, extension := range []string{".ndjson", ".jsonl", ".tsv"} {
		if name, ok := strings.CutSuffix(publish, extension); ok {
			return name, extension
		}
	}
	return publish, ""
}

// deadLettersOf returns the path of the dead-letter file of a published output. Readers of all outputs, as of
// NAME.*.ndjson, must not find it.
func deadLettersOf(output string) string { return output + ".dead" }

func published(r dedupe.Run) PublishedOutput {
	return PublishedOutput{
		Run: r.ID, File: filepath.Base(AboutRun(r).Output), Records: r.Tally.Out, Bytes: r.Output,
	}
}

// checkPublish refuses a job whose output cannot be published, before the inputs are read.
func (r *run) checkPublish(ctx context.Context) error {
	if r.Publish == "" {
		return nil
	}
	if r.history == nil && !r.Forgets {
		return refuse("only with a ledger in a SQLite file or in memory can outputs be published")
	}
	var runs []sqlitestore.PastRun
	if r.history != nil {
		var err error
		if runs, err = r.history.Runs(ctx, r.Scope); err != nil {
			return err
		}
	}
	return r.checkName(runs)
}

// checkName refuses a name under which a ledger with these runs cannot publish.
func (r *run) checkName(runs []sqlitestore.PastRun) error {
	if err := checkFolders(r.Publish); err != nil {
		return err
	}
	m, err := readManifest(r.Publish)
	if err != nil {
		return err
	}
	if err := r.checkList(m, runs); err != nil {
		return refuse("%w. Publish under another name", err)
	}
	return nil
}

// otherListError says that readers would no longer see outputs of another ledger or scope.
type otherListError struct{ text string }

func (e *otherListError) Error() string { return e.text }

// InMemory is the name of a ledger in memory: see Job.Forgets.
const InMemory = ":memory:"

// checkList refuses a manifest of another ledger or scope. A ledger is known by its runs, so it may be moved, and a copy
// that lacks a listed run is another ledger. Ledgers in memory have no runs, and follow each other.
func (r *run) checkList(m Manifest, runs []sqlitestore.PastRun) error {
	list := ManifestOf(r.Publish)
	if len(m.Outputs) > 0 && m.Scope != r.Scope {
		return &otherListError{fmt.Sprintf("%s lists outputs of the scope %s, and this run has the scope %s",
			list, m.Scope, r.Scope)}
	}
	if r.Forgets && m.Ledger == InMemory {
		return nil
	}
	name, err := filepath.Abs(r.Publish)
	if err != nil {
		return err
	}
	for _, o := range m.Outputs {
		p := find(runs, o.Run)
		if p == nil {
			return &otherListError{fmt.Sprintf("%s lists the output of run %s of the ledger %s, and the ledger %s does not "+
				"have that run", list, o.Run, m.Ledger, r.LedgerName)}
		}
		// A copy of the ledger may have been made before the run ended. This ledger lists no such run, unless its user has
		// deleted the output.
		if _, err := os.Stat(filepath.Join(filepath.Dir(name), o.File)); err == nil && !counts(*p) {
			return &otherListError{fmt.Sprintf("%s lists the output of run %s of the ledger %s, and in the ledger %s that run "+
				"has no output that counts", list, o.Run, m.Ledger, r.LedgerName)}
		}
		if at := AboutRun(p.Run).Published; at != name {
			return &otherListError{fmt.Sprintf("%s lists the output of run %s, which was published as %s", list, o.Run, at)}
		}
	}
	return nil
}

// readManifest reads a manifest. Without a file it is empty.
func readManifest(publish string) (m Manifest, err error) {
	path := ManifestOf(publish)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if json.Unmarshal(text, &m) != nil || m.Outputs == nil {
		return m, refuse("%s is not a list of published outputs. Publish under another name", path)
	}
	return m, nil
}

// newID returns the id of a new run. The id is later than the id of the latest published run, even if the clock was
// set back.
func (r *run) newID() (string, error) {
	now := r.Now()
	if r.Publish == "" {
		return newRunID(now), nil
	}
	m, err := readManifest(r.Publish)
	if err != nil || m.Run == "" {
		return newRunID(now), err
	}
	latest, err := startOf(m.Run)
	if err == nil && !now.After(latest) {
		now = latest.Add(time.Millisecond)
	}
	return newRunID(now), err
}

// lockUnfinished locks the output of a run, if the run has not ended.
func (r *run) lockUnfinished(id string) error {
	r.nameOutput(id)
	_, err := os.Stat(r.Out + runSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.lockOutput()
}

// nameOutput names the output after a run.
func (r *run) nameOutput(id string) {
	r.releaseOutput()
	r.Out = OutputOf(r.Publish, id, r.Format.Extension())
	r.DeadLetters = deadLettersOf(r.Out)
	r.out.become(r.Out)
	r.deadLetters.become(r.DeadLetters)
}

func (r *run) releaseOutput() {
	if r.lock != nil {
		r.lock.release()
		r.lock = nil
	}
}

// publish adds the output of the finished run to the manifest. It is safe to repeat.
func (r *run) publish(ctx context.Context) error {
	name, err := filepath.Abs(r.Publish)
	if err != nil {
		return err
	}
	if r.history == nil {
		return r.putManifest(ctx, name, nil, []PublishedOutput{published(r.done)})
	}
	return r.history.HoldRuns(ctx, r.Scope, func(runs []sqlitestore.PastRun) error {
		var list []PublishedOutput
		for _, p := range runs {
			switch {
			case p.ID == r.done.ID && p.ReplacedBy != "":
				return fmt.Errorf("%w: run %s, by run %s", sqlitestore.ErrReplaced, p.ID, p.ReplacedBy)
			case counts(p) && AboutRun(p.Run).Published == name:
				if err := r.tidyClosed(AboutRun(p.Run).File, p.Run); err != nil {
					return err
				}
				list = append(list, published(p.Run))
			}
		}
		return r.putManifest(ctx, name, runs, list)
	})
}

// counts reports whether readers need the output of a run: of a closed one only if it has saved something.
func counts(p sqlitestore.PastRun) bool {
	return p.ReplacedBy == "" && (p.Finished || p.Closed && p.Output > 0)
}

// putManifest replaces the manifest, unless it names a later run than list does. That run has its ledger in memory, too.
func (r *run) putManifest(ctx context.Context, publish string, runs []sqlitestore.PastRun, list []PublishedOutput) error {
	return r.changeManifest(ctx, publish, func(m *Manifest) (change bool, err error) {
		if err := r.checkList(*m, runs); err != nil {
			return false, err
		}
		latest := latestOf(list)
		if m.Run > latest {
			r.newerRun = m.Run
			return false, nil
		}
		*m = Manifest{Run: latest, Ledger: r.LedgerName, Scope: r.Scope, Outputs: list}
		return true, nil
	})
}

// latestOf returns the latest of the runs. Their ids begin with their times.
func latestOf(list []PublishedOutput) (id string) {
	for _, o := range list {
		id = max(id, o.Run)
	}
	return id
}

// unpublish removes the outputs of the runs with a number of at least from from their manifests. It keeps the files,
// because a program may be reading them.
func (r *run) unpublish(ctx context.Context, runs []sqlitestore.PastRun, from int64) error {
	names := map[string]bool{}
	gone := map[string]bool{}
	for _, p := range runs {
		if p.Number >= from {
			gone[p.ID] = true
			names[AboutRun(p.Run).Published] = true
		}
	}
	delete(names, "")
	for name := range names {
		err := r.changeManifest(ctx, name, func(m *Manifest) (change bool, err error) {
			before := len(m.Outputs)
			m.Outputs = slices.DeleteFunc(m.Outputs, func(o PublishedOutput) bool { return gone[o.Run] })
			m.Run = latestOf(m.Outputs)
			return len(m.Outputs) < before, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkStaysPublished refuses to replace published runs by a run that is not published, because readers would miss
// its records.
func (r *run) checkStaysPublished(replaced []sqlitestore.PastRun) error {
	if r.Publish != "" {
		return nil
	}
	for _, p := range replaced {
		if name := AboutRun(p.Run).Published; p.ReplacedBy == "" && name != "" {
			return refuse("the output of run %s is published as %s. Publish this run under the same name", p.ID, name)
		}
	}
	return nil
}

// changeManifest changes a manifest. Meanwhile no other process can change it.
func (r *run) changeManifest(ctx context.Context, publish string, change func(*Manifest) (bool, error)) error {
	path := ManifestOf(publish)
	lock, err := waitForLock(ctx, path)
	if err != nil {
		return err
	}
	defer lock.release()
	m, err := readManifest(publish)
	if err != nil {
		return err
	}
	if changed, err := change(&m); err != nil || !changed {
		return err
	}
	if m.Outputs == nil {
		m.Outputs = []PublishedOutput{}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return r.replaceFile(path, append(text, '\n'))
}

// waitForLock locks a manifest. Other processes hold the lock for milliseconds.
func waitForLock(ctx context.Context, path string) (*outputLock, error) {
	const pause, longest = 10 * time.Millisecond, 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		lock, err := lockOutput(path)
		if err == nil || !errors.Is(err, ErrRefused) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// replaceFile replaces a file by a rename. So the file is old or new at any time, even after a power cut.
func (r *run) replaceFile(path string, text []byte) error {
	temporary := path + ".tmp"
	file, err := r.open(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := r.rename(temporary, path); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}
