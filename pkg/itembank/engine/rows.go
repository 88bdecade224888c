package engine

import (
	"fmt"
	"strings"
	"time"
)

// Campaign is the row of a campaign. An engine stores it; the Bank interprets it.
type Campaign struct {
	Name      string
	Mode      Mode
	Moved     bool      // the campaign goes on in another store, or is about to
	Restored  bool      // the store is a copy, and the campaign has not been replayed since
	OpensAt   time.Time // zero: at once; UTC, whole milliseconds, as all times here
	ClosesAt  time.Time // zero: never
	Scope     string    // the name space in which a claimant holds at most one claim, or one in each slot
	Claimants string    // as in the scope row
	// PerClaimant is how many claims a claimant can have in the scope; 0 means one.
	PerClaimant int
	Choice      bool          // a claimant may name the items, and one claim may have several
	MaxItems    int           // with Choice: how many items a claim can have; 0 means MaxClaimItems
	Publish     bool          // every caller may list the free items
	Columns     bool          // items may have columns
	Shards      int           // parts of the bank
	PageSize    int           // the least number of items read at a time
	ItemLife    time.Duration // how long an item can be claimed after its load; 0: for ever
	ClaimLife   time.Duration // how long a claim lives; 0: for ever
	Hold        time.Duration // how long a claim waits to be confirmed; 0: claims are not confirmed
	MaxHold     time.Duration // how long a hold can last in total; 0: holds are not prolonged
	OnEnd       OnEnd
	CreatedAt   time.Time

	// Version increases when items may come into the bank and when the row changes. A load raises it by 1 before its
	// first item and at its end, and a repair by 1 with each item that it puts back. The Bank raises it by more with each
	// change of the campaign.
	// EmptyVersion is the version at which the bank was last seen empty while no load was unfinished; 0: never.
	Version      int64
	EmptyVersion int64
}

// Scope is the row of a scope: the settings that are fixed for it. Every campaign of the scope has the same settings.
type Scope struct {
	Name      string
	Claimants string // how claimants are compared; the Bank defines the text
	Sole      string // the only campaign that the scope can have; "": it can have several
}

// ScopeRow returns the row of the campaign's scope. A campaign in which a claimant can have several claims does not
// share its scope.
func (c Campaign) ScopeRow() Scope {
	s := Scope{Name: c.Scope, Claimants: c.Claimants}
	if c.PerClaimant > 1 {
		s.Sole = c.Name
	}
	return s
}

// CanBecome reports whether the row of a new campaign, other, may replace the existing row c.
func (c Campaign) CanBecome(other Campaign) bool {
	return c.Mode == Deleted && c.Version == other.Version-1 && c.EmptyVersion == other.EmptyVersion
}

// Mode says how a campaign is opened and closed.
type Mode string

// The modes.
const (
	ByTimes      Mode = "by-times" // OpensAt and ClosesAt decide
	OpenByHand   Mode = "open"     // open, whatever OpensAt and ClosesAt say
	ClosedByHand Mode = "closed"   // closed, whatever OpensAt and ClosesAt say
	// ClosedUntilReconciled is ClosedByHand, but the campaign is opened only after a Reconcile that finds nothing.
	ClosedUntilReconciled Mode = "closed-until-reconciled"
	// Deleted means that callers do not see the campaign. Its row stays, so that the version of a name never goes
	// back. ClosesAt is the time of the deletion.
	Deleted Mode = "deleted"
)

// OnEnd says what happens to an item when its claim is released or ends.
type OnEnd string

// What happens to an item.
const (
	Burn   OnEnd = "burn"   // it ends
	Return OnEnd = "return" // it goes back to the bank
)

// Shard names one part of a campaign's bank.
type Shard struct {
	Campaign string
	Number   int // 0 to Campaign.Shards-1
}

// FreeItem is a bank row: an item that no claim holds.
type FreeItem struct {
	Shard  Shard
	Hash   Hash
	Value  string
	EndsAt time.Time // zero: never
}

