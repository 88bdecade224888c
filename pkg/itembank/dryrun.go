package itembank

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// dryRunPass is how many rows of the input are compared with the store at a time.
// It bounds the memory of a DryRun: a map of so many items has some 50 MB.
const dryRunPass = 1 << 20

// rowsPerLookup is how many item rows are listed for what it costs to read one: a
// DynamoDB read unit is 4 KB, and an item row has some 170 bytes.
const rowsPerLookup = 24

// DryRun says what Load would report, and changes nothing. The source is checked as
// in Load, with the same errors. It is read twice, and once more for every further
// million lines, so that memory does not grow with it.
//
// Rows is exact. So are the other counts if nobody loads into the campaign between
// the beginning of the DryRun and the end of the Load: what others add meanwhile is
// known then. Claims, releases and withdrawals change nothing, since an item that was
// loaded stays known. Resumed is the progress of an unfinished load of the same
// items, which Load would go on with. An item that is in the bank without having been
// loaded, at which Load stops with an *InconsistentError, is not looked for; Reconcile does
// that.
//
// The items are looked up one by one, or found in a list of all that the campaign
// has, whichever is cheaper.
//
// Errors: *InvalidError, as *LineError where a line is to blame; ErrNoCampaign;
// ErrTryAgain; ErrInputChanged.
func (b *Bank) DryRun(ctx context.Context, campaign string, source Source) (LoadReport, error) {
	return b.dryRun(ctx, campaign, source, dryRunPass)
}

func (b *Bank) dryRun(ctx context.Context, campaign string, source Source, perPass int64) (LoadReport, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return LoadReport{}, err
	}
	in, err := inspect(ctx, source)
	if err != nil {
		return LoadReport{}, err
	}
	l, err := b.wouldLoad(ctx, c, in.digest)
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
		known, err := b.takeKnown(ctx, l, items)
		if err != nil {
			return LoadReport{}, err
		}
		report.Known += known
		for _, rows := range items {
			report.Added++
			report.Repeated += rows - 1
		}
	}
	return report, nil
}

// wouldLoad is the load that findLoad would resume or start.
func (b *Bank) wouldLoad(ctx context.Context, c Campaign, digest string) (engine.Load, error) {
	latest, err := b.store.LatestLoad(ctx, c.Name, digest)
	switch {
	case err != nil:
		return engine.Load{}, err
	case latest == nil:
		return engine.Load{Campaign: c.Name, Digest: digest, Number: 1}, nil
	case latest.Finished:
		return engine.Load{Campaign: c.Name, Digest: digest, Number: latest.Number + 1}, nil
	}
	return *latest, nil
}

// countItems counts the rows of each item of a pass, which is a part of all hashes.
func countItems(ctx context.Context, source Source, in input, pass, passes int) (map[engine.Hash]int64, error) {
	items := map[engine.Hash]int64{}
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
		sum.add(line.Item)
		if h := engine.HashItem(line.Item); h.ShardOf(passes) == pass {
			items[h]++
		}
	}
	if sum.String() != in.digest {
		return nil, ErrInputChanged
	}
	return items, nil
}

// takeKnown takes the items that other loads have added out of items, and returns
// how many rows they have. It lists item rows until that has cost as much as looking
// up the items that are left, and then does so: at most twice the better of the two,
// and a page.
func (b *Bank) takeKnown(ctx context.Context, l engine.Load, items map[engine.Hash]int64) (known int64, err error) {
	see := func(h engine.Hash, row engine.ItemRow) {
		if row.LoadID != l.ID() {
			known += items[h]
			delete(items, h)
		}
	}
	spent := 0
	for cursor := ""; spent < len(items); {
		var rows []engine.ListedItem
		if rows, cursor, err = b.store.ListItemRows(ctx, l.Campaign, cursor); err != nil {
			return 0, err
		}
		for _, row := range rows {
			see(row.Hash, row.ItemRow)
		}
		if cursor == "" {
			return known, nil
		}
		spent += max(1, len(rows)/rowsPerLookup)
	}
	for h := range items {
		row, err := b.store.ItemRow(ctx, l.Campaign, h)
		if err != nil {
			return 0, err
		}
		if row != nil {
			see(h, *row)
		}
	}
	return known, nil
}
