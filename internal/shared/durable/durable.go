// Package durable makes the names of files durable.
package durable

import (
	"errors"
	"os"
	"runtime"
)

// SyncFolder makes the names in a folder durable. Windows has no such call.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
