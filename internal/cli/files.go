package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
)

// Interruptible reads until the context ends. A waiting read of stdin cannot be interrupted: it ends with the process.
func Interruptible(ctx context.Context, stream io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, stream)
		_ = w.CloseWithError(err) // it never fails; nil is the end
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return r
}

// OpenItemFile opens a regular file, which can then be read several times. The name - is stdin, which it first copies
// to a temporary file. Call remove after use.
func OpenItemFile(ctx context.Context, file string, stdin io.Reader) (open itemfile.Open, remove func(), err error) {
	path, remove := file, func() {}
	if path == "-" {
		if path, err = Spool(ctx, stdin); err != nil {
			return nil, nil, fmt.Errorf("copy stdin to a temporary file: %w", err)
		}
		remove = func() { _ = os.Remove(path) }
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, BadUsage(FileError(file, err), "")
	case info.IsDir():
		return nil, nil, BadUsage(fmt.Errorf("%s is a directory, not a file", path), "")
	case path == file && !info.Mode().IsRegular():
		hint := fmt.Sprintf("Use - and a pipe: cat %s | oncebox ... -", ShellWord(path))
		return nil, nil, BadUsage(fmt.Errorf("%s is not a regular file", path), hint)
	}
	return func() (io.ReadCloser, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, withoutPath(err)
		}
		return file, nil
	}, remove, nil
}

// ReadFile reads a whole file. The name - is stdin.
func ReadFile(ctx context.Context, stdin io.Reader, file string) (content []byte, err error) {
	if file != "-" {
		content, err = os.ReadFile(file)
	} else {
		var text bytes.Buffer
		err = CopyUntil(ctx, &text, stdin)
		if ctx.Err() != nil {
			return nil, ctx.Err() // the copy may still write to the buffer
		}
		content = text.Bytes()
	}
	if err != nil {
		return nil, BadUsage(FileError(file, err), "")
	}
	return content, nil
}

// FileError returns the error about a file, without the name of the system call.
func FileError(path string, err error) error { return fmt.Errorf("%s: %w", path, withoutPath(err)) }

// withoutPath returns the reason of an error of package os.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// Spool copies a reader to a temporary file.
func Spool(ctx context.Context, r io.Reader) (path string, err error) {
	file, err := os.CreateTemp("", "oncebox-load-*")
	if err != nil {
		return "", err
	}
	err = CopyUntil(ctx, file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// CopyUntil copies to the end of r, or until the context ends. A waiting read of stdin cannot be interrupted: it ends
// with the process.
func CopyUntil(ctx context.Context, w io.Writer, r io.Reader) error {
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
