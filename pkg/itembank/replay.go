package itembank

import (
	"context"
	"errors"
	"iter"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ClaimLine is one claim of a ClaimSource. Number is its line number.
type ClaimLine struct {
	Number int64
	Claim  Claim
}

// ClaimSource yields the claims of a Replay in order. A Replay reads it twice, to check it
// and to make the claims. An error ends a reading.
type ClaimSource func() iter.Seq2[ClaimLine, error]

// ReplayReport is the result of a Replay. Each line is counted once.
type ReplayReport struct {
	DryRun        bool           `json:"dry_run"`
	Replayed      int64          `json:"replayed"`       // the claim was made or confirmed, or would be
	Already       int64          `json:"already"`        // the claimant holds the item
	OtherCampaign int64          `json:"other_campaign"` // the line is of another campaign
	Refused       int64          `json:"refused"`        // all others
	Lines         []ReplayedLine `json:"lines"`
}

// The outcomes of a line.
const (
	replayed         = "replayed"
	confirmedHold    = "confirmed"
	already          = "already"
	otherCampaign    = "other-campaign"
	holdsAnother     = "holds-another"
	claimedElsewhere = "claimed-elsewhere"
	itemHeld         = "item-held"
	itemEnded        = "item-ended"
	notLoaded        = "not-loaded"
	inconsistent     = "inconsistent"
	moved            = "moved"
)

// ReplayedLine says what a Replay did with one line. These are the outcomes:
//
//	replayed           the claim was made
//	confirmed          the claimant held the item, and the hold was confirmed, as the line says
//	already            the claimant holds the item, in the claim HeldClaimID
//	other-campaign     the line names another Campaign
//	holds-another      the claimant holds another item of the campaign, in the claim HeldClaimID
//	claimed-elsewhere  the claimant holds an item of another Campaign of the scope
//	item-held          HeldBy, another claimant, holds the item, in the claim HeldClaimID
//	item-ended         the item ended as State says, or its life was over when it was claimed
//	not-loaded         the item was never loaded into the campaign
//	inconsistent       the rows of the item contradict each other; Kind says how
//	moved              something moved the item meanwhile; run Replay again
type ReplayedLine struct {
	Line        int64  `json:"line"`
	Claimant    string `json:"claimant"`
	ClaimID     string `json:"claim_id,omitempty"` // of the line; empty: the line has none, and no claim was made
	Outcome     string `json:"outcome"`
	HeldClaimID string `json:"held_claim_id,omitempty"`
	HeldBy      string `json:"held_by,omitempty"`
	Campaign    string `json:"campaign,omitempty"`
	State       string `json:"state,omitempty"`
	Kind        string `json:"kind,omitempty"`
}

// Replay makes claims that the store has lost, in a closed campaign: for example those that
// are newer than a table that was restored. Each claim is one transaction, in which the
// claimant gets exactly the item of the line. The item has to be free, missing, or marked as
// lost by Repair. Replay takes no item from a claimant and gives no claimant a second one:
// the report says which lines it refused, and why.
//
// A line needs Claimant and Item. The other fields are those of the claim that was lost:
//
//	ID         empty: a new random id
//	Campaign   empty: this campaign; the lines of another one are passed over
//	ClaimedAt  zero: now
//	EndsAt     zero: the claim does not end, as a hold that was confirmed
//
// First Replay checks all lines; if one is invalid it changes nothing. Then it waits for
// DrainTime and reconciles, as Repair does. It needs about 100 bytes of memory for each item, and
// 200 for each claim and each line. Replay is safe to repeat, and claims that it made are Already then.
//
// Errors: those of Repair; *InvalidError in a *LineError if a line is invalid. After an error
// the report has the lines that were done before it.
func (b *Bank) Replay(ctx context.Context, campaign string, claims ClaimSource) (ReplayReport, error) {
	r := &replay{bank: b}
	err := r.run(ctx, campaign, claims)
	return r.report, err
}

// ReplayDryRun reports what Replay would do. It changes nothing and does not wait.
//
// Errors: those of Replay.
func (b *Bank) ReplayDryRun(ctx context.Context, campaign string, claims ClaimSource) (ReplayReport, error) {
	r := &replay{bank: b, report: ReplayReport{DryRun: true}}
	err := r.run(ctx, campaign, claims)
	return r.report, err
}

// replay is one call of Replay.
type replay struct {
	bank     *Bank
	campaign Campaign
	wrong    map[engine.Hash]itemRows
	holders  map[engine.Hash]holder  // of the items of the campaign
	planned  map[string]engine.Claim // those that a dry run would have made, by claimant
	report   ReplayReport
}

// holder names the claim that holds an item.
type holder struct{ claimID, claimant string }

func (r *replay) run(ctx context.Context, campaign string, claims ClaimSource) error {
	r.report.Lines = []ReplayedLine{} // JSON shows [], not null
	if err := checkClaims(ctx, claims); err != nil {
		return err
	}
	if err := r.look(ctx, campaign); err != nil {
		return err
	}
	for line, err := range claims() {
		if err != nil {
			return err
		}
		if err := r.bank.pace(ctx, 1); err != nil {
			return err
		}
		result, err := r.line(ctx, line)
		if err != nil {
			return err
		}
		r.count(result)
	}
	return r.bank.checkClosed(ctx, campaign)
}

// checkClaims reads the source once. Every line must be valid.
func checkClaims(ctx context.Context, claims ClaimSource) error {
	for line, err := range claims() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = line.validate()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l ClaimLine) validate() error {
	c := l.Claim
	err := ValidateClaimant(c.Claimant)
	if err == nil {
		err = ValidateItem(c.Item)
	}
	if err == nil && c.ID != "" {
		err = validateText("claim_id", c.ID, engine.MaxClaimant)
	}
	switch {
	case err != nil:
	case tooEarly(c.ClaimedAt):
		err = &InvalidError{"claimed_at", "must be later than 1970"}
	case tooEarly(c.EndsAt):
		err = &InvalidError{"ends_at", "must be later than 1970"}
	}
	if err != nil {
		return &LineError{l.Number, err}
	}
	return nil
}

// look reads where all items are, when none of them moves.
func (r *replay) look(ctx context.Context, campaign string) (err error) {
	if r.report.DryRun {
		r.campaign, err = r.bank.closedCampaign(ctx, campaign)
	} else {
		r.campaign, err = r.bank.drained(ctx, campaign)
	}
	if err != nil {
		return err
	}
	wrong, err := r.bank.reconcile(ctx, r.campaign, &Counts{})
	if err != nil {
		return err
	}
	r.wrong, r.holders, r.planned = map[engine.Hash]itemRows{}, map[engine.Hash]holder{}, map[string]engine.Claim{}
	for _, rows := range wrong {
		r.wrong[rows.hash] = rows
	}
	err = r.bank.eachClaim(ctx, r.campaign.Scope, func(c engine.Claim) error {
		if c.Campaign == r.campaign.Name {
			r.holders[c.ItemHash] = holder{c.ID, c.Claimant}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.bank.checkClosed(ctx, campaign)
}

// line replays one claim. The claimant's own claim is read first: it is the answer, whatever
// became of the item.
func (r *replay) line(ctx context.Context, line ClaimLine) (result ReplayedLine, err error) {
	if c := line.Claim.Campaign; c != "" && c != r.campaign.Name {
		result = ReplayedLine{Outcome: otherCampaign, Campaign: c}
	} else {
		result, err = r.claim(ctx, line)
	}
	result.Line, result.Claimant = line.Number, line.Claim.Claimant
	if result.Outcome != replayed {
		result.ClaimID = line.Claim.ID
	}
	return result, err
}

func (r *replay) claim(ctx context.Context, line ClaimLine) (ReplayedLine, error) {
	claim, err := r.row(line)
	if err != nil {
		return ReplayedLine{}, err
	}
	if held, err := r.held(ctx, line, claim); held.Outcome != "" || err != nil {
		return held, err
	}
	lost, refused, err := r.place(ctx, claim)
	if refused.Outcome != "" || err != nil {
		return refused, err
	}
	done, err := r.make(ctx, claim, lost)
	switch {
	case err != nil:
		return ReplayedLine{}, err
	case done:
		r.holders[claim.ItemHash] = holder{claim.ID, claim.Claimant}
		return ReplayedLine{Outcome: replayed, ClaimID: claim.ID}, nil
	}
	held, err := r.held(ctx, line, claim)
	if held.Outcome == "" {
		held.Outcome = moved
	}
	return held, err
}

// row returns the row of the claim of a line.
func (r *replay) row(line ClaimLine) (engine.Claim, error) {
	if err := line.validate(); err != nil { // the source may have changed
		return engine.Claim{}, err
	}
	c := line.Claim
	claim := engine.Claim{
		ID: c.ID, Campaign: r.campaign.Name, Scope: r.campaign.Scope, Claimant: c.Claimant,
		Item: c.Item, ItemHash: engine.HashItem(c.Item), ClaimedAt: wholeMillis(c.ClaimedAt), EndsAt: wholeMillis(c.EndsAt),
	}
	if claim.ClaimedAt.IsZero() {
		claim.ClaimedAt = r.bank.serverNow()
	}
	if claim.ID != "" {
		return claim, nil
	}
	var err error
	claim.ID, err = r.bank.newClaimID()
	return claim, err
}

// held compares the claim with the one that its claimant holds. Without one it returns no
// outcome. A hold that the line has as confirmed is confirmed: else it would end.
func (r *replay) held(ctx context.Context, line ClaimLine, claim engine.Claim) (ReplayedLine, error) {
	held, err := r.bank.heldClaim(ctx, claim.Scope, claim.Claimant)
	if err != nil {
		return ReplayedLine{}, err
	}
	if planned, ok := r.planned[claim.Claimant]; ok {
		held = &planned
	}
	switch {
	case held == nil:
		return ReplayedLine{}, nil
	case held.Campaign != claim.Campaign:
		return ReplayedLine{Outcome: claimedElsewhere, Campaign: held.Campaign}, nil
	case held.ItemHash != claim.ItemHash:
		return ReplayedLine{Outcome: holdsAnother, HeldClaimID: held.ID}, nil
	}
	same := line.Claim.ID == "" || line.Claim.ID == held.ID
	if r.campaign.Hold == 0 || !same || held.EndsAt.IsZero() || !claim.EndsAt.IsZero() {
		return ReplayedLine{Outcome: already, HeldClaimID: held.ID}, nil
	}
	if r.report.DryRun {
		r.planned[claim.Claimant] = claim
	} else if _, err := r.bank.Confirm(ctx, claim.Campaign, claim.Claimant, held.ID); err != nil {
		if errors.Is(err, ErrNoClaim) || errors.Is(err, ErrClaimEnded) { // a sweep closed it meanwhile
			return ReplayedLine{Outcome: moved}, nil
		}
		return ReplayedLine{}, err
	}
	return ReplayedLine{Outcome: confirmedHold, HeldClaimID: held.ID}, nil
}

// place says where the item of a claim is: free, in no place, which the item row lost proves,
// or where the claimant cannot get it.
func (r *replay) place(ctx context.Context, claim engine.Claim) (lost *engine.ItemRow, refused ReplayedLine, err error) {
	if h, ok := r.holders[claim.ItemHash]; ok {
		return nil, ReplayedLine{Outcome: itemHeld, HeldClaimID: h.claimID, HeldBy: h.claimant}, nil
	}
	rows, wrong := r.wrong[claim.ItemHash]
	switch {
	case wrong && rows.kind() == moving:
		return nil, ReplayedLine{Outcome: moved}, nil
	case wrong && rows.kind() != missing:
		return nil, ReplayedLine{Outcome: inconsistent, Kind: rows.kind()}, nil
	}
	row := rows.item
	if !wrong {
		if row, err = r.bank.store.ItemRow(ctx, claim.Campaign, claim.ItemHash); err != nil {
			return nil, ReplayedLine{}, err
		}
	}
	switch {
	case row == nil:
		return nil, ReplayedLine{Outcome: notLoaded}, nil
	case row.State != "" && row.State != engine.Lost:
		return nil, ReplayedLine{Outcome: itemEnded, State: string(row.State)}, nil
	case hasEnded(engine.FreeItem{EndsAt: row.EndsAt}, claim.ClaimedAt):
		return nil, ReplayedLine{Outcome: itemEnded}, nil
	case wrong || row.State == engine.Lost:
		return row, ReplayedLine{}, nil
	}
	return nil, ReplayedLine{}, nil
}

// make makes the claim, of a free item or of one whose row proves that it is in no place.
// done = false: the claimant holds a claim, or the item is not there any more.
func (r *replay) make(ctx context.Context, claim engine.Claim, lost *engine.ItemRow) (done bool, err error) {
	switch {
	case r.report.DryRun:
		r.planned[claim.Claimant] = claim
		return true, nil
	case lost != nil:
		return r.bank.store.Repair(ctx, engine.RepairRequest{
			Campaign: claim.Campaign, Hash: claim.ItemHash,
			PutClaim: &claim, Shard: r.campaign.shardOf(claim.ItemHash), IfRow: lost,
		})
	}
	item := engine.FreeItem{Shard: r.campaign.shardOf(claim.ItemHash), Hash: claim.ItemHash, Value: claim.Item}
	return whileBusy(ctx, r.bank, rowsBusy, func() (done, busy bool, err error) {
		taken, err := r.bank.store.Take(ctx, item, claim)
		done = err == nil && taken.Taken()
		return done, !done && taken.Held == nil && !taken.ItemGone, err
	})
}

func (r *replay) count(line ReplayedLine) {
	switch line.Outcome {
	case replayed, confirmedHold:
		r.report.Replayed++
	case already:
		r.report.Already++
	case otherCampaign:
		r.report.OtherCampaign++
	default:
		r.report.Refused++
	}
	r.report.Lines = append(r.report.Lines, line)
}
