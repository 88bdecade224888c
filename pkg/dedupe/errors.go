package dedupe

import "errors"

var (
	// ErrTryAgain is the family of failures that may pass by themselves: the
	// ledger, the sink or the failure store was busy, throttled or out of
	// reach. The effect is unknown and the same call again is safe.
	ErrTryAgain = errors.New("dedupe: try again")

	// errShort says that a sink or a failure store broke its contract. What it did
	// not name as done is not.
	errShort = errors.New("dedupe: the sink or the failure store did a part and said nothing of an error")

	// ErrOtherConsumer says that a checkpoint's row belongs to another function:
	// two consumers of one scope and stream would skip each other's records.
	ErrOtherConsumer = errors.New("dedupe: the checkpoint belongs to another consumer of the same scope and stream; give each its own scope")
)

// PoisonError says why a record can never be processed. The reason is a fixed
// text and never holds the record.
type PoisonError struct{ Reason string }

func (e *PoisonError) Error() string { return "poison record: " + e.Reason }
