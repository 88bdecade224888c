package engine

import "errors"

// The families of errors that engines return. Package itembank has the same values under
// the same names.
var (
	// ErrTryAgain says that the engine was busy, throttled or out of reach. Whether the
	// write took effect is not known. The same call is safe again.
	ErrTryAgain = errors.New("itembank: try again")

	// ErrInconsistent says that rows of the store contradict each other. The engine changed
	// nothing.
	ErrInconsistent = errors.New("itembank: inconsistent rows")
)
