package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// checkUntouched checks that the store is unchanged since newStore made it with one item.
func checkUntouched(t *testing.T, s *Store, c engine.Campaign) {
	t.Helper()
	n, err := s.Counts(t.Context(), c, true)
	if want := (engine.Counts{Loaded: 1, Free: 1}); err != nil || n != want {
		t.Errorf("counts are %+v (%v), want %+v", n, err, want)
	}
	all, err := s.Campaigns(t.Context())
	if err != nil || len(all) != 1 || all[0] != c {
		t.Errorf("campaigns are %+v (%v), want %+v alone", all, err, c)
	}
	if held, _, err := s.HeldClaim(t.Context(), engine.ClaimKey{Scope: "c", Claimant: "ann", Slot: 1}, engine.Strong); held != nil || err != nil {
		t.Errorf("claim: %+v, %v", held, err)
	}
}

func checkTakes(t *testing.T, s *Store, item engine.FreeItem) {
	t.Helper()
	found, err := s.Take(t.Context(), []engine.FreeItem{item}, annsClaim(item))
	if err != nil || !found.Taken() {
		t.Errorf("once the store is free: %+v, %v", found, err)
	}
}

func TestNoWriteGetsThroughWhileBusy(t *testing.T) {
	path := inTemp(t)
	s, c := newStore(t, path, 1, WithBusyTimeout(30*time.Millisecond))
	item := free(t, s, 1)[0]
	other := sqlitetest.Foreign(t, path)
	sqlitetest.Run(t, other, `BEGIN IMMEDIATE`)
	ctx := t.Context()
	l := engine.Load{Campaign: "c", Digest: "d", Number: 1}
	_, take := s.Take(ctx, []engine.FreeItem{item}, annsClaim(item))
	_, replace := s.ReplaceCampaign(ctx, c, c)
	_, _, startLoad := s.StartLoad(ctx, l, false)
	_, advanceLoad := s.UpdateLoad(ctx, l)
	l.GivenUp = true
	_, giveUpLoad := s.UpdateLoad(ctx, l)
	_, addItems := s.AddItems(ctx, []engine.AddRequest{{Item: engine.FreeItem{Shard: item.Shard, Value: "new"}, LoadID: "l", Row: 1}})
	_, create := s.CreateCampaign(ctx, engine.Campaign{Name: "other"})
	_, closeClaim := s.CloseClaim(ctx, engine.CloseRequest{Claim: annsClaim(item), State: engine.Burned})
	_, confirm := s.ConfirmClaim(ctx, annsClaim(item))
	_, prolong := s.ProlongClaim(ctx, annsClaim(item), time.Now())
	_, endItems := s.EndItems(ctx, []engine.EndRequest{{Item: item, State: engine.Withdrawn}})
	_, repair := s.Repair(ctx, engine.RepairRequest{Campaign: "c", Hash: item.Hash, DropFree: &item, IfRow: &engine.ItemRow{}})
	for name, err := range map[string]error{
		"Take": take, "ReplaceCampaign": replace, "StartLoad": startLoad, "AddItems": addItems,
		"CreateCampaign": create, "UpdateLoad": advanceLoad, "UpdateLoad, given up": giveUpLoad,
		"CloseClaim": closeClaim, "ConfirmClaim": confirm, "ProlongClaim": prolong, "EndItems": endItems, "Repair": repair,
	} {
		if !errors.Is(err, itembank.ErrTryAgain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want ErrTryAgain and nothing of the caller's context", name, err)
		}
	}
	checkUntouched(t, s, c)
	sqlitetest.Run(t, other, `ROLLBACK`)
	checkTakes(t, s, item)
}

