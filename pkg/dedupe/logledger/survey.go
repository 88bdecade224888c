package logledger

import (
	"context"
	"time"
)

// Surveyed has the entries of a lane that count for a record, and the cost of loading them.
type Surveyed struct {
	Lane    int   `json:"lane"`
	Epochs  int   `json:"epochs"` // all epochs of the lane
	Window  int64 `json:"window_ms"`
	Counted int   `json:"epochs_counted"` // epochs that count; the numbers below are for these
	Items   int   `json:"items"`          // without seals
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`        // of the items
	Units   int64 `json:"write_units"`  // to append the items, without conflicts
	Memory  int64 `json:"memory_bytes"` // the most memory that the entries take in a process
	// Latest is the latest arrival in the newest item; zero if there is no item.
	Latest time.Time `json:"latest_arrival,omitzero"`
}

// Survey reads the entries that count for a record of a scope with a given arrival, as a process does before it
// decides about the record. The result has an element for each lane, and no elements if the scope has no log.
func Survey(ctx context.Context, storage Storage, scope string, arrival time.Time) ([]Surveyed, error) {
	lanes, err := lanesIn(ctx, storage, scope)
	if err != nil {
		return nil, err
	}
	all := make([]Surveyed, lanes)
	for n := range all {
		all[n].Lane = n
		if err := (scan{LaneID{scope, n}, storage}).survey(ctx, arrival.UnixMilli(), &all[n]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s scan) survey(ctx context.Context, arrival int64, found *Surveyed) error {
	for e, err := range s.epochs(ctx) {
		if err != nil {
			return err
		}
		if found.Counted == 0 {
			found.Epochs, found.Window = e.Number+1, e.Window.Milliseconds()
		} else if e.Until <= arrival {
			break
		}
		found.Counted++
		if err := s.surveyEpoch(ctx, e.Number, found); err != nil {
			return err
		}
	}
	found.Memory = entrySize*found.Entries + heldSize*int64(found.Items)
	return nil
}

func (s scan) surveyEpoch(ctx context.Context, epoch int, found *Surveyed) error {
	newest := found.Latest.IsZero() // the scan begins with the latest epoch
	for i, err := range s.items(ctx, epoch) {
		if err != nil {
			return err
		}
		bytes := HeaderSize + len(i.rows)*RowSize
		found.Bytes += int64(bytes)
		found.Units += unitsOf(bytes)
		if i.seal {
			continue
		}
		found.Items++
		found.Entries += int64(len(i.rows))
		if newest {
			found.Latest = time.UnixMilli(i.at.greatest).UTC()
		}
	}
	return nil
}
