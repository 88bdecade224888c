package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/examples/payment/client"
	"github.com/oncebox/oncebox/examples/payment/stub"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// endpoint is the function with a payment API whose next answers can be lost.
type endpoint struct {
	t     *testing.T
	api   stub.API
	store *sqlitestore.Store
	lose  int // answers
	pay   func(context.Context, request) (response, error)
}

// book is what putInto does on DynamoDB.
func book(c charge) idempotency.Effects {
	return sqlitestore.Effects(func(ctx context.Context, tx sqlitestore.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO charges VALUES (?, ?, ?)`, c.id, c.cents, c.answer)
		return err
	})
}

// booked returns how many charges the shop has booked.
func (e *endpoint) booked() (n int) {
	e.t.Helper()
	must(e.t, e.store.Do(e.t.Context(), "count charges", func(ctx context.Context, tx sqlitestore.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM charges`).Scan(&n)
	}))
	return n
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.lose > 0 {
			e.lose--
			e.api.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		e.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var err error
	e.store, err = sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, e.store.Close()) })
	must(t, e.store.Do(t.Context(), "make charges", func(ctx context.Context, tx sqlitestore.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE charges (id TEXT, cents INTEGER, answer TEXT) STRICT`)
		return err
	}))
	e.pay, err = newHandler(e.store, paymentAPI{client.Client{Address: server.URL, HTTP: server.Client()}, book})
	must(t, err)
	return e
}

// send sends a request of a customer, or of nobody, as API Gateway does.
func (e *endpoint) send(customer, key, body string) response {
	e.t.Helper()
	r := request{RawPath: "/payments", Headers: map[string]string{"idempotency-key": key}, Body: body}
	r.RequestContext.HTTP.Method = http.MethodPost
	if customer != "" {
		r.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: map[string]string{"sub": customer}},
		}
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	answer, err := e.pay(ctx, r)
	must(e.t, err)
	return answer
}

const coffee = `{"card":"tok_1","cents":450}`

// TestPayment: a key is charged and booked once for each customer. What is wrong is refused, and charges nothing.
func TestPayment(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	for _, c := range []struct {
		customer, key, body string
		status              int
		want                string // the charge, if there is one
		charges             int
	}{
		{"ann", "k-1", coffee, http.StatusCreated, `{"charge":"ch_1"}`, 1},
		{"ann", "k-1", coffee, http.StatusCreated, `{"charge":"ch_1"}`, 1},
		{"bob", "k-1", coffee, http.StatusCreated, `{"charge":"ch_2"}`, 2},
		{"ann", "k-1", `{"card":"tok_1","cents":9900}`, http.StatusUnprocessableEntity, "", 2},
		{"ann", "k-2", `{"cents":450}`, http.StatusBadRequest, "", 2},
		{"ann", "", coffee, http.StatusBadRequest, "", 2},
		{"", "k-3", coffee, http.StatusUnauthorized, "", 2},
	} {
		answer := e.send(c.customer, c.key, c.body)
		if answer.StatusCode != c.status || c.want != "" && answer.Body != c.want || e.api.Charges() != c.charges ||
			e.booked() != c.charges {
			t.Errorf("%s, %s, %s: got %d %s, %d charges and %d rows", c.customer, c.key, c.body,
				answer.StatusCode, answer.Body, e.api.Charges(), e.booked())
		}
	}
}

// TestLostAnswer: the card was charged, and the answer of the payment API was lost. The customer tries again: the
// function runs again, and the payment API knows the key.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	e.lose = 1
	if lost := e.send("ann", "k-1", coffee); lost.StatusCode != http.StatusBadGateway || e.booked() != 0 {
		t.Errorf("the first answer is %d %s, with %d rows", lost.StatusCode, lost.Body, e.booked())
	}
	again := e.send("ann", "k-1", coffee)
	if again.StatusCode != http.StatusCreated || again.Body != `{"charge":"ch_1"}` || e.api.Charges() != 1 ||
		e.booked() != 1 {
		t.Errorf("the second answer is %d %s, with %d charges and %d rows", again.StatusCode, again.Body,
			e.api.Charges(), e.booked())
	}
}

// TestLateExecution: the payment API refuses an execution that was frozen and has a successor.
func TestLateExecution(t *testing.T) {
	t.Parallel()
	var api stub.API
	send := func(number string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/charges", nil)
		r.Header.Set("Idempotency-Key", "k-1")
		r.Header.Set("Execution-Number", number)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code
	}
	if first, late := send("8"), send("7"); first != http.StatusCreated || late != http.StatusConflict || api.Charges() != 1 {
		t.Errorf("the first execution gets %d, the late one %d, with %d charges", first, late, api.Charges())
	}
}
