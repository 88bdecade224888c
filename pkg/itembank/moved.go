package itembank

import (
	"context"
	"fmt"
)

// A restored store is a consistent copy of an older moment, so Reconcile finds nothing wrong in it. Two marks beside
// the mode of a campaign keep what customers saw since that moment:
//
//   - Moved, in the old store: no claim is made, confirmed, prolonged, released or swept any more. So what a replay
//     reads there stays true.
//   - Restored, in the new store: nothing is handed out, and no claim is prolonged, released by its holder or swept. A
//     claim may be gone in the old store. A hold is confirmed if the new store has it: a payment must not wait for a replay.
//
// OpenCampaign, CloseCampaign and ChangeCampaign never change a mark. Restored is cleared only by a ReplayStore that
// refused nothing, and that began to read DrainTime after it saw all campaigns of the scope moved in the old store. By
// then requests that used an older copy of the rules are over. OpenWithoutReplay and CloseWithoutReplay clear both marks,
// for a person who says that newer claims are lost.

// ErrMoved and ErrRestored are members of ErrRefused, but a repeat succeeds once the campaign is open in the new store.
// They come as a *MarkedError, which names the campaign.
var (
	// ErrMoved says that the campaign goes on in another store, or is about to.
	ErrMoved = member(ErrRefused, "the campaign is marked as moved: it goes on in another store")
	// ErrRestored says that the store is a copy, and that what customers saw since was not replayed into it.
	ErrRestored = member(ErrRefused, "the campaign is marked as restored: what customers saw since the copy was not replayed yet")
)

// MarkedError names the campaign whose mark is in the way. It wraps ErrMoved or ErrRestored.
type MarkedError struct {
	Campaign string
	Err      error
}

func (e *MarkedError) Error() string { return fmt.Sprintf("%v (%s)", e.Err, e.Campaign) }

// Unwrap returns ErrMoved or ErrRestored.
func (e *MarkedError) Unwrap() error { return e.Err }

// marked returns ErrMoved or ErrRestored if the campaign has a mark.
func (c Campaign) marked() error {
	switch {
	case c.Moved:
		return &MarkedError{c.Name, ErrMoved}
	case c.Restored:
		return &MarkedError{c.Name, ErrRestored}
	}
	return nil
}

// notMarked returns an error if the Bank's copy of a campaign has a mark.
func (b *Bank) notMarked(ctx context.Context, campaign string) error {
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return err
	}
	return c.marked()
}
