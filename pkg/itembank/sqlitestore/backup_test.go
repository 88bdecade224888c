package sqlitestore

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestBackupBesideClaims: while claims are made, released and made again, also by another process, each copy of the file
// is consistent, and has every claim that was answered before the copy began.
func TestBackupBesideClaims(t *testing.T) {
	const copies, items = 5, 2000
	path := inTemp(t)
	s, _ := newStore(t, path, items)
	bank := itembank.NewOperator(s)
	other := sqlitetest.Start(t, "claim everything", path, "other")
	other.Proceed(t)
	var mu sync.Mutex
	answered := map[string]string{} // claimant to claim id
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range 2 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				stays, goes := fmt.Sprintf("stays %d-%d", n, i), fmt.Sprintf("goes %d", n)
				grant, err := bank.Claim(context.Background(), "c", stays)
				if err != nil { // sold out
					return
				}
				mu.Lock()
				answered[stays] = grant.Claim.ID
				mu.Unlock()
				if grant, err = bank.Claim(context.Background(), "c", goes); err != nil {
					return
				}
				if _, err := bank.Release(context.Background(), "c", goes, grant.Claim.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range copies {
		mu.Lock()
		before := maps.Clone(answered)
		mu.Unlock()
		to := filepath.Join(filepath.Dir(path), fmt.Sprintf("copy-%d.db", n))
		_, err := sqlite.Backup(t.Context(), path, to, engine.ErrTryAgain)
		check(t, err)
		checkCopy(t, to, before)
	}
	stop()
	all.Wait()
	other.Kill()
	if len(answered) == 0 {
		t.Error("no claims were made meanwhile")
	}
}

// checkCopy checks that a copy is consistent and has the claims.
func checkCopy(t *testing.T, path string, claims map[string]string) {
	t.Helper()
	s, err := Open(t.Context(), path)
	check(t, err)
	defer func() { check(t, s.Close()); check(t, os.Remove(path)) }()
	bank := itembank.NewOperator(s)
	if r, err := bank.Reconcile(t.Context(), "c"); err != nil || len(r.Inconsistencies) != 0 {
		t.Errorf("the copy is not consistent: %+v, %v", r, err)
	}
	for claimant, id := range claims {
		if held, err := bank.HeldClaim(t.Context(), "c", claimant); err != nil || held.ID != id {
			t.Errorf("%s was answered %s before the copy, which has %+v, %v", claimant, id, held, err)
		}
	}
	t.Logf("the copy has all of %d claims", len(claims))
}
