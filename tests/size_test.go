package tests

import (
	"archive/zip"
	"bytes"
	"os"
	"testing"
)

const (
	maxZip       = 6 << 20 // bytes; most of it is the AWS SDK
	maxMainLines = 39      // a Lambda main is wiring only
)

func TestClaimZipIsSmall(t *testing.T) {
	t.Parallel()
	bootstrap, err := buildFunction("claim", "arm64")
	must(t, err)
	binary, err := os.ReadFile(bootstrap)
	must(t, err)
	zipped := zipOf(t, binary)
	t.Logf("arm64: binary %d bytes, zip %d bytes", len(binary), len(zipped))
	if len(zipped) >= maxZip {
		t.Errorf("the zip has %d bytes, want fewer than %d", len(zipped), maxZip)
	}
}

func zipOf(t *testing.T, binary []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	file, err := w.Create("bootstrap")
	must(t, err)
	_, err = file.Write(binary)
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}

func TestClaimMainIsWiringOnly(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../functions/claim/main.go")
	must(t, err)
	if lines := bytes.Count(source, []byte("\n")); lines > maxMainLines {
		t.Errorf("main.go has %d lines, at most %d are allowed", lines, maxMainLines)
	}
}
