package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for range 2 {
		held, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Take(path); !errors.Is(err, ErrLocked) {
			t.Errorf("want %v, got %v", ErrLocked, err)
		}
		held.Release()
		if _, err := os.Stat(Name(path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the lock is left behind: %v", err)
		}
	}
}

// TestOtherFile checks that a file of another program with the name of the lock stays.
func TestOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(Name(path), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); !errors.Is(err, ErrNotALock) {
		t.Errorf("want %v, got %v", ErrNotALock, err)
	}
	if text, err := os.ReadFile(Name(path)); err != nil || string(text) != "mine" {
		t.Errorf("got %q, %v", text, err)
	}
}
