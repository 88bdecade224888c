package engine

import (
	"context"
	"time"
)

// MaxAddItems is the largest number of items of one call of AddItems or
// EndItems: two rows each fill a DynamoDB transaction of 100 actions
// (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
const MaxAddItems = 50

// The largest sizes of texts, in bytes of UTF-8. The Bank checks them.
const (
	MaxItem     = 512
	MaxClaimant = 256
)

// Store is what a Bank needs of an engine.
//
// These rules hold for all methods. Reads are strongly consistent, unless the
// method says otherwise. A write is one transaction: all of it becomes visible
// or nothing. A nil result or found = false means that the row is absent, which
// is never an error. A busy, throttled or unreachable engine returns an error of
// the family ErrTryAgain; the effect of the call is unknown then. Every method is
// safe to call again. Times have a precision of one millisecond.
type Store interface {
	// Campaigns.

	// CreateCampaign puts a campaign if its name is free. If the name is taken,
	// it returns the existing campaign and changes nothing.
	CreateCampaign(ctx context.Context, c Campaign) (existing *Campaign, err error)
	// Campaign reads a campaign.
	Campaign(ctx context.Context, name string) (*Campaign, error)
	// Campaigns lists all campaigns by name.
	Campaigns(ctx context.Context) ([]Campaign, error)
	// SetMode changes the mode of an existing campaign, and nothing else.
	SetMode(ctx context.Context, name string, m Mode) (found bool, err error)

	// Claims.

	// FreeItems returns up to limit free items of the shard in the order of their
	// hashes. FreePage.More is false only if the range holds no others.
	FreeItems(ctx context.Context, s Shard, r Range, limit int) (FreePage, error)
	// Take deletes the item from the bank, if it is there and has not ended by
	// claim.ClaimedAt, and puts the claim, if the claimant has none in the scope.
	// It does both or neither. The result names every condition that failed.
	Take(ctx context.Context, item FreeItem, claim Claim) (TakeResult, error)
	// HeldClaim reads the claim of a claimant in a scope.
	HeldClaim(ctx context.Context, scope, claimant string) (*Claim, error)
	// HeldClaimEventuallyConsistent is HeldClaim by an eventually consistent read,
	// where the engine has one and it is cheaper. The answer may be a little old.
	HeldClaimEventuallyConsistent(ctx context.Context, scope, claimant string) (*Claim, error)
	// CloseClaim deletes a claim. In the same transaction it returns the item to
	// the bank and counts the return in the item row, or marks the item row as
	// ended. The request says which, and under which conditions.
	CloseClaim(ctx context.Context, r CloseRequest) (CloseResult, error)

	// Items.

	// ItemRow reads the row of an item; nil if it was never loaded.
	ItemRow(ctx context.Context, campaign string, h Hash) (*ItemRow, error)
	// AddItems adds items that were never loaded before, each with its item row
	// and its bank row. The requests are at most MaxAddItems, of different hashes
	// and of one campaign. The results are in the order of the requests. The caller
	// sends those that are AddUnsettled again.
	AddItems(ctx context.Context, requests []AddRequest) ([]AddResult, error)
	// EndItems takes free items out of the bank. For each, one transaction deletes
	// the bank row and marks the item row. The requests are at most MaxAddItems, of
	// different hashes and of one campaign. The results are in the order of the
	// requests. The caller sends those that are EndUnsettled again.
	EndItems(ctx context.Context, requests []EndRequest) ([]EndResult, error)

	// Loads.

	// LatestLoad returns the load with the highest number among those with this
	// digest.
	LatestLoad(ctx context.Context, campaign, digest string) (*Load, error)
	// Loaded reports whether the campaign has a load's row, finished or not.
	Loaded(ctx context.Context, campaign string) (bool, error)
	// StartLoad puts a load's row if its number is free. started = false means that
	// another loader's row is there.
	StartLoad(ctx context.Context, l Load) (started bool, err error)
	// AdvanceLoad writes progress and finished, unless the row is further already.
	// The row count never falls, and finished never goes away.
	AdvanceLoad(ctx context.Context, l Load) error

	// Lists. They return pages in an engine's own order, and each row once if it is
	// there all the time. A page may be empty and not the last. The cursor of the
	// first page is ""; next is "" after the last page.

	ListClaims(ctx context.Context, scope, cursor string) (claims []Claim, next string, err error)
	ListItemRows(ctx context.Context, campaign, cursor string) (rows []ListedItem, next string, err error)
	// Counts counts the rows of a campaign.
	Counts(ctx context.Context, c Campaign) (Counts, error)

	// Repair makes one change if its conditions hold, in one transaction. With
	// done = false they do not hold any more, and nothing was changed.
	Repair(ctx context.Context, r RepairRequest) (done bool, err error)
}

