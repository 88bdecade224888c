package logfault

import (
	"flag"
	"fmt"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/search"
)

var byVerdicts = flag.Bool("verdicts", false, "TestHistories does not judge the log, but only what callers were told")

// TestHistories plays random histories. A seed always plays the same history. Without flags it plays the first 20,000
// seeds, or 500 with -short.
func TestHistories(t *testing.T) {
	t.Parallel()
	by, plays := all, 20_000
	if *byVerdicts {
		by = verdicts
	}
	if testing.Short() {
		plays = 500
	}
	search.Histories(t, 0, plays, func(seed int) error {
		h := newHistory(seed)
		err := play(h, nil, by)
		if search.Alone() {
			t.Log(h.print(nil, by))
		}
		if err == nil {
			return nil
		}
		h = h.smaller(func(h history) bool { return play(h, nil, by) != nil })
		return fmt.Errorf("%w\nmade smaller: %s", err, h.print(nil, by))
	})
}

// TestKeptHistories plays histories that once broke a guarantee.
func TestKeptHistories(t *testing.T) {
	t.Parallel()
	for name, h := range search.Kept[history](t) {
		if err := play(h, nil, all); err != nil {
			t.Errorf("%s: %v\n%s", name, err, h.print(nil, all))
		}
	}
}

// print returns a history in full: the violation, its parts, and all events.
func (h history) print(m *mutant, by judges) string {
	trace, err := traced(h, m, by)
	return fmt.Sprintf("%v\n%s\nall that happens:\n%s", err, search.Keepable(h), trace)
}
