package tests

import (
	"bytes"
	"os"
	"testing"
)

// maxDedupeZip is a fifth more than the zip had when it was first built, with
// clients for DynamoDB, Kinesis, S3 and SQS.
const maxDedupeZip = 5_150_000 // bytes

func TestDedupeZipIsSmall(t *testing.T) {
	t.Parallel()
	bootstrap, err := buildFunction("dedupe", "arm64")
	must(t, err)
	binary, err := os.ReadFile(bootstrap)
	must(t, err)
	zipped := zipOf(t, binary)
	t.Logf("arm64: binary %d bytes, zip %d bytes", len(binary), len(zipped))
	if len(zipped) >= maxDedupeZip {
		t.Errorf("the zip has %d bytes, want fewer than %d", len(zipped), maxDedupeZip)
	}
}

func TestDedupeMainIsWiringOnly(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../functions/dedupe/main.go")
	must(t, err)
	if lines := bytes.Count(source, []byte("\n")); lines > maxMainLines {
		t.Errorf("main.go has %d lines, at most %d are allowed", lines, maxMainLines)
	}
}
