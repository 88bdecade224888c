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

// Epoch is a chain row: it describes one part of a lane's log. It is written once, and never changed or deleted.
type Epoch struct {
	Number int // from 0, without gaps
	// Sealed is the index of the seal of the epoch before. It is 0 for the first epoch.
	Sealed int
	// Start and Ends bound the arrivals of the epoch, in milliseconds since 1970. The latest arrival of each of its
	// items is below Ends. Start is the Ends of the epoch before; items may have earlier arrivals.
	Start, Ends int64
	// Until is the earliest arrival for which neither this epoch nor any before it counts: the largest sum of Ends and
	// Window among them, in milliseconds since 1970.
	Until int64
	// Window and Horizon are the scope's when the epoch began. The entries of the epoch count for this Window.
	Window, Horizon time.Duration
	Lanes           int // of the scope
	Layout          int // of chain rows and items
}

// PurgeAt returns the purge time of all items of the epoch, in epoch seconds. After it, no record is processed for
// which this epoch or one before it counts. All items have the same purge time, so that the log is deleted without
// holes: an item could be appended into a hole.
func (e Epoch) PurgeAt() int64 {
	return dedupe.Retention{Horizon: e.Horizon}.PurgeAt(time.UnixMilli(e.Until))
}

// Place is a place in a lane's log.
type Place struct {
	LaneID
	Epoch, Index int // from 0
}

// Item is the content of the log at an index of an epoch.
type Item struct {
	Index int
	Data  []byte
}

// Storage stores a log. Package dynamostore has an engine for DynamoDB; there is one in memory for tests. Package
// enginetest has the suite. A Storage that is busy, throttled or out of reach returns an error of the family
// dedupe.ErrTryAgain; a write may then have taken effect.
type Storage interface {
	// Epochs returns up to limit chain rows of a lane with numbers below below, the latest first. It reads
	// consistently.
	Epochs(ctx context.Context, lane LaneID, below, limit int) ([]Epoch, error)
	// PutEpoch puts a chain row if the lane has no chain row with this number. Otherwise it returns the existing one.
	PutEpoch(ctx context.Context, lane LaneID, e Epoch) (existing *Epoch, err error)
	// Append puts an item if its place is free. Otherwise it returns the data of the existing item. purgeAt is in epoch
	// seconds.
	Append(ctx context.Context, at Place, data []byte, purgeAt int64) (existing []byte, err error)
	// Read returns items of an epoch from a place on, in the order of their indexes: up to limit, or as many as fit
	// into one answer if limit is 0. more says that there may be further items. A consistent read returns everything
	// that was appended before it. An inconsistent read may miss items, and costs half.
	Read(ctx context.Context, from Place, limit int, consistent bool) (items []Item, more bool, err error)
}
