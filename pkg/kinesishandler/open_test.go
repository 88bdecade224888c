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

// openIn opens a handler with a sink and a failure store below a folder.
func openIn(t *testing.T, dir string) (*kinesishandler.Handler, error) {
	t.Helper()
	o, err := kinesishandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:" + filepath.Join(dir, "out.ndjson"), "ONCEBOX_DEAD_LETTERS=dir:" + filepath.Join(dir, "bad"),
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
	kept, err := os.ReadDir(filepath.Join(dir, "bad"))
	must(t, err)
	equal(t, "kept", len(kept), 1)

	h, err = openIn(t, dir)
	must(t, err)
	must(t, h.Close())
}

// TestOpenTellsOfEverything that cannot be opened.
func TestOpenTellsOfEverything(t *testing.T) {
	t.Parallel()
	_, err := openIn(t, filepath.Join(t.TempDir(), "missing"))
	if err == nil || !strings.Contains(err.Error(), "out.ndjson") || !strings.Contains(err.Error(), "failure store") {
		t.Errorf("want both to be named, got %v", err)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "bad"), nil, 0o600))
	if _, err = openIn(t, dir); err == nil {
		t.Error("a file was taken for a folder")
	}
	must(t, os.Remove(filepath.Join(dir, "bad")))
	h, err := openIn(t, dir)
	if err != nil {
		t.Fatalf("a failed Open keeps the sink: %v", err)
	}
	must(t, h.Close())
}

// TestOpenOnAWS: the sink is a stream and the notifier a queue; both are out of
// reach here. The record that was kept stays so, and the log tells that nobody
// was told of it.
func TestOpenOnAWS(t *testing.T) {
	nowhere := httptest.NewServer(http.NotFoundHandler())
	nowhere.Close()
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": nowhere.URL,
	} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	o, err := kinesishandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:" + dir,
		"ONCEBOX_NOTIFY_QUEUE_URL=" + nowhere.URL + "/123456789012/notifier",
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
	equal(t, "notifier", lines[0]["msg"], any("notifier not notified"))
	if text := fmt.Sprint(lines[0]); strings.Contains(text, "poison ") || !strings.Contains(text, dir) {
		t.Errorf("want where it is kept, and no data: %s", text)
	}
	equal(t, "kept", lines[1]["dead_lettered"], any(1.0))

	equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "1")
	if n, _ := b.line(t)["repeated"].(float64); n < 1 {
		t.Errorf("the sink's own repeats are not told: %v", n)
	}
}

// TestCloseOfNew: what the caller made is the caller's to close.
func TestCloseOfNew(t *testing.T) {
	t.Parallel()
	must(t, kinesishandler.New(nil, nil, nil, kinesishandler.Options{}, slog.New(slog.NewJSONHandler(&bytes.Buffer{}, nil))).Close())
}
