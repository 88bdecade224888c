package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/oncebox/oncebox/tools/internal/archive"
)

var files = []archive.File{
	{Name: "oncebox", Mode: archive.Executable, Content: []byte("a program")},
	{Name: "LICENSE", Mode: archive.Plain, Content: []byte("a text")},
}

func TestZip(t *testing.T) {
	t.Parallel()
	var packed, again bytes.Buffer
	must(t, archive.Zip(&packed, files))
	must(t, archive.Zip(&again, files))
	if !bytes.Equal(packed.Bytes(), again.Bytes()) {
		t.Error("the same files gave different bytes")
	}
	r, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	must(t, err)
	if len(r.File) != len(files) {
		t.Fatalf("want %d files, got %d", len(files), len(r.File))
	}
	for i, f := range r.File {
		open, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(open)
		must(t, err)
		compare(t, archive.File{Name: f.Name, Mode: f.Mode(), Content: content}, files[i])
	}
}

func TestTarGz(t *testing.T) {
	t.Parallel()
	var packed, again bytes.Buffer
	must(t, archive.TarGz(&packed, files))
	must(t, archive.TarGz(&again, files))
	if !bytes.Equal(packed.Bytes(), again.Bytes()) {
		t.Error("the same files gave different bytes")
	}
	uncompressed, err := gzip.NewReader(&packed)
	must(t, err)
	r := tar.NewReader(uncompressed)
	for _, want := range files {
		header, err := r.Next()
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		compare(t, archive.File{Name: header.Name, Mode: header.FileInfo().Mode(), Content: content}, want)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("want the end of the archive, got %v", err)
	}
}

func compare(t *testing.T, got, want archive.File) {
	t.Helper()
	if got.Name != want.Name || got.Mode != want.Mode || !bytes.Equal(got.Content, want.Content) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
