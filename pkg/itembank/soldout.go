package itembank

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// To prove that a bank is empty takes a read of each shard, and the proof is good for a second. So
// a sold-out campaign of 64 shards would cost each container 64 reads a second, and hundreds of
// containers together more than the partitions of the bank can serve.
//
// Where items are burned, only loads bring items into the bank of an open campaign, and repairs of one
// that is opened meanwhile. So the first
// container that proves the bank empty writes that into the campaign row, and the others believe
// the row. Each load counts up the version of the row before its first item and at its end, and a
// repair counts it up with each item. A version at which the bank was seen empty says nothing about later versions. These rules keep G5:
//
//   - All shards were seen empty after the version was read, no load was unfinished then, and the
//     row still has the version when it is written. A load counts up before it is finished. So a
//     load that brought items after the first of these reads has counted up since.
//   - A copy of the row is believed for soldOutFor. A load into a campaign that was ever sold out
//     waits longer than that between its first count and its first item.
const (
	soldOutFor = DefaultCampaignCache
	soldOutGap = soldOutFor + time.Second
)

// knownSoldOut reports that the campaign row says that the bank is empty. start is when the request
// began.
func (c Campaign) knownSoldOut(start time.Time) bool {
	row := c.copied
	return c.OnEnd == Burn && row.emptyVersion > 0 && row.emptyVersion == row.version && elapsed(row.readAt, start) < soldOutFor
}

// worthAsking is how many shards have to be left to read for a search to read the campaign row
// first: another container may have written meanwhile that the bank is empty.
const worthAsking = 16

// foundSoldOut reads the campaign, and reports that its row says that the bank is empty.
func (l *freeList) foundSoldOut(ctx context.Context, c *Campaign) bool {
	if c.OnEnd != Burn {
		return false
	}
	started := l.bank.clock.Now()
	now, err := l.bank.readCampaign(ctx, c.Name)
	if err != nil || now.StateAt(l.bank.serverNow()) != Open || !now.knownSoldOut(started) {
		return false
	}
	*c = now
	return true
}

// markSoldOut writes into the campaign row that the bank is empty. now is the campaign as it was
// read after the proof. A failure only costs other containers a proof of their own.
func (l *freeList) markSoldOut(ctx context.Context, now Campaign) {
	row := &now.copied
	if now.OnEnd != Burn || row.version != l.emptyVersion() || row.emptyVersion == row.version {
		return
	}
	unfinished, err := l.findLoads(ctx, now)
	if err != nil || l.loads == noLoads || unfinished {
		return
	}
	if marked, err := l.bank.store.MarkEmpty(ctx, now.Name, row.version); err == nil && marked {
		row.emptyVersion = row.version
		l.bank.rules.put(now, row.readAt)
	}
}

// announceItems counts up the version of a campaign before items come into its bank. If containers
// may believe that the bank is empty, it waits until they do not.
func (b *Bank) announceItems(ctx context.Context, campaign string) error {
	row, err := b.nextVersion(ctx, campaign)
	if err != nil || row.EmptyVersion == 0 {
		return err
	}
	return b.clock.Sleep(ctx, soldOutGap)
}

func (b *Bank) nextVersion(ctx context.Context, campaign string) (engine.Campaign, error) {
	row, err := b.store.NextVersion(ctx, campaign)
	b.rules.forget(campaign)
	switch {
	case err != nil:
		return engine.Campaign{}, err
	case row == nil:
		return engine.Campaign{}, ErrNoCampaign
	}
	return *row, nil
}
