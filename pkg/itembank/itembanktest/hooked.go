package itembanktest

import (
	"context"
	"slices"
	"sync"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// Hooked is a store with hooks around every call, for counting calls, failing
// them before or after their effect, and doing something in between.
type Hooked struct {
	itembank.Store
	// Before is called with the method's name; its error replaces the call.
	Before func(method string) error
	// After is called after the call's effect; its error replaces the reply.
	After func(method string) error

	mu    sync.Mutex
	calls []string
}

var _ itembank.Store = (*Hooked)(nil)

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
func (h *Hooked) CreateCampaign(ctx context.Context, c itembank.Campaign) (*itembank.Campaign, error) {
	return hooked(h, "CreateCampaign", func() (*itembank.Campaign, error) { return h.Store.CreateCampaign(ctx, c) })
}

// Campaign implements itembank.CampaignStore.
func (h *Hooked) Campaign(ctx context.Context, name string) (*itembank.Campaign, error) {
	return hooked(h, "Campaign", func() (*itembank.Campaign, error) { return h.Store.Campaign(ctx, name) })
}

// Campaigns implements itembank.CampaignStore.
func (h *Hooked) Campaigns(ctx context.Context) ([]itembank.Campaign, error) {
	return hooked(h, "Campaigns", func() ([]itembank.Campaign, error) { return h.Store.Campaigns(ctx) })
}

// SetMode implements itembank.CampaignStore.
func (h *Hooked) SetMode(ctx context.Context, name string, m itembank.Mode) (bool, error) {
	return hooked(h, "SetMode", func() (bool, error) { return h.Store.SetMode(ctx, name, m) })
}

// FreeItems implements itembank.FreeItemStore.
func (h *Hooked) FreeItems(ctx context.Context, s itembank.Shard, r itembank.Range, limit int) (itembank.FreePage, error) {
	return hooked(h, "FreeItems", func() (itembank.FreePage, error) { return h.Store.FreeItems(ctx, s, r, limit) })
}

// Take implements itembank.ClaimStore.
func (h *Hooked) Take(ctx context.Context, i itembank.FreeItem, c itembank.Claim) (itembank.Evidence, error) {
	return hooked(h, "Take", func() (itembank.Evidence, error) { return h.Store.Take(ctx, i, c) })
}

// HeldClaim implements itembank.ClaimStore.
func (h *Hooked) HeldClaim(ctx context.Context, scope, claimant string) (*itembank.Claim, error) {
	return hooked(h, "HeldClaim", func() (*itembank.Claim, error) { return h.Store.HeldClaim(ctx, scope, claimant) })
}

// PeekClaim implements itembank.ClaimStore.
func (h *Hooked) PeekClaim(ctx context.Context, scope, claimant string) (*itembank.Claim, error) {
	return hooked(h, "PeekClaim", func() (*itembank.Claim, error) { return h.Store.PeekClaim(ctx, scope, claimant) })
}

// ItemRow implements itembank.EndStore.
func (h *Hooked) ItemRow(ctx context.Context, campaign string, i itembank.Hash) (*itembank.ItemRow, error) {
	return hooked(h, "ItemRow", func() (*itembank.ItemRow, error) { return h.Store.ItemRow(ctx, campaign, i) })
}

// CloseClaim implements itembank.EndStore.
func (h *Hooked) CloseClaim(ctx context.Context, c itembank.Closing) (itembank.ClosingEvidence, error) {
	return hooked(h, "CloseClaim", func() (itembank.ClosingEvidence, error) { return h.Store.CloseClaim(ctx, c) })
}

// EndItems implements itembank.EndStore.
func (h *Hooked) EndItems(ctx context.Context, e []itembank.Ending) ([]itembank.Ended, error) {
	return hooked(h, "EndItems", func() ([]itembank.Ended, error) { return h.Store.EndItems(ctx, e) })
}

// ListClaims implements itembank.Lister.
func (h *Hooked) ListClaims(ctx context.Context, scope, cursor string) (claims []itembank.Claim, next string, err error) {
	claims, err = hooked(h, "ListClaims", func() ([]itembank.Claim, error) {
		claims, next, err = h.Store.ListClaims(ctx, scope, cursor)
		return claims, err
	})
	return claims, next, err
}

// ListItemRows implements itembank.Lister.
func (h *Hooked) ListItemRows(ctx context.Context, campaign, cursor string) (rows []itembank.ListedItem, next string, err error) {
	rows, err = hooked(h, "ListItemRows", func() ([]itembank.ListedItem, error) {
		rows, next, err = h.Store.ListItemRows(ctx, campaign, cursor)
		return rows, err
	})
	return rows, next, err
}

// Repair implements itembank.Repairer.
func (h *Hooked) Repair(ctx context.Context, m itembank.RepairRequest) (bool, error) {
	return hooked(h, "Repair", func() (bool, error) { return h.Store.Repair(ctx, m) })
}

// LatestLoad implements itembank.LoadStore.
func (h *Hooked) LatestLoad(ctx context.Context, campaign, digest string) (*itembank.Load, error) {
	return hooked(h, "LatestLoad", func() (*itembank.Load, error) { return h.Store.LatestLoad(ctx, campaign, digest) })
}

// StartLoad implements itembank.LoadStore.
func (h *Hooked) StartLoad(ctx context.Context, l itembank.Load) (bool, error) {
	return hooked(h, "StartLoad", func() (bool, error) { return h.Store.StartLoad(ctx, l) })
}

// AdvanceLoad implements itembank.LoadStore.
func (h *Hooked) AdvanceLoad(ctx context.Context, l itembank.Load) error {
	_, err := hooked(h, "AdvanceLoad", func() (struct{}, error) { return struct{}{}, h.Store.AdvanceLoad(ctx, l) })
	return err
}

// AddItems implements itembank.LoadStore.
func (h *Hooked) AddItems(ctx context.Context, a []itembank.Addition) ([]itembank.Added, error) {
	return hooked(h, "AddItems", func() ([]itembank.Added, error) { return h.Store.AddItems(ctx, a) })
}

// Counts implements itembank.Counter.
func (h *Hooked) Counts(ctx context.Context, c itembank.Campaign) (itembank.Counts, error) {
	return hooked(h, "Counts", func() (itembank.Counts, error) { return h.Store.Counts(ctx, c) })
}
