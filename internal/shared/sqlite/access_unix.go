//go:build linux || darwin

package sqlite

import (
	"errors"
	"io/fs"
	"syscall"
)

// mayWrite reports whether this user may write to the file. If not, SQLite must not try: it would leave a WAL to which
// the owner of the file cannot write. The file is not opened, because closing it would free the locks that SQLite holds
// on it for this process (sqlite.org, "How To Corrupt An SQLite Database File", section 2.2).
func mayWrite(path string) bool {
	const toWrite = 2
	err := syscall.Access(path, toWrite)
	return !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS)
}
