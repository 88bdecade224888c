package itembanktest

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// closeWithoutID closes whatever claim the claimant has.
type closeWithoutID struct{ engine.Store }

func (m closeWithoutID) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	held, err := m.HeldClaim(ctx, c.Claim.Scope, c.Claim.Claimant)
	if err != nil {
		return engine.CloseResult{}, err
	}
	if held != nil {
		c.Claim.ID = held.ID
	}
	return m.Store.CloseClaim(ctx, c)
}

// closeWhateverEnd closes claims that have not ended.
type closeWhateverEnd struct{ engine.Store }

func (m closeWhateverEnd) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	c.EndedBy = time.Time{}
	return m.Store.CloseClaim(ctx, c)
}

// closeWithoutItemRow returns items whatever their rows say: just before, the row
// is made to be as the close wants it.
type closeWithoutItemRow struct {
	engine.Store
	raw Raw
}

func (m closeWithoutItemRow) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	row := engine.ListedItem{Hash: c.Claim.ItemHash, ItemRow: engine.ItemRow{Generation: c.Generation}}
	if err := m.raw.PutItemRow(ctx, c.Claim.Campaign, row); err != nil {
		return engine.CloseResult{}, err
	}
	return m.Store.CloseClaim(ctx, c)
}

// endedClaimOverwritten puts a new claim over one that ended longer than the grace
// ago, instead of closing that first.
type endedClaimOverwritten struct {
	engine.Store
	raw Raw
}

func (m endedClaimOverwritten) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if err := dropEnded(ctx, m.Store, m.raw, c, c.ClaimedAt.Add(-endGrace)); err != nil {
		return engine.TakeResult{}, err
	}
	return m.Store.Take(ctx, i, c)
}

// claimsPurged has the end of a claim as its time to live.
type claimsPurged struct {
	engine.Store
	raw Raw
}

func (m claimsPurged) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if err := dropEnded(ctx, m.Store, m.raw, c, c.ClaimedAt); err != nil {
		return engine.TakeResult{}, err
	}
	return m.Store.Take(ctx, i, c)
}

// dropEnded drops the claimant's claim if it has ended by a time.
func dropEnded(ctx context.Context, s engine.Store, raw Raw, c engine.Claim, by time.Time) error {
	held, err := s.HeldClaim(ctx, c.Scope, c.Claimant)
	if held == nil || err != nil || held.EndsAt.IsZero() || held.EndsAt.After(by) {
		return err
	}
	return raw.DropClaim(ctx, c.Scope, c.Claimant)
}

// itemsEndWhatever expires items that have not ended.
type itemsEndWhatever struct{ engine.Store }

func (m itemsEndWhatever) EndItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	all := make([]engine.EndRequest, len(endings))
	for i, e := range endings {
		all[i] = engine.EndRequest{Item: e.Item, State: e.State}
	}
	return m.Store.EndItems(ctx, all)
}

// returnInSecondStep deletes the claim and then puts the item into the bank. The
// steps are as far apart as the caller's context lasts, up to a moment.
type returnInSecondStep struct {
	engine.Store
	raw Raw
}

func (m returnInSecondStep) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	if c.Return == nil {
		return m.Store.CloseClaim(ctx, c)
	}
	if err := m.raw.DropClaim(ctx, c.Claim.Scope, c.Claim.Claimant); err != nil {
		return engine.CloseResult{}, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return engine.CloseResult{}, m.raw.PutBankRow(ctx, *c.Return)
}
