package itembank

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The families of errors. Every error that a caller can act on belongs to one of them. errors.Is with the family
// matches all its members. An error of no family is a fault of the store or of this package.
var (
	// ErrInvalid says that the input is wrong. Nothing was changed. The error is an *InvalidError, which names the
	// input.
	ErrInvalid = errors.New("itembank: invalid input")

	// ErrRefused says that the request was understood and refused. A repeat is refused too, until items are loaded,
	// the campaign is opened, a claim is released or the claimant is unblocked.
	ErrRefused = errors.New("itembank: refused")

	// ErrTryAgain says that the store was busy, throttled or out of reach. The write may have taken effect. Repeat
	// the same call: that is safe, and finds what the first call did.
	ErrTryAgain = engine.ErrTryAgain

	// ErrInconsistent says that rows of the store contradict each other, or that something changed during a long
	// operation. The Bank did not guess. If an operation found such rows, the error is an *InconsistentError.
	// Reconcile finds all such rows.
	ErrInconsistent = engine.ErrInconsistent
)

// UnreadableError names campaigns whose rows this version of oncebox cannot read. Campaigns returns the others with it.
type UnreadableError struct{ Campaigns []Unreadable }

// Unreadable is a campaign whose row this version of oncebox cannot read.
type Unreadable struct {
	Name  string
	Scope string // "": this version cannot read it either
	Err   error
}

// In reports whether one of the campaigns is in a scope, or may be: a row that does not name its scope counts for each.
func (e *UnreadableError) In(scope string) bool {
	return slices.ContainsFunc(e.Campaigns, func(c Unreadable) bool { return c.Scope == scope || c.Scope == "" })
}

// maxNamed is how many of the campaigns or claims an error names.
const maxNamed = 5

func (e *UnreadableError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "campaigns that cannot be read: %d", len(e.Campaigns))
	for _, c := range e.Campaigns[:min(len(e.Campaigns), maxNamed)] {
		fmt.Fprintf(&text, "\n%s: %v", c.Name, c.Err)
	}
	if more := len(e.Campaigns) - maxNamed; more > 0 {
		fmt.Fprintf(&text, "\nand %d more", more)
	}
	return text.String()
}

// Unwrap returns the reasons.
func (e *UnreadableError) Unwrap() (reasons []error) {
	for _, c := range e.Campaigns {
		reasons = append(reasons, c.Err)
	}
	return reasons
}

// The members of ErrRefused.
var (
	ErrSoldOut    = member(ErrRefused, "sold out")
	ErrNotOpen    = member(ErrRefused, "the campaign is not open yet")
	ErrClosed     = member(ErrRefused, "the campaign is closed")
	ErrNoCampaign = member(ErrRefused, "no such campaign")
	ErrNoClaim    = member(ErrRefused, "no such claim")
	// ErrNotEligible says that the claimant is blocked in the scope (see Block). Unblock lets the claimant claim again.
	ErrNotEligible = member(ErrRefused, "not eligible: the claimant is blocked in the scope of the campaign")
	// ErrNotReconciled comes from OpenCampaign, after CloseUntilReconciled.
	ErrNotReconciled = member(ErrRefused, "the campaign stays closed until reconcile finds no inconsistency")
	// ErrLoaded comes from DeleteCampaign.
	ErrLoaded = member(ErrRefused, "the campaign was loaded, and a campaign that was ever loaded is not deleted")
	// ErrBlocksLeft comes from DeleteCampaign: the campaign is the last of its scope, and claimants are blocked there.
	// Unblock them first, or close the campaign instead.
	ErrBlocksLeft = member(ErrRefused, "the campaign is the last of its scope, and claimants are blocked in the scope")
	// ErrDeleted comes from CreateCampaign: a campaign of that name was deleted less than DrainTime
	// ago, and Banks may still use its rules.
	ErrDeleted = member(ErrRefused, "a campaign of that name was deleted a moment ago")
	// ErrChanged comes from OpenCampaign, ChangeCampaign and DeleteCampaign: another operator changed, opened or closed
	// the campaign meanwhile. Nothing was changed. Look at the campaign before you repeat the call.
	ErrChanged = member(ErrRefused, "another operator changed the campaign at the same time; nothing was changed")
	// ErrClaimedElsewhere comes as a *ClaimedElsewhereError, which names the campaign.
	ErrClaimedElsewhere = member(ErrRefused, "claimed in another campaign of the same scope")
)

// The members of ErrInconsistent that are about changes during an operation.
var (
	// ErrInputChanged says that the second reading of a source differed from the first. The items that were added
	// stay in the bank. The load is unfinished. To resume it, load the first input again; to end it, use GiveUpLoad.
	ErrInputChanged = member(ErrInconsistent, "the input changed while it was being loaded")
	// ErrLoadGivenUp says that GiveUpLoad gave up the load while it ran, which stopped. The items that it added stay in
	// the bank. The same items can be loaded again.
	ErrLoadGivenUp = member(ErrInconsistent, "another command gave the load up while it ran; the items that it added stay")
	// ErrReopened says that the campaign was opened during a Repair, which stopped.
	ErrReopened = member(ErrInconsistent, "the campaign was opened while it was being repaired")
)

// InvalidError says which input is wrong and what it must look like.
type InvalidError struct {
	Field  string // the input's name, such as "claimant"
	Detail string // what is wrong and what to do, with other settings as in `hold`; never contains a claimant or an item
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// Is reports whether target is ErrInvalid, the family of the error.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// LineError says which line of a source is invalid. It wraps an *InvalidError.
type LineError struct {
	Line int64
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }

// ClaimedElsewhereError names the campaign in which the claimant holds an item.
type ClaimedElsewhereError struct{ Campaign string }

func (e *ClaimedElsewhereError) Error() string {
	return fmt.Sprintf("claimed elsewhere: the claimant holds an item of campaign %q, which shares the scope", e.Campaign)
}

// Unwrap returns ErrClaimedElsewhere.
func (e *ClaimedElsewhereError) Unwrap() error { return ErrClaimedElsewhere }

// InconsistentError says that an operation found rows that contradict each other, and left them as they are. Its
// family is ErrInconsistent.
type InconsistentError struct {
	// Kind is one of the kinds of an Inconsistency, or "no-campaign": the campaign of a claim does not exist.
	Kind   string
	Detail string // names the claim or the item
}

func (e *InconsistentError) Error() string {
	return fmt.Sprintf("%s: %s (%s)", e.Detail, inconsistencyTexts[e.Kind], e.Kind)
}

// Is reports whether target is ErrInconsistent, the family of the error, or an *InconsistentError of the same kind.
func (e *InconsistentError) Is(target error) bool {
	other, ok := target.(*InconsistentError)
	return target == ErrInconsistent || ok && other.Kind == e.Kind
}

// noCampaign is the kind of a claim whose campaign does not exist.
const noCampaign = "no-campaign"

var inconsistencyTexts = map[string]string{
	freeNotLoaded: "the item is in the bank, but no row says that it was loaded",
	heldNotLoaded: "the item is held, but no row says that it was loaded",
	heldAndFree:   "the item is held and also in the bank",
	heldAndEnded:  "the item is held, but its row says that it ended",
	freeAndEnded:  "the item is in the bank, but its row says that it ended",
	noCampaign:    "the campaign of the claim does not exist",
}

// member makes a member of a family. Its text does not repeat the text of the family.
func member(family error, text string) error { return &memberError{family, text} }

type memberError struct {
	family error
	text   string
}

func (e *memberError) Error() string { return e.text }
func (e *memberError) Unwrap() error { return e.family }
