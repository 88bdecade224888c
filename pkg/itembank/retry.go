package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	firstWait   = 10 * time.Millisecond
	longestWait = 400 * time.Millisecond

	// maxStalls limits how many times in a row a batch makes no progress because the store is busy.
	maxStalls = 12
)

// backOff waits a random time before the next try. After limit tries it returns an error instead. why is the reason
// for the tries, for the error text.
func (b *Bank) backOff(ctx context.Context, tries, limit int, why string) error {
	if tries == limit {
		return fmt.Errorf("%w: %d times %s", ErrTryAgain, limit, why)
	}
	d, err := b.randomDuration(min(firstWait<<tries, longestWait))
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
	claimBusy    = "the claim was busy"
	rowsBusy     = "the rows of a claim were busy"
	campaignBusy = "the campaign was busy"
)

func (b *Bank) endItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	settled := func(r engine.EndResult) bool { return r != engine.EndUnsettled }
	return sendAll(ctx, b, requests, b.store.EndItems, settled)
}

// sendAll sends a batch until every request in it is settled. A transaction that fails settles the requests whose
// conditions failed; the others are sent again. After an error the results have the requests that were settled
// before.
func sendAll[Request, Result any](ctx context.Context, b *Bank, batch []Request,
	send func(context.Context, []Request) ([]Result, error), settled func(Result) bool,
) ([]Result, error) {
	results := make([]Result, len(batch))
	open := make([]int, len(batch))
	for i := range open {
		open[i] = i
	}
	for stalls := 0; len(open) > 0; {
		part := make([]Request, len(open))
		for i, j := range open {
			part[i] = batch[j]
		}
		if err := b.pace(ctx, len(part)); err != nil {
			return results, err
		}
		got, err := send(ctx, part)
		if err != nil {
			return results, err
		}
		var rest []int
		for i, j := range open {
			if results[j] = got[i]; !settled(got[i]) {
				rest = append(rest, j)
			}
		}
		if len(rest) < len(open) {
			stalls = 0
		} else if err := b.backOff(ctx, stalls, maxStalls, "rows met other transactions"); err != nil {
			return results, err
		} else {
			stalls++
		}
		open = rest
	}
	return results, nil
}
