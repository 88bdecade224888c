package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// TestEachRecordOnce sends an event with two records, one of which has copies, another record under a used id, and a
// record that is not JSON. The second time, the same event calls nothing.
func TestEachRecordOnce(t *testing.T) {
	t.Parallel()
	for event, want := range map[string][]string{
		"natural-duplicates.json": {"natural-1", "natural-2"},
		"synthetic-duplicates.json": {
			"order-1", newID(t, `{"id":"order-1","fp":"fp1","total":20}`),
		},
		"poison-among-good.json": {"among-1", "among-3"},
	} {
		f := newFunction(t)
		for range 2 {
			f.answers(t, event, `{"batchItemFailures":[]}`)
		}
		slices.Sort(want)
		if got := f.called(); !slices.Equal(got, want) {
			t.Errorf("%s: want calls with the ids %q, got %q", event, want, got)
		}
	}
}

// TestAPIDown: while the API is down, the invocation fails, and no record is lost. Afterwards each is done.
func TestAPIDown(t *testing.T) {
	t.Parallel()
	f := newFunction(t)
	f.status = http.StatusServiceUnavailable
	if answer, err := f.handle(t, "natural-duplicates.json"); err == nil {
		t.Errorf("the invocation got the answer %s", answer)
	}
	f.ids, f.status = nil, http.StatusOK
	f.answers(t, "natural-duplicates.json", `{"batchItemFailures":[]}`)
	// A call that was cancelled during the outage may arrive late.
	if got := slices.Compact(f.called()); !slices.Equal(got, []string{"natural-1", "natural-2"}) {
		t.Errorf("after the outage the API got the ids %q", got)
	}
}

// function is the function with a ledger in memory, and with the API that it calls.
type function struct {
	handler *kinesishandler.Handler
	mu      sync.Mutex
	status  int // of the API's answers
	ids     []string
}

func newFunction(t *testing.T) *function {
	t.Helper()
	f := &function{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ids = append(f.ids, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(f.status)
	}))
	t.Cleanup(server.Close)
	ledger, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, ledger.Close()) })
	folder, err := deadletter.NewFolder(t.TempDir())
	must(t, err)
	f.handler, err = newHandler(ledger, deadletter.New(folder), api{server.URL, server.Client()}.call)
	must(t, err)
	return f
}

func (f *function) handle(t *testing.T, event string) (answer []byte, err error) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../events/dedupe", event))
	must(t, err)
	return f.handler.Invoke(t.Context(), raw)
}

func (f *function) answers(t *testing.T, event, want string) {
	t.Helper()
	answer, err := f.handle(t, event)
	must(t, err)
	if string(answer) != want {
		t.Errorf("%s: want the answer %s, got %s", event, want, answer)
	}
}

// called returns the ids of the calls. The calls of a chunk have no order.
func (f *function) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.ids))
}

func newID(t *testing.T, record string) string {
	t.Helper()
	reader, err := format.NewJSON(format.Options{IDPath: "id", Volatile: []string{"sent_at"}})
	must(t, err)
	fields, err := reader.Read(t.Context(), []byte(record))
	must(t, err)
	return format.DerivedID(fields.ID, fields.Fingerprint)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
