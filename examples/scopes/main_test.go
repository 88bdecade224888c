package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func Example() {
	main()
	// Output:
	// ann, monday: the mat at the window
	// ann, tuesday: no, you are booked on monday
	// ann, monday: cancelled
	// ann, tuesday: the mat at the window
	// bob, monday: the mat at the window
	// cid, monday: no, the class is full
	// cid, friday: the mat at the window
	// ann, monday: cancelled already
}

// TestCancelIsOfOneBooking: repeated, it is no error and leaves a later booking of the
// same class alone.
func TestCancelIsOfOneBooking(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "studio.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	s := studio{itembank.NewOperator(store), io.Discard}
	if err := s.open(t.Context(), "monday"); err != nil {
		t.Fatal(err)
	}
	book := func() itembank.Claim {
		t.Helper()
		claim, err := s.book(t.Context(), "monday", "ann")
		if err != nil || claim.ID == "" {
			t.Fatalf("got claim %q, %v", claim.ID, err)
		}
		return claim
	}
	first := book()
	for range 2 {
		if err := s.cancel(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
	second := book()
	if err := s.cancel(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	held, err := s.bank.HeldClaim(t.Context(), "monday", "ann")
	if err != nil || held.ID != second.ID {
		t.Errorf("want claim %s, got %s, %v", second.ID, held.ID, err)
	}
}
