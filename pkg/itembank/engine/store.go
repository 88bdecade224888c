package engine

import (
	"context"
	"time"
)

// MaxAddItems is the largest number of items of one call of AddItems or
// EndItems: two rows each fill a DynamoDB transaction of 100 actions
// (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
const MaxAddItems = 50

// MaxItemRows is the largest number of items of one call of ItemRows: a DynamoDB
// BatchGetItem reads 100 items
// (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html).
const MaxItemRows = 100

// MaxClaimItems is the largest number of items of a claim. To close a claim takes two actions for each,
// and one for the claim.
const MaxClaimItems = 20

// The largest sizes of texts, in bytes of UTF-8. The Bank checks them.
const (
	MaxItem     = 512
	MaxClaimant = 256
)

// Store is what a Bank needs of an engine. These rules hold for all methods:
//
//   - Reads are strongly consistent, unless the method says otherwise. They may show some of
//     the writes of a running transaction and not the others.
//   - A write is one transaction: all of it becomes visible or nothing.
//   - A nil result or found = false says that the row is absent. That is never an error.
//   - A busy, throttled or unreachable engine returns an error of the family ErrTryAgain.
//     The effect of the call is not known then.
//   - Every method is safe to call again, and safe for concurrent use.
//   - Times have a precision of one millisecond.
//   - A read that is throttled returns ErrThrottled.
type Store interface {
	// ServerTime returns a lower bound of the engine's own time. It is late by a second or a
	// little more at most. The zero time says that it is not known, because no request was
	// answered yet, or that the engine has no other clock than the caller.
	ServerTime() time.Time

	// Campaigns.

	// CreateCampaign puts the campaign row, and the row of its scope if that is absent, in one transaction.
	// It does so only if the campaign row is absent, or Deleted with the Version before c's and the
	// EmptyVersion of c; and only if a scope row that is there is the same. Otherwise it changes nothing,
	// and the result has the rows that were there.
	CreateCampaign(ctx context.Context, c Campaign) (CreateResult, error)
	// Campaign reads a campaign row.
	Campaign(ctx context.Context, name string) (*Campaign, error)
	// Campaigns lists all campaign rows in the order of their names.
	Campaigns(ctx context.Context) ([]Campaign, error)
	// SetMode changes the mode of a campaign row that exists and is not Deleted, and counts up its
	// version.
	SetMode(ctx context.Context, name string, m Mode) (found bool, err error)

	// ReplaceCampaign writes the row now in place of a campaign row, if that has the Version and the
	// EmptyVersion of old. replaced = false: it has others, or there is no row. If now is Deleted, it deletes
	// the page row in the same transaction.
	ReplaceCampaign(ctx context.Context, old, now Campaign) (replaced bool, err error)

	// PutPage writes the page row of a campaign in the place of an existing one, if the campaign row is
	// there and not Deleted, in one transaction.
	PutPage(ctx context.Context, campaign string, document []byte) (put bool, err error)
	// Page reads the page row of a campaign, nil if there is none. consistent = false: the read may
	// be the engine's cheapest, which may miss the writes of the last seconds.
	Page(ctx context.Context, campaign string, consistent bool) (document []byte, err error)

	// NextVersion counts up the version of a campaign row, and returns the row as it is then.
	NextVersion(ctx context.Context, campaign string) (*Campaign, error)
	// MarkEmpty writes the version as the EmptyVersion of a campaign row, if the row has this
	// version. marked = false: it has another, or there is no row.
	MarkEmpty(ctx context.Context, campaign string, version int64) (marked bool, err error)

	// Claims.

	// FreeItems returns up to limit bank rows of the shard in the order of their hashes.
	// The limit is 1 to 4,000. A page may have fewer rows, even none, and More. More is
	// false only if the range has no other rows.
	FreeItems(ctx context.Context, s Shard, r Range, limit int) (FreePage, error)
	// Take makes a claim in one transaction: it deletes the bank row if it is there and
	// does not end by claim.ClaimedAt, and puts the claim row if its key is absent.
	// It does both or neither. The result names every condition that failed.
	Take(ctx context.Context, item FreeItem, claim Claim) (TakeResult, error)
	// TakeItems makes a claim of several items, as Take does: it deletes all bank rows and puts the
	// claim row, or does nothing. ItemGone, ItemConflict and ItemThrottled are true if they are for any of the
	// items. There are at most MaxClaimItems, of different hashes and of the claim's campaign; they are those of the
	// claim, in order.
	TakeItems(ctx context.Context, items []FreeItem, claim Claim) (TakeResult, error)
	// HeldClaim reads a claim row. The read is isolated: it shows
	// the row before or after a transaction, never between the moments at which the writes of
	// one transaction become visible. conflict = true: a transaction is working on the row;
	// nothing is known about it.
	HeldClaim(ctx context.Context, key ClaimKey) (held *Claim, conflict bool, err error)
	// HeldClaimEventuallyConsistent reads the same row with the engine's cheapest read. It may
	// return a row that was deleted a moment ago, and miss one that was put a moment ago.
	HeldClaimEventuallyConsistent(ctx context.Context, key ClaimKey) (*Claim, error)
	// ConfirmClaim removes the end of a claim row, if the row has the id and the campaign of
	// the claim, and an end. The result has the row that is there afterwards; a row that the
	// call did not change is read consistently.
	ConfirmClaim(ctx context.Context, claim Claim) (ConfirmResult, error)
	// CloseClaim deletes a claim row. In the same transaction, for each of its items, it puts the
	// bank row and counts a return in the item row, or writes the state of the item row. The request
	// says which, and has the conditions.
	CloseClaim(ctx context.Context, r CloseRequest) (CloseResult, error)

	// DueClaims lists up to limit claims of a shard's items with after <= end < before, in the
	// order of their ends. The limit is 1 to 1,000. The list is a hint: it is eventually
	// consistent, so that it may have claims that were closed or confirmed. The zero time is before all ends.
	DueClaims(ctx context.Context, s Shard, after, before time.Time, limit int) (DuePage, error)

	// Items.

	// ItemRow reads an item row.
	ItemRow(ctx context.Context, campaign string, h Hash) (*ItemRow, error)
	// ItemRows reads the item rows of at most MaxItemRows different hashes, each as ItemRow
	// does, not all at one moment. The rows are in the order of the hashes; nil: the row is
	// absent.
	ItemRows(ctx context.Context, campaign string, hashes []Hash) ([]*ItemRow, error)
	// ReadItems reads the item row and the bank row of each item. The read of one item is
	// isolated, as that of HeldClaim is: it shows both rows before or after a transaction. The
	// keys are Shard and Hash; there are at most MaxAddItems, of different hashes and of one
	// campaign. The results are in the order of the keys.
	ReadItems(ctx context.Context, keys []FreeItem) ([]ItemRead, error)
	// AddItems puts the item row and the bank row of each item, if both are absent. There
	// are at most MaxAddItems requests, of different hashes and of one campaign. The results
	// are in the order of the requests. The caller sends requests that are AddUnsettled
	// again.
	AddItems(ctx context.Context, requests []AddRequest) ([]AddResult, error)
	// EndItems ends free items: for each it deletes the bank row and writes the state of the
	// item row, both or neither. There are at most MaxAddItems requests, of different hashes
	// and of one campaign. The results are in the order of the requests. The caller sends
	// requests that are EndUnsettled again.
	EndItems(ctx context.Context, requests []EndRequest) ([]EndResult, error)
	// MarkWithdrawn sets Withdraw in the row of an item that is not free, if the item row is
	// there and has no state, and the bank row is absent. done = false: a condition does not
	// hold, or another transaction was working on a row; nothing was changed.
	MarkWithdrawn(ctx context.Context, item FreeItem) (done bool, err error)

	// Loads.

	// Loads reports whether the campaign has load rows, and whether one of them is unfinished.
	Loads(ctx context.Context, campaign string) (some, unfinished bool, err error)
	// LatestLoad returns the load row of this digest with the highest number.
	LatestLoad(ctx context.Context, campaign, digest string) (*Load, error)
	// StartLoad puts a load row if it is absent. started = false: the row was there.
	StartLoad(ctx context.Context, l Load) (started bool, err error)
	// StartFirstLoad does what StartLoad does, if the campaign row is there and is not Deleted, and
	// counts up the version of the campaign in the same transaction. started = false: the load row
	// was there, or the campaign is not. conflict = true: another transaction was working on a row,
	// and nothing was changed.
	StartFirstLoad(ctx context.Context, l Load) (started, conflict bool, err error)
	// AdvanceLoad writes the tally and Finished into a load row. It changes nothing if the
	// row has more Rows, or as many and is finished. If there is no such row, the error is of
	// the family ErrInconsistent.
	AdvanceLoad(ctx context.Context, l Load) error

	// Lists return pages, in an order of the engine's own. They return every row once that
	// is there all the time. A page may be empty and not the last. The cursor of the first
	// page is ""; next is "" after the last page.

	// ListClaims lists the claim rows of a scope.
	ListClaims(ctx context.Context, scope, cursor string) (claims []Claim, next string, err error)
	// ListItemRows lists the item rows of a campaign.
	ListItemRows(ctx context.Context, campaign, cursor string) (rows []ListedItem, next string, err error)
	// Counts counts the rows of a campaign. consistent = false: the engine may count with its
	// cheapest reads, which may miss the writes of the last seconds.
	Counts(ctx context.Context, c Campaign, consistent bool) (Counts, error)

	// Repair makes one change if its condition holds, in one transaction. done = false: the
	// condition does not hold or the change is made already; nothing was changed.
	Repair(ctx context.Context, r RepairRequest) (done bool, err error)
}

