package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/examples/payment/client"
	"github.com/oncebox/oncebox/examples/payment/stub"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shop is the function with its queue, and with a payment API that is down for some cards and declines others.
type shop struct {
	t              *testing.T
	api            stub.API
	queue          queue
	down, declines string // cards
	asked          int
	handle         handler
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked++
		body := readAll(t, r)
		switch {
		case s.down != "" && strings.Contains(body, s.down):
			s.api.ServeHTTP(httptest.NewRecorder(), r) // charged, and the answer is lost
			w.WriteHeader(http.StatusServiceUnavailable)
		case s.declines != "" && strings.Contains(body, s.declines):
			w.WriteHeader(http.StatusPaymentRequired)
		default:
			s.api.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	s.handle, err = newHandler(store, client.Client{Address: server.URL, HTTP: server.Client()})
	must(t, err)
	return s
}

// works lets the function process the queue until it is empty.
func (s *shop) works() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for len(s.queue.waiting) > 0 {
		batch := s.queue.receive(10)
		answer, err := s.handle(ctx, eventOf(batch))
		must(s.t, err)
		for _, m := range batch {
			s.queue.settle(m, m.isDone(answer))
		}
	}
}

// has compares the numbers of charges and of dead letters.
func (s *shop) has(charges, dead int) {
	s.t.Helper()
	if s.api.Charges() != charges || len(s.queue.dead) != dead {
		s.t.Errorf("want %d charges and %d dead letters, got %d and %d", charges, dead, s.api.Charges(), len(s.queue.dead))
	}
}

func orderOf(number int, card string, cents int) string {
	return fmt.Sprintf(`{"order":"order-%d","card":%q,"cents":%d}`, number, card, cents)
}

// TestWorker: each order is charged once, also if its message is delivered again, sent twice, or moved back from the
// dead-letter queue.
func TestWorker(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.down = "tok_3"
	for range 2 {
		for n := 1; n <= 4; n++ {
			s.queue.send(orderOf(n, fmt.Sprint("tok_", n), 100*n))
		}
	}
	again := *s.queue.waiting[0]
	s.works()
	s.has(4, 2) // the third is charged, and the function does not know
	s.down = ""
	s.queue.redrive()
	s.queue.waiting = append(s.queue.waiting, &again) // SQS delivers it after it was done
	s.works()
	s.has(4, 0)
}

// TestWorkerRefuses: another amount for an order that is charged, a message without an order and one that is not JSON
// end in the dead-letter queue, and nothing is charged for them. A card that was declined is not asked for again.
func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.declines = "tok_9"
	s.queue.send(orderOf(1, "tok_1", 100))
	s.works()
	s.asked = 0
	for _, body := range []string{
		orderOf(1, "tok_1", 9900), `{"card":"tok_1","cents":100}`, `{"card":"tok_1","cents":100}`, `order-1`,
		orderOf(2, "", 100), orderOf(9, "tok_9", 100),
	} {
		s.queue.send(body)
	}
	s.works()
	s.has(1, 6)
	if s.asked != 1 {
		t.Errorf("the payment API was asked %d times, want once for the card that it declines", s.asked)
	}
}

// readAll reads the body of a request, which can be read again.
func readAll(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	must(t, err)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}
