package itembank

import (
	"context"
	"time"
)

// Store is what a Bank needs of an engine: the eight roles below, each with few
// methods. Every engine implements all of them and passes itembanktest.Run.
//
// Common to all methods: reads are strongly consistent; a write is one
// transaction, visible whole or not at all; nil or a false found means absent,
// which is never an error; an engine that is busy, throttled or out of reach
// returns an error of the family ErrTryAgain, after which the effect is
// unknown, and every method is safe to call again. Times are kept to the
// millisecond.
type Store interface {
	CampaignStore
	FreeItemStore
	ClaimStore
	LoadStore
	EndStore
	Lister
	Repairer
	Counter
}

// CampaignStore keeps the campaigns.
type CampaignStore interface {
	// CreateCampaign puts a campaign if its name is free, else returns the
	// one that has it and changes nothing.
	CreateCampaign(ctx context.Context, c Campaign) (existing *Campaign, err error)
	// Campaign reads a campaign; nil if there is none.
	Campaign(ctx context.Context, name string) (*Campaign, error)
	// Campaigns lists all campaigns by name.
	Campaigns(ctx context.Context) ([]Campaign, error)
	// SetMode changes the mode of an existing campaign, and nothing else.
	SetMode(ctx context.Context, name string, m Mode) (found bool, err error)
}

// FreeItemStore reads the bank.
type FreeItemStore interface {
	// FreeItems returns up to limit free items of the shard in order of their
	// hashes. More is false only if the range holds no others.
	FreeItems(ctx context.Context, s Shard, r Range, limit int) (FreePage, error)
}

// Range is a stretch of a shard: hashes above After and up to Through. A nil
// end is open.
type Range struct{ After, Through *Hash }

// FreePage is the answer of FreeItems.
type FreePage struct {
	Items []FreeItem
	More  bool
}

// ClaimStore moves an item from the bank to a claimant.
type ClaimStore interface {
	// Take deletes the item from the bank, if it is there and has not ended by
	// claim.ClaimedAt, and puts the claim, if the claimant has none in the
	// scope: both or neither. What stood in the way is data, not an error, and
	// all of it is reported.
	Take(ctx context.Context, item FreeItem, claim Claim) (Evidence, error)
	// HeldClaim reads the claim of a claimant in a scope; nil if there is none.
	HeldClaim(ctx context.Context, scope, claimant string) (*Claim, error)
	// PeekClaim is HeldClaim with an answer that may be a little old, where
	// that is cheaper.
	PeekClaim(ctx context.Context, scope, claimant string) (*Claim, error)
}

// Evidence is why a Take changed nothing; the zero value says that it took.
// Several can be true at once. Which one counts is decided in one place, Bank.Claim.
type Evidence struct {
	Held      *Claim // the claim row that was there already
	ClaimBusy bool   // another transaction had its hands on the claim row
	ItemBusy  bool   // another transaction had its hands on the item
	Throttled bool   // the engine asked for less
	ItemGone  bool   // the item was no longer in the bank, or had ended
}

// Taken reports that the claim was made.
func (e Evidence) Taken() bool { return e == Evidence{} }

// LoadStore adds items and keeps the progress of loads.
type LoadStore interface {
	// LatestLoad returns the load with the highest number of those with this
	// digest; nil if there is none.
	LatestLoad(ctx context.Context, campaign, digest string) (*Load, error)
	// StartLoad puts a load's row if its number is free. Someone else's row
	// there is started = false.
	StartLoad(ctx context.Context, l Load) (started bool, err error)
	// AdvanceLoad writes progress and finished, unless the row is further
	// already: its row count never falls and finished never goes away.
	AdvanceLoad(ctx context.Context, l Load) error
	// AddItems adds items, each with its item row and its bank row, if it was
	// never loaded before. There are at most MaxAddItems of them, of different
	// hashes and of one campaign. The answers are in the order of the
	// additions; those that are Unsettled are to be sent again.
	AddItems(ctx context.Context, additions []Addition) ([]Added, error)
}

// MaxAddItems is how many items AddItems takes: two rows each fill a
// DynamoDB transaction of 100 actions.
const MaxAddItems = 50

// Addition is an item to be added.
type Addition struct {
	Item   FreeItem
	LoadID string
	Row    int64
}