// ItemRow says that an item was ever loaded. The row stays when the item leaves the bank, so that the item is never
// loaded again.
type ItemRow struct {
	LoadID  string
	Row     int64     // position among the items of the load, from 1
	EndsAt  time.Time // zero: never
	State   ItemState
	Returns int // how often the item came back from a claim or by a repair
	// Withdraw says that the item was withdrawn while a claim held it. It ends with the claim.
	Withdraw bool
	Columns  string // from the load; no other row has them, and they never change. The Bank defines the text
}

// ItemState is how an item ended. It is empty while the item is in the bank or held.
type ItemState string

// The ways in which an item ends. It is neither handed out nor loaded again.
const (
	Burned    ItemState = "burned"    // its claim was released
	Expired   ItemState = "expired"   // its own life or the life of its claim ended
	Withdrawn ItemState = "withdrawn" // an operator took it out of the bank
	Lost      ItemState = "lost"      // a repair found it missing, in a campaign that burns items
	Replaced  ItemState = "replaced"  // its claimant got another item for it
)

// ListedItem is an item row with its hash. The row does not hold the item.
type ListedItem struct {
	Hash Hash
	ItemRow
}

// Claim is a claim row: a claimant holds an item, or is blocked.
//
// A block is a claim row without a campaign, an item and an end. It has the key of a claim, so that no claim can be put
// while it exists. Versions of oncebox without blocks refuse the claimant, too: they read a block as a claim of another
// campaign.
type Claim struct {
	ID        string // random; never used again
	Campaign  string // empty in a block
	Scope     string
	Claimant  string
	Slot      int // which of the claimant's claims in the scope this is, from 1
	Item      string
	ItemHash  Hash
	More      ItemList  // the other items, if the claim has several
	ClaimedAt time.Time // UTC, whole milliseconds
	EndsAt    time.Time // zero: never
}

// IsBlock reports whether the row blocks its claimant.
func (c Claim) IsBlock() bool { return c.Campaign == "" }

// Items returns all items of the claim. A block has none.
func (c Claim) Items() []string {
	if c.IsBlock() {
		return nil
	}
	return append([]string{c.Item}, c.More.Items()...)
}

// Hashes returns the hashes of all items of the claim. A block has none.
func (c Claim) Hashes() []Hash {
	if c.IsBlock() {
		return nil
	}
	hashes := []Hash{c.ItemHash}
	for _, item := range c.More.Items() {
		hashes = append(hashes, HashItem(item))
	}
	return hashes
}

// ItemList is a list of items as one comparable value. Each item ends with a line feed, which no item contains.
type ItemList string

// NewItemList makes a list.
func NewItemList(items ...string) ItemList {
	var list strings.Builder
	for _, item := range items {
		list.WriteString(item + "\n")
	}
	return ItemList(list.String())
}

// Items returns the items of the list. An empty list, which nearly every claim has, takes no memory.
func (l ItemList) Items() []string {
	if l == "" {
		return nil
	}
	items := strings.Split(string(l), "\n")
	return items[:len(items)-1]
}

// Key returns the key of the row.
func (c Claim) Key() ClaimKey { return ClaimKey{c.Scope, c.Claimant, c.Slot} }

// ClaimKey is the key of a claim row.
type ClaimKey struct {
	Scope    string
	Claimant string
	Slot     int // from 1
}

// Load is a load row: it keeps the progress of a load.
type Load struct {
	Campaign string
	Digest   string // of the items in order; or the name of a repair or replay that adds items
	Number   int    // 1 for the first load of this digest, 2 for the second, and so on
	Finished bool   // its last row was added, or it was given up and is over
	// GivenUp says that an operator gave the load up. Nobody resumes it. It is still unfinished until it is Finished, too.
	GivenUp   bool
	Tally     Tally
	StartedAt time.Time // zero: not known
}

// ID names the load in its item rows. The ids of loads with the same digest sort by number.
func (l Load) ID() string { return fmt.Sprintf("%s#%06d", l.Digest, l.Number) }

// Tally counts the outcomes of the first Rows items of a load:
// Rows = Added + Known + Repeated.
type Tally struct {
	Rows     int64
	Added    int64 // this load added the item
	Known    int64 // another load had added it
	Repeated int64 // an earlier row of this load had added it
}

// Counts has the numbers of a campaign's rows.
type Counts struct {
	Loaded  int64 // item rows
	Free    int64 // bank rows
	Claimed int64 // claim rows
	Ended   int64 // item rows with a state
}
