// Package archive packs files so that the same files always give the same bytes.
package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"time"
)

// modified is the time of every file: the first year of the zip format.
var modified = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// File is a file of an archive.
type File struct {
	Name    string // with slashes
	Mode    fs.FileMode
	Content []byte
}

// The modes of files.
const (
	Executable fs.FileMode = 0o755
	Plain      fs.FileMode = 0o644
)

// Zip writes a zip archive.
func Zip(w io.Writer, files []File) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: modified}
		header.SetMode(f.Mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.Content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// TarGz writes a tar archive, compressed by gzip.
func TarGz(w io.Writer, files []File) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Format: tar.FormatUSTAR, Typeflag: tar.TypeReg,
			Name: f.Name, Mode: int64(f.Mode), Size: int64(len(f.Content)), ModTime: modified,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.Content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
