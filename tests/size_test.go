package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const maxMainLines = 39 // the main of a function only connects packages

// shipped are the functions and their limits for arm64. Nearly all of that is the AWS SDK (docs/adr/0003, "What the
// dedupe function links"). The size of a binary changes in steps of 64 KiB, to which its segments are filled up.
var shipped = []struct {
	name              string
	here              func() (bootstrap string, err error) // for this machine
	maxBinary, maxZip int64                                // bytes
	maxLoaded         int64                                // bytes allocated before main starts
}{
	{"claim", hostBootstrap, 9_600_000, 3_820_000, 1_250_000}, // DynamoDB, Secrets Manager
	{"sweep", hostSweep, 9_600_000, 3_820_000, 970_000},
	{"dedupe", hostDedupe, 12_100_000, 4_560_000, 1_650_000},          // DynamoDB, Kinesis, S3, SQS
	{"dedupe-full", hostDedupeFull, 13_200_000, 4_900_000, 2_330_000}, // and Firehose, Valkey, Secrets Manager
}

func TestFunctionsAreSmall(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for _, f := range shipped {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			bootstrap, err := buildFunction(f.name, "arm64")
			must(t, err)
			binary, zipped := sizeOf(t, bootstrap), sizeOf(t, zipOf(t, "..", bootstrap))
			t.Logf("arm64: binary %d bytes, zip %d bytes", binary, zipped)
			if binary > f.maxBinary {
				t.Errorf("the binary has %d bytes, at most %d are allowed", binary, f.maxBinary)
			}
			if zipped > f.maxZip {
				t.Errorf("the zip has %d bytes, at most %d are allowed", zipped, f.maxZip)
			}
		})
	}
}

// zipOf packs an executable as `make zip` does, with the packer of the source tree at root.
func zipOf(t *testing.T, root, bootstrap string) string {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "function.zip")
	pack := exec.CommandContext(t.Context(), "go", "run", "-C", "tools", "./zip", archive, bootstrap)
	pack.Dir = root
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("tools/zip: %v\n%s", err, out)
	}
	return archive
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	return info.Size()
}

func TestMainsAreWiringOnly(t *testing.T) {
	t.Parallel()
	for _, f := range shipped {
		source, err := os.ReadFile("../functions/" + f.name + "/main.go")
		must(t, err)
		if lines := bytes.Count(source, []byte("\n")); lines > maxMainLines {
			t.Errorf("%s: main.go has %d lines, at most %d are allowed", f.name, lines, maxMainLines)
		}
	}
}

// maxOwnLoaded limits the memory that the packages of this project allocate together before main starts. A few small
// regular expressions fit. A regular expression with a large repetition, such as [a-z]{3,255}, takes 200 KB and
// delays every start.
const maxOwnLoaded = 32_000 // bytes

// initLine is the line that GODEBUG=inittrace=1 prints for a package.
var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes, `)

// TestLittleIsLoadedBeforeMain measures the start of a function in bytes, because a test
// must not depend on time. Without settings the functions exit at once.
func TestLittleIsLoadedBeforeMain(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("functions run on Linux")
	}
	for _, f := range shipped {
		bootstrap, err := f.here()
		must(t, err)
		start := exec.CommandContext(t.Context(), bootstrap)
		start.Env = []string{"GODEBUG=inittrace=1"}
		out, err := start.CombinedOutput()
		if err == nil {
			t.Fatalf("%s started without settings: %s", f.name, out)
		}
		var own, all int64
		for _, line := range initLine.FindAllSubmatch(out, -1) {
			bytes, err := strconv.ParseInt(string(line[2]), 10, 64)
			must(t, err)
			all += bytes
			if strings.HasPrefix(string(line[1]), module) {
				own += bytes
			}
		}
		t.Logf("%s: %d bytes are loaded before main, %d of them by the project's packages", f.name, all, own)
		if own == 0 || own > maxOwnLoaded {
			t.Errorf("%s: the project's packages load %d bytes before main, at most %d are allowed", f.name, own, maxOwnLoaded)
		}
		if all > f.maxLoaded {
			t.Errorf("%s: %d bytes are loaded before main, at most %d are allowed", f.name, all, f.maxLoaded)
		}
	}
}
