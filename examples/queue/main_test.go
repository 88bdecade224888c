package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// TestStandardQueue: of five messages, the second is a copy of the first, the third another order under its id, and the
// fourth is not JSON: it is a dead letter. Messages that come again have their effect again.
func TestStandardQueue(t *testing.T) {
	t.Parallel()
	f := newBench(t)
	f.leaves(t, "standard.json")
	f.called(t, "order-1 5.00", "derived 9.00", "order-3 7.00")
	f.leaves(t, "standard.json") // as after a lost answer
	f.called(t, "order-1 5.00", "derived 9.00", "order-3 7.00")
	f.dead(t, "not valid JSON")
}

// TestDeclined: an order that the API refuses for good is a dead letter, and hinders no other order, in any queue. Until
// the letter is stored, its message comes again.
func TestDeclined(t *testing.T) {
	t.Parallel()
	f := newBench(t)
	f.declines = "order-1"
	f.leaves(t, "standard.json")
	f.called(t, "derived 9.00", "order-3 7.00")
	f.dead(t, "not valid JSON", "the API answered 402 Payment Required")

	f = newBench(t)
	f.declines, f.full = "order-2", true
	f.leaves(t, "fifo.json", 2, 3)
	f.full = false
	f.leaves(t, "fifo.json")
	f.called(t, "order-1 ", "order-1 ", "order-3 ")
	f.dead(t, "the API answered 402 Payment Required")
}

// TestOnlyRefusalsAreNever: the API may take an order later after each other answer.
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

// TestAfterAnOutage: the copy of an order is dropped although the call for the order failed: SQS still has the order's
// message. When that comes again, from the queue or from its dead-letter queue, the API is called.
func TestAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"standard.json", "dead.json"} {
		f := newBench(t)
		f.down = "order-1"
		f.leaves(t, "standard.json", 1)
		f.called(t, "derived 9.00", "order-3 7.00")
		f.down = ""
		f.handle(t, again)
		if len(f.calls) == 0 || f.calls[0] != "order-1 5.00" {
			t.Errorf("%s: the API got %q", again, f.calls)
		}
	}
}

// TestFIFOQueue checks that the messages after one that is not done are not begun, and come again in order.
func TestFIFOQueue(t *testing.T) {
	t.Parallel()
	f := newBench(t)
	f.down = "order-2"
	f.leaves(t, "fifo.json", 2, 3)
	f.called(t, "order-1 ")
	f.down = ""
	f.leaves(t, "fifo.json")
	f.called(t, "order-1 ", "order-2 ", "order-3 ")
}

// TestTwiceInABatch: a message that is in a batch twice calls the API once. A message that is done does not come again.
func TestTwiceInABatch(t *testing.T) {
	t.Parallel()
	f := newBench(t)
	f.down = "order-2"
	for _, c := range []struct {
		file   string
		repeat []int // the numbers of messages that are in the batch again
		failed []int
		calls  []string
	}{
		{"fifo.json", []int{1, 2}, []int{2, 3}, []string{"order-1 "}},
		{"standard.json", []int{2, 3, 5}, nil, []string{"order-1 5.00", "derived 9.00", "order-3 7.00"}},
	} {
		f.decider.Scope = c.file
		event := eventIn(t, c.file)
		for _, n := range c.repeat {
			event.Records = append(event.Records, event.Records[n-1])
		}
		if failed := f.give(t, event); !slices.Equal(failed, c.failed) {
			t.Errorf("%s: want the messages %d again, got %d", c.file, c.failed, failed)
		}
		f.called(t, c.calls...)
	}
}

// TestLedgerDown: without decisions there are no effects, and no message is lost.
func TestLedgerDown(t *testing.T) {
	t.Parallel()
	f := newBench(t)
	f.decider.Ledger = brokenLedger{}
	f.leaves(t, "standard.json", 1, 2, 3, 5) // the fourth cannot be read
	f.called(t)
}

type brokenLedger struct{}

func (brokenLedger) Enter(context.Context, dedupe.Question) ([]dedupe.Answer, error) {
	return nil, errors.New("the table does not exist")
}

// bench is the function with a ledger in memory, and with the API that it calls.
type bench struct {
	*function
	down  string   // the ID that the API fails for
	calls []string // of orders that the API has taken

	declines string // the ID that the API refuses for good
	full     bool   // no dead letter can be stored
	letters  map[string]dedupe.DeadLetter
}

func (b *bench) Put(_ context.Context, letters []dedupe.DeadLetter) (stored int, err error) {
	if b.full {
		return 0, errors.New("the disk is full")
	}
	for _, l := range letters {
		b.letters[l.Owner] = l
	}
	return len(letters), nil
}

// dead compares the reasons of all dead letters so far.
func (b *bench) dead(t *testing.T, want ...string) {
	t.Helper()
	var reasons []string
	for owner, l := range b.letters {
		reasons = append(reasons, l.Reason)
		if l.Position.Owner().String() != owner || len(l.Data) == 0 || l.Arrival.Unix() <= 0 || l.Scope == "" {
			t.Errorf("the dead letter %+v is not whole", l)
		}
	}
	slices.Sort(reasons)
	if !slices.Equal(reasons, want) {
		t.Errorf("want dead letters for %q, got %q", want, reasons)
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{letters: map[string]dedupe.DeadLetter{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.serve(t, w, r) }))
	t.Cleanup(server.Close)
	ledger, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, ledger.Close()) })
	b.function, err = newFunction(ledger, b, api{server.URL, server.Client()}.call)
	must(t, err)
	return b
}

func (b *bench) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var order struct {
		ID     string `json:"order_id"`
		Amount string `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || r.Header.Get("Idempotency-Key") != order.ID {
		t.Errorf("the API got the order %q under the key %q, %v", order.ID, r.Header.Get("Idempotency-Key"), err)
	}
	switch order.ID {
	case b.down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case b.declines:
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	if !strings.HasPrefix(order.ID, "order-") {
		order.ID = "derived"
	}
	b.calls = append(b.calls, order.ID+" "+order.Amount)
}

// handle sends an event to the function, as Lambda does. It returns the numbers of the messages that must come again,
// counted from 1.
func (b *bench) handle(t *testing.T, file string) (failed []int) {
	t.Helper()
	return b.give(t, eventIn(t, file))
}

func eventIn(t *testing.T, file string) (event events.SQSEvent) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	must(t, err)
	must(t, json.Unmarshal(raw, &event))
	return event
}

func (b *bench) give(t *testing.T, event events.SQSEvent) (failed []int) {
	t.Helper()
	raw, err := json.Marshal(event)
	must(t, err)
	answer, err := lambda.NewHandler(b.function.handle).Invoke(t.Context(), raw)
	must(t, err)
	var response events.SQSEventResponse
	must(t, json.Unmarshal(answer, &response))
	for _, f := range response.BatchItemFailures {
		failed = append(failed, 1+slices.IndexFunc(event.Records, func(m events.SQSMessage) bool {
			return m.MessageId == f.ItemIdentifier
		}))
	}
	return failed
}

func (b *bench) leaves(t *testing.T, file string, want ...int) {
	t.Helper()
	if failed := b.handle(t, file); !slices.Equal(failed, want) {
		t.Errorf("%s: want the messages %d again, got %d", file, want, failed)
	}
}

// called compares the calls since it was called before.
func (b *bench) called(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(b.calls, want) {
		t.Errorf("want the calls %q, got %q", want, b.calls)
	}
	b.calls = nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
