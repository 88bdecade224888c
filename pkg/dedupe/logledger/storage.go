package logledger

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// LaneID names a lane of a scope. A lane has one log, which is cut into epochs.
type LaneID struct {
	Scope string
	Lane  int // from 0
}

// Epoch is a chain row: the head of a stretch of a lane's log. It is written once, and never changed or deleted.
type Epoch struct {
	Number int // from 0, without gaps
	// Sealed is the index of the seal of the epoch before. It is 0 for the first epoch, which has none before it.
	Sealed int
	// Start and Ends bound the arrivals for which the epoch is meant, in milliseconds since 1970. The greatest arrival of
	// each of its items is below Ends. Start is the end of the epoch before; items may have earlier arrivals.
	Start, Ends int64
	// Until is the least arrival for which neither this epoch nor one before it counts: the greatest sum of end and
	// window among them, in milliseconds since 1970.
	Until int64
	// Window and Horizon are those of the scope when the epoch began. Its entries count for this window.
	Window, Horizon time.Duration
	Lanes           int // of the scope
	Layout          int // of chain rows and items
}

// PurgeAt is the purge time of all items of the epoch, in epoch seconds: after it no record for which they count, or for
// which an epoch before counts, is processed. One time for all of them makes the log end as a whole: in one with holes,
// an item could be appended into a hole.
func (e Epoch) PurgeAt() int64 {
	return dedupe.Retention{Horizon: e.Horizon}.PurgeAt(time.UnixMilli(e.Until))
}

// Place is a place in a lane's log.
type Place struct {
	LaneID
	Epoch, Index int // from 0
}

// Item is what the log has at an index of an epoch.
type Item struct {
	Index int
	Data  []byte
}

// Storage is where a log is stored. Engines are dynamostore's and, for tests, one in memory; package enginetest has their
// suite. A Storage that is busy, throttled or out of reach returns an error of the family dedupe.ErrTryAgain; a write may
// have had its effect then.
type Storage interface {
	// Epochs returns chain rows of a lane with numbers below a number, the latest first, up to a limit. It reads
	// consistently.
	Epochs(ctx context.Context, lane LaneID, below, limit int) ([]Epoch, error)
	// PutEpoch puts a chain row if the lane has none with its number. Otherwise it returns the one that is there.
	PutEpoch(ctx context.Context, lane LaneID, e Epoch) (existing *Epoch, err error)
	// Append puts an item if its place is free. Otherwise it returns the data of the one that is there. PurgeAt is in
	// epoch seconds.
	Append(ctx context.Context, at Place, data []byte, purgeAt int64) (existing []byte, err error)
	// Read returns items of an epoch from a place on, in the order of their indexes: up to a limit, or with 0 as many as
	// fit into one answer. more says that there may be others behind them. Only a consistent read sees all that was
	// appended before; another one may miss items, and costs half.
	Read(ctx context.Context, from Place, limit int, consistent bool) (items []Item, more bool, err error)
}
