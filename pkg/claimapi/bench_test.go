package claimapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// endless is a store in memory whose items are never used up.
type endless struct{ *memstore.Items }

func (endless) Take(context.Context, []engine.FreeItem, engine.Claim) (engine.TakeResult, error) {
	return engine.TakeResult{}, nil
}

// BenchmarkClaim measures the cost of a new claim without a store: in the Bank, in Handle, and in the function, with
// JSON as input and output.
func BenchmarkClaim(b *testing.B) {
	event, err := os.ReadFile("../../events/claim/claim-body.json")
	must(b, err)
	var request request
	must(b, json.Unmarshal(event, &request))
	bank := itembank.NewOperator(endless{memstore.NewItems()})
	(&bench{bank: bank}).campaign(b, "spring", itembank.Settings{}, "SPRING-1", "SPRING-2", "SPRING-3", "SPRING-4")
	from, err := claimapi.ParseClaimantFrom("body")
	must(b, err)
	h := claimapi.New(bank.Bank, from, slog.New(slog.NewJSONHandler(nowhere{}, nil)))

	b.Run("bank", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := bank.Claim(b.Context(), "spring", "customer-1")
			must(b, err)
		}
	})
	b.Run("handle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			response, err := h.Handle(b.Context(), request)
			must(b, err)
			equal(b, "status", response.StatusCode, http.StatusCreated)
		}
	})
	measured := claimapi.New(bank.Bank, from, slog.New(slog.NewJSONHandler(nowhere{}, nil)), claimapi.WithMetrics("oncebox/claims"))
	b.Run("handle with metrics", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := measured.Handle(b.Context(), request)
			must(b, err)
		}
	})
	function := lambda.NewHandler(h)
	b.Run("function", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := function.Invoke(b.Context(), event)
			must(b, err)
		}
	})
}

// nowhere discards log lines. Unlike for io.Discard, a log makes its lines for it.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
