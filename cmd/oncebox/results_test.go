package main

import (
	"time"

	"github.com/oncebox/oncebox/internal/doctor"
	"github.com/oncebox/oncebox/internal/offline"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
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

// runJSON is a run in results.
type runJSON struct {
	Number       int64    `json:"number"`
	Run          string   `json:"run"`
	State        string   `json:"state"` // finished, unfinished, closed or replaced
	ReplacedBy   string   `json:"replaced_by,omitempty"`
	Inputs       []string `json:"inputs"`
	Output       string   `json:"output,omitempty"`    // absent: stdout
	Published    string   `json:"published,omitempty"` // --publish
	In           int64    `json:"in"`
	Out          int64    `json:"out"`
	DeadLettered int64    `json:"dead_lettered"`
}

// ledgerStat holds the parts of a log that count now.
type ledgerStat struct {
	Scope   string               `json:"scope"`
	Arrival time.Time            `json:"arrival"`
	Window  string               `json:"window"` // the window of the newest epoch
	Entries int64                `json:"entries"`
	Bytes   int64                `json:"bytes"`
	Units   int64                `json:"write_units"`
	Memory  int64                `json:"memory_bytes"`
	Lanes   []logledger.Surveyed `json:"lanes"`
}

// explainedJSON holds the ledger's data about a record, in results.
type explainedJSON struct {
	ID      string               `json:"id"`
	Key     string               `json:"key"` // hexadecimal
	Scope   string               `json:"scope"`
	Arrival time.Time            `json:"arrival"`
	Entries []explainedEntryJSON `json:"entries"`
	Answer  *explainedAnswer     `json:"answer,omitempty"` // absent without a fingerprint
}

// explainedAnswer is the answer that the ledger would give.
type explainedAnswer struct {
	Outcome string `json:"outcome"`
	ID      string `json:"id,omitempty"` // the id under which the record would be delivered
}

// importSummary is the JSON output of an import.
type importSummary struct {
	Read     int64 `json:"read"`
	Entered  int64 `json:"entered"`
	Known    int64 `json:"known"`
	Late     int64 `json:"late"`
	TooOld   int64 `json:"too_old"`
	Bad      int64 `json:"bad"`
	Resumed  int64 `json:"resumed"`
	Finished bool  `json:"finished_before"`

	OtherSettings *offline.OtherSettings `json:"other_settings,omitempty"` // the entry of a record with one of the ids
}

// kplPoison is a line that decode prints for an aggregate that cannot be decoded.
type kplPoison struct {
	Error          string  `json:"error"`
	Line           int     `json:"line"`
	SequenceNumber *string `json:"sequenceNumber,omitempty"`
	Data           []byte  `json:"data"`
}

// compactedJSON is the result of ledger compact.
type compactedJSON struct {
	Scope   string    `json:"scope"`
	Before  time.Time `json:"before"`
	Entries int64     `json:"entries"` // deleted, or with --dry-run to delete
	DryRun  bool      `json:"dry_run"`
	Bytes   int64     `json:"bytes"` // of the file, afterwards
}

// ledgerVerified is the result of a check.
type ledgerVerified struct {
	Scope string `json:"scope"`
	logledger.Verified
	Found []logProblem `json:"found"`
}

// dedupeSummary is the summary as JSON.
type dedupeSummary struct {
	Run          string `json:"run"`
	Resumed      int64  `json:"resumed"`
	In           int64  `json:"in"`
	New          int64  `json:"new"`
	Retry        int64  `json:"retry"`
	Natural      int64  `json:"natural"`
	Synthetic    int64  `json:"synthetic"`
	DeadLettered int64  `json:"dead_lettered"`
	Skipped      int64  `json:"skipped"`
	Out          int64  `json:"out"`

	// DifferOnlyIn is the number of records that share an id with another record and differ from it only in one or
	// two members.
	DifferOnlyIn []offline.Difference `json:"differ_only_in,omitempty"`
	// ComparedIDs is the number of ids whose records were compared. It is absent if all were compared.
	ComparedIDs int `json:"compared_ids,omitempty"`

	// OtherSettings is an entry of the ledger whose fingerprint was made with other settings.
	OtherSettings *offline.OtherSettings `json:"other_settings,omitempty"`

	Closed   []offline.ClosedRun   `json:"closed,omitempty"`    // stopped runs whose later records are decided again
	Replaced []offline.ReplacedRun `json:"replaced,omitempty"`  // the runs that --replace-run has undone
	NewerRun string                `json:"newer_run,omitempty"` // the output was not published: the list names this run
}

type explainedEntryJSON struct {
	ID              string     `json:"id,omitempty"` // the record's id, or a derived id; absent if it is not known
	Owner           string     `json:"owner"`
	OwnRecord       bool       `json:"own_record"`       // the entry belongs to the explained record
	Content         string     `json:"content"`          // digest of the fingerprint, hexadecimal
	SameFingerprint *bool      `json:"same_fingerprint"` // null without a fingerprint
	Version         string     `json:"version"`
	Arrival         *time.Time `json:"arrival,omitempty"`
	PurgeAt         *time.Time `json:"purge_at"` // null: never
	Counts          bool       `json:"counts"`
	Void            bool       `json:"void,omitempty"`         // a run over files has put it, and not saved its line
	CountsSince     *time.Time `json:"counts_since,omitempty"` // the arrivals for which it counts, in a log ledger
	CountsUntil     *time.Time `json:"counts_until,omitempty"`
	Done            bool       `json:"done"`
	Place           string     `json:"place,omitempty"`
}

// logProblem is a problem in a log.
type logProblem struct {
	Lane  int    `json:"lane"`
	Epoch int    `json:"epoch"`
	Item  int    `json:"item"`
	What  string `json:"what"`
}

// redriveSummary is the result of redrive run.
type redriveSummary struct {
	Letters   map[string]int64 `json:"letters"`
	Delivered int64            `json:"delivered"`
}

// backupJSON is the result of a backup.
type backupJSON struct {
	Store string `json:"store"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// doctorJSON is a report with --output json.
type doctorJSON struct {
	Checks    []doctor.Check `json:"checks"`
	Failures  int            `json:"failures"`
	Warnings  int            `json:"warnings"`
	NotPlayed int            `json:"not_played"`
}

type demoResult struct {
	Store      string            `json:"store"`
	Loaded     itembank.Tally    `json:"loaded"`
	AfterStorm itembank.Counts   `json:"after_100_requests_of_20_customers"`
	AfterAll   itembank.Counts   `json:"after_the_bank_was_emptied"`
	Reloaded   itembank.Tally    `json:"loaded_again"`
	Records    demoRecordsResult `json:"records"`
}

type demoRecordsResult struct {
	Sent        int `json:"sent"`
	Delivered   int `json:"delivered"`
	Distinct    int `json:"distinct_ids"`
	DeadLetters int `json:"dead_letters"`
	Again       int `json:"delivered_after_everything_was_sent_again"`
}
