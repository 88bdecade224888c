package offline

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/internal/shared/durable"
)

// file holds the methods of *os.File that an outputFile needs.
type file interface {
	io.WriteCloser
	io.Seeker
	Sync() error
	Truncate(size int64) error
}

// openFunc opens a file for writing.
type openFunc func(path string, flag int) (file, error)

// osOpen lets the user's umask decide about the permissions of a new file.
func osOpen(path string, flag int) (file, error) {
	return os.OpenFile(path, flag, 0o666) //nolint:gosec // the umask of the user decides
}

// outputFile is a file or a stream that a run writes to. A file is opened before its first write. After a failure its
// content is unknown, so every later call also fails.
type outputFile struct {
	path    string // empty for a stream
	open    openFunc
	appends bool // keep the content of the file; otherwise cut the file to size
	to      io.Writer
	size    int64  // the number of bytes that the run has written
	kept    int64  // the size to which a run after a crash cuts the file
	pack    packer // nil if it is not compressed
	within  bool   // a gzip member or a Zstandard frame has begun and not ended
	partial bool   // that member or frame has a part of an unfinished batch
	dirty   bool   // the file was written to since the last sync
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
	return durable.SyncFolder(filepath.Dir(o.path))
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
	o.partial = true
	n, o.failed = o.pack.Write(b)
	return n, o.failed
}

// keep says that the current batch is completely written. In a compressed file its results are kept only after sync.
func (o *outputFile) keep() {
	o.partial = false
	if !o.within {
		o.kept = o.size
	}
}

// append writes bytes to the file as they are.
func (o *outputFile) append(b []byte) (int, error) {
	n, err := o.to.Write(b)
	o.size += int64(n)
	return n, err
}

// begin begins a gzip member or a Zstandard frame, unless one has begun.
func (o *outputFile) begin() {
	if !o.within {
		o.pack.Reset(writerFunc(o.append))
		o.within = true
	}
}

// finish makes sure that a compressed file without content can be unpacked.
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

// errPartial says that a compressed file cannot be cut after the last batch that is done.
var errPartial = errors.New("the output holds a part of the next batch")

// sync waits until all written bytes are on the disk. A pipe or a terminal needs no sync. In a compressed file it
// ends the member or frame, so that the file can be cut there: unpacking the cut file gives everything that was
// written before.
func (o *outputFile) sync() error {
	if !o.dirty || o.failed != nil {
		return o.failed
	}
	if o.within {
		if o.partial {
			return errPartial
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

// close closes a file and ignores its errors: all bytes that matter have been synced.
func (o *outputFile) close() {
	if f, ok := o.to.(io.Closer); ok && o.path != "" {
		_ = f.Close()
	}
}

// become makes o another file, which is opened when it is needed. Nothing was written to the old one: its run was closed
// before it began.
func (o *outputFile) become(path string) {
	if _, isOpen := o.to.(file); isOpen {
		o.close()
		o.to = nil
	}
	o.path, o.failed = path, nil
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
