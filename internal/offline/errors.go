package offline

import (
	"errors"
	"fmt"
)

var (
	// ErrRefused says that a job cannot run as it is, and that nothing was changed.
	ErrRefused = errors.New("nothing was changed")

	// ErrStopped says that a run ended early: it was interrupted, or the store or a file failed. The error says why,
	// and what the same job does when it runs again.
	ErrStopped = errors.New("stopped")
)

// refuse returns an error of the kind ErrRefused.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w (%w)", fmt.Errorf(format, args...), ErrRefused)
}
