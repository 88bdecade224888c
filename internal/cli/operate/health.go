package operate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

const (
	healthPath = "/healthz"
	// healthLife is how long a result of storeHealth is used, whatever callers ask for.
	healthLife    = time.Second
	healthTimeout = 5 * time.Second
)

// withHealth answers GET /healthz, for every host: a proxy that checks its servers knows them by their addresses. Every
// answer gets the id of its request.
func withHealth(store *storeHealth, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := claimapi.RequestID(w, r)
		if r.URL.Path != healthPath || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if err := store.check(r.Context()); err != nil {
			slog.Warn("unhealthy", "request_id", id, "error", err.Error())
			w.WriteHeader(http.StatusServiceUnavailable)
			cli.PrintJSON(w, healthJSON{"unavailable"})
			return
		}
		cli.PrintJSON(w, healthJSON{"ok"})
	})
}

// healthJSON is the answer of /healthz.
type healthJSON struct {
	Status string `json:"status"`
}

// storeHealth knows whether the store can be read. It is safe for concurrent use.
type storeHealth struct {
	bank *itembank.Operator
	now  func() time.Time

	mu    sync.Mutex
	until time.Time
	err   error
}

// check reads a row that need not exist, or returns its last result. A caller that goes away does not change the result
// of others.
func (h *storeHealth) check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now().Before(h.until) {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	_, h.err = h.bank.Campaign(ctx, "healthz")
	if errors.Is(h.err, itembank.ErrNoCampaign) {
		h.err = nil
	}
	h.until = h.now().Add(healthLife)
	return h.err
}
