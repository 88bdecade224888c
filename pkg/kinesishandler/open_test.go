package kinesishandler_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// openIn opens a handler with a sink and a dead-letter store below a folder.
func openIn(t *testing.T, dir string) (*kinesishandler.Handler, error) {
	t.Helper()
	o, err := kinesishandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:" + filepath.Join(dir, "out.ndjson"),
		"ONCEBOX_DEAD_LETTERS=dir:" + filepath.Join(dir, "dead"),
	})
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return kinesishandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.DiscardHandler))
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := openIn(t, dir)
	must(t, err)
	if _, err := openIn(t, dir); err == nil || !strings.Contains(err.Error(), "another sink") {
		t.Errorf("the sink was opened twice: %v", err)
	}
	answer, err := h.Handle(t.Context(), rawOf(t, event(`{"id":"a"}`, `poison`)))
	must(t, err)
	equal(t, "failures", len(answer.BatchItemFailures), 0)
	must(t, h.Close())
	out, err := os.ReadFile(filepath.Join(dir, "out.ndjson"))
	must(t, err)
	equal(t, "sink", string(out), `{"id":"a"}`+"\n")
	letters, err := os.ReadDir(filepath.Join(dir, "dead"))
	must(t, err)
	equal(t, "dead letters", len(letters), 1)

	h, err = openIn(t, dir)
	must(t, err)
	must(t, h.Close())
}

// TestOpenNamesEverything: the error names every file and folder that cannot be used.
func TestOpenNamesEverything(t *testing.T) {
	t.Parallel()
	_, err := openIn(t, filepath.Join(t.TempDir(), "missing"))
	if err == nil || !strings.Contains(err.Error(), "out.ndjson") || !strings.Contains(err.Error(), "dead-letter store") {
		t.Errorf("want both to be named, got %v", err)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "dead"), nil, 0o600))
	if _, err = openIn(t, dir); err == nil {
		t.Error("a file was taken for a folder")
	}
	must(t, os.Remove(filepath.Join(dir, "dead")))
	h, err := openIn(t, dir)
	if err != nil {
		t.Fatalf("a failed Open keeps the sink: %v", err)
	}
	must(t, h.Close())
}

// failingAWS fails requests: SQS refuses them all, Kinesis fails at the first put and takes the second.
func failingAWS(t *testing.T) (url string) {
	puts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("X-Amz-Target"), "Kinesis") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if puts++; puts == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = w.Write([]byte(`{"FailedRecordCount":0,"Records":[{"SequenceNumber":"1","ShardId":"shardId-000000000000"}]}`))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestOpenOnAWS: the sink is a stream and the notifier is a queue, and both fail. The dead letter stays stored, and the
// log says that no notification was sent. The record is sent again, and the log counts that.
func TestOpenOnAWS(t *testing.T) {
	endpoint := failingAWS(t)
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_ENDPOINT_URL": endpoint,
	} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	o, err := kinesishandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:" + dir,
		"ONCEBOX_NOTIFY_QUEUE_URL=" + endpoint + "/123456789012/notifier",
	})
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	b := &bench{log: &bytes.Buffer{}}
	b.Handler, err = kinesishandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.NewJSONHandler(b.log, nil)))
	must(t, err)
	defer func() { must(t, b.Close()) }()

	equal(t, "failed", b.do(t, event(`poison`)), "")
	lines := b.lines(t)
	equal(t, "lines", len(lines), 2)
	equal(t, "message", lines[0]["msg"], any("no notification was sent"))
	if text := fmt.Sprint(lines[0]); strings.Contains(text, "poison ") || !strings.Contains(text, dir) {
		t.Errorf("want the place of the object, and no data: %s", text)
	}
	equal(t, "dead letters", lines[1]["dead_lettered"], any(1.0))

	second := event()
	second.Records = append(second.Records, record(2, `{"id":"a"}`))
	equal(t, "failed", b.do(t, second), "")
	line := b.line(t)
	equal(t, "records sent", line["out"], any(1.0))
	equal(t, "records that the sink sent again", line["repeated"], any(1.0))
}

// TestCloseOfNew: the caller closes what it has made.
func TestCloseOfNew(t *testing.T) {
	t.Parallel()
	must(t, newBench(t).Close())
}
