package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// claimRow is a claim with the shard of its item.
type claimRow struct {
	engine.Claim
	shard int
}

// noShard is the shard of a claim that DueClaims does not list.
const noShard = -1

// sortKey returns the key of a claim in its scope. A claimant contains no control character.
func sortKey(k engine.ClaimKey) string { return fmt.Sprintf("%s\x00%d", k.Claimant, k.Slot) }

func (s *Items) putClaim(row claimRow) { put(s.claims, row.Scope, sortKey(row.Key()), row) }

// held returns a copy of a claim, or nil if the claimant holds none.
func (s *Items) held(key engine.ClaimKey) *engine.Claim {
	row, found := s.claims[key.Scope][sortKey(key)]
	if !found {
		return nil
	}
	return &row.Claim
}

// ConfirmClaim implements engine.Store. There is never a conflict.
func (s *Items) ConfirmClaim(ctx context.Context, claim engine.Claim) (engine.ConfirmResult, error) {
	if err := s.begin(ctx); err != nil {
		return engine.ConfirmResult{}, err
	}
	defer s.mu.Unlock()
	row, found := s.claims[claim.Scope][sortKey(claim.Key())]
	if found && row.ID == claim.ID && row.Campaign == claim.Campaign {
		row.EndsAt = time.Time{}
		s.putClaim(row)
	}
	return engine.ConfirmResult{Held: s.held(claim.Key())}, nil
}

// ProlongClaim implements engine.Store. There is never a conflict.
func (s *Items) ProlongClaim(
	ctx context.Context, claim engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	if err := s.begin(ctx); err != nil {
		return engine.ConfirmResult{}, err
	}
	defer s.mu.Unlock()
	row, found := s.claims[claim.Scope][sortKey(claim.Key())]
	if found && row.ID == claim.ID && row.Campaign == claim.Campaign &&
		!row.EndsAt.IsZero() && row.EndsAt.Equal(claim.EndsAt) {
		row.EndsAt = endsAt
		s.putClaim(row)
	}
	return engine.ConfirmResult{Held: s.held(claim.Key())}, nil
}

// DueClaims implements engine.Store. It reads all claims of the campaign's scope. Its answer is always current.
func (s *Items) DueClaims(
	ctx context.Context, shard engine.Shard, after, before time.Time, limit int,
) (page engine.DuePage, err error) {
	if err := s.begin(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	for _, row := range s.claims[s.campaigns[shard.Campaign].Scope] {
		if row.Campaign == shard.Campaign && row.shard == shard.Number &&
			endsBefore(row.Claim, before) && !row.EndsAt.Before(after) {
			page.Claims = append(page.Claims, engine.DueClaim{ClaimKey: row.Key(), EndsAt: row.EndsAt})
		}
	}
	slices.SortFunc(page.Claims, func(a, b engine.DueClaim) int {
		return cmp.Or(a.EndsAt.Compare(b.EndsAt), cmp.Compare(a.Claimant, b.Claimant), cmp.Compare(a.Slot, b.Slot))
	})
	if page.More = len(page.Claims) > limit; page.More {
		page.Claims = page.Claims[:limit]
	}
	return page, nil
}

// endsBefore reports whether a claim has an end before t.
func endsBefore(c engine.Claim, t time.Time) bool { return !c.EndsAt.IsZero() && c.EndsAt.Before(t) }
