package itembank_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// withoutBank is a store whose bank rows are gone, as after a restore of a table at
// another time than the other one. It counts the reads of single item rows.
type withoutBank struct {
	engine.Store
	itemRows int
}

func (*withoutBank) FreeItems(context.Context, engine.Shard, engine.Range, int) (engine.FreePage, error) {
	return engine.FreePage{}, nil
}

func (s *withoutBank) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	s.itemRows++
	return s.Store.ItemRow(ctx, campaign, h)
}

// TestReconcileWhereMuchIsWrong: rows are read one by one only where few are wrong.
func TestReconcileWhereMuchIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		items int
		reads int
	}{{1_000, 2 * 1_000}, {1_001, 0}} {
		store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "codes.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		bank := itembank.New(store)
		if _, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{}); err != nil {
			t.Fatal(err)
		}
		codes := make([]string, test.items)
		for i := range codes {
			codes[i] = fmt.Sprint("code-", i)
		}
		if _, err := bank.Load(t.Context(), "spring", itembank.Items(codes...), nil); err != nil {
			t.Fatal(err)
		}
		lost := &withoutBank{Store: store}
		report, err := itembank.New(lost, itembank.WithClock(itembanktest.NewClock())).Reconcile(t.Context(), "spring")
		if err != nil || len(report.Inconsistencies) != test.items || lost.itemRows != test.reads {
			t.Errorf("%d items: got %d differences after %d reads of single rows, %v; want %d reads", test.items, len(report.Inconsistencies), lost.itemRows, err, test.reads)
		}
		for _, d := range report.Inconsistencies {
			if d.Kind != "missing" || d.LoadID == "" || d.Row == 0 {
				t.Fatalf("want it lost, with its load and row: %+v", d)
			}
		}
	}
}
