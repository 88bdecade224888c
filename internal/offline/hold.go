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

	"github.com/gofrs/flock"
)

// hold is a run's hold on its output file: nobody else writes to it meanwhile,
// and afterwards it is known whose it is.
type hold struct {
	output string
	lock   *flock.Flock
	mark   mark // of the run that the file belongs to; zero if none
}

// mark is what FILE.run holds while a run is not finished. Without it any file
// of that name, given by mistake, could be cut to the sizes of a run.
type mark struct {
	Run         string `json:"run"`
	DeadLetters string `json:"dead_lettered"` // absolute
}

func (h *hold) markPath() string { return h.output + ".run" }

// takeHold takes hold of an output file, which need not exist.
func takeHold(output string) (*hold, error) {
	h := &hold{output: output, lock: flock.New(output+".lock", flock.SetPermissions(0o666))}
	if err := h.acquire(); err != nil {
		return nil, err
	}
	if err := h.readMark(); err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

// acquire locks. A lock file that was removed between opening and locking it is
// nobody's: there may be another by now. One that holds something is somebody's.
func (h *hold) acquire() error {
	for {
		locked, err := h.lock.TryLock()
		if err != nil {
			return err
		}
		if !locked {
			return refuse("another process is writing to %s", h.output)
		}
		mine, err := h.lock.Stat()
		if err != nil {
			return errors.Join(err, h.lock.Close())
		}
		if mine.Size() > 0 {
			_ = h.lock.Close()
			return h.inTheWay(h.lock.Path())
		}
		if there, err := os.Stat(h.lock.Path()); err == nil && os.SameFile(mine, there) {
			return nil
		}
		if err := h.lock.Close(); err != nil {
			return err
		}
	}
}

// release lets others write to the output. The lock file goes while it is
// locked; where that is not allowed it stays, and does no harm.
func (h *hold) release() {
	_ = os.Remove(h.lock.Path())
	_ = h.lock.Close()
}

// inTheWay refuses a file that this package would write over and remove.
func (h *hold) inTheWay(path string) error {
	return refuse("%s is a file of somebody's, and has to be free for the run: name another file than %s", path, h.output)
}

// readMark reads the mark, if there is one. One that a crash has left in pieces
// is none: nothing was written by its run.
func (h *hold) readMark() error {
	text, err := os.ReadFile(h.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if json.Unmarshal(text, &h.mark) != nil || h.mark.Run == "" {
		h.mark = mark{}
		if !isPiece(text) {
			return h.inTheWay(h.markPath())
		}
	}
	return nil
}

// isPiece reports whether a text may be what a crash has left of a mark: its
// beginning, or nothing, or zeros.
func isPiece(text []byte) bool {
	const begin = `{"run":"`
	text = bytes.TrimRight(text, "\x00")
	return strings.HasPrefix(begin, string(text[:min(len(text), len(begin))]))
}

// writeMark makes the output the run's.
func (h *hold) writeMark(m mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	file, err := os.Create(h.markPath())
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close(), syncFolder(filepath.Dir(h.output))); err != nil {
		return fmt.Errorf("%s: %w", h.markPath(), err)
	}
	h.mark = m
	return nil
}

// removeMark makes the output its owner's, to do with as they like.
func (h *hold) removeMark() error { return os.Remove(h.markPath()) }
