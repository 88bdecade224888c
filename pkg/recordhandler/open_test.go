package recordhandler_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

// openIn opens a handler with a sink and a dead-letter store below a folder.
func openIn(t *testing.T, dir string) (*recordhandler.Handler, error) {
	t.Helper()
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:" + filepath.Join(dir, "out.ndjson"),
		"ONCEBOX_DEAD_LETTERS=dir:" + filepath.Join(dir, "dead"),
	})
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return recordhandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.DiscardHandler))
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

// failingAWS fails requests: Kinesis fails at the first put and accepts the second. All other requests are refused.
func failingAWS(t *testing.T) (url string) {
	puts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutRecords") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if puts++; puts == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		var put struct{ Records []any }
		if err := json.NewDecoder(r.Body).Decode(&put); err != nil {
			t.Error(err)
		}
		taken := strings.Repeat(`,{"SequenceNumber":"1","ShardId":"shardId-000000000000"}`, len(put.Records))
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = fmt.Fprintf(w, `{"FailedRecordCount":0,"Records":[%s]}`, taken[1:])
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestOpenOnAWS: the sink is a stream and the notifier is a queue, and both fail. The dead letter stays stored, and the
// log says that no notification was sent. The sink may not list the shards, so it sends plain records, one of them
// above 1 MiB, and sends them again after the fault.
func TestOpenOnAWS(t *testing.T) {
	endpoint := failingAWS(t)
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_ENDPOINT_URL": endpoint,
	} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique?aggregation=kpl&max-record=2MiB",
		"ONCEBOX_DEAD_LETTERS=dir:" + dir + "?notify=" + endpoint + "/123456789012/notifier",
	})
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	b := &bench{log: &bytes.Buffer{}}
	b.Handler, err = recordhandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.NewJSONHandler(b.log, nil)))
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

	e := event("", `{"id":"a"}`, `{"id":"b"}`, fmt.Sprintf(`{"id":"c","large":"%01500000d"}`, 0))
	e.Records = e.Records[1:] // the first one is done
	equal(t, "failed", b.do(t, e), "")
	lines = b.lines(t)
	equal(t, "lines", len(lines), 2)
	equal(t, "message", lines[0]["msg"], any("records are sent without aggregation"))
	if text, _ := lines[0]["error"].(string); !strings.Contains(text, "ListShards") {
		t.Errorf("the error is %q", text)
	}
	equal(t, "records sent", lines[1]["out"], any(3.0))
	equal(t, "records that the sink sent again", lines[1]["repeated"], any(3.0))
}

// TestOpenOfOtherSinks: the settings of a sink reach the service.
func TestOpenOfOtherSinks(t *testing.T) {
	const record = `{"id":"a"}`
	encoded := base64.StdEncoding.EncodeToString([]byte(record))
	answers := map[string]string{
		"Firehose_20150804.PutRecordBatch": `{"FailedPutCount":0,"RequestResponses":[{"RecordId":"1"}]}`,
		"AmazonSQS.SendMessageBatch": fmt.Sprintf(`{"Successful":[{"Id":"0","MessageId":"m","MD5OfMessageBody":"%x"}]}`,
			md5.Sum([]byte(encoded))),
	}
	var got []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.WriteString(w, answers[r.Header.Get("X-Amz-Target")])
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_ENDPOINT_URL": server.URL,
	} {
		t.Setenv(name, value)
	}
	for _, sink := range []string{"firehose:unique?delimiter=none", "sqs:" + server.URL + "/123456789012/unique?encoding=base64"} {
		o, err := recordhandler.ParseOptions([]string{
			"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=" + sink, "ONCEBOX_DEAD_LETTERS=dir:" + t.TempDir(),
		})
		must(t, err)
		o.Clients = full.Clients
		store, err := sqlitestore.OpenMemory(t.Context())
		must(t, err)
		h, err := recordhandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.DiscardHandler))
		must(t, err)
		result, err := h.Deliver(t.Context(), rawOf(t, event(record)))
		if err != nil || result.Tally.Out != 1 || !bytes.Contains(got, []byte(`"`+encoded+`"`)) {
			t.Errorf("%s: %+v, %v, sent %s", sink, result, err, got)
		}
		must(t, h.Close())
		must(t, store.Close())
	}
}

// TestWithoutClients: a sink or a ledger whose client the program does not link is refused before any record is read. The
// error has the variable, and what to deploy.
func TestWithoutClients(t *testing.T) {
	t.Parallel()
	region := func(context.Context) (aws.Config, error) { return aws.Config{Region: "eu-west-1"}, nil }
	for setting, want := range map[string]string{
		"ONCEBOX_SINK=firehose:unique":        "ONCEBOX_SINK is a firehose: address",
		"ONCEBOX_LEDGER=valkeys://cache:6379": "ONCEBOX_LEDGER is a valkey: address",
		"ONCEBOX_SINK=kinesis:unique":         "", "ONCEBOX_SINK=sqs:https://sqs/1/unique": "", "ONCEBOX_SINK=s3://unique": "",
		"ONCEBOX_SINK=dynamodb:unique?key=id": "", "ONCEBOX_LEDGER=log?memory=16MiB": "", "ONCEBOX_LEDGER=keys": "",
	} {
		_, o, err := recordhandler.ParseSettings(with(setting))
		must(t, err)
		_, err = recordhandler.OpenFunction(t.Context(), region, nil, "entries", o, slog.New(slog.DiscardHandler))
		got := fmt.Sprint(err)
		if (err != nil) != (want != "") || o.NeedsClients() != (want != "") ||
			err != nil && (!strings.HasPrefix(got, want) || !strings.Contains(got, "deploy dist/dedupe-full")) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestOpenOfTwoFunctions: the store has the one function that reads a stream in a scope, with and without acks.
func TestOpenOfTwoFunctions(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for _, c := range []struct {
		function, acks string
		want           error
	}{
		{"first", "on", nil}, {"second", "on", dedupe.ErrOtherConsumer}, {"second", "off", dedupe.ErrOtherConsumer},
		{"first", "off", nil},
	} {
		dir := t.TempDir()
		o, err := recordhandler.ParseOptions([]string{
			"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:" + filepath.Join(dir, "out"), "ONCEBOX_DEAD_LETTERS=dir:" + dir,
			"ONCEBOX_ACKS=" + c.acks, "AWS_LAMBDA_FUNCTION_NAME=" + c.function,
		})
		must(t, err)
		h, err := recordhandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.DiscardHandler))
		must(t, err)
		if _, err = h.Deliver(t.Context(), rawOf(t, event(`{"id":"a"}`))); !errors.Is(err, c.want) {
			t.Errorf("%s, acks %s: want %v, got %v", c.function, c.acks, c.want, err)
		}
		must(t, h.Close())
	}
}

// TestCloseOfNew: for a Handler of New, the caller closes its own parts.
func TestCloseOfNew(t *testing.T) {
	t.Parallel()
	must(t, newBench(t).Close())
}
