// Package ndjsonsink appends records to a file, one record on each line (NDJSON). Use it for tests, demos and
// functions that run on a developer's machine.
//
//	sink, err := ndjsonsink.Open("out.ndjson")
//	...
//	defer sink.Close()
//	sent, err := sink.Send(ctx, outputs)
//
// A record is delivered when it is on the disk (fsync). The level of this sink is "at least once" (package sinktest),
// with stable ids. If a crash comes after a record was written and before it was confirmed, the record is sent again,
// and is in the file twice. Records keep the order in which they are sent.
package ndjsonsink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"

	"github.com/oncebox/oncebox/internal/shared/durable"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// The reasons why a record cannot be a line.
const (
	reasonLineBreak = "it has a line break, which a line of NDJSON cannot hold"
	reasonEmpty     = "it is empty, which a line of NDJSON cannot be"
)

// Sink appends records to one file. It is safe for concurrent use.
type Sink struct {
	path string
	lock *flock.Flock

	mu   sync.Mutex
	file file
	torn error // not nil: the file may end within a line, so nothing is appended
}

var _ dedupe.Sink = (*Sink)(nil)

// file is the part of an *os.File that a Sink uses.
type file interface {
	io.WriteCloser
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// Open opens a file to append to. It makes the file if it does not exist; the folder must exist. If a crash has left
// an incomplete line at the end, Open removes it. Until Close, no other sink of this or another process can open the
// file: the file PATH.lock beside it is the lock, and is not deleted.
//
// The error says why the file cannot be used. The file is then unchanged.
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
		return errors.New("another sink has opened it")
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

// prepare makes the file end with a complete line, and makes the file and its name durable.
func prepare(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file, so an incomplete line could not be cut off")
	}
	if err := repair(f, info.Size()); err != nil {
		return err
	}
	return errors.Join(f.Sync(), durable.SyncFolder(filepath.Dir(f.Name())))
}

// Close closes the file and releases its lock.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.file.Close(), s.lock.Close())
}

// Check returns a *dedupe.PoisonError for a record that cannot be one line.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error {
	if len(o.Data) == 0 {
		return &dedupe.PoisonError{Reason: reasonEmpty}
	}
	if _, ok := line(o.Data); !ok {
		return &dedupe.PoisonError{Reason: reasonLineBreak}
	}
	return nil
}

// line returns a record as a line. The lines of JSON are joined, as in objects of S3. Any other record stays byte for
// byte, and cannot have a line break.
func line(data []byte) (joined []byte, ok bool) {
	if bytes.IndexByte(data, '\n') < 0 {
		return data, true
	}
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return data, false
	}
	return compact.Bytes(), true
}

// Send appends records, and returns when they are on the disk. If that fails, Send cuts the file back to the last
// complete record; the records up to there are delivered. If that fails too, the Sink takes no more records: close it
// and open the file again.
//
// Errors are faults of the file or the disk, or an error of the context.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	if len(outputs) == 0 {
		return dedupe.Sent{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.append(ctx, outputs)
	if err == nil {
		return dedupe.Sent{}, nil
	}
	sent := dedupe.Sent{Delivered: make([]bool, len(outputs))}
	for i := range n {
		sent.Delivered[i] = true
	}
	return sent, fmt.Errorf("ndjson sink %s: %w", s.path, err)
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
		n = 0 // after a failed sync the content of the disk is unknown
	}
	for delivered < len(ends) && ends[delivered] <= n {
		delivered++
	}
	return s.cutBack(begin, ends[:delivered], err)
}

// lines returns the records as one text, and the end of each record in it.
func lines(outputs []dedupe.Output) (text []byte, ends []int) {
	for _, o := range outputs {
		data, _ := line(o.Data) // Check has tested it
		text = append(append(text, data...), '\n')
		ends = append(ends, len(text))
	}
	return text, ends
}

// size returns the size of the file, where the next record begins. It returns an error if the file was moved or
// replaced, because no reader would find the record.
func (s *Sink) size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	named, err := os.Stat(s.path)
	if err != nil {
		return 0, err
	}
	if !os.SameFile(info, named) {
		return 0, errors.New("the file was replaced by another file")
	}
	return info.Size(), nil
}

// cutBack removes the text after the complete records, after a failed write.
func (s *Sink) cutBack(begin int64, ends []int, cause error) (delivered int, err error) {
	end := begin
	if len(ends) > 0 {
		end += int64(ends[len(ends)-1])
	}
	if err := errors.Join(s.file.Truncate(end), s.file.Sync()); err != nil {
		s.torn = fmt.Errorf("%w; cutting the file back failed, too: %w", cause, err)
		return 0, s.torn
	}
	return len(ends), fmt.Errorf("%w; the file was cut back to its last complete line", cause)
}
