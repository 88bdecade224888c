package itembank

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// WithdrawReport counts the items that a Withdraw was called with.
type WithdrawReport struct {
	Withdrawn int64 `json:"withdrawn"` // taken out of the bank by this call
	Already   int64 `json:"already"`   // had ended before, in any way
	Held      int64 `json:"held"`      // held by claimants; ends as withdrawn when its claim ends
	Unknown   int64 `json:"unknown"`   // were never loaded
}

// Withdraw takes items out of the campaign for good: they are neither handed out nor loaded again. A held item stays
// with its claimant as long as the claim lives. When the claim ends or is released, the item ends as withdrawn,
// whatever the campaign's OnEnd. An item that Reconcile calls missing or misplaced counts as held.
//
// Withdraw first checks the whole source. If a line is invalid, it changes nothing. It is safe to repeat, to
// interrupt, and to run while items are claimed and released.
//
// Errors: *InvalidError, in a *LineError if a line is invalid; ErrNoCampaign; ErrMoved; ErrRestored; ErrTryAgain; the
// family ErrInconsistent. After an error the report has the results up to then.
func (b *Operator) Withdraw(ctx context.Context, campaign string, source Source) (WithdrawReport, error) {
	var report WithdrawReport
	c, err := b.unmarkedCampaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	if _, err := inspect(ctx, c, source); err != nil {
		return report, err
	}
	var chunk []engine.FreeItem
	inChunk := map[engine.Hash]bool{} // a transaction must not name an item twice
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

// WithdrawAll withdraws all free items of the campaign. It does not mark held items: if they come back later, they
// are free again. The report counts withdrawn items only. progress may be nil; it gets the number of items that were
// read.
//
// Errors: *InvalidError; ErrNoCampaign; ErrMoved; ErrRestored; ErrTryAgain; the family ErrInconsistent. After an error
// the report has the results up to then.
func (b *Operator) WithdrawAll(ctx context.Context, campaign string, progress Progress) (WithdrawReport, error) {
	var report WithdrawReport
	c, err := b.unmarkedCampaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	count := counter(progress)
	err = b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		for chunk := range slices.Chunk(items, engine.MaxAddItems) {
			if _, err := b.withdrawFree(ctx, c, chunk, &report); err != nil {
				return err
			}
			count(len(chunk))
		}
		return nil
	})
	return report, err
}

// withdraw withdraws items that are free or held. If an item moves between a claim and the bank meanwhile, it tries
// again.
func (b *Operator) withdraw(ctx context.Context, c Campaign, items []engine.FreeItem, report *WithdrawReport) error {
	for tries := 0; len(items) > 0; tries++ {
		if tries > 0 {
			if err := b.backOff(ctx, tries-1, maxWaits, "items moved between the bank and claims"); err != nil {
				return err
			}
		}
		notFree, err := b.withdrawFree(ctx, c, items, report)
		if err != nil {
			return err
		}
		if items, err = b.withdrawHeld(ctx, c, notFree, report); err != nil {
			return err
		}
	}
	return nil
}

// withdrawFree ends the items that are in the bank, and returns the others.
func (b *Operator) withdrawFree(
	ctx context.Context, c Campaign, items []engine.FreeItem, report *WithdrawReport,
) (notFree []engine.FreeItem, err error) {
	results, err := b.endItems(ctx, endRequests(items, engine.Withdrawn, time.Time{}))
	for _, r := range results { // count first, so that the report is right also after an error
		if r == engine.EndDone {
			report.Withdrawn++
		}
	}
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		switch r {
		case engine.EndNotFree:
			notFree = append(notFree, items[i])
		case engine.EndInconsistent:
			return nil, b.inconsistentItem(ctx, c, items[i])
		}
	}
	return notFree, nil
}

// withdrawHeld marks the items that claims hold, and returns the items that have moved since.
func (b *Operator) withdrawHeld(
	ctx context.Context, c Campaign, items []engine.FreeItem, report *WithdrawReport,
) (moved []engine.FreeItem, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	hashes := make([]engine.Hash, len(items))
	for i, item := range items {
		hashes[i] = item.Hash
	}
	rows, err := b.itemRowsOf(ctx, c.Name, hashes)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		row, loaded := rows[item.Hash]
		switch {
		case !loaded:
			report.Unknown++
		case row.State != "":
			report.Already++
		case row.Withdraw: // marked by an earlier Withdraw; only the end of the claim moves the item
			report.Held++
		default:
			marked, err := b.markWithdrawn(ctx, item)
			if err != nil {
				return nil, err
			}
			if marked {
				report.Held++
			} else {
				moved = append(moved, item)
			}
		}
	}
	return moved, nil
}

func (b *Operator) markWithdrawn(ctx context.Context, item engine.FreeItem) (done bool, err error) {
	if err := b.pace(ctx, 1); err != nil {
		return false, err
	}
	return b.store.MarkWithdrawn(ctx, item)
}

// inconsistentItem returns the error for an item in the bank that cannot end.
func (b *Operator) inconsistentItem(ctx context.Context, c Campaign, item engine.FreeItem) error {
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
