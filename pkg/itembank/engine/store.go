package engine

import (
	"context"
	"time"
)

// MaxAddItems is the largest number of items in one call of AddItems or EndItems. With two rows for each item it
// fills a DynamoDB transaction of 100 actions
// (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
const MaxAddItems = 50

// MaxItemRows is the largest number of items in one call of ItemRows: a DynamoDB BatchGetItem reads up to 100 items
// (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html).
const MaxItemRows = 100

// MaxClaimItems is the largest number of items of a claim. Closing a claim takes two actions for each item, and one for
// the claim.
const MaxClaimItems = 20

// The largest sizes of texts, in bytes of UTF-8. The Bank checks them.
const (
	MaxItem     = 512
	MaxClaimant = 256
	// MaxColumnBytes is the size of the names and values of an item's columns together.
	MaxColumnBytes = 1024
)

// MaxColumns is the largest number of columns of an item. The Bank checks it.
const MaxColumns = 10

// Consistency says what a read shows.
type Consistency bool

const (
	// Eventual reads may be the engine's cheapest. They may miss the writes of the last seconds, and show rows that were
	// just deleted.
	Eventual Consistency = false
	// Strong reads show every write that has ended.
	Strong Consistency = true
)

// Store is the part of an engine that a Bank uses. These rules hold for all methods:
//
//   - Reads are strongly consistent unless they take a Consistency, or the method says otherwise. They may show only
//     some of the writes of a running transaction.
//   - A write is one transaction: all of it becomes visible or nothing.
//   - A nil result or found = false says that the row is absent. That is never an error.
//   - A busy, throttled or unreachable engine returns an error of the family ErrTryAgain. The call may have taken
//     effect.
//   - Every method is safe to repeat, and safe for concurrent use.
//   - Times have a precision of one millisecond.
//   - A read that is throttled returns ErrThrottled.
type Store interface {
	// ServerTime returns a lower bound of the engine's own time, which is usually late by two seconds at most. The bound
	// follows the last reply of the engine alone. So a call may return an earlier time than the call before, usually
	// by two seconds at most. The clock of this machine never limits the bound.
	//
	// It returns the zero time if the engine's time is not known, because no request was answered yet, or if the
	// engine has no clock of its own.
	ServerTime() time.Time

	// Campaigns.

	// CreateCampaign puts the campaign row in one transaction, and with it the row of its scope if that is absent. It
	// has two conditions. The campaign row is absent, or it is Deleted with the Version before c's and with the
	// EmptyVersion of c. An existing scope row equals the one of c. If a condition fails, it changes nothing, and the
	// result has the existing rows.
	CreateCampaign(ctx context.Context, c Campaign) (CreateResult, error)
	// Campaign reads a campaign row.
	Campaign(ctx context.Context, name string) (*Campaign, error)
	// Campaigns lists the campaign rows that are not Deleted, in the order of their names. Rows of deleted campaigns cost
	// it nothing. If some rows cannot be read, it returns the others and an *UnreadableError.
	Campaigns(ctx context.Context) ([]Campaign, error)
	// ReplaceCampaign replaces a campaign row by now, if the row has the Version and the EmptyVersion of old.
	// replaced = false: it has others, or the row is absent. If now is Deleted, the same transaction deletes the page
	// row, and takes the campaign out of the list.
	ReplaceCampaign(ctx context.Context, old, now Campaign) (replaced bool, err error)

	// PutPageDocument puts the row of a campaign's claim page, or replaces it, if the campaign row exists and is not
	// Deleted, in one transaction.
	PutPageDocument(ctx context.Context, campaign string, document []byte) (put bool, err error)
	// PageDocument reads the document in that row; nil: the row is absent.
	PageDocument(ctx context.Context, campaign string, c Consistency) (document []byte, err error)

	// NextVersion raises the version of a campaign row by 1, and returns the new row.
	NextVersion(ctx context.Context, campaign string) (*Campaign, error)
	// MarkEmpty sets the EmptyVersion of a campaign row to version, if the row has this version. marked = false: it
	// has another one, or the row is absent.
	MarkEmpty(ctx context.Context, campaign string, version int64) (marked bool, err error)

	// Claims.

	// FreeItems returns up to limit bank rows of the shard in the order of their hashes. The limit is 1 to 4,000. If
	// More is set, a page may have fewer rows than limit, or none. More is false only if the range has no other rows.
	FreeItems(ctx context.Context, s Shard, r Range, limit int, c Consistency) (FreePage, error)
	// Take makes a claim in one transaction. It deletes the bank row of each item if the row exists and does not end by
	// claim.ClaimedAt, and puts the claim row if its key is absent. It does all of it or nothing. The result names every
	// condition that failed. ItemGone, ItemConflict and ItemThrottled are true if they hold for any of the items. items
	// are the items of the claim, in order: at most MaxClaimItems, with different hashes, all of the claim's campaign. A
	// block has no items: Take puts the row if its key is absent.
	Take(ctx context.Context, items []FreeItem, claim Claim) (TakeResult, error)
	// HeldClaim reads a claim row. A Strong read is isolated: it shows the row before or after a transaction, never
	// between the moments at which the writes of one transaction become visible. conflict = true: a transaction is
	// working on the row, and its state is unknown. An Eventual read never conflicts.
	HeldClaim(ctx context.Context, key ClaimKey, c Consistency) (held *Claim, conflict bool, err error)
	// ConfirmClaim removes the end of a claim row, if the row has an end, and the id and the campaign of the claim. The
	// result has the row after the call. If the call did not change the row, it is read consistently.
	ConfirmClaim(ctx context.Context, claim Claim) (ConfirmResult, error)
	// ProlongClaim moves the end of a claim row to endsAt, if the row has the id, the campaign and the end of the claim.
	// The result is as with ConfirmClaim.
	ProlongClaim(ctx context.Context, claim Claim, endsAt time.Time) (ConfirmResult, error)
	// CloseClaim deletes a claim row, or puts another row in its place: a block, or a claim whose item the same
	// transaction takes from the bank. For each item of the claim, the transaction either puts the bank row and counts a
	// return in the item row, or writes the state of the item row. The request decides which, and has the conditions.
	CloseClaim(ctx context.Context, r CloseRequest) (CloseResult, error)

	// DueClaims lists up to limit claims of a shard's items with after <= end < before, in the order of their ends.
	// The limit is 1 to 1,000. The zero time is before all ends. The list is a hint: it is eventually consistent. So
	// it may have claims that were closed or confirmed.
	DueClaims(ctx context.Context, s Shard, after, before time.Time, limit int) (DuePage, error)

	// Items.

	// ItemRow reads an item row. The read is strong.
	ItemRow(ctx context.Context, campaign string, h Hash) (*ItemRow, error)
	// ItemRows reads the item rows of at most MaxItemRows different hashes, not all at one moment. The rows are in the
	// order of the hashes; nil: the row is absent.
	ItemRows(ctx context.Context, campaign string, hashes []Hash, c Consistency) ([]*ItemRow, error)
	// ReadItems reads the item row and the bank row of each item. The read of one item is isolated, as HeldClaim is: it
	// shows both rows before or after a transaction. A key is Shard and Hash. There are at most MaxAddItems keys, with
	// different hashes and of one campaign. The results are in the order of the keys.
	ReadItems(ctx context.Context, keys []FreeItem) ([]ItemRead, error)
	// AddItems puts the item row and the bank row of each item if both are absent. There are at most MaxAddItems
	// requests, with different hashes and of one campaign. The results are in the order of the requests. The caller
	// sends requests with the result AddUnsettled again.
	AddItems(ctx context.Context, requests []AddRequest) ([]AddResult, error)
	// EndItems ends free items: for each it deletes the bank row and writes the state of the item row, both or neither.
	// There are at most MaxAddItems requests, with different hashes and of one campaign. The results are in the order
	// of the requests. The caller sends requests with the result EndUnsettled again.
	EndItems(ctx context.Context, requests []EndRequest) ([]EndResult, error)
	// MarkWithdrawn sets Withdraw in the row of an item that is not free: the item row exists and has no state, and the
	// bank row is absent. done = false: a condition does not hold, or another transaction was working on a row. Then
	// nothing was changed.
	MarkWithdrawn(ctx context.Context, item FreeItem) (done bool, err error)

	// Loads.

	// Loads reports whether the campaign has load rows, and returns those that are not Finished.
	Loads(ctx context.Context, campaign string) (some bool, unfinished []Load, err error)
	// LatestLoad returns the load row of this digest with the highest number.
	LatestLoad(ctx context.Context, campaign, digest string) (*Load, error)
	// StartLoad puts a load row if it is absent. With first, it does so only if the campaign row exists and is not
	// Deleted, and the same transaction raises the version of the campaign. started = false: the load row existed, or
	// the campaign does not. conflict = true: another transaction was working on a row, and nothing was changed.
	StartLoad(ctx context.Context, l Load, first bool) (started, conflict bool, err error)
	// UpdateLoad writes progress into a load row, or gives the load up.
	//
	//   - If l is not GivenUp, it writes the tally and Finished. It changes nothing if the row has more Rows, or the same
	//     Rows and Finished, or is GivenUp. refused = true: the row is GivenUp. If the row is absent, the error is of the
	//     family ErrInconsistent.
	//   - If l is GivenUp, it sets GivenUp, and Finished if l is Finished. It leaves the tally as it is. refused = true:
	//     the row is absent or Finished, and nothing was changed.
	UpdateLoad(ctx context.Context, l Load) (refused bool, err error)

	// Lists return pages, in an order that the engine chooses. They return every row once that exists during the whole
	// list. A page may be empty without being the last. The cursor of the first page is ""; next is "" after the last
	// page.

	// ListClaims lists the claim rows of a scope.
	ListClaims(ctx context.Context, scope, cursor string) (claims []Claim, next string, err error)
	// ListItemRows lists the item rows of a campaign.
	ListItemRows(ctx context.Context, campaign, cursor string) (rows []ListedItem, next string, err error)
	// Counts counts the rows of a campaign.
	Counts(ctx context.Context, c Campaign, how Consistency) (Counts, error)

	// Repair makes one change in one transaction, if its condition holds. done = false: the condition does not hold, or
	// the change was made already. Then nothing was changed.
	Repair(ctx context.Context, r RepairRequest) (done bool, err error)
}

