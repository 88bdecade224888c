package itembank

import (
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The families. Every error of this package and of its engines that a caller
// can act on belongs to one of them; errors.Is with the family asks for all of
// its members at once. An error of no family is a fault to be looked at.
var (
	// ErrInvalid: the input is wrong and nothing was changed. Repair it first.
	// The error is an *InvalidError.
	ErrInvalid = errors.New("itembank: invalid input")

	// ErrRefused: the answer is no, and asking again changes nothing until
	// somebody loads items or opens the campaign.
	ErrRefused = errors.New("itembank: refused")

	// ErrTryAgain: the store was busy, throttled or out of reach. Whether the
	// write took effect is not known, and need not be: the same call again is
	// safe, and finds what the first one did.
	ErrTryAgain = engine.ErrTryAgain

	// ErrInconsistent: the store holds rows that contradict each other, or the
	// ground moved under the operation. Nothing was guessed; somebody has to look.
	ErrInconsistent = engine.ErrInconsistent
)

// The members of ErrRefused.
var (
	ErrSoldOut    = member(ErrRefused, "sold out")
	ErrNotOpen    = member(ErrRefused, "the campaign is not open yet")
	ErrClosed     = member(ErrRefused, "the campaign is closed")
	ErrNoCampaign = member(ErrRefused, "no such campaign")
	ErrNoClaim    = member(ErrRefused, "no such claim")
	// ErrClaimedElsewhere comes as a *ClaimedElsewhereError, which names the campaign.
	ErrClaimedElsewhere = member(ErrRefused, "claimed in another campaign of the same scope")
)

// The members of ErrInconsistent.
var (
	// ErrOrphanItem: an item is in the bank, but no row says that it was ever loaded.
	ErrOrphanItem = member(ErrInconsistent, "an item is in the bank without a row that says it was loaded")
	// ErrNoSuchRow: a row that another one speaks of is not there.
	ErrNoSuchRow = member(ErrInconsistent, "a row is missing that another one speaks of")
	// ErrHeldAndFree: an item is held by a claimant and in the bank.
	ErrHeldAndFree = member(ErrInconsistent, "an item is held and in the bank")
	// ErrFreeAndEnded: an item is in the bank and has ended.
	ErrFreeAndEnded = member(ErrInconsistent, "an item is in the bank and has ended")
	// ErrHeldAndEnded: an item is held by a claimant and has ended. Release of that
	// claim settles it.
	ErrHeldAndEnded = member(ErrInconsistent, "an item is held and has ended")
	// ErrReopened: a campaign was opened while it was being repaired.
	ErrReopened = member(ErrInconsistent, "the campaign was opened while it was being repaired")
	// ErrInputChanged: a load's input was not the same on its second reading.
	// The items written are in the bank; the load stays unfinished.
	ErrInputChanged = member(ErrInconsistent, "the input changed while it was being loaded")
	// ErrOvertaken: the campaign's generation changed during a load. The
	// items went to the generation that the load began with.
	ErrOvertaken = member(ErrInconsistent, "the campaign's generation changed during the load")
)

// InvalidError says which input is wrong and what it must look like.
type InvalidError struct {
	Field  string // the input's name, as in "claimant"
	Detail string // what is wrong and what to do; never holds the input itself
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// Is reports that the error belongs to ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ClaimedElsewhereError names the campaign in which the claimant holds an item.
type ClaimedElsewhereError struct{ Campaign string }

func (e *ClaimedElsewhereError) Error() string {
	return fmt.Sprintf("claimed elsewhere: the claimant holds an item of campaign %q, which shares the scope", e.Campaign)
}

func (e *ClaimedElsewhereError) Unwrap() error { return ErrClaimedElsewhere }

// member makes a sentinel of a family without the family's words in its text.
func member(family error, text string) error { return &memberError{family, text} }

type memberError struct {
	family error
	text   string
}

func (e *memberError) Error() string { return e.text }
func (e *memberError) Unwrap() error { return e.family }
