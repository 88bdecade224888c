package offline

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// file is an *os.File.
type file interface {
	io.WriteCloser
	io.Seeker
	Sync() error
	Truncate(size int64) error
}

// opener is os.OpenFile with rights that are left to the user's umask.
type opener func(path string, flag int) (file, error)

func osOpen(path string, flag int) (file, error) { return os.OpenFile(path, flag, 0o666) }

// target is where lines go: a file or a stream. A file is opened when there is
// something for it. After a failure nothing more is known of what is in it, and
// everything fails.
type target struct {
	path   string // empty: a stream
	open   opener
	adds   bool // to what is in the file; else it is cut to size first
	to     io.Writer
	size   int64 // bytes written that stay
	dirty  bool  // written to since the last sync
	failed error
}

// ready opens the file.
func (t *target) ready() error {
	if t.to == nil && t.failed == nil {
		t.failed = t.begin()
	}
	return t.failed
}

func (t *target) begin() error {
	flag := os.O_WRONLY | os.O_CREATE
	if t.adds {
		flag |= os.O_APPEND
	}
	f, err := t.open(t.path, flag)
	if err != nil {
		return err
	}
	t.to, t.dirty = f, true
	if t.adds {
		return nil
	}
	if err := f.Truncate(t.size); err != nil {
		return err
	}
	if _, err := f.Seek(t.size, io.SeekStart); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(t.path))
}

func (t *target) Write(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := t.ready(); err != nil {
		return 0, err
	}
	t.dirty = true
	n, t.failed = t.to.Write(b)
	t.size += int64(n)
	return n, t.failed
}

// sync makes what was written last. A stream that is not a file has nothing to
// sync.
func (t *target) sync() error {
	if !t.dirty || t.failed != nil {
		return t.failed
	}
	t.dirty = false
	if f, ok := t.to.(*os.File); ok && t.path == "" && !isRegular(f) {
		return nil
	}
	if f, ok := t.to.(interface{ Sync() error }); ok {
		t.failed = f.Sync()
	}
	return t.failed
}

// close closes a file. What matters has been synced.
func (t *target) close() {
	if f, ok := t.to.(io.Closer); ok && t.path != "" {
		_ = f.Close()
	}
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// length returns the size of a file; -1 if there is none.
func length(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, refuse("%s is not a regular file", path)
	}
	return info.Size(), nil
}

// syncFolder makes the names in a folder last. Windows cannot be asked to.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
