package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/oncebox/oncebox/internal/itemfile"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// itemSource reads items from a file, or from stdin if it is named -: one a line, or
// a column of a CSV file. Stdin is spooled to a temporary file, since items are read
// twice. Call remove after use.
func (a *app) itemSource(ctx context.Context, file string, column *string) (source itembank.Source, remove func(), err error) {
	if column != nil && *column == "" {
		return nil, nil, &usageError{errors.New("--column is empty: name a column, or leave it out if the file has one item a line"), ""}
	}
	open, remove, err := openItems(ctx, file, a.stdin)
	if err != nil {
		return nil, nil, err
	}
	if column != nil {
		return itemfile.CSV(open, *column), remove, nil
	}
	return itemfile.Lines(open), remove, nil
}

func openItems(ctx context.Context, file string, stdin io.Reader) (open itemfile.Open, remove func(), err error) {
	path, remove := file, func() {}
	if path == "-" {
		if path, err = spool(ctx, stdin); err != nil {
			return nil, nil, fmt.Errorf("spool stdin: %w", err)
		}
		remove = func() { _ = os.Remove(path) }
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, &usageError{err, ""}
	case info.IsDir():
		return nil, nil, &usageError{fmt.Errorf("%s is a directory, not a file of items", path), ""}
	case path == file && !info.Mode().IsRegular():
		return nil, nil, &usageError{fmt.Errorf("%s is not a regular file; pipe it in as -", path), ""}
	}
	return func() (io.ReadCloser, error) { return os.Open(path) }, remove, nil
}

// spool copies a reader to a temporary file.
func spool(ctx context.Context, r io.Reader) (path string, err error) {
	file, err := os.CreateTemp("", "oncebox-load-*")
	if err != nil {
		return "", err
	}
	err = copyUntil(ctx, file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// copyUntil copies to the end of r, or until the context ends: a read of stdin
// cannot be interrupted, so what waits in it is left behind for the process to end.
func copyUntil(ctx context.Context, w io.Writer, r io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watched tells how far the second reading of a source is: the first is the check
// that tells how long it is.
func watched(source itembank.Source, progress itembank.Progress) itembank.Source {
	if progress == nil {
		return source
	}
	var total int64
	checked := false
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			var done int64
			for line, err := range source() {
				if done++; checked {
					progress(done, total)
				}
				if !yield(line, err) {
					return
				}
			}
			total, checked = done, true
		}
	}
}
