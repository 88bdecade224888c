package sqlitestore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// listPage is how many rows a page has.
const listPage = 1000

const (
	selectClaims = fromClaim + ` WHERE scope = ? AND (claimant, slot) > (?, ?) ORDER BY claimant, slot LIMIT ?`

	selectItems = `SELECT hash, load_id, row, ends_at, coalesce(state, ''), returns, withdraw, columns FROM item
		WHERE campaign = ? AND hash > ? ORDER BY hash LIMIT ?`
)

// ListClaims lists the claim rows of a scope in the order of claimants and slots. The cursor is the last
// slot and claimant.
func (s *Store) ListClaims(ctx context.Context, scope, cursor string) (claims []engine.Claim, next string, err error) {
	number, claimant, _ := strings.Cut(cursor, " ")
	slot := 0
	if cursor != "" {
		if slot, err = strconv.Atoi(number); err != nil {
			return nil, "", err
		}
	}
	err = s.db.Read(ctx, "list claims", func(ctx context.Context, r *sqlite.Statements) error {
		return r.Each(ctx, selectClaims, sqlite.Args{scope, claimant, slot, listPage}, func(scan func(...any) error) error {
			var c engine.Claim
			err := scan(intoClaim(&c)...)
			claims = append(claims, c)
			return err
		})
	})
	if err != nil {
		return nil, "", err
	}
	if len(claims) == listPage {
		last := claims[listPage-1]
		next = fmt.Sprintf("%d %s", last.Slot, last.Claimant)
	}
	return claims, next, nil
}

// ListItemRows lists the item rows of a campaign in the order of hashes. The cursor is the last
// hash.
func (s *Store) ListItemRows(
	ctx context.Context, campaign, cursor string,
) (rows []engine.ListedItem, next string, err error) {
	after, err := hex.DecodeString(cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.db.Read(ctx, "list items", func(ctx context.Context, r *sqlite.Statements) error {
		return r.Each(ctx, selectItems, sqlite.Args{campaign, after, listPage}, func(scan func(...any) error) error {
			var i engine.ListedItem
			err := scan(append([]any{sqlite.IntoBytes(i.Hash[:])}, intoItemRow(&i.ItemRow)...)...)
			rows = append(rows, i)
			return err
		})
	})
	if err != nil {
		return nil, "", err
	}
	if len(rows) == listPage {
		next = rows[listPage-1].Hash.String()
	}
	return rows, next, nil
}
