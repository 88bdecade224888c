package dedupe

import "errors"

var (
	// ErrTryAgain is the family of errors that may pass by themselves: the ledger, the sink or the dead-letter store
	// was busy, throttled or out of reach. The call may have had its effect. It is safe to repeat.
	ErrTryAgain = errors.New("dedupe: try again")

	// ErrOtherConsumer says that a checkpoint belongs to another function. Two consumers of one scope and stream
	// would skip each other's records.
	ErrOtherConsumer = errors.New("dedupe: the checkpoint belongs to another consumer of the same scope and stream; " +
		"give each consumer a scope of its own")

	// errIncomplete says that a sink or a dead-letter store did less than it was asked, and returned no error.
	errIncomplete = errors.New("dedupe: the sink or the dead-letter store did only a part and returned no error")
)
