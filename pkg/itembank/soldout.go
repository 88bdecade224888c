package itembank

import (
	"context"
	"time"
)

// The proof that a bank is empty takes a read of each shard, and is valid for a second. So in a sold-out campaign of
// 64 shards each container would send 64 reads a second. Hundreds of containers together would exceed the capacity of
// the bank's partitions.
//
// If items are burned, only loads add items to the bank of an open campaign. Repairs and replays do too, if the
// campaign is opened while they run, or while the last transaction of one that was killed becomes visible. They count
// as loads here, and have load rows (operator_adding.go). So the first container that proves the bank empty writes this into
// the campaign row, and the others believe the row. Each load raises the version of the row before its first item and
// at its end. The note that the bank is empty names a version, and is not valid for later versions. These rules keep
// G5:
//
//   - All shards were seen empty after the version was read, no load was unfinished then, and the row still has that
//     version when the note is written. A load raises the version before it is finished. So a load that added items
//     after the first of these reads has raised the version since.
//   - A copy of the row is believed for soldOutFor. A load into a campaign that was ever sold out waits longer than
//     that after it raised the version, before it adds its first item.
const (
	soldOutFor = DefaultCampaignCache
	soldOutGap = soldOutFor + time.Second
)

// knownSoldOut reports whether the campaign row says that the bank is empty. start is when the request began.
func (c Campaign) knownSoldOut(start time.Time) bool {
	row := c.copied
	return c.OnEnd == Burn && row.emptyVersion > 0 && row.emptyVersion == row.version && elapsed(row.readAt, start) < soldOutFor
}

// minShardsToAsk is how many shards must be left to read before a search first reads the campaign row: another
// container may have written there meanwhile that the bank is empty.
const minShardsToAsk = 16

// askEvery is how long a container waits on average between two reads of the row. All containers read the same
// partition key, which serves 3,000 reads a second.
const askEvery = 250 * time.Millisecond

// mayAsk reports whether a search may read the campaign row again: after a random time since the last read, of half to
// one and a half times askEvery.
func (l *freeList) mayAsk(c Campaign) bool {
	pause, err := l.bank.randomDuration(askEvery)
	if err != nil {
		return false
	}
	pause += askEvery / 2
	if l.askAt.Before(c.copied.readAt) {
		l.askAt = c.copied.readAt.Add(pause)
	}
	now := l.bank.clock.Now()
	if now.Before(l.askAt) {
		return false
	}
	l.askAt = now.Add(pause)
	return true
}

// earlyProofs is how many cold containers there are for each one that reads maxAtOnce shards at a time as soon as its
// first shard is empty. In a crowd of cold containers, the row should say early that the bank is empty. If all of them
// did this, they would throttle all shards.
const earlyProofs = 16

// provesEarly decides at random whether a container is one that proves early.
func (l *freeList) provesEarly() bool {
	d, err := l.bank.randomDuration(time.Second)
	return err == nil && d < time.Second/earlyProofs
}

// foundSoldOut reads the campaign if it may, and reports whether its row says that the bank is empty.
func (l *freeList) foundSoldOut(ctx context.Context, c *Campaign) bool {
	if c.OnEnd != Burn || !l.mayAsk(*c) {
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

// markSoldOut writes into the campaign row that the bank is empty. now is the campaign as it was read after the
// proof. If the write fails, other containers have to prove it themselves.
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
