package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/oncebox/oncebox/internal/aws/s3files"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const lake = "lake"

// withID is a record with an id.
func withID(id int) string { return fmt.Sprintf("{\"id\":%d}\n", id) }

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func unzipped(t *testing.T, content string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(content))
	must(t, err)
	text, err := io.ReadAll(r)
	must(t, err)
	return string(text)
}

func zstandard(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return string(w.EncodeAll([]byte(text), nil))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes files, and their folders.
func (s *shell) tree(files map[string]string) {
	s.Helper()
	for name, content := range files {
		must(s.T, os.MkdirAll(filepath.Join(s.dir, filepath.Dir(name)), 0o700))
		s.file(name, content)
	}
}

// dayFiles returns files of all kinds. Their order differs from the order of a walk: a.b is before a/b.
func dayFiles(t *testing.T) map[string]string {
	return map[string]string{
		"in/a.b": withID(1), "in/a/b": gzipped(t, withID(2)), "in/a/c.gz": gzipped(t, withID(3)) + gzipped(t, withID(1)),
		"in/d.zst": zstandard(t, withID(4)) + zstandard(t, withID(5)), "in/é": withID(6),
		"in/_SUCCESS": withID(90), "in/.hidden": withID(91), "in/a/.git/x": withID(92), "in/x.tmp": withID(93),
		"in/_temporary/x": withID(94), "in/x~": withID(95),
	}
}

// survivorsOfDays are the survivors of these files.
func survivorsOfDays(ids ...int) (all string) {
	for _, id := range ids {
		all += withID(id)
	}
	return all
}

// inputCases are names of inputs below a place, with the files that they mean.
var inputCases = []struct {
	name string
	want string
}{
	{"in", survivorsOfDays(1, 2, 3, 4, 5, 6)}, {"in/", survivorsOfDays(1, 2, 3, 4, 5, 6)}, {"in/a/", survivorsOfDays(2, 3, 1)},
	{"in/*", survivorsOfDays(1, 4, 5, 6)}, {"in/**", survivorsOfDays(1, 2, 3, 4, 5, 6)}, {"in/**/*.gz", survivorsOfDays(3, 1)},
	{"in/{d,a.}*", survivorsOfDays(1, 4, 5)}, {"in/.hidden", survivorsOfDays(91)}, {"in/a/c.gz", survivorsOfDays(3, 1)},
}

// TestDedupeDirectories checks that directories and patterns mean their files, in the order of the bytes of their
// names.
func TestDedupeDirectories(t *testing.T) {
	s := newShell(t)
	s.tree(dayFiles(t))
	must(t, os.Symlink("a", filepath.Join(s.dir, "in", "link")))
	for _, c := range inputCases {
		if got := s.run(exitDone, "dedupe", c.name, "--id-path", "id", "--ledger", inMemory); got.stdout != c.want {
			t.Errorf("%s: want\n%sgot\n%s", c.name, c.want, got.stdout)
		}
	}
	s.tree(map[string]string{"empty/.x": "", "[odd]*": withID(7)})
	for _, none := range []string{"empty", "in/*.none", "none*/**"} {
		s.run(exitUsage, "dedupe", none, "--id-path", "id", "--ledger", inMemory).saying(t, none+": there are no files to read", "Hidden and temporary")
	}
	s.run(exitUsage, "dedupe", "in/[x", "--id-path", "id", "--ledger", inMemory).saying(t, "in/[x: there is no such file", "bracket")
	if got := s.run(exitDone, "dedupe", "[odd]*", "--id-path", "id", "--ledger", inMemory); got.stdout != withID(7) {
		t.Errorf("a file that is named like a pattern: %s", got.stdout)
	}
	for _, args := range [][]string{
		{"in", "--out", "in/new"}, {"in/**", "--out", "in/a/new"}, {"in", "--dead-letters", "in/dead"}, {"in", "--ledger", "in/l.db"},
	} {
		s.run(exitUsage, append([]string{"dedupe", "--id-path", "id", "--ledger", inMemory}, args...)...).saying(t, "a later run would find it among the inputs in")
	}
	s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ledger", inMemory, "--out", "in/_new")
}

// TestDedupeCompressed: the name of the output says how it is compressed.
func TestDedupeCompressed(t *testing.T) {
	s := newShell(t)
	s.file("in.gz", gzipped(t, orders))
	s.run(exitLook, "dedupe", "in.gz", "--id-path", "id", "--ledger", inMemory, "--out", "out.gz")
	if got := unzipped(t, s.read("out.gz")); got != uniqueOrders {
		t.Errorf("got %s", got)
	}
	s.run(exitLook, "dedupe", "in.gz", "--id-path", "id", "--ledger", inMemory, "--out", "out.zst")
	if got := s.run(exitDone, "dedupe", "out.zst", "--id-path", "id", "--ledger", inMemory); got.stdout != uniqueOrders {
		t.Errorf("got %s", got.stdout)
	}
	if got := s.want(exitLook, s.runWith(s.read("in.gz"), "dedupe", "--id-path", "id", "--ledger", inMemory)); got.stdout != uniqueOrders {
		t.Errorf("from stdin: got %s", got.stdout)
	}
	s.run(exitUsage, "dedupe", "in.gz", "--id-path", "id", "--out", "x", "--dead-letters", "x.gz").saying(t, "not compressed")
}

// inS3 gives the shell an S3 of its own.
func (s *shell) inS3() *s3files.Store {
	s.Helper()
	endpoint := testengine.S3(s.T, lake)
	s.env = append(s.env, "AWS_ENDPOINT_URL_S3="+endpoint, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	store, err := s3files.Open(s.Context(), localS3(endpoint))
	must(s.T, err)
	return store
}

func (s *shell) put(store *s3files.Store, key, content string) {
	s.Helper()
	must(s.T, store.Create(s.Context(), s3files.Place{Bucket: lake, Key: key}, s.file("object", content), "test"))
}

func (s *shell) object(store *s3files.Store, key string) string {
	s.Helper()
	o, err := store.Find(s.Context(), s3files.Place{Bucket: lake, Key: key})
	must(s.T, err)
	r := store.Read(s.Context(), o)
	content, err := io.ReadAll(r)
	must(s.T, err)
	must(s.T, r.Close())
	return string(content)
}

// TestDedupeS3: objects are read as files are, and written once.
func TestDedupeS3(t *testing.T) {
	s := newShell(t)
	store := s.inS3()
	for key, content := range dayFiles(t) {
		s.put(store, key, content)
	}
	s.put(store, "in/a/", "") // as consoles make a folder
	for _, c := range inputCases {
		if c.name == "in" { // there is no such object
			continue
		}
		if got := s.run(exitDone, "dedupe", "s3://lake/"+c.name, "--id-path", "id", "--ledger", inMemory); got.stdout != c.want {
			t.Errorf("%s: want\n%sgot\n%s", c.name, c.want, got.stdout)
		}
	}
	s.run(exitUsage, "dedupe", "s3://lake/in", "--id-path", "id").saying(t, "s3://lake/in: there is no such object", "say s3://lake/in/.")
	s.run(exitUsage, "dedupe", "s3://lake/none/", "--id-path", "id").saying(t, "s3://lake/none/: there are no files")
	s.run(exitFailed, "dedupe", "s3://none/x/", "--id-path", "id").saying(t, "s3://none/x/", "NoSuchBucket")
	s.run(exitUsage, "dedupe", "s3://lake/in/", "--id-path", "id", "--out", "s3://lake/in/out", "--ledger", inMemory).saying(t, "a later run would find it")

	args := []string{"dedupe", "s3://lake/in/", "--id-path", "id", "--ledger", "l.db", "--out", "s3://lake/out/unique.gz"}
	s.run(exitDone, args...).saying(t, "new 6 ", "natural 1 ")
	if got := unzipped(t, s.object(store, "out/unique.gz")); got != survivorsOfDays(1, 2, 3, 4, 5, 6) {
		t.Errorf("got %s", got)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*upload*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	s.run(exitUsage, args...).saying(t, "s3://lake/out/unique.gz exists", "Choose another key")
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--out", "s3://lake/out/").saying(t, "name one object")
}

// TestDedupeS3Resumed checks that a killed run from S3 to S3 continues, and that its object has each survivor once.
func TestDedupeS3Resumed(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	store := s.inS3()
	const n = 20_000
	s.put(store, "in.gz", gzipped(t, manyRecords(n)))
	whole := s.run(exitDone, "dedupe", "s3://lake/in.gz", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", inMemory)
	args := []string{
		"dedupe", "s3://lake/in.gz", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", "l.db",
		"--out", "s3://lake/out.gz", "--batch-size", "20",
	}
	c := s.command(context.Background(), nil, args...)
	must(t, c.Start())
	size := func() int64 {
		files, err := filepath.Glob(filepath.Join(s.dir, "out.gz.*.upload"))
		must(t, err)
		if len(files) == 0 {
			return 0
		}
		info, err := os.Stat(files[0])
		must(t, err)
		return info.Size()
	}
	for size() < 5000 { // more than the first member, whose size is saved before the next batch
		time.Sleep(time.Millisecond) // before the next look at the other process's file
	}
	must(t, c.Process.Kill())
	if err := c.Wait(); err == nil {
		t.Fatal("the run was not killed on its way")
	}
	s.run(exitDone, args...).saying(t, "went on after")
	if unzipped(t, s.object(store, "out.gz")) != whole.stdout {
		t.Error("the output is not that of an uninterrupted run")
	}
}

// localS3 loads the settings of the engine in this process.
func localS3(endpoint string) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	}
}
