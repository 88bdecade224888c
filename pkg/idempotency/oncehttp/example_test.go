package oncehttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

// A payment endpoint. The second request with the key gets the response of the first, and no second payment is made.
func Example() {
	store := memstore.NewCalls(time.Now) // in production: an engine that keeps records
	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
	if err != nil {
		log.Fatal(err)
	}
	once, err := oncehttp.New(runner, customerOf, oncehttp.Settings{})
	if err != nil {
		log.Fatal(err)
	}
	payments := 0
	pay := func(w http.ResponseWriter, _ *http.Request) {
		payments++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d", payments)
	}
	server := httptest.NewServer(authenticated(once.Wrap(http.HandlerFunc(pay)))) // in production: http.ListenAndServe
	defer server.Close()

	for _, amount := range []string{"19.90", "19.90", "2000.00"} {
		request, err := http.NewRequest(http.MethodPost, server.URL+"/payments", strings.NewReader(amount))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Idempotency-Key", `"order-1001"`)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was only read
		if err != nil {
			log.Fatal(err)
		}
		if response.StatusCode == http.StatusCreated {
			fmt.Printf("%s: %s, replayed: %q\n", amount, body, response.Header.Get("Idempotency-Replayed"))
		} else {
			fmt.Println(amount+":", response.Status)
		}
	}
	// Output:
	// 19.90: payment 1, replayed: ""
	// 19.90: payment 1, replayed: "true"
	// 2000.00: 422 Unprocessable Entity
}

type customerKey struct{}

// authenticated imitates the server's own middleware, which verifies the customer.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, "customer-17")))
	})
}

func customerOf(r *http.Request) (string, error) {
	customer, _ := r.Context().Value(customerKey{}).(string)
	return customer, nil // "": 401
}
