package itembank

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// WithdrawReport counts what became of the items of a Withdraw.
type WithdrawReport struct {
	Withdrawn int64 `json:"withdrawn"` // taken out of the bank now
	Already   int64 `json:"already"`   // had ended before, in whatever way
	Held      int64 `json:"held"`      // are somebody's, and stay so; or Reconcile finds them lost or misplaced
	Unknown   int64 `json:"unknown"`   // were never loaded
}

// Withdraw takes free items out of the campaign's bank for good: they are neither
// handed out nor loaded again. Items that are held stay with their holders. It is
// safe to repeat, and to interrupt. First the whole source is checked; if a line is
// invalid nothing is changed.
//
// Errors: *InvalidError, as *LineError where a line is to blame; ErrNoCampaign;
// ErrTryAgain; the family ErrInconsistent. The report says what was done also when
// there is an error.
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
	seen := map[engine.Hash]bool{} // of the chunk: a transaction cannot name an item twice
	for line, err := range source() {
		if err != nil {
			return report, err
		}
		h := engine.HashItem(line.Item)
		if len(chunk) == engine.MaxAddItems || seen[h] { // a repeated line finds what its first one left
			if err := b.withdraw(ctx, c, chunk, &report); err != nil {
				return report, err
			}
			chunk, seen = chunk[:0], map[engine.Hash]bool{}
		}
		seen[h] = true
		chunk = append(chunk, engine.FreeItem{Shard: engine.Shard{Campaign: c.Name, Generation: c.generation, Number: h.ShardOf(c.Shards)}, Hash: h, Value: line.Item})
	}
	return report, b.withdraw(ctx, c, chunk, &report)
}

// WithdrawAll withdraws all free items of the campaign. Progress, which may be nil, is
// told how many are done.
func (b *Bank) WithdrawAll(ctx context.Context, campaign string, progress Progress) (WithdrawReport, error) {
	var report WithdrawReport
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	done := count(progress)
	err = b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		for len(items) > 0 {
			n := min(len(items), engine.MaxAddItems)
			if err := b.withdraw(ctx, c, items[:n], &report); err != nil {
				return err
			}
			done(n)
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
	all := make([]engine.EndRequest, len(items))
	for i, item := range items {
		all[i] = engine.EndRequest{Item: item, State: engine.Withdrawn}
	}
	answers, err := b.endItems(ctx, all)
	for _, a := range answers { // the report is true whatever comes now
		if a == engine.EndDone {
			report.Withdrawn++
		}
	}
	if err != nil {
		return err
	}
	for i, a := range answers {
		switch a {
		case engine.EndDone:
		case engine.EndInconsistent:
			return b.whatContradicts(ctx, c, items[i])
		default:
			if err := b.whyNotFree(ctx, c, items[i], report); err != nil {
				return err
			}
		}
	}
	return nil
}

// whatContradicts names what is wrong with an item in the bank that cannot end.
func (b *Bank) whatContradicts(ctx context.Context, c Campaign, item engine.FreeItem) error {
	row, err := b.store.ItemRow(ctx, c.Name, item.Hash)
	switch {
	case err != nil:
		return err
	case row == nil:
		return &InconsistentError{freeNotLoaded, fmt.Sprintf("%q", item.Value)}
	}
	return &InconsistentError{freeAndEnded, fmt.Sprintf("%q", item.Value)}
}

// whyNotFree counts an item that was not in the bank.
func (b *Bank) whyNotFree(ctx context.Context, c Campaign, item engine.FreeItem, report *WithdrawReport) error {
	row, err := b.store.ItemRow(ctx, c.Name, item.Hash)
	switch {
	case err != nil:
		return err
	case row == nil:
		report.Unknown++
	case row.State != "":
		report.Already++
	case row.Generation != item.Shard.Generation: // it waits in the bank of another generation
		item.Shard.Generation = row.Generation
		return b.withdraw(ctx, c, []engine.FreeItem{item}, report)
	default:
		report.Held++
	}
	return nil
}
