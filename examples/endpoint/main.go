// Command endpoint is a payment endpoint on one machine: a request that comes again is not paid again. README.md shows
// it.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

func main() {
	store, err := sqlitestore.Create(context.Background(), "once.db")
	check(err)
	server := &http.Server{Addr: "localhost:8081", Handler: endpoint(store), ReadHeaderTimeout: time.Second}
	check(server.ListenAndServe())
}

func endpoint(store *sqlitestore.Store) http.Handler {
	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
	check(err)
	once, err := oncehttp.New(runner, customer, oncehttp.Settings{})
	check(err)
	return once.Wrap(http.HandlerFunc(pay))
}

func customer(*http.Request) (string, error) { return "ann", nil } // from your log-in

func pay(w http.ResponseWriter, r *http.Request) {
	execution, _ := oncehttp.ExecutionOf(r.Context())
	log.Println("charge with the key", execution.KeyFor("charge")) // call your payment API
	fmt.Fprintln(w, "paid in execution", execution.Number)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
