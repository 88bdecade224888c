package claimapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// metrics are the metrics of requests for a claim, in the order of numbers.
var metrics = []emf.Metric{
	{Name: "Claims", Unit: emf.Count},
	{Name: "Repeats", Unit: emf.Count},
	{Name: "SoldOut", Unit: emf.Count},
	{Name: "LostRaces", Unit: emf.Count},
	{Name: "Conflicts", Unit: emf.Count},
	{Name: "Throttles", Unit: emf.Count},
	{Name: "Latency", Unit: emf.Milliseconds},
}

// WithMetrics adds metrics to the log lines of requests for a claim, in CloudWatch's embedded metric format. The log must
// write JSON objects, and CloudWatch Logs must get them unchanged, as from a Lambda function. namespace is the
// namespace of the metrics, one for each function; "", the default, means no metrics. docs/operations.md explains the
// metrics.
func WithMetrics(namespace string) Option {
	return func(h *Handler) { h.metrics = emf.New(namespace, metrics) }
}

// numbers returns the metrics of a request. Only requests for a claim have metrics.
func (h *Handler) numbers(c *call, r reply, took time.Duration) (v emf.Values) {
	if h.metrics == nil || c.route.path != claimsPath {
		return v
	}
	counted := h.contention.next(h.bank)
	v.Metrics = []float64{
		oneIf(r.status == http.StatusCreated), oneIf(r.replayed), oneIf(r.slug == slugSoldOut),
		float64(counted.LostRaces), float64(counted.Conflicts), float64(counted.Throttles), emf.Milli(took),
	}
	return v
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// contention tracks which part of a Bank's Contention is already in log lines. If requests run at the same time, a
// line may have the contention of another request; each conflict is in one line.
type contention struct {
	mu  sync.Mutex
	log itembank.Contention // the part that is in log lines
}

func (c *contention) next(bank *itembank.Bank) itembank.Contention {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := bank.Contention()
	counted := now.Since(c.log)
	c.log = now
	return counted
}