func TestContextEndsReads(t *testing.T) {
	s, c := newStore(t, inTemp(t), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, campaign := s.Campaign(ctx, "c")
	_, campaigns := s.Campaigns(ctx)
	_, counts := s.Counts(ctx, c, true)
	_, _, held := s.HeldClaim(ctx, engine.ClaimKey{Scope: "c", Claimant: "ann", Slot: 1}, engine.Strong)
	_, items := s.FreeItems(ctx, engine.Shard{Campaign: "c"}, engine.Range{}, 1, engine.Strong)
	_, load := s.LatestLoad(ctx, "c", "d")
	_, row := s.ItemRow(ctx, "c", engine.Hash{})
	_, _, claims := s.ListClaims(ctx, "c", "")
	_, _, rows := s.ListItemRows(ctx, "c", "")
	_, due := s.DueClaims(ctx, engine.Shard{Campaign: "c"}, time.Time{}, time.Now(), 1)
	for name, err := range map[string]error{
		"Campaign": campaign, "Campaigns": campaigns, "Counts": counts,
		"HeldClaim": held, "FreeItems": items, "LatestLoad": load,
		"ItemRow": row, "ListClaims": claims, "ListItemRows": rows, "DueClaims": due,
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("%s: %v, want Canceled and not ErrTryAgain", name, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	text := inTemp(t)
	check(t, os.WriteFile(text, []byte("no database"), 0o600))
	other, older, newer, busy := inTemp(t), inTemp(t), inTemp(t), inTemp(t)
	db, err := sqlite.Create(t.Context(), other, sqlite.Part{Name: "other", Layout: 1}, nil)
	check(t, err)
	check(t, db.Close())
	for path, by := range map[string]string{newer: "+ 1", older: "- 1"} {
		s, _ := newStore(t, path, 0)
		check(t, s.Exec(t.Context(), `UPDATE part SET version = version `+by))
		check(t, s.Close())
	}
	s, _ := newStore(t, busy, 0)
	check(t, s.Close())
	sqlitetest.Run(t, sqlitetest.Foreign(t, busy), `PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE`)
	for _, c := range []struct {
		path string
		want error
		text string
	}{
		{inTemp(t), fs.ErrNotExist, "oncebox init"},
		{text, ErrNotStore, "not a SQLite database"},
		{other, ErrNotStore, "no tables for claims"},
		{newer, ErrLayout, "the tables for claims have layout 8, and this version reads layout 7; use the version that made it"},
		{older, ErrLayout, "the tables for claims have layout 6, and this version reads layout 7; use the version that made it"},
		{busy, itembank.ErrTryAgain, "another program is writing to the file"},
	} {
		_, err := Open(t.Context(), c.path, WithBusyTimeout(time.Millisecond))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v with %q", err, c.want, c.text)
		}
	}
}

func TestFullDiskLeavesNoHalves(t *testing.T) {
	s, c := newStore(t, inTemp(t), 1)
	item := free(t, s, 1)[0]
	check(t, s.db.Write(t.Context(), "test", func(ctx context.Context, w *sqlite.Statements) error {
		var limit int
		_, err := w.One(ctx, `PRAGMA max_page_count = 1`, nil, &limit) // the present size of the file
		return err
	}))
	var full error
	for row := int64(1); full == nil && row < 1000; row++ {
		value := strings.Repeat("x", engine.MaxItem)
		a := engine.AddRequest{Item: engine.FreeItem{Shard: item.Shard, Value: value}, LoadID: "l", Row: row}
		a.Item.Hash[0], a.Item.Hash[1] = byte(row>>8), byte(row)
		_, full = s.AddItems(t.Context(), []engine.AddRequest{a})
	}
	var e interface {
		error
		Code() int
	}
	if !errors.As(full, &e) || e.Code()&0xff != sqlite3.SQLITE_FULL || errors.Is(full, itembank.ErrTryAgain) {
		t.Errorf("full: %v", full)
	}
	checkTakes(t, s, item) // the delete makes room
	if n, err := s.Counts(t.Context(), c, true); err != nil || n.Loaded != n.Free+n.Claimed {
		t.Errorf("after the disk was full: %+v, %v", n, err)
	}
}

func TestQueriesUseKeys(t *testing.T) {
	path := inTemp(t)
	newStore(t, path, 0)
	sqlitetest.CheckUsesKeys(t, path, map[string]int{
		selectCounts: 1, selectFree: 6, selectClaim: 3, selectIsFree: 5, selectInBank: 5, selectIsClaim: 5, selectIsClaim + andIsHold: 5, selectIsClaim + andEndsAt: 6, confirmClaim: 5, selectDue: 5, selectClaims: 4, selectItems: 3, selectLatestLoad: 2, selectItem: 2, updateLoad: 8,
	})
}

func TestCloseEndsTheStore(t *testing.T) {
	s, _ := newStore(t, inTemp(t), 1)
	item := free(t, s, 1)[0]
	check(t, s.Close())
	check(t, s.Close())
	_, _, read := s.HeldClaim(t.Context(), engine.ClaimKey{Scope: "c", Claimant: "ann", Slot: 1}, engine.Strong)
	_, write := s.Take(t.Context(), []engine.FreeItem{item}, annsClaim(item))
	for _, err := range []error{read, write} {
		if err == nil || errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("after Close: %v, want a fault", err)
		}
	}
}
