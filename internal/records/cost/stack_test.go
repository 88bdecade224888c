package cost

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestByHand compares a bill with a bill that was written by hand, from the prices and counts of docs/costs.md.
func TestByHand(t *testing.T) {
	t.Parallel()
	got := Stack{ClaimsPerDay: 100_000, RecordBytes: 1024, SystemLogLevel: "info"}.Month() // 3 million claims
	want := []float64{
		3 * 1.00,                              // USD a million requests
		3*0.20 + 3*0.01*0.5*13.3334,           // the invocations, and their GB-seconds
		0.0432*0.20 + 0.0432*0.1*0.25*13.3334, // 43,200 sweeps
		3 * 2.50475,                           // the first table, unrounded: 4 x 0.625 + 0.038 x 0.125
		3 * 2.50775,                           // 4.007 x 0.625 + 0.027 x 0.125
		0.0432*2*0.125 + 0.00864*79*0.125,     // two reads a sweep, and 8,640 counts of free items
		1.482 * 0.25,                          // 3 million x 494 bytes
		1.482 * 0.20,
		3e6 * 565 / 1073741824 * 0.5045, // 0.50 + 15 % of 0.03 USD a GB
		3e6 * 307 / 1073741824 * 0.5045,
		3.0432e6 * 371 / 1073741824 * 0.5045,
		11 * 0.30,
		31 * 0.10,
	}
	if len(got.Items) != len(want) {
		t.Fatalf("want %d items, got %+v", len(want), got.Items)
	}
	sum := 0.0
	for i, item := range got.Items {
		sum += want[i]
		if math.Abs(item.USD-want[i]) > 1e-3 {
			t.Errorf("%+v: want %.4f", item, want[i])
		}
	}
	if math.Abs(got.Total-sum) > 1e-2 {
		t.Errorf("want %.2f USD, got %.2f", sum, got.Total)
	}
}

// TestRecordsByHand compares a bill by hand for streams with 1,000 records a second, which are 2,592 million a month.
func TestRecordsByHand(t *testing.T) {
	t.Parallel()
	load := base.with(func(l *Load) { l.Rate, l.Window, l.Batch, l.Shards, l.Copies = 1000, 48*time.Hour, 1000, 2, 0.5 })
	bill := Stack{Records: &load, Ledger: Keys, RecordBytes: 1500, SystemLogLevel: "warn"}.Month()
	const in = 2592e6 * 2048 / 1073741824 // GB: 1,500 bytes are 2 KB
	for what, want := range map[string]float64{
		"two on-demand streams":                  2 * 720 * 0.04,
		"records into the source, and out of it": in * 0.12,
		"records into the destination":           in / 2 * 0.08,
		"records kept for 7 days":                in * 1.5 / 30 * 6 * 0.10,
		"Lambda's own lines":                     0,
		"ledger and acks":                        2592*0.625*1.01 + 2592*0.125*0.501, // a unit a record and a read a copy, 10 and a read a batch
	} {
		found := false
		for _, item := range bill.Items {
			if item.For == what {
				found = true
				if math.Abs(item.USD-want) > 1e-3*want {
					t.Errorf("%+v: want %.4f", item, want)
				}
			}
		}
		if !found {
			t.Errorf("no item %q in %+v", what, bill.Items)
		}
	}
}

// TestStackCheck checks that an error names the flag of the wrong value.
func TestStackCheck(t *testing.T) {
	t.Parallel()
	good := Stack{ClaimsPerDay: 1, RecordBytes: 1024, SystemLogLevel: "info"}
	bad := base.with(func(l *Load) { l.Rate = -1 })
	for want, s := range map[string]Stack{
		"what does the stack do?":      {RecordBytes: 1024},
		"--claims-per-day -1: use":     {ClaimsPerDay: -1, RecordBytes: 1024},
		"--record-size 0: use":         {ClaimsPerDay: 1},
		"--records-per-second -1: use": {Records: &bad, RecordBytes: 1024},
	} {
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

// TestBothJobsShareATable checks that a stack with both jobs has one alarm of the dedupe table.
func TestBothJobsShareATable(t *testing.T) {
	t.Parallel()
	one, two := Stack{ClaimsPerDay: 1, RecordBytes: 1}, Stack{Records: &base, Ledger: Log, RecordBytes: 1}
	both := Stack{ClaimsPerDay: 1, Records: &base, Ledger: Log, RecordBytes: 1}
	saved := one.Month().Total + two.Month().Total - both.Month().Total
	if math.Abs(saved-SharedAlarmMetrics*AlarmMetricMonth) > 1e-6 {
		t.Errorf("both jobs together save %f USD", saved)
	}
}