// Range is a part of a shard: the hashes above After, up to and including Through. nil
// is no limit.
type Range struct{ After, Through *Hash }

// FreePage is the result of FreeItems.
type FreePage struct {
	Items []FreeItem
	More  bool
}

// CreateResult says why CreateCampaign changed nothing. The zero value says that the campaign was
// created. An engine need not set both fields where both apply.
type CreateResult struct {
	Existing *Campaign // the campaign row that was there
	Scope    *Scope    // the scope row that was there, and is another one
}

// Created reports that the campaign was created.
func (r CreateResult) Created() bool { return r == CreateResult{} }

// TakeResult says why a Take changed nothing. The zero value says that the claim was
// made. Several fields can be set at once; the Bank decides which one counts.
type TakeResult struct {
	Held           *Claim // the claim row that was there
	ClaimConflict  bool   // another transaction was working on the claim row
	ClaimThrottled bool   // the key range of the claim row, or the table, took too many requests
	ItemConflict   bool   // another transaction was working on the bank row
	ItemThrottled  bool   // the key range of the bank row took too many requests
	ItemGone       bool   // the bank row was not there, or the item had ended
}

// Taken reports that the claim was made.
func (r TakeResult) Taken() bool { return r == TakeResult{} }

// ConfirmResult is the result of ConfirmClaim. The claim is confirmed if Held is the claim and
// has no end.
type ConfirmResult struct {
	Held     *Claim // the claim row; nil: there is none, or nothing is known about it
	Conflict bool   // a transaction was working on the row: nothing is known about it
}

