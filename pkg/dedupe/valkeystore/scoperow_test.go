package valkeystore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TestChangeOfTheRow: the row of a scope lets the servers change once, at one time, and says until when the previous
// servers are needed.
func TestChangeOfTheRow(t *testing.T) {
	a, b, c := testengine.FreshValkey(t).Addr, testengine.FreshValkey(t).Addr, testengine.FreshValkey(t).Addr
	scope := newScope()
	clock := epoch
	warm := func(now, previous []string, since time.Time) error {
		o := options(now...)
		o.Now = func() time.Time { return clock }
		if o.Since = since; previous != nil {
			o.Previous = &Servers{Addresses: previous, Buckets: 64}
		}
		return open(t, o).Warm(t.Context(), scope, retention)
	}
	good := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(err error, says ...string) {
		t.Helper()
		if err == nil || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("want a refusal, got %v", err)
			return
		}
		for _, say := range says {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("want %q, got %v", say, err)
			}
		}
	}
	first := clock.Add(time.Hour)
	good(warm([]string{a}, nil, time.Time{}))
	refused(warm([]string{a, b}, nil, time.Time{}), "it is server 1 of 1", "server 1 of 2", "name them as the previous ones")
	refused(warm([]string{a, b}, []string{b}, first), "it is server 1 of 1")
	good(warm([]string{a, b}, []string{a}, first))
	good(warm([]string{a, b}, []string{a}, first))
	refused(warm([]string{a}, nil, time.Time{}), "it is server 1 of 2") // a function with the former settings
	refused(warm([]string{a, b}, []string{a}, first.Add(time.Hour)), "changed at 2050-01-01T01:00:00Z")

	needed := first.Add(retention.Window + retention.Horizon)
	clock = needed
	refused(warm([]string{a, b}, nil, time.Time{}), "needed until 2050-01-02T02:00:00Z", "2050-01-01T01:00:00Z")
	clock = needed.Add(time.Millisecond)
	good(warm([]string{a, b}, nil, time.Time{}))

	second := clock.Add(time.Hour)
	good(warm([]string{c}, []string{a, b}, second))
	refused(warm([]string{a, b}, nil, time.Time{}), "its records are on other servers since 2050-01-02T03:00:00.001Z")
	good(warm([]string{c}, []string{a, b}, second))
	third := second.Add(30 * 24 * time.Hour)
	good(warm([]string{a}, []string{c}, third)) // server a is used again
	refused(warm([]string{c}, []string{a, b}, second))
}
