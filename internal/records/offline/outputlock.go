package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/durable"
	"github.com/oncebox/oncebox/internal/shared/filelock"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// outputLock locks an output file for one run. While a run holds it, no other run writes to the file. FILE.lock is
// the lock. FILE.run says which unfinished run the output belongs to.
type outputLock struct {
	output string // the file, even if the user has named a symbolic link to it
	file   *filelock.Lock
	owner  runFile // the content of FILE.run; zero without a FILE.run
}

// runFile is the content of FILE.run, which exists until the run is finished. It protects other files: without it, a
// run could cut any file that the user names by mistake to the recorded size.
type runFile struct {
	Run         string `json:"run"`
	Ledger      string `json:"ledger"`       // Job.LedgerName
	Output      string `json:"output"`       // Run.OutputID of package dedupe
	File        string `json:"file"`         // absolute path of the output
	DeadLetters string `json:"dead_letters"` // absolute path of the dead-letter file, which has a copy of FILE.run beside it
}

// runSuffix is the suffix of FILE.run.
const runSuffix = ".run"

func (l *outputLock) runPath() string { return l.output + runSuffix }

// lockOutput locks an output file, which need not exist.
func lockOutput(output string) (*outputLock, error) {
	l := &outputLock{output: targetOf(output)}
	var err error
	switch l.file, err = filelock.Take(l.output); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, refuse("another process is writing to %s. Wait until it has ended, or choose another file", output)
	case errors.Is(err, filelock.ErrNotALock):
		return nil, l.nameTaken(filelock.Name(l.output))
	case err != nil:
		return nil, err
	}
	if err := l.readRunFile(); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// targetOf follows symbolic links, also one to a file that does not exist. Two names of one file have one lock.
func targetOf(path string) string {
	const most = 40 // as systems allow
	for range most {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

// isOf reports whether the files belong to a run of a ledger. A copy of the ledger has the run, too, and may lack what
// the run has saved since.
func (l *outputLock) isOf(r dedupe.Run, ledger string) bool {
	return l.owner.Run == r.ID && l.owner.Output == r.OutputID && isLedger(l.owner.Ledger, ledger)
}

// isLedger reports whether a ledger has the name that is in FILE.run. If no file has that name, the ledger was
// moved.
func isLedger(name, ledger string) bool {
	if name == ledger {
		return true
	}
	named, err := os.Stat(name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) && filepath.IsAbs(name)
	}
	is, err := os.Stat(ledger)
	return err == nil && os.SameFile(named, is)
}

func (l *outputLock) release() { l.file.Release() }

// nameTaken refuses an output because the run would overwrite a file that does not belong to it.
func (l *outputLock) nameTaken(path string) error {
	return refuse("the run needs %s for itself, but that file holds something else. Choose another file than %s",
		path, l.output)
}

// runFileOf reads FILE.run of a file that is not locked.
func runFileOf(path string) (*outputLock, error) {
	l := &outputLock{output: targetOf(path)}
	return l, l.readRunFile()
}

// readRunFile reads FILE.run, if it exists. A crash may have left only a part of it. Then its run has written nothing
// yet, and the part is ignored.
func (l *outputLock) readRunFile() error {
	text, err := os.ReadFile(l.runPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if json.Unmarshal(text, &l.owner) != nil || l.owner.Run == "" {
		l.owner = runFile{}
		if !isPartOfRunFile(text) {
			return l.nameTaken(l.runPath())
		}
	}
	return nil
}

// isPartOfRunFile reports whether a crash may have left this text of a FILE.run. It may have left the beginning of
// the text, zeros, or nothing.
func isPartOfRunFile(text []byte) bool {
	const begin = `{"run":"`
	text = bytes.TrimRight(text, "\x00")
	return strings.HasPrefix(begin, string(text[:min(len(text), len(begin))]))
}

// writeRunFile records in FILE.run that the output belongs to a run.
func (l *outputLock) writeRunFile(owner runFile) error {
	text, err := json.Marshal(owner)
	if err != nil {
		return err
	}
	file, err := os.Create(l.runPath())
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close(), durable.SyncFolder(filepath.Dir(l.output))); err != nil {
		return fmt.Errorf("%s: %w", l.runPath(), err)
	}
	l.owner = owner
	return nil
}

// isCopy reports whether FILE.run is the copy of another one: the file is the dead-letter file of that one's run.
func (l *outputLock) isCopy() bool {
	return l.owner.Run != "" && sameFile(l.owner.DeadLetters, l.output)
}

// checkEnded refuses a file that belongs to an unfinished run, which cuts it when it goes on.
func (l *outputLock) checkEnded() error {
	if l.owner == (runFile{}) {
		return nil
	}
	its, err := runFileOf(l.owner.File)
	if err != nil {
		return err
	}
	if its.owner == l.owner { // otherwise its run has ended
		return refuse("%s belongs to the unfinished run of %s. Finish that run with its own command, or choose another file",
			l.output, its.output)
	}
	return nil
}

// lockDeadLetters locks the dead-letter file of an output. It refuses that of another unfinished run.
func (l *outputLock) lockDeadLetters(path string) (*outputLock, error) {
	letters, err := lockOutput(path)
	if err != nil {
		return nil, err
	}
	if letters.owner != l.owner {
		if err := letters.checkEnded(); err != nil {
			letters.release()
			return nil, err
		}
	}
	return letters, nil
}

// claimFiles writes FILE.run, and then a copy of it beside the dead-letter file.
func (l *outputLock) claimFiles(owner runFile) error {
	if err := l.writeRunFile(owner); err != nil {
		return err
	}
	return l.claimDeadLetters()
}

// claimDeadLetters writes the copy of FILE.run, if it is not there. Without it another run may have used the file.
func (l *outputLock) claimDeadLetters() error {
	letters, err := l.lockDeadLetters(l.owner.DeadLetters)
	if err != nil {
		return err
	}
	defer letters.release()
	if letters.owner == l.owner {
		return nil
	}
	switch size, err := sizeOf(letters.output); {
	case err != nil:
		return err
	case size > 0:
		return refuse("%s is not empty, and %s does not say that it belongs to the run of %s. Move it to another place",
			letters.output, letters.runPath(), l.output)
	}
	return letters.writeRunFile(l.owner)
}

// hasDeadLetters reports whether the dead-letter file still belongs to the run of the output.
func (l *outputLock) hasDeadLetters() (bool, error) {
	letters, err := runFileOf(l.owner.DeadLetters)
	if errors.Is(err, ErrRefused) { // it holds something else
		return false, nil
	}
	return letters.owner == l.owner, err
}

// removeRunFile removes FILE.run, which means that the output is complete, up to where its run has ended or was closed.
func (l *outputLock) removeRunFile() error {
	owner := l.owner
	l.owner = runFile{}
	if err := os.Remove(l.runPath()); err != nil {
		return err
	}
	letters, err := lockOutput(owner.DeadLetters)
	if err != nil {
		return nil // the copy stays, and is ignored
	}
	defer letters.release()
	if letters.owner == owner {
		_ = os.Remove(letters.runPath())
	}
	return nil
}
