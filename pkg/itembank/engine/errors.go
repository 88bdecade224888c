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

// UnreadableError names campaigns whose rows the engine cannot read, for example because a later version of oncebox made
// them. It comes with the campaigns that the engine can read. It has at least one campaign.
type UnreadableError struct{ Campaigns []Unreadable }

// Unreadable is a campaign whose row the engine cannot read.
type Unreadable struct {
	Name  string
	Scope string // "": the row does not name it in a form that the engine knows
	Err   error
}

func (e *UnreadableError) Error() string {
	first := e.Campaigns[0]
	return fmt.Sprintf("campaigns that cannot be read: %d, the first is %s: %v", len(e.Campaigns), first.Name, first.Err)
}

// Unwrap returns the reasons.
func (e *UnreadableError) Unwrap() (reasons []error) {
	for _, c := range e.Campaigns {
		reasons = append(reasons, c.Err)
	}
	return reasons
}
