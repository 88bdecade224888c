package sqlitestore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	confirmClaim = `UPDATE claim SET ends_at = NULL
		WHERE scope = ? AND claimant = ? AND slot = ? AND id = ? AND campaign = ?`

	prolongClaim = `UPDATE claim SET ends_at = ?
		WHERE scope = ? AND claimant = ? AND slot = ? AND id = ? AND campaign = ? AND ends_at = ?`

	selectDue = `SELECT scope, claimant, slot, ends_at FROM claim
		WHERE campaign = ? AND shard = ? AND ends_at >= coalesce(?, 0) AND ends_at < ?
		ORDER BY ends_at LIMIT ?`
)

// ConfirmClaim removes the end of a claim and returns the row after that, in one transaction.
func (s *Store) ConfirmClaim(ctx context.Context, claim engine.Claim) (engine.ConfirmResult, error) {
	return s.changeEnd(ctx, "confirm claim", claim, confirmClaim,
		append(claimKey(claim.Key()), claim.ID, claim.Campaign))
}

// ProlongClaim moves the end of a claim and returns the row after that, in one transaction.
func (s *Store) ProlongClaim(
	ctx context.Context, claim engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	args := append(sqlite.Args{sqlite.Millis(endsAt)}, claimKey(claim.Key())...)
	return s.changeEnd(ctx, "prolong claim", claim, prolongClaim,
		append(args, claim.ID, claim.Campaign, sqlite.Millis(claim.EndsAt)))
}

func (s *Store) changeEnd(
	ctx context.Context, what string, claim engine.Claim, statement string, args sqlite.Args,
) (result engine.ConfirmResult, err error) {
	err = s.db.Write(ctx, what, func(ctx context.Context, w *sqlite.Statements) error {
		if _, err := w.Exec(ctx, statement, args...); err != nil {
			return err
		}
		result.Held, err = readClaim(ctx, w, claim.Key())
		return err
	})
	return result, err
}

// DueClaims reads the index over claims that end, which is always current.
func (s *Store) DueClaims(
	ctx context.Context, shard engine.Shard, after, before time.Time, limit int,
) (engine.DuePage, error) {
	var page engine.DuePage
	a := sqlite.Args{shard.Campaign, shard.Number, sqlite.Millis(after), sqlite.Millis(before), limit + 1}
	err := s.db.Read(ctx, "read due claims", func(ctx context.Context, on *sqlite.Statements) error {
		return on.Each(ctx, selectDue, a, func(scan func(...any) error) error {
			var c engine.DueClaim
			err := scan(&c.Scope, &c.Claimant, &c.Slot, sqlite.IntoTime(&c.EndsAt))
			page.Claims = append(page.Claims, c)
			return err
		})
	})
	if err != nil {
		return engine.DuePage{}, err
	}
	if page.More = len(page.Claims) > limit; page.More {
		page.Claims = page.Claims[:limit]
	}
	return page, nil
}
