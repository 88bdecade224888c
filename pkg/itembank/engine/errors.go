package engine

import (
	"errors"
	"fmt"
)

// The families of errors that engines return. Package itembank exports the same values under the same names.
var (
	// ErrTryAgain says that the engine was busy, throttled or out of reach. The write may have taken effect. It is safe
	// to repeat the call.
	ErrTryAgain = errors.New("itembank: try again")

	// ErrThrottled is the member of ErrTryAgain for a read that the engine refused because a key range or a table had
	// too many requests. Another shard may have capacity.
	ErrThrottled = fmt.Errorf("%w: throttled", ErrTryAgain)

	// ErrInconsistent says that rows of the store contradict each other. The engine changed
	// nothing.
	ErrInconsistent = errors.New("itembank: inconsistent rows")
)
