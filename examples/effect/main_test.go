package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
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
	if got := f.called(); !slices.Equal(got, []string{"natural-1", "natural-2"}) {
		t.Errorf("after the outage the API got the ids %q", got)
	}
}

// TestDeclined: a record that the API refuses for good is a dead letter with the API's answer, and hinders no other
// record. The API is not called for it again.
func TestDeclined(t *testing.T) {
	t.Parallel()
	f := newFunction(t)
	f.declines = "natural-1"
	for range 2 {
		f.answers(t, "natural-duplicates.json", `{"batchItemFailures":[]}`)
	}
	if got := f.called(); !slices.Equal(got, []string{"natural-1", "natural-2"}) {
		t.Errorf("the API got the ids %q", got)
	}
	letters, err := filepath.Glob(filepath.Join(f.letters, "*.json"))
	must(t, err)
	if len(letters) != 1 {
		t.Fatalf("want one dead letter, got %q", letters)
	}
	content, err := os.ReadFile(letters[0])
	must(t, err)
	letter, err := deadletter.Decode(content)
	must(t, err)
	if letter.Reason != "the API answered 402 Payment Required" || !strings.Contains(string(letter.Data), "natural-1") {
		t.Errorf("the dead letter is %+v", letter)
	}
}

// TestOnlyRefusalsAreNever: the API may take a record later after each other answer.
func TestOnlyRefusalsAreNever(t *testing.T) {
	t.Parallel()
	never := []int{400, 402, 413, 422}
	for status := 200; status < 600; status++ {
		err := errorOf(status)
		_, refused := errors.AsType[*dedupe.PoisonError](err)
		if refused != slices.Contains(never, status) || (err == nil) != (status < 300) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// function is the function with a ledger in memory, and with the API that it calls.
type function struct {
	handler *recordhandler.Handler
	mu      sync.Mutex
	status  int // of the API's answers
	ids     []string
	// declines is the ID of a payment that the API declines.
	declines string
	letters  string // the folder of dead letters
}

func newFunction(t *testing.T) *function {
	t.Helper()
	f := &function{status: http.StatusOK, letters: t.TempDir()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		id := r.Header.Get("Idempotency-Key")
		f.ids = append(f.ids, id)
		if id == f.declines {
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		w.WriteHeader(f.status)
	}))
	t.Cleanup(server.Close)
	ledger, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, ledger.Close()) })
	folder, err := deadletter.NewFolder(f.letters)
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
