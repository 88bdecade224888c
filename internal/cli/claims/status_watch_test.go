package claims

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestWatchLines: a line has the rate of the lines before, and when the campaign is sold out.
func TestWatchLines(t *testing.T) {
	t.Parallel()
	w := newFixture(t, memstore.NewItems(), itembank.Settings{})
	codes := make([]string, 100)
	for i := range codes {
		codes[i] = fmt.Sprint("code-", i)
	}
	if _, err := w.bank.Load(t.Context(), w.name, itembank.Items(codes...), nil); err != nil {
		t.Fatal(err)
	}
	watch := &watcher{bank: w.bank, campaign: w.name}
	now := time.Date(2031, 3, 1, 9, 0, 0, 0, time.UTC)
	line := func(first bool, text string) {
		t.Helper()
		if l, err := watch.line(t.Context(), first, now); err != nil || l.String() != text {
			t.Errorf("want %q, got %q, %v", text, l, err)
		}
	}
	line(true, "09:00:00  open  free 100  claimed 0")
	claim := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := w.bank.Claim(t.Context(), w.name, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim(0, 20)
	now = now.Add(10 * time.Second)
	line(false, "09:00:10  open  free 80  claimed 20  claims/s 2.0  sold out at 2031-03-01T09:00:50Z")
	now = now.Add(10 * time.Second)
	line(false, "09:00:20  open  free 80  claimed 20  claims/s 1.0  sold out at 2031-03-01T09:01:40Z")
	claim(20, 100)
	now = now.Add(10 * time.Second)
	line(false, "09:00:30  sold_out  free 0  claimed 100  claims/s 3.3")
	for range rateLines { // so that the claims are no longer in the window
		now = now.Add(10 * time.Second)
		if _, err := watch.line(t.Context(), false, now); err != nil {
			t.Fatal(err)
		}
	}
	line(false, "09:02:10  sold_out  free 0  claimed 100  claims/s 0.0")
}

// TestWatchOfLargeCampaign checks that only the first line counts all rows. The others read samples. Items that an
// estimate misses do not count as claims, and neither do items after their end.
func TestWatchOfLargeCampaign(t *testing.T) {
	t.Parallel()
	codes := make([]string, mostCounted+1)
	for i := range codes {
		codes[i] = fmt.Sprint("code-", i)
	}
	for _, age := range []time.Duration{0, 2 * time.Hour} {
		w := newFixture(t, memstore.NewItems(), itembank.Settings{ItemLife: time.Hour})
		clock := itembankfault.NewClock()
		clock.Advance(-age)
		past := itembank.NewOperator(w.store, itembank.WithClock(clock))
		if _, err := past.Load(t.Context(), w.name, itembank.Items(codes...), nil); err != nil {
			t.Fatal(err)
		}
		watch, now := &watcher{bank: w.bank, campaign: w.name}, time.Now()
		for n := range 3 {
			w.store.Calls()
			l, err := watch.line(t.Context(), n == 0, now.Add(time.Duration(n)*time.Second))
			if err != nil || l.Estimated != (n > 0) || l.Free < mostCounted*9/10 || l.Free+l.Claimed < mostCounted {
				t.Errorf("line %d: got %+v, %v", n, l, err)
			}
			if rate := l.ClaimsPerSecond; (rate != nil) != (n == 2) || rate != nil && *rate > 0 {
				t.Errorf("line %d: want no claims, got %s", n, l)
			}
			if calls := w.store.Calls(); slices.Contains(calls, "Counts") != (n == 0) || len(calls) > 110 {
				t.Errorf("line %d: calls %v", n, calls)
			}
		}
		watch.all = true // as on SQLite
		if l, err := watch.line(t.Context(), false, now); err != nil || l.Estimated || l.Free != mostCounted+1 || l.Claimed != 0 {
			t.Errorf("want all rows counted, got %+v, %v", l, err)
		}
	}
}