// Range is a part of a shard: the hashes above After, up to and including
// Through. A nil end is open.
type Range struct{ After, Through *Hash }

// FreePage is the result of FreeItems.
type FreePage struct {
	Items []FreeItem
	More  bool
}

// TakeResult says why a Take changed nothing. The zero value says that the claim
// was made. Several conditions can fail at once; the Bank decides which one counts.
type TakeResult struct {
	Held          *Claim // the claim row that was there already
	ClaimConflict bool   // another transaction was working on the claim row
	ItemConflict  bool   // another transaction was working on the item
	Throttled     bool   // the engine asked for fewer requests
	ItemGone      bool   // the item was no longer in the bank, or had ended
}

// Taken reports that the claim was made.
func (r TakeResult) Taken() bool { return r == TakeResult{} }

// AddRequest asks for an item to be added.
type AddRequest struct {
	Item   FreeItem
	LoadID string
	Row    int64
}

// AddResult is the result of an AddRequest.
type AddResult struct {
	Outcome  AddOutcome
	Existing ItemRow // with AddKnown
}

// AddOutcome says what became of an AddRequest.
type AddOutcome int

// The outcomes of an AddRequest.
const (
	AddUnsettled AddOutcome = iota // nothing was changed and nothing is known: send it again
	AddDone                        // both rows were put
	AddKnown                       // there is an item row: AddResult.Existing
	AddOrphan                      // there is a bank row without an item row: they are inconsistent
)

// CloseRequest asks for the end of a claim. Its conditions are:
//
//   - The claim row still has the claim's id. If EndedBy is set, its end is before
//     EndedBy.
//   - The item row has the generation. It has no state; with Marked it has State.
//   - To return the item, there is no bank row of it.
type CloseRequest struct {
	Claim      Claim
	EndedBy    time.Time // zero: whatever its end
	Generation int       // of the item row
	Return     *FreeItem // the bank row to put; nil: the item ends
	State      ItemState // how the item ends
	Marked     bool      // the item row has State already; only the claim row changes
}

// CloseResult says why CloseClaim changed nothing. The zero value says that the
// claim is closed.
type CloseResult struct {
	ClaimChanged bool // the claim is gone, is another one, or has not ended
	ItemChanged  bool // the item row is gone, has another generation, or a state
	ItemFree     bool // the item is in the bank
	Conflict     bool // another transaction was working on a row
	Throttled    bool // the engine asked for fewer requests
}

// Closed reports that the claim was closed.
func (r CloseResult) Closed() bool { return r == CloseResult{} }

// EndRequest asks for the end of a free item. Its conditions: the item is in the
// bank and, if EndedBy is set, ends by then; its item row has no state.
type EndRequest struct {
	Item    FreeItem // Shard and Hash count
	EndedBy time.Time
	State   ItemState
}

// EndResult says what became of an EndRequest.
type EndResult int

// The results of an EndRequest.
const (
	EndUnsettled    EndResult = iota // nothing was changed and nothing is known: send it again
	EndDone                          // the bank row is deleted and the item row marked
	EndNotFree                       // the item is not in the bank, or has not ended
	EndInconsistent                  // the item is in the bank, and its item row is gone or has a state
)

// RepairRequest asks for a change of one row of an item (one of the first three),
// under one condition (one of the last three).
type RepairRequest struct {
	Campaign string
	Hash     Hash

	PutFree  *FreeItem // put the bank row if it is absent, and count a return in IfRow
	DropFree *FreeItem // delete the bank row if it is there
	PutRow   *ItemRow  // put the item row if it is absent

	IfRow   *ItemRow  // the item row has this generation, state and number of returns
	IfClaim *Claim    // the claim row has this id
	IfFree  *FreeItem // the bank row is there
}