// Range is a part of a shard: the hashes above After, up to and including Through. nil means no limit.
type Range struct{ After, Through *Hash }

// FreePage is the result of FreeItems.
type FreePage struct {
	Items []FreeItem
	More  bool
}

// CreateResult says why CreateCampaign changed nothing. The zero value says that the campaign was created. If both
// fields apply, an engine may set only one.
type CreateResult struct {
	Existing *Campaign // the existing campaign row
	Scope    *Scope    // the existing scope row, which differs
}

// Created reports whether the campaign was created.
func (r CreateResult) Created() bool { return r == CreateResult{} }

// TakeResult says why a Take changed nothing. The zero value says that the claim was made. Several fields can be set at
// once; the Bank decides which one counts.
type TakeResult struct {
	Held           *Claim // the existing claim row
	ClaimConflict  bool   // another transaction was working on the claim row
	ClaimThrottled bool   // the key range of the claim row, or the table, had too many requests
	ItemConflict   bool   // another transaction was working on the bank row
	ItemThrottled  bool   // the key range of the bank row had too many requests
	ItemGone       bool   // the bank row was absent, or the item had ended
}

// Taken reports whether the claim was made.
func (r TakeResult) Taken() bool { return r == TakeResult{} }

// ConfirmResult is the result of ConfirmClaim and ProlongClaim. The claim is confirmed if Held is the claim and has no
// end.
type ConfirmResult struct {
	Held     *Claim // the claim row; nil: it is absent, or its state is unknown
	Conflict bool   // a transaction was working on the row, so its state is unknown
}

