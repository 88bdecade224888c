package sqlitestore

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/internal/sqlite/sqlitetest"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// version1Tables made the tables of the first version.
//
//go:embed testdata/version1.sql
var version1Tables string

var version1 = sqlite.Part{
	Name: "itembank", Version: 1, Tables: version1Tables, Purpose: "claims", TryAgain: itembank.ErrTryAgain,
}

const insertCampaign1 = `INSERT INTO campaign (name, mode, opens_at, closes_at, scope, shards, page_size, generation, created_at)
	VALUES (?, 'open', NULL, 5000, 'c', 1, 30, 1, 1000)`

// campaign1 returns the campaign that insertCampaign1 writes.
func campaign1(name string) engine.Campaign {
	return engine.Campaign{
		Name: name, Mode: engine.OpenByHand, ClosesAt: time.UnixMilli(5000).UTC(), Scope: "c", Shards: 1, PageSize: 30,
		OnEnd: engine.Burn, CreatedAt: time.UnixMilli(1000).UTC(),
	}
}

// newVersion1 makes a file of the first version with a campaign "c" and two items. Ann holds
// one of them.
func newVersion1(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Create(t.Context(), path, version1, nil)
	check(t, err)
	old := &Store{db}
	exec := func(statement string, args ...any) { check(t, old.Exec(t.Context(), statement, args...)) }
	held, free := engine.HashItem("held"), engine.HashItem("free")
	exec(insertCampaign1, "c")
	exec(`INSERT INTO item (campaign, hash, load_id, row, generation) VALUES ('c', ?, 'l', 0, 1), ('c', ?, 'l', 1, 1)`,
		held[:], free[:])
	exec(`INSERT INTO bank (campaign, generation, shard, hash, item) VALUES ('c', 1, 0, ?, 'free')`, free[:])
	exec(`INSERT INTO claim (scope, claimant, slot, id, campaign, item, item_hash, claimed_at)
		VALUES ('c', 'ann', 1, 'anns-claim', 'c', 'held', ?, 1000)`, held[:])
	return db
}

// columns lists the columns of all tables, with their types and defaults, and the indexes.
func columns(t *testing.T, path string) (all []string) {
	t.Helper()
	rows, err := sqlitetest.Foreign(t, path).QueryContext(t.Context(), `SELECT t.name, c.name, c.type, c."notnull", coalesce(c.dflt_value, '-'), c.pk
		FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'
		UNION ALL SELECT tbl_name, name, type, coalesce(sql, '-'), '-', '-' FROM sqlite_schema WHERE type = 'index'`)
	check(t, err)
	for rows.Next() {
		var column [6]string
		check(t, rows.Scan(&column[0], &column[1], &column[2], &column[3], &column[4], &column[5]))
		all = append(all, strings.Join(column[:], " "))
	}
	check(t, rows.Err())
	check(t, rows.Close())
	slices.Sort(all)
	return all
}

func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	path := inTemp(t)
	check(t, newVersion1(t, path).Close())
	s, err := Open(t.Context(), path)
	check(t, err)
	checkUpgraded(t, s)
	check(t, s.Close())
	fresh := inTemp(t)
	s, err = Create(t.Context(), fresh)
	check(t, err)
	check(t, s.Close())
	if old, now := columns(t, path), columns(t, fresh); len(now) == 0 || !slices.Equal(old, now) {
		t.Errorf("an upgraded file has the columns\n%s\nand a new one\n%s", strings.Join(old, "\n"), strings.Join(now, "\n"))
	}
}

// checkUpgraded reads the rows that newVersion1 wrote, and claims and releases.
func checkUpgraded(t *testing.T, s *Store) {
	t.Helper()
	got, err := s.Campaign(t.Context(), "c")
	if want := campaign1("c"); err != nil || got == nil || *got != want {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
	bank := itembank.New(s)
	held, err := bank.HeldClaim(t.Context(), "c", "ann")
	if err != nil || held.Item != "held" {
		t.Errorf("ann holds %+v, %v", held, err)
	}
	if _, err := bank.Release(t.Context(), "c", "ann", held.ID); err != nil {
		t.Error(err)
	}
	grant, err := bank.Claim(t.Context(), "c", "ann")
	if err != nil || grant.Claim.Item != "free" {
		t.Errorf("ann gets %+v, %v", grant, err)
	}
	want := itembank.Counts{Loaded: 2, Claimed: 1, Ended: 1}
	if n, err := bank.ConsistentCounts(t.Context(), "c"); err != nil || n != want {
		t.Errorf("counts are %+v (%v), want %+v", n, err, want)
	}
}

// TestUpgradeUnderAnOlderProcess: a process of the first version that still has the file open
// fails, and changes nothing.
func TestUpgradeUnderAnOlderProcess(t *testing.T) {
	path := inTemp(t)
	old := newVersion1(t, path)
	s, err := Open(t.Context(), path)
	check(t, err)
	if err := (&Store{old}).Exec(t.Context(), insertCampaign1, "later"); err == nil {
		t.Error("want an error")
	}
	check(t, old.Close())
	checkUpgraded(t, s)
	check(t, s.Close())
}

// openAtOnce opens a store at the same time as other processes.
func openAtOnce(ctx context.Context, path, _ string) (any, error) {
	sqlitetest.Ready()
	s, err := Open(ctx, path, WithBusyTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	return s.Campaign(ctx, "c")
}

func TestUpgradeByProcessesAtOnce(t *testing.T) {
	path := inTemp(t)
	check(t, newVersion1(t, path).Close())
	var all []*sqlitetest.Process
	for i := range 3 {
		all = append(all, sqlitetest.Start(t, "open at once", path, fmt.Sprintf("process %d", i)))
	}
	for _, p := range all {
		p.Proceed(t)
	}
	for i, p := range all {
		var got engine.Campaign
		p.Result(t, &got)
		if want := campaign1("c"); got != want {
			t.Errorf("process %d: want %+v, got %+v", i, want, got)
		}
	}
	s, err := Open(t.Context(), path)
	check(t, err)
	checkUpgraded(t, s)
	check(t, s.Close())
}