// DuePage is the result of DueClaims.
type DuePage struct {
	Claims []DueClaim
	More   bool // false only if there are no others; a page with More has at least one claim
}

// DueClaim names a claim that may have ended.
type DueClaim struct {
	ClaimKey
	EndsAt time.Time
}

// ItemRead has the two rows of an item; nil: the row is absent. Conflict: a transaction is
// working on one of them, and nothing is known about either.
type ItemRead struct {
	Row      *ItemRow
	Free     *FreeItem
	Conflict bool
}

// AddRequest asks for an item to be added.
type AddRequest struct {
	Item    FreeItem
	LoadID  string
	Row     int64
	Columns Columns // for the item row
}

// AddResult is the result of an AddRequest.
type AddResult struct {
	Outcome  AddOutcome
	Existing ItemRow // with AddKnown
}

// AddOutcome says how an AddRequest ended.
type AddOutcome int

// The outcomes of an AddRequest.
const (
	AddUnsettled AddOutcome = iota // nothing was changed and nothing is known: send it again
	AddDone                        // both rows were put
	AddKnown                       // there was an item row: AddResult.Existing
	AddOrphan                      // there was a bank row without an item row, which is inconsistent
)

// CloseRequest asks for the end of a claim. Its conditions are:
//
//   - The claim row has the claim's id. If EndedBy is set, the claim ends before EndedBy. With
//     IfHold the claim has an end.
//   - Each item row is there, and has the state of Row and its Withdraw.
//   - With Return, there is no such bank row.
type CloseRequest struct {
	Claim   Claim
	EndedBy time.Time // zero: the claim's end does not matter
	IfHold  bool      // the claim must not be confirmed
	Row     ItemRow   // the item row, as the Bank read it
	Return  *FreeItem // the bank row to put; nil: the item ends
	State   ItemState // how the item ends; where Row has a state, the same one

	More []CloseItem // the same for the other items of the claim, in order
}

