package itembank

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// dryRunPass is how many rows of the input are compared with the store at a time. It
// limits memory: a map of so many items has about 100 MB.
const dryRunPass = 1 << 20

// DryRun reports what Load would report, and changes nothing. It checks the source as
// Load does, with the same errors. It reads the source twice, and once more for every
// further million lines.
//
// Rows is exact. The other counts are exact unless another Load adds items to the campaign before the Load is finished.
// Claims, releases and withdrawals do not change them, since an item that was loaded stays known. Resumed is the
// progress of an unfinished load of the same items, which Load would resume; OtherColumns counts its rows too. DryRun
// does not look for items of the kind "free-not-loaded", at which Load stops; Reconcile finds them.
//
// DryRun looks every item up, which costs one read unit for each on DynamoDB.
//
// Errors: *InvalidError, in a *LineError where a line is invalid; ErrNoCampaign;
// ErrTryAgain; ErrInputChanged.
func (b *Bank) DryRun(ctx context.Context, campaign string, source Source) (LoadReport, error) {
	return b.dryRun(ctx, campaign, source, dryRunPass)
}

func (b *Bank) dryRun(ctx context.Context, campaign string, source Source, perPass int64) (LoadReport, error) {
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
	columns engine.Hash // of the columns, which are the same in all rows
}

// countItems counts the rows of each item of a pass. A pass has its share of all hashes.
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
			items[h] = sourceItem{items[h].rows + 1, hashColumns(engine.NewColumns(line.Columns...))}
		}
	}
	if sum.String() != in.digest {
		return nil, ErrInputChanged
	}
	return items, nil
}

// removeKnown removes the items that other loads have added, and counts their rows.
func (b *Bank) removeKnown(
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
			if hashColumns(row.Columns) != items[h].columns {
				report.OtherColumns += items[h].rows
			}
			delete(items, h)
		}
	}
	return nil
}
