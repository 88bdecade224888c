// Package sweephandler closes the holds and claims whose time is over, in all campaigns of a store, and counts their free
// items. The function in functions/sweep uses it, on a schedule.
//
// Requests also close the ended claims that they find. The sweep is for campaigns without requests. It does not delete
// blocks (itembank.Operator.PurgeBlocks), because it would have to read all claims of a scope each time.
package sweephandler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// Operator is the part of *itembank.Operator that a Handler calls.
type Operator interface {
	Campaigns(ctx context.Context) ([]itembank.Campaign, error)
	SweepDue(ctx context.Context, campaign string, progress itembank.Progress) (itembank.SweepReport, error)
	CountFree(ctx context.Context, campaign string) (itembank.FreeCount, error)
}

// Handler sweeps a bank. It is safe for concurrent use, and several sweeps at once do no harm.
type Handler struct {
	bank   Operator
	log    *slog.Logger
	counts counts
}

// Option changes a default of a Handler.
type Option func(*Handler)

// New makes a Handler for a store. The log gets a line for each sweep, and a line for each campaign that was not swept
// to its end. The lines contain no claimants and no items. If a sweep found nothing to do, its line has the level
// debug.
func New(bank Operator, log *slog.Logger, options ...Option) *Handler {
	h := &Handler{bank: bank, log: log}
	for _, o := range options {
		o(h)
	}
	return h
}

// Report is the result of a sweep.
type Report struct {
	Campaigns int   `json:"campaigns"` // campaigns whose claims end, and those that cannot be read
	Failed    int   `json:"failed"`    // how many of these were not swept to their end
	Returned  int64 `json:"returned"`  // items that returned to the bank
	Expired   int64 `json:"expired"`   // items that have ended
	Withdrawn int64 `json:"withdrawn"` // items that were withdrawn while they were held, and have now ended
}

// atOnce is how many campaigns are swept at the same time, so that one with many claims does not delay all others.
const atOnce = 8

// Handle sweeps each campaign that has holds or a claim life, as a Lambda function does. It stops 0.5 s before the
// deadline of its context. The order of the campaigns is random, so that no campaign is always the last. With
// WithMetrics it also counts free items, if the last count was at least CountEvery ago.
//
// A campaign that fails, that cannot be counted, or whose row cannot be read, does not stop the others. Handle then
// returns an error at its end, and the report has the results. The next sweep tries the rest again. A campaign that is deleted meanwhile, or that is
// marked as moved or restored, is not a failure.
func (h *Handler) Handle(ctx context.Context) (Report, error) {
	begun := time.Now()
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	report, err := h.sweep(ctx)
	level := slog.LevelInfo
	switch {
	case err != nil:
		level = slog.LevelError
	case report.Returned+report.Expired+report.Withdrawn == 0:
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String(requestid.Key, requestid.Of(ctx)),
		slog.Int("campaigns", report.Campaigns), slog.Int("failed", report.Failed),
		slog.Int64("returned", report.Returned), slog.Int64("expired", report.Expired),
		slog.Int64("withdrawn", report.Withdrawn),
		slog.Float64("duration_ms", emf.Milli(time.Since(begun))),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	h.log.LogAttrs(ctx, level, "sweep", attrs...)
	return report, err
}

func (h *Handler) sweep(ctx context.Context) (report Report, err error) {
	all, err := h.bank.Campaigns(ctx)
	unreadable, ok := errors.AsType[*itembank.UnreadableError](err)
	switch {
	case ok:
		for _, c := range unreadable.Campaigns {
			h.logFailed(ctx, c.Name, c.Err)
			report.add(itembank.SweepReport{}, c.Err)
		}
	case err != nil:
		return report, fmt.Errorf("sweephandler: %w", err)
	}
	var counting sync.WaitGroup // runs beside the sweep, which may need all of the time
	var uncounted int64
	counting.Go(func() { uncounted = h.countFree(ctx, all) })
	campaigns := ending(all)
	report.Campaigns = len(campaigns) + report.Failed
	var mu sync.Mutex // guards report
	var sweeps errgroup.Group
	sweeps.SetLimit(atOnce)
	for _, i := range rand.Perm(len(campaigns)) { //nolint:gosec // no campaign is always last; guessing it gives no advantage
		sweeps.Go(func() error {
			swept, err := h.bank.SweepDue(ctx, campaigns[i], nil)
			if leftAlone(err) {
				err = nil
			}
			if err != nil {
				h.logFailed(ctx, campaigns[i], err)
			}
			mu.Lock()
			defer mu.Unlock()
			report.add(swept, err)
			return nil
		})
	}
	_ = sweeps.Wait() // no sweep returns an error
	counting.Wait()
	var failures []error
	if report.Failed > 0 {
		failures = append(failures, fmt.Errorf("sweephandler: %d of %d campaigns were not swept to their end; the log says why",
			report.Failed, report.Campaigns))
	}
	if uncounted > 0 {
		failures = append(failures, fmt.Errorf("sweephandler: the free items of %d campaigns were not counted; the log says why",
			uncounted))
	}
	return report, errors.Join(failures...)
}

func (h *Handler) logFailed(ctx context.Context, campaign string, err error) {
	h.log.LogAttrs(ctx, slog.LevelError, "campaign not swept", slog.String(requestid.Key, requestid.Of(ctx)),
		slog.String("campaign", campaign), slog.String("error", err.Error()))
}

// leftAlone reports whether a campaign was not swept because it was deleted or marked meanwhile.
func leftAlone(err error) bool {
	return errors.Is(err, itembank.ErrNoCampaign) || errors.Is(err, itembank.ErrMoved) || errors.Is(err, itembank.ErrRestored)
}

// ending returns the names of the campaigns whose claims can end. It leaves out those that sweeps leave alone.
func ending(campaigns []itembank.Campaign) (names []string) {
	for _, c := range campaigns {
		if (c.Hold > 0 || c.ClaimLife > 0) && !c.Moved && !c.Restored {
			names = append(names, c.Name)
		}
	}
	return names
}

func (r *Report) add(swept itembank.SweepReport, err error) {
	r.Returned += swept.Returned
	r.Expired += swept.Expired
	r.Withdrawn += swept.Withdrawn
	if err != nil {
		r.Failed++
	}
}
