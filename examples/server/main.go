// Command server serves claims from a server of your own: once as the whole claim API behind your log-in, once as a
// call inside a handler of yours.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func main() {
	store, err := sqlitestore.Create(context.Background(), "shop.db")
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Addr: "127.0.0.1:8080", Handler: routes(itembank.New(store)), ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func routes(bank *itembank.Bank) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/campaigns/", withLogin(claimapi.New(bank, claimapi.FromContext(), slog.Default())))
	mux.Handle("POST /checkout", checkout(bank))
	return mux
}

// withLogin tells the claim API who the caller is. Replace the header by the identity that your log-in has verified.
func withLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := claimapi.WithCaller(r.Context(), r.Header.Get("X-Customer"))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// checkout gives a customer a code of the campaign "spring" with their order. The request is safe to repeat: the
// customer gets the same code.
func checkout(bank *itembank.Bank) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, err := bank.Claim(r.Context(), "spring", r.Header.Get("X-Customer"))
		switch {
		case err == nil:
			_, _ = fmt.Fprintln(w, "your code is", grant.Claim.Items[0])
		case errors.Is(err, itembank.ErrSoldOut):
			_, _ = fmt.Fprintln(w, "all codes are gone")
		case errors.Is(err, itembank.ErrRefused): // not open, closed, claimed elsewhere
			_, _ = fmt.Fprintln(w, "no code today")
		case errors.Is(err, itembank.ErrInvalid):
			http.Error(w, "who are you?", http.StatusBadRequest)
		default: // ErrTryAgain, or a fault
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
}
