package sweephandler

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/internal/claims/scratch"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// MostCounted is the largest number of open campaigns whose free items are counted. The newest campaigns are counted.
// Each has its own metric, for which CloudWatch charges.
const MostCounted = 20

// CountEvery is how often free items are counted. A schedule may run somewhat early.
const (
	CountEvery = 5 * time.Minute
	early      = 30 * time.Second
)

// WithMetrics counts the free items of open campaigns, and writes a log line with a metric for each, in CloudWatch's
// embedded metric format. A campaign that was never loaded has no line. A scratch campaign of `oncebox doctor` has none
// either, because it would set off the alarm about few items. The log must write JSON objects, and CloudWatch Logs
// must get them unchanged, as from a Lambda function. namespace is the namespace of the metrics, one for each
// function; "", the default, means that nothing is counted.
func WithMetrics(namespace string) Option {
	return func(h *Handler) { h.counts.metrics = emf.New(namespace, metrics, []string{"Campaign"}, nil) }
}

// metrics are the metrics of a campaign. They are also written without the dimension: its minimum is the least of all
// campaigns.
var metrics = []emf.Metric{{Name: "FreeItems", Unit: emf.Count, Zero: true}}

// counts decides when free items are counted.
type counts struct {
	metrics *emf.Line // nil: never
	mu      sync.Mutex
	last    time.Time
}

// due reports whether it is time to count. If it is, it records the time of this count.
func (c *counts) due(now time.Time) bool {
	if c.metrics == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() && now.Sub(c.last) < CountEvery-early {
		return false
	}
	c.last = now
	return true
}

// countFree counts the free items of campaigns if it is time. It returns the number of campaigns that it could not count.
func (h *Handler) countFree(ctx context.Context, campaigns []itembank.Campaign) (failed int64) {
	now := time.Now()
	if !h.counts.due(now) {
		return 0
	}
	open := slices.DeleteFunc(slices.Clone(campaigns), func(c itembank.Campaign) bool {
		return c.StateAt(now) != itembank.Open || scratch.IsCampaign(c.Name)
	})
	slices.SortStableFunc(open, func(a, b itembank.Campaign) int { return b.CreatedAt.Compare(a.CreatedAt) })
	if more := len(open) - MostCounted; more > 0 {
		h.log.LogAttrs(ctx, slog.LevelWarn, "open campaigns whose free items are not counted",
			slog.String(requestid.Key, requestid.Of(ctx)), slog.Int("campaigns", more))
		open = open[:MostCounted]
	}
	var all errgroup.Group
	all.SetLimit(atOnce)
	var uncounted atomic.Int64
	for _, c := range open {
		all.Go(func() error {
			if !h.countOne(ctx, c.Name) {
				uncounted.Add(1)
			}
			return nil
		})
	}
	_ = all.Wait() // no count returns an error
	return uncounted.Load()
}

// countOne reports whether it counted a campaign, or left alone one that was deleted or marked meanwhile.
func (h *Handler) countOne(ctx context.Context, campaign string) bool {
	count, err := h.bank.CountFree(ctx, campaign)
	attrs := []slog.Attr{slog.String(requestid.Key, requestid.Of(ctx)), slog.String("campaign", campaign)}
	switch {
	case leftAlone(err):
	case err != nil:
		h.log.LogAttrs(ctx, slog.LevelWarn, "free items not counted", append(attrs, slog.String("error", err.Error()))...)
		return false
	case count.Loaded:
		h.counts.metrics.Log(ctx, h.log, slog.LevelInfo, "free items", append(attrs, slog.Bool("exact", count.Exact)),
			emf.Values{Metrics: []float64{float64(count.Items)}, Dimensions: []string{campaign}})
	}
	return true
}
