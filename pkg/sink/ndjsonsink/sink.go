// Package ndjsonsink appends records to a file, one a line: the sink of tests,
// of demos and of functions that run on a developer's machine.
//
// A record is delivered when it is on the disk (fsync). One that was written but
// not confirmed before a crash will be sent again, and is then in the file twice,
// with equal ids. Records keep the order in which they are sent.
package ndjsonsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/gofrs/flock"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// The reasons for which a record can never be a line.
const (
	reasonLineBreak = "it has a line break, which NDJSON cannot hold"
	reasonEmpty     = "it is empty, which NDJSON cannot hold"
)

// Sink appends records to one file. It is safe for concurrent use.
type Sink struct {
	path string
	lock *flock.Flock

	mu   sync.Mutex
	file file
	torn error // why the file may end within a line; nothing is appended then
}

var _ dedupe.Sink = (*Sink)(nil)

// file is an *os.File.
type file interface {
	io.WriteCloser
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// Open opens a file to append to, and makes it if it is not there; its folder
// must be. The half line that a crash may have left at its end is cut off. Until
// Close no other sink, of this process or another, can open it; a file PATH.lock
// beside it, which stays, sees to that.
//
// Errors say in words why the file cannot be used; it is unchanged then.
func Open(path string) (*Sink, error) {
	s := &Sink{path: path, lock: flock.New(path+".lock", flock.SetPermissions(0o600))}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("ndjson sink %s: %w", path, err), s.lock.Close())
	}
	return s, nil
}

func (s *Sink) open() error {
	locked, err := s.lock.TryLock()
	if err != nil {
		return err
	}
	if !locked {
		return errors.New("another sink has it open")
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	s.file = f
	if err := prepare(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// prepare makes the file end with a whole line, and last.
func prepare(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file, from which a half-written line could be cut off")
	}
	if err := repair(f, info.Size()); err != nil {
		return err
	}
	return errors.Join(f.Sync(), syncFolder(filepath.Dir(f.Name())))
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

// Close closes the file and lets others open it.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.file.Close(), s.lock.Close())
}

// Check returns a *dedupe.PoisonError for a record that cannot be one line as it
// is. JSON of more lines is not rewritten: records pass byte for byte.
func (s *Sink) Check(o dedupe.Output) error {
	switch {
	case len(o.Data) == 0:
		return &dedupe.PoisonError{Reason: reasonEmpty}
	case bytes.IndexByte(o.Data, '\n') >= 0:
		return &dedupe.PoisonError{Reason: reasonLineBreak}
	}
	return nil
}

// Send appends records, and answers when they are on the disk. If they did not
// all get there the file is cut back to the last whole record that did. Where
// that fails as well the sink takes no more: open it again.
//
// Errors are faults of the file or the disk, or the context's own.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	if len(outputs) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delivered, err = s.append(ctx, outputs)
	if err != nil {
		err = fmt.Errorf("ndjson sink %s: %w", s.path, err)
	}
	return delivered, err
}

func (s *Sink) append(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if s.torn != nil {
		return 0, s.torn
	}
	begin, err := s.size()
	if err != nil {
		return 0, err
	}
	text, ends := lines(outputs)
	n, err := s.file.Write(text)
	if err == nil {
		if err = s.file.Sync(); err == nil {
			return len(outputs), nil
		}
		n = 0 // after a failed sync nobody knows what is on the disk
	}
	for delivered < len(ends) && ends[delivered] <= n {
		delivered++
	}
	return s.cutBack(begin, ends[:delivered], err)
}

// lines returns the records as text, and where each of them ends in it.
func lines(outputs []dedupe.Output) (text []byte, ends []int) {
	for _, o := range outputs {
		text = append(append(text, o.Data...), '\n')
		ends = append(ends, len(text))
	}
	return text, ends
}

// size returns where the next record goes. A file that was moved or replaced is
// an error: what is appended to it would be delivered nowhere.
func (s *Sink) size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	there, err := os.Stat(s.path)
	if err != nil {
		return 0, err
	}
	if !os.SameFile(info, there) {
		return 0, errors.New("the file was replaced by another")
	}
	return info.Size(), nil
}

// cutBack cuts off what stands behind the whole records, after a failed write.
func (s *Sink) cutBack(begin int64, ends []int, cause error) (delivered int, err error) {
	end := begin
	if len(ends) > 0 {
		end += int64(ends[len(ends)-1])
	}
	if err := errors.Join(s.file.Truncate(end), s.file.Sync()); err != nil {
		s.torn = fmt.Errorf("%w; and cutting it back failed: %w", cause, err)
		return 0, s.torn
	}
	return len(ends), fmt.Errorf("%w; it was cut back to its last whole line", cause)
}
