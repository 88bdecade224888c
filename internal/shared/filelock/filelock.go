// Package filelock locks the name of a file for one process at a time. The lock is the file FILE.lock beside it.
// FILE.lock exists while a process holds the lock. If that process dies, the system frees the lock.
package filelock

import (
	"errors"
	"os"

	"github.com/gofrs/flock"
)

var (
	// ErrLocked says that another process, or another lock of this process, holds the lock.
	ErrLocked = errors.New("the file is locked")
	// ErrNotALock says that the name of the lock belongs to a file with content. That file is left unchanged.
	ErrNotALock = errors.New("the file is not a lock")
)

// Lock is a held lock.
type Lock struct{ file *flock.Flock }

// Name returns the name of the lock of a file.
func Name(path string) string { return path + ".lock" }

// Take locks a file, which need not exist. It does not wait.
//
// If another process removes FILE.lock between the opening and the locking, a third one may have made a new file.
// Then Take tries again.
//
// It returns ErrLocked, ErrNotALock or an error of the system.
func Take(path string) (*Lock, error) {
	file := flock.New(Name(path), flock.SetPermissions(0o666))
	for {
		locked, err := file.TryLock()
		if err == nil && !locked {
			err = ErrLocked
		}
		if err != nil {
			return nil, err
		}
		mine, err := file.Stat()
		if err == nil && mine.Size() > 0 {
			err = ErrNotALock
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if there, err := os.Stat(file.Path()); err == nil && os.SameFile(mine, there) {
			return &Lock{file}, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

// Release removes FILE.lock while it is locked. Some systems do not allow that. There the file stays, which does no
// harm.
func (l *Lock) Release() {
	_ = os.Remove(l.file.Path())
	_ = l.file.Close()
}
