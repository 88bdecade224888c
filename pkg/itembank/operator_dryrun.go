package itembank

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// dryRunPass is the number of rows of the input that one pass compares with the store. It limits memory: a map of
// this many items takes about 100 MB.
const dryRunPass = 1 << 20

// DryRun reports the result that Load would have, and changes nothing. It checks the source as Load does, with the
// same errors. It reads the source twice, and once more for each further million lines.
//
// Rows is exact. The other counts are exact unless another Load adds items to the campaign before the Load is
// finished. Claims, releases and withdrawals do not change them, because a loaded item stays known. Resumed is the
// progress of an unfinished load of the same items, which Load would resume. OtherColumns includes the rows of that
// load. DryRun does not find the inconsistency "free-not-loaded", at which Load stops; Reconcile finds it.
//
// DryRun looks up every item, which costs one read unit each on DynamoDB.
//
// Errors: *InvalidError, in a *LineError where a line is invalid; ErrNoCampaign;
// ErrTryAgain; ErrInputChanged.
func (b *Operator) DryRun(ctx context.Context, campaign string, source Source) (LoadReport, error) {
	return b.dryRun(ctx, campaign, source, dryRunPass)
}

func (b *Operator) dryRun(ctx context.Context, campaign string, source Source, perPass int64) (LoadReport, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return LoadReport{}, err
	}
	in, err := inspect(ctx, c, source)
	if err != nil {
		return LoadReport{}, err
	}
	l, _, err := b.nextLoad(ctx, c, in.digest)
	if err != nil {
		return LoadReport{}, err
	}
	report := LoadReport{LoadID: l.ID(), Tally: Tally{Rows: in.rows}, Resumed: l.Tally.Rows}
	passes := int((in.rows + perPass - 1) / perPass)
	for pass := range passes {
		items, err := countItems(ctx, source, in, pass, passes)
		if err != nil {
			return LoadReport{}, err
		}
		if err := b.removeKnown(ctx, l, items, &report); err != nil {
			return LoadReport{}, err
		}
		for _, item := range items {
			report.Added++
			report.Repeated += item.rows - 1
		}
	}
	return report, nil
}

// sourceItem is an item of a source.
type sourceItem struct {
	rows    int64
	columns engine.Hash // of the item's columns, which are the same in all its rows
}

// countItems counts the rows of each item whose hash belongs to the pass.
func countItems(ctx context.Context, source Source, in input, pass, passes int) (map[engine.Hash]sourceItem, error) {
	items := map[engine.Hash]sourceItem{}
	sum := newDigest()
	for line, err := range source() {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, ErrInvalid) {
			return nil, ErrInputChanged
		}
		if err != nil {
			return nil, err
		}
		sum.add(line)
		if h := engine.HashItem(line.Item); h.ShardOf(passes) == pass {
			items[h] = sourceItem{items[h].rows + 1, hashColumns(NewColumns(line.Columns...))}
		}
	}
	if sum.String() != in.digest {
		return nil, ErrInputChanged
	}
	return items, nil
}

// removeKnown removes the items that other loads have added, and counts their rows.
func (b *Operator) removeKnown(
	ctx context.Context, l engine.Load, items map[engine.Hash]sourceItem, report *LoadReport,
) error {
	all := slices.Collect(maps.Keys(items))
	for part := range slices.Chunk(all, engine.MaxItemRows) {
		rows, err := b.itemRowsOf(ctx, l.Campaign, part)
		if err != nil {
			return err
		}
		for h, row := range rows {
			if row.LoadID == l.ID() {
				continue
			}
			report.Known += items[h].rows
			if hashColumns(Columns(row.Columns)) != items[h].columns {
				report.OtherColumns += items[h].rows
			}
			delete(items, h)
		}
	}
	return nil
}