// Added is what became of an Addition.
type Added struct {
	Outcome  AddOutcome
	Existing ItemRow // with AlreadyLoaded
}

// AddOutcome is what became of an Addition.
type AddOutcome int

// The outcomes.
const (
	Unsettled     AddOutcome = iota // nothing was changed and nothing is known: send it again
	AddedNow                        // both rows were put
	AlreadyLoaded                   // there is an item row: Added.Existing
	Stray                           // no item row, but a bank row: they contradict each other
)

// EndStore ends claims and items.
type EndStore interface {
	// ItemRow reads the row of an item; nil if it was never loaded.
	ItemRow(ctx context.Context, campaign string, h Hash) (*ItemRow, error)
	// CloseClaim deletes a claim and, in the same transaction, returns its item
	// to the bank and counts that in its row, or ends it, as c says: all of it or
	// nothing.
	CloseClaim(ctx context.Context, c Closing) (ClosingEvidence, error)
	// EndItems takes free items out of the bank, each with its bank row deleted
	// and its item row marked, in one transaction an item or fewer. There are at
	// most MaxAddItems of them, of different hashes and of one campaign. The
	// answers are in the order of the endings; those that are NotSettled are to
	// be sent again.
	EndItems(ctx context.Context, endings []Ending) ([]Ended, error)
}

// Closing is the end of a claim. Its conditions: the claim's row still has the
// id and, if EndedBy is set, an end before that; the item's row is of the
// generation and has no state, or State already if the closing says so; to return
// the item, it is not in the bank.
type Closing struct {
	Claim      Claim
	EndedBy    time.Time // zero: whatever its end
	Generation int       // of the item's row
	Return     *FreeItem // the bank row to put; nil: the item ends
	State      ItemState // how it ends
	Marked     bool      // the item's row has State already, and only the claim goes
}

// ClosingEvidence is why CloseClaim changed nothing; the zero value says that
// the claim is closed.
type ClosingEvidence struct {
	ClaimChanged bool // the claim is gone, is another one, or has not ended
	ItemChanged  bool // the item's row is gone, has another generation, or a state
	ItemFree     bool // the item is in the bank
	Busy         bool // another transaction had its hands on a row
	Throttled    bool // the engine asked for less
}

// Closed reports that the claim was closed.
func (e ClosingEvidence) Closed() bool { return e == ClosingEvidence{} }

// Ending is the end of a free item. Its conditions: it is in the bank and, if
// EndedBy is set, ends by then; its row has no state.
type Ending struct {
	Item    FreeItem // Shard and Hash count
	EndedBy time.Time
	State   ItemState
}

// Ended is what became of an Ending.
type Ended int

// The outcomes.
const (
	NotSettled   Ended = iota // nothing was changed and nothing is known: send it again
	EndedNow                  // the bank row is gone and the item row marked
	NotFree                   // it is not in the bank, or has not ended
	Contradicted              // it is in the bank, and its row is gone or has a state
)

// Lister lists rows in pages, in an engine's own order, each row once
// if it is there all the time. A page may be empty and not the last; the first has
// the cursor "", and after the last one next is "".
type Lister interface {
	ListClaims(ctx context.Context, scope, cursor string) (claims []Claim, next string, err error)
	ListItemRows(ctx context.Context, campaign, cursor string) (rows []ListedItem, next string, err error)
}

// ListedItem is an item row with its hash. The row does not hold the item.
type ListedItem struct {
	Hash Hash
	ItemRow
}

// Repairer puts right what contradicts itself.
type Repairer interface {
	// Repair makes one change IF what it rests on is so, in one transaction. Done is
	// false if it is not so any more, and nothing was changed.
	Repair(ctx context.Context, m RepairRequest) (done bool, err error)
}

// RepairRequest is a change of one row of an item, and what it rests on: one of each.
type RepairRequest struct {
	Campaign string
	Hash     Hash

	PutFree  *FreeItem // put the bank row IF absent, and count a return in IfRow
	DropFree *FreeItem // delete the bank row IF there
	PutRow   *ItemRow  // put the item row IF absent

	IfRow   *ItemRow  // the item row has this generation, state and number of returns
	IfClaim *Claim    // the claim's row has this id
	IfFree  *FreeItem // the bank row is there
}

// Counter counts the rows of a campaign.
type Counter interface {
	Counts(ctx context.Context, c Campaign) (Counts, error)
}
