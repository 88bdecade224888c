package memstore

import (
	"cmp"
	"context"
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

// held returns a copy of a claim; nil if there is none.
func (s *Items) held(scope, claimant string) *engine.Claim {
	row, found := s.claims[scope][claimant]
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
	row, found := s.claims[claim.Scope][claim.Claimant]
	if found && row.ID == claim.ID && row.Campaign == claim.Campaign {
		row.EndsAt = time.Time{}
		put(s.claims, claim.Scope, claim.Claimant, row)
	}
	return engine.ConfirmResult{Held: s.held(claim.Scope, claim.Claimant)}, nil
}

// DueClaims implements engine.Store. It reads all claims of the campaign's scope, and it is
// always current.
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
			page.Claims = append(page.Claims, engine.DueClaim{Scope: row.Scope, Claimant: row.Claimant, EndsAt: row.EndsAt})
		}
	}
	slices.SortFunc(page.Claims, func(a, b engine.DueClaim) int {
		return cmp.Or(a.EndsAt.Compare(b.EndsAt), cmp.Compare(a.Claimant, b.Claimant))
	})
	if page.More = len(page.Claims) > limit; page.More {
		page.Claims = page.Claims[:limit]
	}
	return page, nil
}

// endsBefore reports that a claim has an end before a time.
func endsBefore(c engine.Claim, t time.Time) bool { return !c.EndsAt.IsZero() && c.EndsAt.Before(t) }
