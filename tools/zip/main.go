// Command zip packs the executable of a Lambda function:
//
//	zip ARCHIVE FILE...
//
// Unlike zip(1) it needs no installation, and the same files give the same
// archive: they are executable and of 1980, the zip format's first year.
package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
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

func pack(archive string, files []string) error {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, file := range files {
		if err := add(w, file); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(archive, packed.Bytes(), 0o644)
}

func add(w *zip.Writer, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	header := &zip.FileHeader{
		Name:     filepath.Base(file),
		Method:   zip.Deflate,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	header.SetMode(0o755)
	entry, err := w.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = entry.Write(content)
	return err
}
