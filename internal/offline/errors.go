package offline

import (
	"errors"
	"fmt"
)

var (
	// ErrRefused says that a job cannot be run as it is. Its text is the end of
	// the error's.
	ErrRefused = errors.New("nothing was changed")

	// ErrStopped says that a run ended on its way, interrupted or by a fault of
	// the store or of a file. The error says why, and what the same job does
	// when it is run again.
	ErrStopped = errors.New("stopped")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w; %w", fmt.Errorf(format, args...), ErrRefused)
}
