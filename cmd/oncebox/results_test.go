package main

import (
	"time"

	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// These are the results with --output json, as scripts read them: the members that the tests look at.

type errorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Exit    int    `json:"exit"`
}

type keyJSON struct {
	PublicKey string `json:"public_key"`
	KeyID     string `json:"key_id"`
}

type linkJSON struct {
	Line     int64  `json:"line"`
	Claimant string `json:"claimant"`
	Link     string `json:"link"`
}

type campaignJSON struct {
	Name       string              `json:"name"`
	State      itembank.State      `json:"state"`
	OpensAt    *time.Time          `json:"opens_at"`
	ClosesAt   *time.Time          `json:"closes_at"`
	Scope      string              `json:"scope"`
	ClaimantAs itembank.ClaimantAs `json:"claimant_as"`
	PageSize   int                 `json:"page_size"`
	ItemLife   string              `json:"item_life"`
	ClaimLife  string              `json:"claim_life"`
	Hold       string              `json:"hold"`
	MaxHold    string              `json:"max_hold"`
	OnEnd      itembank.OnEnd      `json:"on_end"`
}

type claimJSON struct {
	Campaign string `json:"campaign"`
	Claimant string `json:"claimant"`
	Slot     int    `json:"slot"`
	ClaimID  string `json:"claim_id"`
	claimapi.ItemBody
	Items     []claimapi.ItemBody `json:"items"`
	ClaimedAt string              `json:"claimed_at"`
	EndsAt    string              `json:"ends_at"`
}

type claimListJSON struct {
	Claims []claimJSON `json:"claims"`
	More   bool        `json:"more"`
}

type releaseJSON struct {
	Campaign string             `json:"campaign"`
	Claimant string             `json:"claimant"`
	ClaimID  string             `json:"claim_id"`
	Item     string             `json:"item"`
	Outcome  string             `json:"outcome"`
	Items    []releasedItemJSON `json:"items"`
}

type releasedItemJSON struct {
	Item    string `json:"item"`
	Outcome string `json:"outcome"`
}

type forgetJSON struct {
	Scope           string        `json:"scope"`
	Released        []releaseJSON `json:"released"`
	Kept            []keptJSON    `json:"kept"`
	BlockedSlots    int           `json:"blocked_slots"`
	BlocksStayUntil *time.Time    `json:"blocks_stay_until"`
	Copies          []string      `json:"copies"`
}

type forgetAllJSON struct {
	Scopes []forgetJSON `json:"scopes"`
}

type pageJSON struct {
	Languages map[string]claimpage.Texts `json:"languages"`
	Theme     string                     `json:"theme"`
	LogoBytes int                        `json:"logo_bytes"`
}

type auditJSON struct {
	Claims   []claimapi.ClaimBody `json:"claims"`
	Items    []itemJSON           `json:"items"`
	NotKnown []string             `json:"not_known"`
	SeeAlso  []string             `json:"see_also"`
}

type watchLine struct {
	Free int64 `json:"free"`
}

type dryRunJSON struct {
	DryRun bool `json:"dry_run"`
	loadJSON
	FirstItems []string `json:"first_items"`
}

type blockJSON struct {
	Slots           int        `json:"slots"`
	Changed         int        `json:"changed_slots"`
	Held            []heldJSON `json:"held"`
	BlocksStayUntil *time.Time `json:"blocks_stay_until"`
}

type itemJSON struct {
	claimapi.ItemBody
	Place   itembank.ItemPlace  `json:"state"`
	Claim   *claimapi.ClaimBody `json:"claim"`
	Returns int                 `json:"returns"`
}

type loadJSON struct {
	itembank.LoadReport
	Blank int64 `json:"blank"`
}

type keptJSON struct {
	Reason string `json:"reason"`
}

type heldJSON struct {
	Slot int `json:"slot"`
}

type runJSON struct {
	Run          string   `json:"run"`
	State        string   `json:"state"`
	ReplacedBy   string   `json:"replaced_by"`
	Inputs       []string `json:"inputs"`
	Output       string   `json:"output"`
	Published    string   `json:"published"`
	Out          int64    `json:"out"`
	DeadLettered int64    `json:"dead_lettered"`
}

