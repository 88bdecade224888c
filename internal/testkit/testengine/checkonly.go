package testengine

import "testing"

// CheckOnly skips a test that takes long or needs many engines under -short, which
// `make test` sets. `make check` runs it.
func CheckOnly(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("part of `make check`; `make test` leaves it out")
	}
}