// DuePage is the result of DueClaims.
type DuePage struct {
	Claims []DueClaim
	More   bool // false only if there are no more claims; a page with More has at least one claim
}

// DueClaim names a claim that may have ended.
type DueClaim struct {
	ClaimKey
	EndsAt time.Time
}

// ItemRead has the two rows of an item; nil: the row is absent. Conflict: a transaction is working on one of them, and
// the state of both is unknown.
type ItemRead struct {
	Row      *ItemRow
	Free     *FreeItem
	Conflict bool
}

// AddRequest is a request to add an item.
type AddRequest struct {
	Item    FreeItem
	LoadID  string
	Row     int64
	Columns string // to store in the item row
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
	AddUnsettled AddOutcome = iota // nothing was changed, and the rows are unknown: send the request again
	AddDone                        // both rows were put
	AddKnown                       // the item row existed: AddResult.Existing
	AddOrphan                      // the bank row existed without an item row, which is inconsistent
)

// CloseRequest is a request to close a claim. Its conditions are:
//
//   - The claim row has the claim's id. If EndedBy is set, the claim ends before EndedBy. With IfHold the claim has an
//     end.
//   - Each item row exists, and has the state and the Withdraw of Row.
//   - With Return, the bank row is absent.
//   - With NextItem, the claim has the end of Claim, so that no confirmation is lost. The bank row of NextItem exists, and
//     does not end by Next.ClaimedAt.
type CloseRequest struct {
	Claim   Claim
	EndedBy time.Time // zero: the claim's end does not matter
	IfHold  bool      // the claim must not be confirmed
	Row     ItemRow   // the item row, as the Bank read it
	Return  *FreeItem // the bank row to put; nil: the item ends
	State   ItemState // how the item ends; if Row has a state, it is the same

	More []CloseItem // the same for the other items of the claim, in order

	// Next is the row to put in place of the claim row, with the same key: a block, or with NextItem a claim of one item.
	// nil: the row is deleted.
	Next     *Claim
	NextItem *FreeItem // the item of Next, whose bank row is deleted; nil: Next is a block
}

