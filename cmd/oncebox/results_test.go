package main

import (
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// errorJSON is an error with --output json.
type errorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Exit    int    `json:"exit"`
}

// keyJSON is the result of making a key. It never has the private key.
type keyJSON struct {
	PrivateKeyFile string `json:"private_key_file"`
	PublicKeyFile  string `json:"public_key_file"`
	PublicKey      string `json:"public_key"`
	KeyID          string `json:"key_id"`
}

// linkJSON is a link with --output json, one a line.
type linkJSON struct {
	Line     int64  `json:"line"`
	Claimant string `json:"claimant"`
	Link     string `json:"link"`
}

// campaignJSON is a campaign in results. Times are RFC 3339, lives are Go durations. An absent opens_at means at
// once, an absent closes_at or life means forever.
type campaignJSON struct {
	Name     string         `json:"name"`
	State    itembank.State `json:"state,omitempty"`
	Mode     string         `json:"mode"`           // by-times, open or closed: what decides the state
	Mark     string         `json:"mark,omitempty"` // moved, restored, or both; absent: none
	OpensAt  *time.Time     `json:"opens_at,omitempty"`
	ClosesAt *time.Time     `json:"closes_at,omitempty"`
	Scope    string         `json:"scope"`

	ClaimantAs  itembank.ClaimantAs `json:"claimant_as"`
	PerClaimant int                 `json:"per_claimant"`
	Choice      bool                `json:"choice"`
	MaxItems    int                 `json:"max_items"`
	Publish     bool                `json:"publish_items"`
	Columns     bool                `json:"columns"`

	Shards    int            `json:"shards"`
	PageSize  int            `json:"page_size"`
	ItemLife  string         `json:"item_life,omitempty"`
	ClaimLife string         `json:"claim_life,omitempty"`
	Hold      string         `json:"hold,omitempty"` // absent: claims are not confirmed
	OnEnd     itembank.OnEnd `json:"on_end"`
	CreatedAt time.Time      `json:"created_at"`
}

// claimJSON is a claim in lists and exports. replay reads the same members.
type claimJSON struct {
	Campaign string `json:"campaign"`
	Claimant string `json:"claimant"`
	Slot     int    `json:"slot"`
	ClaimID  string `json:"claim_id"`

	claimapi.ItemBody                     // the first item
	Items             []claimapi.ItemBody `json:"items,omitempty"` // all items, of a claim with several

	ClaimedAt string `json:"claimed_at"`
	EndsAt    string `json:"ends_at,omitempty"`
}

// claimListJSON is the result of claims list.
type claimListJSON struct {
	Claims []claimJSON `json:"claims"`
	More   bool        `json:"more"`
}

// releaseJSON is the result of a release.
type releaseJSON struct {
	Campaign string             `json:"campaign"`
	Claimant string             `json:"claimant"`
	ClaimID  string             `json:"claim_id"`
	Item     string             `json:"item,omitempty"`  // the first; absent with --claim-id, which does not read the claim
	Outcome  string             `json:"outcome"`         // already, mixed, or what happened to all items: see releasedItemJSON
	Items    []releasedItemJSON `json:"items,omitempty"` // all items, of a claim with several
}

// releasedItemJSON says what happened to an item of a claim.
type releasedItemJSON struct {
	Item    string `json:"item"`
	Outcome string `json:"outcome"` // returned, burned, expired or withdrawn
}

// forgetJSON is the result of forget in a scope.
type forgetJSON struct {
	Scope    string        `json:"scope"`
	Claimant string        `json:"claimant"`
	Released []releaseJSON `json:"released"`
	Kept     []keptJSON    `json:"kept"`
	// BlockedSlots is how many slots are blocked. BlocksStayUntil is when oncebox sweep may delete the blocks.
	BlockedSlots    int        `json:"blocked_slots"`
	BlocksStayUntil *time.Time `json:"blocks_stay_until,omitempty"`
	Copies          []string   `json:"copies"` // the places that may still name the claimant
}

// forgetAllJSON is the result of forget --all-scopes.
type forgetAllJSON struct {
	Scopes []forgetJSON `json:"scopes"`
}

// pageJSON is a page in results.
type pageJSON struct {
	Languages map[string]claimpage.Texts `json:"languages,omitempty"`
	Theme     string                     `json:"theme,omitempty"`
	LogoBytes int                        `json:"logo_bytes"`
}

// auditJSON is the result of audit.
type auditJSON struct {
	Campaign string               `json:"campaign"`
	Claimant string               `json:"claimant,omitempty"`
	Claims   []claimapi.ClaimBody `json:"claims"`
	Items    []itemJSON           `json:"items"`             // without their claims
	Blocked  bool                 `json:"blocked,omitempty"` // the claimant is blocked in a slot of the scope
	NotKnown []string             `json:"not_known"`
	SeeAlso  []string             `json:"see_also"`
}

// watchLine is a line of status --watch.
type watchLine struct {
	At              time.Time      `json:"at"`
	Campaign        string         `json:"campaign"`
	State           itembank.State `json:"state"`
	Free            int64          `json:"free"`
	Claimed         int64          `json:"claimed"`
	Estimated       bool           `json:"estimated"`
	ClaimsPerSecond *float64       `json:"claims_per_second"`     // null in the first line, and in the first with estimates
	SoldOutAt       *time.Time     `json:"sold_out_at,omitempty"` // absent: not at this rate
}

// dryRunJSON is the result of a dry run.
type dryRunJSON struct {
	DryRun bool `json:"dry_run"`
	loadJSON
	FirstItems   []string           `json:"first_items"`
	FirstColumns []itembank.Columns `json:"first_columns,omitempty"` // of these items, with --with
}

// blockJSON is the result of claim block and claim unblock.
type blockJSON struct {
	Scope           string     `json:"scope"`
	Claimant        string     `json:"claimant"`
	Slots           int        `json:"slots"`         // of a claimant in the scope
	Changed         int        `json:"changed_slots"` // that were blocked or unblocked
	Held            []heldJSON `json:"held"`          // the claims that stay
	BlocksStayUntil *time.Time `json:"blocks_stay_until,omitempty"`
}

// itemJSON is the store's data about an item.
type itemJSON struct {
	Campaign string `json:"campaign"`
	claimapi.ItemBody
	Place    itembank.ItemPlace  `json:"state"`
	Claim    *claimapi.ClaimBody `json:"claim,omitempty"`
	EndsAt   *time.Time          `json:"item_ends_at,omitempty"`
	LoadID   string              `json:"load_id,omitempty"`
	Row      int64               `json:"row,omitempty"`
	Returns  int                 `json:"returns"`
	Withdraw bool                `json:"ends_as_withdrawn"`
}

// loadJSON is the result of a load.
type loadJSON struct {
	itembank.LoadReport
	Blank int64 `json:"blank"` // lines that were skipped; not among the rows
}

// keptJSON is a claim that could not be released.
type keptJSON struct {
	Campaign string `json:"campaign"`
	ClaimID  string `json:"claim_id"`
	Reason   string `json:"reason"`
}

type heldJSON struct {
	Campaign string `json:"campaign"`
	Slot     int    `json:"slot"`
	ClaimID  string `json:"claim_id"`
}
