package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// WithdrawReport counts the items of a Withdraw.
type WithdrawReport struct {
	Withdrawn int64 `json:"withdrawn"` // taken out of the bank now
	Already   int64 `json:"already"`   // had ended before, in any way
	Held      int64 `json:"held"`      // not in the bank and not ended: held, or what Reconcile calls missing or misplaced
	Unknown   int64 `json:"unknown"`   // were never loaded
}

// Withdraw takes free items out of the campaign's bank for good: they are neither
// handed out nor loaded again. Items that are held stay with their claimants. First
// Withdraw checks the whole source; if a line is invalid it changes nothing. It is safe
// to repeat and to interrupt.
//
// Errors: *InvalidError, in a *LineError where a line is invalid; ErrNoCampaign;
// ErrTryAgain; the family ErrInconsistent. After an error the report says what was done
// before it.
func (b *Bank) Withdraw(ctx context.Context, campaign string, source Source) (WithdrawReport, error) {
	var report WithdrawReport
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	if _, err := inspect(ctx, source); err != nil {
		return report, err
	}
	var chunk []engine.FreeItem
	inChunk := map[engine.Hash]bool{} // a transaction must name an item once
	for line, err := range source() {
		if err != nil {
			return report, err
		}
		h := engine.HashItem(line.Item)
		if len(chunk) == engine.MaxAddItems || inChunk[h] { // a repeated line finds its item withdrawn
			if err := b.withdraw(ctx, c, chunk, &report); err != nil {
				return report, err
			}
			chunk, inChunk = chunk[:0], map[engine.Hash]bool{}
		}
		inChunk[h] = true
		chunk = append(chunk, engine.FreeItem{Shard: c.shardOf(h), Hash: h, Value: line.Item})
	}
	return report, b.withdraw(ctx, c, chunk, &report)
}

// WithdrawAll withdraws all free items of the campaign. progress may be nil; it counts
// the items.
func (b *Bank) WithdrawAll(ctx context.Context, campaign string, progress Progress) (WithdrawReport, error) {
	var report WithdrawReport
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	count := counter(progress)
	err = b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		for len(items) > 0 {
			n := min(len(items), engine.MaxAddItems)
			if err := b.withdraw(ctx, c, items[:n], &report); err != nil {
				return err
			}
			count(n)
			items = items[n:]
		}
		return nil
	})
	return report, err
}

func (b *Bank) withdraw(ctx context.Context, c Campaign, items []engine.FreeItem, report *WithdrawReport) error {
	if len(items) == 0 {
		return nil
	}
	results, err := b.endItems(ctx, endRequests(items, engine.Withdrawn, time.Time{}))
	for _, r := range results { // counted first: the report is right also after an error
		if r == engine.EndDone {
			report.Withdrawn++
		}
	}
	if err != nil {
		return err
	}
	for i, r := range results {
		switch r {
		case engine.EndDone:
		case engine.EndInconsistent:
			return b.inconsistentItem(ctx, c, items[i])
		default:
			if err := b.countNotFree(ctx, c, items[i], report); err != nil {
				return err
			}
		}
	}
	return nil
}

// inconsistentItem says what is wrong with an item in the bank that cannot end.
func (b *Bank) inconsistentItem(ctx context.Context, c Campaign, item engine.FreeItem) error {
	row, err := b.store.ItemRow(ctx, c.Name, item.Hash)
	if err != nil {
		return err
	}
	kind := freeAndEnded
	if row == nil {
		kind = freeNotLoaded
	}
	return &InconsistentError{kind, fmt.Sprintf("%q", item.Value)}
}

// countNotFree counts an item that was not in the bank.
func (b *Bank) countNotFree(ctx context.Context, c Campaign, item engine.FreeItem, report *WithdrawReport) error {
	row, err := b.store.ItemRow(ctx, c.Name, item.Hash)
	switch {
	case err != nil:
		return err
	case row == nil:
		report.Unknown++
	case row.State != "":
		report.Already++
	default:
		report.Held++
	}
	return nil
}
