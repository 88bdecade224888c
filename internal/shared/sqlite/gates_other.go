//go:build !linux

package sqlite

import (
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// newGates returns a single gate, which locks the whole file: other systems have no locks on parts of a file that
// belong to the open file. So on these systems, processes that write without a pause overtake each other more often
// than on Linux.
func newGates(path string, mode os.FileMode) (gates []gate, closeFile func() error) {
	lock := &wholeFile{path: path, mode: mode, Flock: flock.New(path, flock.SetPermissions(mode))}
	return []gate{lock}, lock.Close
}

// wholeFile locks a file. The first attempt makes the file.
type wholeFile struct {
	path string
	mode os.FileMode
	*flock.Flock
}

// TryLock takes the lock, unless another open file has it.
func (w *wholeFile) TryLock() (bool, error) {
	if _, err := os.Stat(w.path); os.IsNotExist(err) {
		file, err := openLock(w.path, w.mode)
		if err != nil {
			return false, err
		}
		if err := file.Close(); err != nil {
			return false, err
		}
	}
	locked, err := w.Flock.TryLock()
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", w.path, err)
	}
	return locked, nil
}
