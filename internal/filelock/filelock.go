// Package filelock locks the name of a file for one process at a time. The lock is FILE.lock beside it, which is there
// while it is held. The system frees the lock of a process that dies.
package filelock

import (
	"errors"
	"os"

	"github.com/gofrs/flock"
)

var (
	// ErrLocked says that another process, or another lock of this process, holds the lock.
	ErrLocked = errors.New("the file is locked")
	// ErrNotALock says that a file with content has the name of the lock. It stays as it is.
	ErrNotALock = errors.New("the file is not a lock")
)

// Lock is a lock that is held.
type Lock struct{ file *flock.Flock }

// Name returns the name of the lock of a file.
func Name(path string) string { return path + ".lock" }

// Take locks a file, which need not exist. It does not wait.
//
// If FILE.lock was removed between opening and locking it, another process may have made a new one: then Take tries
// again.
//
// Errors: ErrLocked, ErrNotALock, or what the system says.
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

// Release removes FILE.lock while it is locked. Where the system does not allow that the file stays, which does no
// harm.
func (l *Lock) Release() {
	_ = os.Remove(l.file.Path())
	_ = l.file.Close()
}
