package s3files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/oncebox/oncebox/internal/aws/s3files"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

const bucket = "lake"

func open(t *testing.T, endpoint string) *s3files.Store {
	t.Helper()
	s, err := s3files.Open(t.Context(), func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	})
	check(t, err)
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, content, 0o600))
	return path
}

func place(key string) s3files.Place { return s3files.Place{Bucket: bucket, Key: key} }

func create(t *testing.T, s *s3files.Store, key string, content []byte) {
	t.Helper()
	check(t, s.Create(t.Context(), place(key), file(t, content), "run"))
}

func read(t *testing.T, s *s3files.Store, o s3files.Object) ([]byte, error) {
	t.Helper()
	r := s.Read(t.Context(), o)
	content, err := io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

func TestParsePlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		place  s3files.Place
		prefix bool
	}{
		"s3://lake":        {s3files.Place{Bucket: bucket}, true},
		"s3://lake/":       {s3files.Place{Bucket: bucket}, true},
		"s3://lake/a/b":    {place("a/b"), false},
		"s3://lake/a/":     {place("a/"), true},
		"s3://lake/a b?#%": {place("a b?#%"), false},
	} {
		got, err := s3files.ParsePlace(text)
		if err != nil || got != want.place || got.IsPrefix() != want.prefix {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"s3://", "s3:///key", "lake/key"} {
		if got, err := s3files.ParsePlace(text); err == nil || !strings.Contains(err.Error(), text+": use s3://") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// TestList checks that objects come in the order of the bytes of their keys, even from many pages.
func TestList(t *testing.T) {
	t.Parallel()
	s := open(t, testengine.S3(t, bucket))
	keys := []string{"in/a.b", "in/a/b", "in/a0", "in/é", "other"}
	for _, key := range slices.Backward(keys) {
		create(t, s, key, []byte(key))
	}
	var got []string
	for o, err := range s.List(t.Context(), place("in/")) {
		check(t, err)
		got = append(got, o.Key)
		if content, err := read(t, s, o); err != nil || string(content) != o.Key || o.Size != int64(len(o.Key)) {
			t.Errorf("%+v: %q, %v", o, content, err)
		}
	}
	if !slices.Equal(got, keys[:4]) {
		t.Errorf("got %q", got)
	}
	for _, err := range s.List(t.Context(), s3files.Place{Bucket: "none"}) {
		if err == nil || !strings.Contains(err.Error(), "s3://none/") {
			t.Errorf("want an error that names the bucket, got %v", err)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	s := open(t, testengine.S3(t, bucket))
	if _, err := s.Find(t.Context(), place("none")); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != "s3://lake/none: there is no such object or bucket" {
		t.Errorf("got %v", err)
	}
}

// TestChanged checks that an object that was replaced or deleted after it was found is not read, even if its size is
// the same.
func TestChanged(t *testing.T) {
	t.Parallel()
	endpoint := testengine.S3(t, bucket)
	s := open(t, endpoint)
	create(t, s, "a", []byte("first"))
	o, err := s.Find(t.Context(), place("a"))
	check(t, err)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		request, err := http.NewRequestWithContext(t.Context(), method, endpoint+"/"+bucket+"/a", strings.NewReader("other"))
		check(t, err)
		response, err := http.DefaultClient.Do(request)
		check(t, err)
		check(t, response.Body.Close())
		if content, err := read(t, s, o); !errors.Is(err, s3files.ErrChanged) || len(content) > 0 {
			t.Errorf("%s: %q, %v", method, content, err)
		}
	}
}

// TestConnectionsBreak: a reading continues where the connection broke.
func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	endpoint, err := url.Parse(testengine.S3(t, bucket))
	check(t, err)
	direct := open(t, endpoint.String())
	content := bytes.Repeat([]byte("0123456789"), 20_000)
	create(t, direct, "a", content)
	proxy := httputil.NewSingleHostReverseProxy(endpoint)
	breaks := 0
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && breaks < 4 {
			breaks++
			w = &breaking{ResponseWriter: w, left: 50_000}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(broken.Close)
	s := open(t, broken.URL)
	o, err := s.Find(t.Context(), place("a"))
	check(t, err)
	if got, err := read(t, s, o); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d of %d bytes, %v", len(got), len(content), err)
	}
	if breaks < 3 {
		t.Errorf("only %d breaks", breaks)
	}
}

// breaking is a connection that breaks after a number of bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	n, err := b.ResponseWriter.Write(p[:min(len(p), b.left)])
	if b.left -= n; b.left == 0 {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// TestCreate checks that an object is created once. The same run may repeat it, but another run may not.
func TestCreate(t *testing.T) {
	t.Parallel()
	s := open(t, testengine.S3(t, bucket))
	at := place("out")
	path := file(t, []byte("survivors"))
	for range 2 {
		check(t, s.Create(t.Context(), at, path, "run 1"))
	}
	if err := s.Create(t.Context(), at, file(t, nil), "run 2"); !errors.Is(err, s3files.ErrExists) {
		t.Errorf("want ErrExists, got %v", err)
	}
	o, err := s.Find(t.Context(), at)
	check(t, err)
	if content, err := read(t, s, o); err != nil || string(content) != "survivors" {
		t.Errorf("%q, %v", content, err)
	}
}

// TestCreateLostAnswer checks that a put whose answer is lost is done.
func TestCreateLostAnswer(t *testing.T) {
	t.Parallel()
	endpoint, err := url.Parse(testengine.S3(t, bucket))
	check(t, err)
	proxy := httputil.NewSingleHostReverseProxy(endpoint)
	lost := 0
	losing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && lost == 0 {
			lost++
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(losing.Close)
	s := open(t, losing.URL)
	create(t, s, "a", []byte("a"))
	if run, err := s.CreatedBy(t.Context(), place("a")); err != nil || run != "run" || lost != 1 {
		t.Errorf("%q, %v, %d answers lost", run, err, lost)
	}
}

// TestCreateInParts checks that a large object is uploaded in parts, and that it also names its run.
func TestCreateInParts(t *testing.T) {
	t.Parallel()
	s := open(t, testengine.S3(t, bucket))
	content := bytes.Repeat([]byte("0123456789abcdef"), 20<<16)
	create(t, s, "large", content)
	o, err := s.Find(t.Context(), place("large"))
	check(t, err)
	if got, err := read(t, s, o); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d of %d bytes, %v", len(got), len(content), err)
	}
	if run, err := s.CreatedBy(t.Context(), place("large")); err != nil || run != "run" {
		t.Errorf("%q, %v", run, err)
	}
}
