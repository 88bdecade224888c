package itembank

import (
	"context"
	"fmt"
	"time"
)

const (
	firstWait   = 10 * time.Millisecond
	longestWait = 400 * time.Millisecond

	// maxStalls limits how many times in a row a batch makes no progress because the store is busy.
	maxStalls = 12

	// roomForWait limits a wait to a fifth of the time until the deadline of the request: the longest waits begin 2 s
	// before it or earlier. The next try, with the SDK's repetitions, needs about a second. A caller with less time
	// still waits a little.
	roomForWait = 5
)

// backOff waits a random time before the next try. After limit tries, or if the deadline of ctx leaves no room for the
// wait, it returns an error instead. why is the reason for the tries, for the error text.
func (b *Bank) backOff(ctx context.Context, tries, limit int, why string) error {
	if tries == limit {
		return fmt.Errorf("%w: %d times %s", ErrTryAgain, limit, why)
	}
	longest := min(firstWait<<tries, longestWait)
	deadline, ok := ctx.Deadline()
	if ok && time.Until(deadline) < roomForWait*longest { //nolint:forbidigo // deadlines are of the system's clock
		return fmt.Errorf("%w: %s, and no time is left", ErrTryAgain, why)
	}
	d, err := b.randomDuration(longest)
	if err != nil {
		return err
	}
	return b.clock.Sleep(ctx, d)
}

// whileBusy calls do again while the rows that it works on are busy, up to maxWaits times. why names the rows.
func whileBusy[Result any](
	ctx context.Context, b *Bank, why string, do func() (result Result, busy bool, err error),
) (Result, error) {
	var none Result
	for tries := 0; ; tries++ {
		result, busy, err := do()
		if err != nil || !busy {
			return result, err
		}
		if err := b.backOff(ctx, tries, maxWaits, why); err != nil {
			return none, err
		}
	}
}

// The rows that whileBusy waits for, for error texts.
const (
	claimBusy    = "the claim was busy or throttled"
	rowsBusy     = "the rows of a claim were busy"
	campaignBusy = "the campaign was busy"
)
