package cli

import (
	"fmt"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
)

// TestStoreErrors checks that the exit codes of a store's errors say whether repeating helps.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		sqlite.ErrDiskFull: ExitFailed, sqlite.ErrNoAccess: ExitUsage, sqlite.ErrDamaged: ExitUsage, sqlite.ErrNotStore: ExitUsage, sqlite.ErrLayout: ExitUsage,
	} {
		if got := ExitCode(t.Context(), fmt.Errorf("codes.db: %w", err)); got != want {
			t.Errorf("%v: want exit %d, got %d", err, want, got)
		}
		if got := ExitCode(t.Context(), Stopped("after 2 lines", err)); got != ExitFailed {
			t.Errorf("%v after a change: want exit %d, got %d", err, ExitFailed, got)
		}
	}
}