type ledgerStat struct {
	Window  string               `json:"window"`
	Entries int64                `json:"entries"`
	Units   int64                `json:"write_units"`
	Memory  int64                `json:"memory_bytes"`
	Lanes   []logledger.Surveyed `json:"lanes"`
}

type explainedJSON struct {
	Entries []explainedEntryJSON `json:"entries"`
	Answer  *explainedAnswer     `json:"answer"`
}

type explainedAnswer struct {
	Outcome string `json:"outcome"`
	ID      string `json:"id"`
}

type importSummary struct {
	Read  int64 `json:"read"`
	Known int64 `json:"known"`
	Late  int64 `json:"late"`
}

type kplPoison struct {
	Error string `json:"error"`
	Line  int    `json:"line"`
	Data  []byte `json:"data"`
}

type compactedJSON struct {
	Scope   string `json:"scope"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
}

type ledgerVerified struct {
	logledger.Verified
	Found []logProblem `json:"found"`
}

type dedupeSummary struct {
	Run          string                `json:"run"`
	Resumed      int64                 `json:"resumed"`
	In           int64                 `json:"in"`
	New          int64                 `json:"new"`
	Retry        int64                 `json:"retry"`
	Natural      int64                 `json:"natural"`
	Synthetic    int64                 `json:"synthetic"`
	DeadLettered int64                 `json:"dead_lettered"`
	Skipped      int64                 `json:"skipped"`
	Out          int64                 `json:"out"`
	DifferOnlyIn []offline.Difference  `json:"differ_only_in"`
	ComparedIDs  int                   `json:"compared_ids"`
	Replaced     []offline.ReplacedRun `json:"replaced"`
}

type explainedEntryJSON struct {
	ID              string     `json:"id"`
	Owner           string     `json:"owner"`
	OwnRecord       bool       `json:"own_record"`
	Content         string     `json:"content"`
	SameFingerprint *bool      `json:"same_fingerprint"`
	Version         string     `json:"version"`
	Arrival         *time.Time `json:"arrival"`
	Counts          bool       `json:"counts"`
}

type logProblem struct {
}

type redriveSummary struct {
	Letters   map[string]int64 `json:"letters"`
	Delivered int64            `json:"delivered"`
}

type backupJSON struct {
	Store string `json:"store"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

type doctorJSON struct {
	Checks   []doctor.Check `json:"checks"`
	Failures int            `json:"failures"`
}

type onceRecord struct {
	Key      string        `json:"key"`
	Status   engine.Status `json:"status"`
	Number   int64         `json:"number"`
	Counts   bool          `json:"counts"`
	LeaseEnd *time.Time    `json:"lease_end"`
	Result   *onceResult   `json:"result"`
}

type onceResult struct {
	Kind        engine.Kind `json:"kind"`
	ContentType string      `json:"content_type"`
	Bytes       int         `json:"bytes"`
	Body        []byte      `json:"body"`
}

type onceExplained struct {
	NextCall  idempotency.NextCall `json:"next_call"`
	Sentences []string             `json:"sentences"`
	Record    *onceRecord          `json:"record"`
}

type evictedJSON struct {
	Number  int64  `json:"number"`
	Outcome string `json:"outcome"`
}

type demoResult struct {
	AfterStorm itembank.Counts   `json:"after_100_requests_of_20_customers"`
	AfterAll   itembank.Counts   `json:"after_the_bank_was_emptied"`
	Records    demoRecordsResult `json:"records"`
	Calls      demoCallsResult   `json:"idempotency"`
}

type demoCallsResult struct {
	Callers int `json:"callers"`
	Keys    int `json:"keys"`
	Charges int `json:"charges"`
	Refused int `json:"charges_refused_by_number"`
	Same    int `json:"callers_with_the_result_of_their_key"`
}

type demoRecordsResult struct {
	Sent        int `json:"sent"`
	Delivered   int `json:"delivered"`
	Distinct    int `json:"distinct_ids"`
	DeadLetters int `json:"dead_letters"`
	Again       int `json:"delivered_after_everything_was_sent_again"`
}
