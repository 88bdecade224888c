package itembank_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestLoadCountsSeldom: a load writes few counts, and when it is cut it goes over few
// rows again, however often that happens. Its tally is exact all the same.
func TestLoadCountsSeldom(t *testing.T) {
	t.Parallel()
	store := hookedFile(t)
	bank := itembank.New(store)
	if _, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{}); err != nil {
		t.Fatal(err)
	}
	items := make([]string, 2600)
	for i := range items {
		items[i] = fmt.Sprintf("code-%d", i)
		if i%10 == 0 {
			items[i] = fmt.Sprintf("code-%d", i/3) // before or after it, or the same
		}
	}
	distinct := map[string]bool{}
	for _, item := range items {
		distinct[item] = true
	}
	want := itembank.Tally{Rows: 2600, Added: int64(len(distinct)), Repeated: int64(2600 - len(distinct))}
	var resumed int64
	counts := 0
	for _, chunks := range []int64{0, 1, 2, 9, 16, 5, 19, 60} { // that are done before the cut
		left := chunks
		store.Before = func(method string) error {
			switch method {
			case "AddItems":
				if left--; left < 0 {
					return errCut
				}
			case "AdvanceLoad":
				counts++
			}
			return nil
		}
		report, err := bank.Load(t.Context(), "spring", itembank.Items(items...), nil)
		if report.Resumed != resumed {
			t.Errorf("want it resumed after %d rows, got %d", resumed, report.Resumed)
		}
		if left >= 0 { // the last one
			if err != nil || report.Tally != want {
				t.Errorf("want %+v, got %+v, %v", want, report.Tally, err)
			}
			continue
		}
		done := resumed + chunks*engine.MaxAddItems
		if again := done - report.Rows; !errors.Is(err, errCut) || again < 0 || again > 0 && again >= min(report.Rows, 1000) {
			t.Errorf("of %d rows %d would be done again: %v", done, again, err)
		}
		resumed = report.Rows
	}
	if counts > 12 {
		t.Errorf("counts were written %d times", counts)
	}
}
