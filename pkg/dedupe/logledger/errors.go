package logledger

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrForGood says that this ledger cannot keep entries for ever, because they would not fit into memory.
	ErrForGood = errors.New("logledger: the log ledger needs a window; for entries that are kept for ever use a ledger " +
		"with one row a key")

	// ErrAhead says that the arrival of a record is more than an hour ahead of the clock.
	ErrAhead = errors.New("logledger: the arrival of a record is more than an hour in the future: check the clock of this " +
		"machine, and what sets the arrivals")

	// ErrPurged says that entries that may count for a record are past their purge time, so that copies cannot be
	// recognized. The record is older than the horizon of the scope when these entries were written.
	ErrPurged = errors.New("logledger: entries that may count for a record are purged: the record is past the horizon")

	errLayout = errors.New("logledger: another version of oncebox wrote this log, with another layout: use that version, " +
		"or another scope")
)

// MemoryError says that the entries that count do not fit into memory. Nothing was changed.
type MemoryError struct {
	LaneID
	Entries     int       // entries of the lane in memory
	More        int       // entries that do not fit
	Since       time.Time // the earliest arrival for which entries are needed
	Used, Limit int64     // bytes, of all lanes
}

// Error has the numbers, and says what to do.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("logledger: lane %d of the scope %q has %d entries in memory that count for records from %s on, and "+
		"%d more do not fit: %.1f of %.1f MiB are used; set more memory; if the batch is late, "+
		"oncebox redrive run can enter it with more memory than a function has",
		e.Lane, e.Scope, e.Entries, e.Since.Format(time.RFC3339), e.More, float64(e.Used)/(1<<20), float64(e.Limit)/(1<<20))
}

// purgedError is the error for a missing item.
func (l *lane) purgedError(e Epoch, index int) error {
	return fmt.Errorf("%w (lane %d of the scope %q, epoch %d, item %d; the epoch has the window %s and the horizon %s)",
		ErrPurged, l.Lane, l.Scope, e.Number, index, e.Window, e.Horizon)
}
