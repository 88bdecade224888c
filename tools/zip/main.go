// Command zip packs the executable of a Lambda function:
//
//	zip ARCHIVE FILE...
//
// Unlike zip(1) it needs no installation, and the same files always give the same archive.
// All files in the archive are executable.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/tools/internal/archive"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: zip ARCHIVE FILE...")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "zip:", err)
		os.Exit(1)
	}
}

func pack(name string, paths []string) error {
	var files []archive.File
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, archive.File{Name: filepath.Base(path), Mode: archive.Executable, Content: content})
	}
	var packed bytes.Buffer
	if err := archive.Zip(&packed, files); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644)
}
