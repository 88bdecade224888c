package itembanktest

import (
	"context"
	"slices"
	"sync"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Hooked is a store with hooks around every call, for counting calls, failing
// them before or after their effect, and doing something in between.
type Hooked struct {
	engine.Store
	// Before is called with the method's name; its error replaces the call.
	Before func(method string) error
	// After is called after the call's effect; its error replaces the reply.
	After func(method string) error

	mu    sync.Mutex
	calls []string
}

var _ engine.Store = (*Hooked)(nil)

// Calls returns the methods called since the last Calls, in order.
func (h *Hooked) Calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := slices.Clone(h.calls)
	h.calls = h.calls[:0]
	return calls
}

func hooked[R any](h *Hooked, method string, call func() (R, error)) (R, error) {
	h.mu.Lock()
	h.calls = append(h.calls, method)
	h.mu.Unlock()
	var none R
	if h.Before != nil {
		if err := h.Before(method); err != nil {
			return none, err
		}
	}
	result, err := call()
	if h.After != nil {
		if lost := h.After(method); lost != nil {
			return none, lost
		}
	}
	return result, err
}

// CreateCampaign calls the store between the hooks, as all methods do.
func (h *Hooked) CreateCampaign(ctx context.Context, c engine.Campaign) (*engine.Campaign, error) {
	return hooked(h, "CreateCampaign", func() (*engine.Campaign, error) { return h.Store.CreateCampaign(ctx, c) })
}

// Campaign implements engine.Store.
func (h *Hooked) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	return hooked(h, "Campaign", func() (*engine.Campaign, error) { return h.Store.Campaign(ctx, name) })
}

// Campaigns implements engine.Store.
func (h *Hooked) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	return hooked(h, "Campaigns", func() ([]engine.Campaign, error) { return h.Store.Campaigns(ctx) })
}

// SetMode implements engine.Store.
func (h *Hooked) SetMode(ctx context.Context, name string, m engine.Mode) (bool, error) {
	return hooked(h, "SetMode", func() (bool, error) { return h.Store.SetMode(ctx, name, m) })
}

// FreeItems implements engine.Store.
func (h *Hooked) FreeItems(ctx context.Context, s engine.Shard, r engine.Range, limit int) (engine.FreePage, error) {
	return hooked(h, "FreeItems", func() (engine.FreePage, error) { return h.Store.FreeItems(ctx, s, r, limit) })
}

// Take implements engine.Store.
func (h *Hooked) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	return hooked(h, "Take", func() (engine.TakeResult, error) { return h.Store.Take(ctx, i, c) })
}

// HeldClaim implements engine.Store.
func (h *Hooked) HeldClaim(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	return hooked(h, "HeldClaim", func() (*engine.Claim, error) { return h.Store.HeldClaim(ctx, scope, claimant) })
}

// HeldClaimEventuallyConsistent implements engine.Store.
func (h *Hooked) HeldClaimEventuallyConsistent(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	return hooked(h, "HeldClaimEventuallyConsistent", func() (*engine.Claim, error) { return h.Store.HeldClaimEventuallyConsistent(ctx, scope, claimant) })
}

// ItemRow implements engine.Store.
func (h *Hooked) ItemRow(ctx context.Context, campaign string, i engine.Hash) (*engine.ItemRow, error) {
	return hooked(h, "ItemRow", func() (*engine.ItemRow, error) { return h.Store.ItemRow(ctx, campaign, i) })
}

// CloseClaim implements engine.Store.
func (h *Hooked) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	return hooked(h, "CloseClaim", func() (engine.CloseResult, error) { return h.Store.CloseClaim(ctx, c) })
}

// EndItems implements engine.Store.
func (h *Hooked) EndItems(ctx context.Context, e []engine.EndRequest) ([]engine.EndResult, error) {
	return hooked(h, "EndItems", func() ([]engine.EndResult, error) { return h.Store.EndItems(ctx, e) })
}

// ListClaims implements engine.Store.
func (h *Hooked) ListClaims(ctx context.Context, scope, cursor string) (claims []engine.Claim, next string, err error) {
	claims, err = hooked(h, "ListClaims", func() ([]engine.Claim, error) {
		claims, next, err = h.Store.ListClaims(ctx, scope, cursor)
		return claims, err
	})
	return claims, next, err
}

// ListItemRows implements engine.Store.
func (h *Hooked) ListItemRows(ctx context.Context, campaign, cursor string) (rows []engine.ListedItem, next string, err error) {
	rows, err = hooked(h, "ListItemRows", func() ([]engine.ListedItem, error) {
		rows, next, err = h.Store.ListItemRows(ctx, campaign, cursor)
		return rows, err
	})
	return rows, next, err
}

// Repair implements engine.Store.
func (h *Hooked) Repair(ctx context.Context, m engine.RepairRequest) (bool, error) {
	return hooked(h, "Repair", func() (bool, error) { return h.Store.Repair(ctx, m) })
}

// LatestLoad implements engine.Store.
func (h *Hooked) LatestLoad(ctx context.Context, campaign, digest string) (*engine.Load, error) {
	return hooked(h, "LatestLoad", func() (*engine.Load, error) { return h.Store.LatestLoad(ctx, campaign, digest) })
}

// Loaded implements engine.Store.
func (h *Hooked) Loaded(ctx context.Context, campaign string) (bool, error) {
	return hooked(h, "Loaded", func() (bool, error) { return h.Store.Loaded(ctx, campaign) })
}

// StartLoad implements engine.Store.
func (h *Hooked) StartLoad(ctx context.Context, l engine.Load) (bool, error) {
	return hooked(h, "StartLoad", func() (bool, error) { return h.Store.StartLoad(ctx, l) })
}

// AdvanceLoad implements engine.Store.
func (h *Hooked) AdvanceLoad(ctx context.Context, l engine.Load) error {
	_, err := hooked(h, "AdvanceLoad", func() (struct{}, error) { return struct{}{}, h.Store.AdvanceLoad(ctx, l) })
	return err
}

// AddItems implements engine.Store.
func (h *Hooked) AddItems(ctx context.Context, a []engine.AddRequest) ([]engine.AddResult, error) {
	return hooked(h, "AddItems", func() ([]engine.AddResult, error) { return h.Store.AddItems(ctx, a) })
}

// Counts implements engine.Store.
func (h *Hooked) Counts(ctx context.Context, c engine.Campaign) (engine.Counts, error) {
	return hooked(h, "Counts", func() (engine.Counts, error) { return h.Store.Counts(ctx, c) })
}
