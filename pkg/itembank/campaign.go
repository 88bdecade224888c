package itembank

import (
	"cmp"
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// DefaultCampaignCache is how long a Bank uses its copy of a campaign's rules. For that
// long after a change, requests may still follow the old rules.
const DefaultCampaignCache = 5 * time.Second

// State says whether a campaign hands out items.
type State string

// The states. A campaign that is Open may be SoldOut or Empty as well; only
// Bank.State tells, since it has to read the bank for that.
const (
	Scheduled State = "scheduled" // opens later
	Open      State = "open"
	Closed    State = "closed"
	SoldOut   State = "sold_out" // open, and no item is free
	Empty     State = "empty"    // open, and no load was ever started
)

// OnEnd says what happens to an item when its claim is released or ends.
type OnEnd string

// What happens to an item.
const (
	Burn   OnEnd = "burn"   // no claimant gets it again: for codes, which the holder has seen
	Return OnEnd = "return" // it goes back to the bank: for seats and places
)

// Campaign is a named bank with its rules. Scope, ClaimantAs, PerClaimant, Choice, MaxItems, Publish, Columns, Shards,
// ItemLife, ClaimLife, Hold, MaxHold and OnEnd are fixed when the campaign is created.
type Campaign struct {
	Name     string
	Override State // Open or Closed, as an operator decided; "": OpensAt and ClosesAt decide
	// UntilReconciled means that OpenCampaign reconciles first. It is set only with Override Closed.
	UntilReconciled bool
	// Moved means that the campaign goes on in another store, and Restored that this store is a copy (moved.go). Either
	// keeps the campaign closed, whatever the other fields say.
	Moved, Restored bool
	OpensAt         time.Time     // zero: at once; UTC, whole milliseconds, as all times here
	ClosesAt        time.Time     // zero: never
	Scope           string        // the name space in which a claimant holds at most one claim
	ClaimantAs      ClaimantAs    // how claimants are compared
	PerClaimant     int           // how many claims a claimant can have, each in a slot of its own
	Choice          bool          // claimants may name the items
	MaxItems        int           // how many items one claim can have; 1 without Choice
	Publish         bool          // PublishedItems lists the free items
	Columns         bool          // loads may give items columns
	Shards          int           // parts of the bank
	PageSize        int           // the least number of items read at a time
	ItemLife        time.Duration // how long an item can be claimed after its load; 0: for ever
	ClaimLife       time.Duration // how long a claim lives; 0: for ever
	Hold            time.Duration // how long a claim waits for Bank.Confirm; 0: claims are not confirmed
	MaxHold         time.Duration // how long a hold can last with Bank.Prolong; 0: holds are not prolonged
	OnEnd           OnEnd
	CreatedAt       time.Time

	copied rowCopy // only in the Bank's own copies
}

// rowCopy is the part of a campaign's row that is not a rule.
type rowCopy struct {
	readAt                time.Time // when the read began
	version, emptyVersion int64     // as in the row
}

// withoutCopy returns the campaign for callers: its rules without rowCopy.
func (c Campaign) withoutCopy() Campaign {
	c.copied = rowCopy{}
	return c
}

func campaignOf(r engine.Campaign) Campaign {
	return Campaign{
		Name: r.Name, Override: overrideOf(r.Mode), UntilReconciled: r.Mode == engine.ClosedUntilReconciled,
		Moved: r.Moved, Restored: r.Restored,
		OpensAt: r.OpensAt, ClosesAt: r.ClosesAt, Scope: r.Scope,
		ClaimantAs: claimantAsOf(r.Claimants), PerClaimant: max(r.PerClaimant, 1), Choice: r.Choice, Publish: r.Publish,
		Columns: r.Columns,
		Shards:  r.Shards, PageSize: r.PageSize, ItemLife: r.ItemLife, ClaimLife: r.ClaimLife, Hold: r.Hold,
		MaxHold: r.MaxHold, OnEnd: OnEnd(r.OnEnd), CreatedAt: r.CreatedAt, MaxItems: maxItemsOf(r),
	}
}

func maxItemsOf(r engine.Campaign) int {
	if !r.Choice {
		return 1
	}
	return cmp.Or(r.MaxItems, engine.MaxClaimItems)
}

func overrideOf(m engine.Mode) State {
	switch m {
	case engine.OpenByHand:
		return Open
	case engine.ClosedByHand, engine.ClosedUntilReconciled:
		return Closed
	}
	return ""
}

// shardOf returns the shard of an item.
func (c Campaign) shardOf(h engine.Hash) engine.Shard {
	return engine.Shard{Campaign: c.Name, Number: h.ShardOf(c.Shards)}
}

// StateAt returns Scheduled, Open or Closed. It does not know whether any item is free: use Bank.State for that.
func (c Campaign) StateAt(now time.Time) State {
	switch {
	case c.Moved || c.Restored:
		return Closed
	case c.Override != "":
		return c.Override
	case !c.OpensAt.IsZero() && now.Before(c.OpensAt):
		return Scheduled
	case !c.ClosesAt.IsZero() && !now.Before(c.ClosesAt):
		return Closed
	}
	return Open
}

// endOfClaim returns when a claim ends if it is made now.
func (c Campaign) endOfClaim(now time.Time) time.Time { return endOf(now, max(c.ClaimLife, c.Hold)) }

// claimsEnd reports whether claims of the campaign can end.
func (c Campaign) claimsEnd() bool { return c.ClaimLife != 0 || c.Hold != 0 }

// Defaults and limits of a campaign's settings.
const (
	// A DynamoDB partition takes 1,000 write units a second, which is about 500 claims.
	// More shards take more claims a second, but the proof that a bank is empty costs more reads.
	defaultShards = 16
	maxShards     = 256

	// 20 to 60 items a page are near the best for small banks, as a simulation said.
	defaultPageSize = 30
	maxPageSize     = 1000

	// Each call of Forget reads all slots of the claimant.
	maxPerClaimant = 100
)

// Limits of lives. All engines can store a time a century from now.
const (
	minItemLife = time.Second
	// The end of a claim or hold is fixed when its request begins. The request must finish before that end:
	// an API Gateway HTTP API waits up to 30 s for a reply
	// (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html).
	minClaimLife = 30 * time.Second
	maxLife      = 100 * 365 * 24 * time.Hour
)

// Scope returns the scope of a campaign. The scope never changes, so Scope uses the Bank's copy of the campaign if it
// has one.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) Scope(ctx context.Context, name string) (string, error) {
	if err := ValidateName("campaign", name); err != nil {
		return "", err
	}
	c, err := b.fixedRules(ctx, name)
	return c.Scope, err
}
