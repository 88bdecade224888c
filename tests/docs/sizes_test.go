package docs

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestSizesOfTheLog checks the table of docs/deploy.md about the memory of the log ledger.
func TestSizesOfTheLog(t *testing.T) {
	t.Parallel()
	rows := readDocument(t, "docs/deploy.md").tables(t, "The log ledger")[0]
	number := regexp.MustCompile(`[0-9,]+`)
	for _, row := range rows {
		mib, err := strconv.Atoi(strings.ReplaceAll(number.FindString(row[0]), ",", ""))
		must(t, err)
		memory := int64(mib) << 20 / 100 * recordhandler.UsualLedgerShare
		if got, want := row[1], strconv.FormatInt(memory/32/1e6, 10)+" million"; got != want {
			t.Errorf("%d MiB: %s entries, want %s", mib, got, want)
		}
		for i, perSecond := range []float64{1_000, 10_000, 33_000} {
			if want := settings.FormatDuration(logledger.LongestWindow(perSecond, memory, 1000/logledger.DefaultLanes)); row[2+i] != want {
				t.Errorf("%d MiB, %v/s: the window is %s, want %s", mib, perSecond, row[2+i], want)
			}
		}
	}
	if len(rows) != 3 {
		t.Errorf("the table has %d rows", len(rows))
	}
}