// CloseItem says what becomes of an item of a claim, as in CloseRequest.
type CloseItem struct {
	Hash   Hash
	Row    ItemRow
	Return *FreeItem
	State  ItemState
}

// Items returns what becomes of each item of the claim.
func (r CloseRequest) Items() []CloseItem {
	return append([]CloseItem{{r.Claim.ItemHash, r.Row, r.Return, r.State}}, r.More...)
}

// CloseResult says why CloseClaim changed nothing. The zero value says that the claim is
// closed. Several fields can be set at once. An engine need not set all that apply, but at
// least one.
type CloseResult struct {
	ClaimChanged bool // the condition on the claim row failed
	ItemChanged  bool // the condition on an item row failed
	ItemFree     bool // there was a bank row
	Conflict     bool // another transaction was working on a row
	Throttled    bool // the engine asked for fewer requests
}

// Closed reports that the claim was closed.
func (r CloseResult) Closed() bool { return r == CloseResult{} }

// EndRequest asks for the end of a free item. Its conditions are:
//
//   - The bank row is there. If EndedBy is set, the item ends by EndedBy.
//   - The item row is there and has no state.
type EndRequest struct {
	Item    FreeItem  // its Shard and Hash
	EndedBy time.Time // zero: the item's end does not matter
	State   ItemState // how the item ends
}

// EndResult says how an EndRequest ended.
type EndResult int

// The results of an EndRequest.
const (
	EndUnsettled    EndResult = iota // nothing was changed and nothing is known: send it again
	EndDone                          // the bank row is deleted and the item row has the state
	EndNotFree                       // the condition on the bank row failed, and no transaction is working on the item row
	EndInconsistent                  // the bank row is there, and the condition on the item row failed
)

// RepairRequest asks for one change of the rows of an item under one condition (IfRow or
// IfClaim). With IfRow, PutFree and PutClaim also count a return in the item row and delete
// its state. So of several repairs that rest on one item row only one is done.
type RepairRequest struct {
	Campaign string
	Hash     Hash

	PutFree  *FreeItem    // put the bank row if it is absent, and count up the version of the campaign
	PutClaim *Claim       // put the claim row if its key is absent
	More     []RepairItem // with PutClaim: its other items than Hash
	Shard    Shard        // with PutClaim: of its item
	DropFree *FreeItem    // delete the bank row if it is there
	PutRow   *ItemRow     // put the item row if it is absent
	End      ItemState    // write the state of the item row; needs IfRow

	IfRow   *ItemRow // the item row has this state, number of returns and Withdraw
	IfClaim *Claim   // the claim row has this id
}

// RepairItem is an item of a claim that a repair puts, in the same transaction.
type RepairItem struct {
	Hash  Hash
	IfRow *ItemRow  // as in RepairRequest: the item is in no place
	Free  *FreeItem // or it is free: delete the bank row if it is there
}