// CloseItem says what happens to an item of a claim, as in CloseRequest.
type CloseItem struct {
	Hash   Hash
	Row    ItemRow
	Return *FreeItem
	State  ItemState
}

// Items returns the CloseItem of each item of the claim. A block has none.
func (r CloseRequest) Items() []CloseItem {
	if r.Claim.IsBlock() {
		return nil
	}
	return append([]CloseItem{{r.Claim.ItemHash, r.Row, r.Return, r.State}}, r.More...)
}

// CloseResult says why CloseClaim changed nothing. The zero value says that the claim was closed. Several fields can be
// set at once. If several apply, an engine must set at least one of them.
type CloseResult struct {
	ClaimChanged bool // the condition on the claim row failed
	ItemChanged  bool // the condition on an item row failed
	ItemFree     bool // the bank row existed
	ItemGone     bool // the bank row of NextItem was absent, or the item had ended
	Conflict     bool // another transaction was working on a row
	Throttled    bool // the engine asked for fewer requests
}

// Closed reports whether the claim was closed.
func (r CloseResult) Closed() bool { return r == CloseResult{} }

// EndRequest is a request to end a free item. Its conditions are:
//
//   - The bank row exists. If EndedBy is set, the item ends by EndedBy.
//   - The item row exists and has no state.
type EndRequest struct {
	Item    FreeItem  // its Shard and Hash
	EndedBy time.Time // zero: the item's end does not matter
	State   ItemState // how the item ends
}

// EndResult is the result of an EndRequest.
type EndResult int

// The results of an EndRequest.
const (
	EndUnsettled    EndResult = iota // nothing was changed, and the rows are unknown: send the request again
	EndDone                          // the bank row is deleted and the item row has the state
	EndNotFree                       // the condition on the bank row failed, and no transaction is working on the item row
	EndInconsistent                  // the bank row exists, and the condition on the item row failed
)

// RepairRequest is a request for one change of the rows of an item under one condition (IfRow or IfClaim). With IfRow,
// PutFree and PutClaim also count a return in the item row and delete its state. So if several repairs depend on the
// same item row, only one is made. PutRow needs no condition, because it puts the row only if it is absent.
type RepairRequest struct {
	Campaign string
	Hash     Hash

	PutFree  *FreeItem    // put the bank row if it is absent
	PutClaim *Claim       // put the claim row if its key is absent
	More     []RepairItem // with PutClaim: the items of the claim except Hash
	Shard    Shard        // with PutClaim: the shard of its first item
	DropFree *FreeItem    // delete the bank row if it exists
	PutRow   *ItemRow     // put the item row, with its state, if it is absent
	End      ItemState    // write the state of the item row; needs IfRow

	IfRow   *ItemRow // the item row has this state, number of returns and Withdraw
	IfClaim *Claim   // the claim row has this id
}

// RepairItem is a further item of a claim that a repair puts. One of IfRow and Free is set.
type RepairItem struct {
	Hash  Hash
	IfRow *ItemRow  // the item is missing: the item row has these values, as in RepairRequest
	Free  *FreeItem // the item is free: delete the bank row, which must exist
}
