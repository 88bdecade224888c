package offline

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// file is the part of *os.File that an outputFile needs.
type file interface {
	io.WriteCloser
	io.Seeker
	Sync() error
	Truncate(size int64) error
}

// openFunc opens a file for writing.
type openFunc func(path string, flag int) (file, error)

// osOpen leaves the rights of a new file to the user's umask.
func osOpen(path string, flag int) (file, error) {
	return os.OpenFile(path, flag, 0o666) //nolint:gosec // the umask of the user decides
}

// outputFile is a file or a stream that a run writes to. A file is opened before its first write. After a failure its
// content is unknown, so every later call fails too.
type outputFile struct {
	path    string // empty for a stream
	open    openFunc
	appends bool // keep what is in the file; otherwise the file is cut to size
	to      io.Writer
	size    int64  // bytes of the run in it
	kept    int64  // size to which it is to be cut after a crash
	pack    packer // nil if it is not compressed
	within  bool   // within a gzip member or a Zstandard frame
	loose   bool   // that holds something of a batch that is not done
	dirty   bool   // written to since the last sync
	failed  error
}

// ready opens the file.
func (o *outputFile) ready() error {
	if o.to == nil && o.failed == nil {
		o.failed = o.openAtSize()
	}
	return o.failed
}

func (o *outputFile) openAtSize() error {
	flag := os.O_WRONLY | os.O_CREATE
	if o.appends {
		flag |= os.O_APPEND
	}
	f, err := o.open(o.path, flag)
	if err != nil {
		return err
	}
	o.to, o.dirty = f, true
	if o.appends {
		return nil
	}
	if err := f.Truncate(o.size); err != nil {
		return err
	}
	if _, err := f.Seek(o.size, io.SeekStart); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(o.path))
}

func (o *outputFile) Write(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := o.ready(); err != nil {
		return 0, err
	}
	o.dirty = true
	if o.pack == nil {
		n, o.failed = o.append(b)
		return n, o.failed
	}
	o.begin()
	o.loose = true
	n, o.failed = o.pack.Write(b)
	return n, o.failed
}

// keep says that the batch is done whose results were written. In a compressed file they are kept only after sync.
func (o *outputFile) keep() {
	o.loose = false
	if !o.within {
		o.kept = o.size
	}
}

// append writes bytes as they are in the file.
func (o *outputFile) append(b []byte) (int, error) {
	n, err := o.to.Write(b)
	o.size += int64(n)
	return n, err
}

// begin begins a gzip member or a Zstandard frame, unless it is within one.
func (o *outputFile) begin() {
	if !o.within {
		o.pack.Reset(writerFunc(o.append))
		o.within = true
	}
}

// finish makes a compressed file without content one that can be unpacked.
func (o *outputFile) finish() error {
	if o.pack == nil || o.size > 0 || o.within {
		return nil
	}
	if err := o.ready(); err != nil {
		return err
	}
	o.begin()
	o.dirty = true
	return nil
}

// errLoose says that a compressed file cannot be cut behind the last batch that is done.
var errLoose = errors.New("the output holds a part of the next batch")

// sync waits until what was written is on the disk. A pipe or a terminal has nothing to sync. In a compressed file it
// ends the member or frame, so that the file can be cut there: unpacking it gives all that was written before.
func (o *outputFile) sync() error {
	if !o.dirty || o.failed != nil {
		return o.failed
	}
	if o.within {
		if o.loose {
			return errLoose
		}
		if o.failed = o.pack.Close(); o.failed != nil {
			return o.failed
		}
		o.within, o.kept = false, o.size
	}
	o.dirty = false
	if f, ok := o.to.(*os.File); ok && o.path == "" && !isRegular(f) {
		return nil
	}
	if f, ok := o.to.(interface{ Sync() error }); ok {
		o.failed = f.Sync()
	}
	return o.failed
}

// close closes a file. Its errors do not matter: what counts has been synced.
func (o *outputFile) close() {
	if f, ok := o.to.(io.Closer); ok && o.path != "" {
		_ = f.Close()
	}
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// sizeOf returns the size of a file, or -1 if it does not exist.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, refuse("%s is not a regular file. Choose another file", path)
	}
	return info.Size(), nil
}

// syncFolder makes the names of new files in a folder durable. Windows has no such call.
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
