package itembank

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ClaimLine is one claim of a ClaimSource. Number is its line number. Replay ignores the Columns of the claim: items
// keep their columns.
type ClaimLine struct {
	Number int64
	Claim  Claim
}

// ClaimSource yields the claims of a Replay in order. A Replay reads it twice, to check it and to make the claims. An
// error ends a reading.
type ClaimSource func() iter.Seq2[ClaimLine, error]

// ReplayReport is the result of a Replay. Each line is counted once.
type ReplayReport struct {
	DryRun        bool           `json:"dry_run"`
	Replayed      int64          `json:"replayed"`       // the claim was made, confirmed or prolonged (in a dry run: would be)
	Already       int64          `json:"already"`        // the claimant holds the item
	OtherCampaign int64          `json:"other_campaign"` // the line names another campaign
	Refused       int64          `json:"refused"`        // all other lines
	Lines         []ReplayedLine `json:"lines"`
	Store         *StoreReplay   `json:"store,omitempty"` // only of ReplayStore
}

// The outcomes of a line.
const (
	replayed         = "replayed"
	confirmedHold    = "confirmed"
	prolongedHold    = "prolonged"
	already          = "already"
	otherCampaign    = "other-campaign"
	holdsAnother     = "holds-another"
	claimedElsewhere = "claimed-elsewhere"
	blocked          = "blocked"
	itemHeld         = "item-held"
	itemEnded        = "item-ended"
	notLoaded        = "not-loaded"
	inconsistent     = "inconsistent"
	moved            = "moved"
	oldInconsistent  = "old-inconsistent"
	notInOldStore    = "not-in-old-store"
	confirmedHere    = "confirmed-here"
)

// ReplayedLine says what a Replay did with one line. These are the outcomes:
//
//	replayed           the claim was made
//	confirmed          the claimant held the item, and the hold was confirmed, as the line says
//	prolonged          the claimant held the item, and the hold got the later end of the line
//	already            the claimant holds the item, in the claim HeldClaimID
//	other-campaign     the line names another Campaign
//	holds-another      the claimant holds another item of the campaign, in the claim HeldClaimID
//	claimed-elsewhere  the claimant holds an item of another Campaign of the scope
//	blocked            the claimant was forgotten or blocked: nothing was made
//	item-held          HeldBy, another claimant, holds the item, in the claim HeldClaimID
//	item-ended         the item ended as State says, or its life was over when it was claimed
//	not-loaded         the item was never loaded into the campaign
//	inconsistent       the rows of the item contradict each other; Kind says how
//	moved              something moved the item meanwhile; run Replay again
//
// Only ReplayStore has these:
//
//	old-inconsistent   the rows of the item contradict each other in the old store; Kind says how
//	not-in-old-store   the old store knows neither the claim ClaimID nor its item, so that the new store made both
//	confirmed-here     the claim ClaimID of the new store is confirmed, and the old store has neither it nor a confirmed
//	                   replacement: an operator released it there, or it ended or was replaced there and was then
//	                   confirmed in the new store
//
// ReplayStore has a line for each claim of the old store, and for each claim and item of the new store that it
// refused to change. Line is the number of the line.
type ReplayedLine struct {
	Line        int64  `json:"line"`
	Claimant    string `json:"claimant,omitempty"`
	Hash        string `json:"hash,omitempty"`     // of an item that is not held, 32 hexadecimal digits; Claimant is empty
	ClaimID     string `json:"claim_id,omitempty"` // of the line; empty if the line has none and no claim was made
	Outcome     string `json:"outcome"`
	HeldClaimID string `json:"held_claim_id,omitempty"`
	HeldBy      string `json:"held_by,omitempty"`
	Campaign    string `json:"campaign,omitempty"`
	State       string `json:"state,omitempty"`
	Kind        string `json:"kind,omitempty"`
}

// Replay makes claims that the store has lost, in a closed campaign. For example, a restored table lacks the newest
// claims. If the store that has them still exists, use ReplayStore, which also knows what was released and burned.
//
// Each claim is one transaction, which gives the claimant exactly the item of the line. The item must be free, missing,
// or marked as lost by Repair. Replay takes no item from a claimant and gives no claimant a second one: the report says
// which lines it refused, and why.
//
// A line needs Claimant and Item. The other fields are taken from the claim that was lost:
//
//	Slot       0: the first
//	ID         empty: a new random id
//	Campaign   empty: this campaign; the lines of another one are passed over
//	ClaimedAt  zero: now
//	EndsAt     zero: the claim does not end, as a hold that was confirmed
//
// Replay first checks all lines. If one is invalid, it changes nothing. Then it waits for DrainTime and reconciles,
// as Repair does. It needs about 100 bytes of memory for each item, and 200 for each claim and each line. Replay is
// safe to repeat: the claims that it made are then Already.
//
// Errors: the errors of Repair; *InvalidError in a *LineError if a line is invalid. After an error the report has the
// lines up to then.
func (b *Operator) Replay(ctx context.Context, campaign string, claims ClaimSource) (ReplayReport, error) {
	r := &replay{bank: b}
	err := r.run(ctx, campaign, claims)
	return r.report, err
}

// ReplayDryRun reports what Replay would do. It changes nothing and does not wait.
//
// Errors: the errors of Replay.
func (b *Operator) ReplayDryRun(ctx context.Context, campaign string, claims ClaimSource) (ReplayReport, error) {
	r := &replay{bank: b, report: ReplayReport{DryRun: true}}
	err := r.run(ctx, campaign, claims)
	return r.report, err
}

// replay is one call of Replay.
type replay struct {
	bank     *Operator
	campaign Campaign
	wrong    map[engine.Hash]itemRows
	holders  map[engine.Hash]holder           // by item of the campaign
	planned  map[engine.ClaimKey]engine.Claim // the claims that a dry run would have made so far
	gone     map[string]bool                  // by id: the claims that a ReplayStore closed, or would have closed
	added    map[engine.Hash]bool             // the items that a ReplayStore loaded, or would have loaded
	report   ReplayReport
}

// holder names the claim that holds an item.
type holder struct{ claimID, claimant string }

func (r *replay) run(ctx context.Context, campaign string, claims ClaimSource) error {
	r.report.Lines = []ReplayedLine{} // JSON shows [], not null
	var err error
	if r.campaign, err = r.bank.closedCampaign(ctx, campaign); err != nil {
		return err
	}
	if err := r.checkClaims(ctx, claims); err != nil {
		return err
	}
	if err := r.readHolders(ctx); err != nil {
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
func (r *replay) checkClaims(ctx context.Context, claims ClaimSource) error {
	for line, err := range claims() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			_, err = r.check(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check checks a line. It returns the key of its claim unless the line names another campaign.
func (r *replay) check(line ClaimLine) (key engine.ClaimKey, err error) {
	c := line.Claim
	if err := line.validate(); err != nil || r.namesOther(c) {
		return key, err
	}
	if key, err = r.campaign.claimKey(c.Claimant, cmp.Or(c.Slot, 1)); err == nil && len(c.Items) > 1 {
		err = r.campaign.mayChoose()
	}
	if err != nil {
		err = &LineError{line.Number, err}
	}
	return key, err
}

// namesOther reports whether a claim names another campaign.
func (r *replay) namesOther(c Claim) bool { return c.Campaign != "" && c.Campaign != r.campaign.Name }

func (l ClaimLine) validate() error {
	c := l.Claim
	err := ValidateClaimant(c.Claimant)
	if err == nil {
		err = validateItems(c.Items)
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

// readHolders reads the inconsistencies and the holders of all items, when no item moves any more.
func (r *replay) readHolders(ctx context.Context) error {
	if !r.report.DryRun {
		if err := r.bank.drain(ctx, r.campaign.Name, replaying); err != nil {
			return err
		}
	}
	wrong, err := r.bank.reconcile(ctx, r.campaign, &Counts{})
	if err != nil {
		return err
	}
	r.wrong, r.holders = map[engine.Hash]itemRows{}, map[engine.Hash]holder{}
	r.planned = map[engine.ClaimKey]engine.Claim{}
	for _, rows := range wrong {
		r.wrong[rows.hash] = rows
	}
	err = r.bank.eachClaim(ctx, r.campaign.Scope, func(c engine.Claim) error {
		if c.Campaign == r.campaign.Name {
			r.addHolder(c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.bank.checkClosed(ctx, r.campaign.Name)
}

func (r *replay) addHolder(c engine.Claim) {
	for _, h := range c.Hashes() {
		r.holders[h] = holder{c.ID, c.Claimant}
	}
}

// line replays one claim. It reads the claimant's own claim first: if there is one, it decides the outcome, whatever
// happened to the item.
func (r *replay) line(ctx context.Context, line ClaimLine) (result ReplayedLine, err error) {
	if r.namesOther(line.Claim) {
		result = ReplayedLine{Outcome: otherCampaign, Campaign: line.Claim.Campaign}
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
	if held, err := r.compareHeld(ctx, line, claim); held.Outcome != "" || err != nil {
		return held, err
	}
	rows := map[engine.Hash]*engine.ItemRow{}
	for _, h := range claim.Hashes() {
		lost, refused, err := r.place(ctx, claim, h)
		if refused.Outcome != "" || err != nil {
			return refused, err
		}
		if lost != nil {
			rows[h] = lost
		}
	}
	done, err := r.make(ctx, claim, rows)
	switch {
	case err != nil:
		return ReplayedLine{}, err
	case done:
		r.addHolder(claim)
		return ReplayedLine{Outcome: replayed, ClaimID: claim.ID}, nil
	}
	held, err := r.compareHeld(ctx, line, claim)
	if held.Outcome == "" {
		held.Outcome = moved
	}
	return held, err
}

// row returns the claim row to put for a line.
func (r *replay) row(line ClaimLine) (engine.Claim, error) {
	c := line.Claim
	key, err := r.check(line) // again, because the source may have changed
	if err != nil {
		return engine.Claim{}, err
	}
	claim := engine.Claim{
		ID: c.ID, Campaign: r.campaign.Name, Scope: key.Scope, Claimant: key.Claimant, Slot: key.Slot,
		Item: c.Items[0], ItemHash: engine.HashItem(c.Items[0]), More: engine.NewItemList(c.Items[1:]...),
		ClaimedAt: wholeMillis(c.ClaimedAt), EndsAt: wholeMillis(c.EndsAt),
	}
	if claim.ClaimedAt.IsZero() {
		claim.ClaimedAt = r.bank.serverNow()
	}
	if claim.ID != "" {
		return claim, nil
	}
	claim.ID, err = r.bank.newClaimID()
	return claim, err
}

// compareHeld compares the claim with the one that its claimant holds. If the claimant holds none, it returns no
// outcome. If the line has a hold as confirmed, or with a later end, it confirms or prolongs the hold, which would end
// too early otherwise.
func (r *replay) compareHeld(ctx context.Context, line ClaimLine, claim engine.Claim) (ReplayedLine, error) {
	held, err := r.bank.heldClaim(ctx, claim.Key())
	if err != nil {
		return ReplayedLine{}, err
	}
	if held != nil && r.gone[held.ID] { // a dry run
		held = nil
	}
	if planned, ok := r.planned[claim.Key()]; ok {
		held = &planned
	}
	switch {
	case held == nil:
		return ReplayedLine{}, nil
	case held.IsBlock():
		return ReplayedLine{Outcome: blocked}, nil
	case held.Campaign != claim.Campaign:
		return ReplayedLine{Outcome: claimedElsewhere, Campaign: held.Campaign}, nil
	case held.ItemHash != claim.ItemHash || held.More != claim.More:
		return ReplayedLine{Outcome: holdsAnother, HeldClaimID: held.ID}, nil
	}
	same := line.Claim.ID == "" || line.Claim.ID == held.ID
	confirms, prolongs := claim.EndsAt.IsZero(), claim.EndsAt.After(held.EndsAt)
	if r.campaign.Hold == 0 || !same || held.EndsAt.IsZero() || !confirms && !prolongs {
		return ReplayedLine{Outcome: already, HeldClaimID: held.ID}, nil
	}
	outcome := prolongedHold
	if confirms {
		outcome = confirmedHold
	}
	if r.report.DryRun {
		r.planned[claim.Key()] = claim
	} else if done, err := r.moveEnd(ctx, *held, claim.EndsAt); err != nil || !done {
		return ReplayedLine{Outcome: moved}, err
	}
	return ReplayedLine{Outcome: outcome, HeldClaimID: held.ID}, nil
}

// moveEnd confirms a hold, or prolongs it until endsAt. done is false if the hold was closed, confirmed or prolonged
// meanwhile.
func (r *replay) moveEnd(ctx context.Context, hold engine.Claim, endsAt time.Time) (done bool, err error) {
	var claim Claim
	if endsAt.IsZero() {
		claim, err = r.bank.confirmHold(ctx, hold)
	} else {
		claim, err = r.bank.prolongHold(ctx, hold, endsAt)
	}
	if errors.Is(err, ErrNoClaim) || errors.Is(err, ErrClaimEnded) || errors.Is(err, ErrNotEligible) {
		return false, nil
	}
	return err == nil && claim.EndsAt.Equal(endsAt), err
}

// place finds an item of a claim. If the item is free, it returns nothing. If the item is neither free nor held nor
// ended, it returns its item row as lost. If the claimant cannot get the item, it returns the outcome as refused.
func (r *replay) place(
	ctx context.Context, claim engine.Claim, item engine.Hash,
) (lost *engine.ItemRow, refused ReplayedLine, err error) {
	if h, ok := r.holders[item]; ok {
		return nil, ReplayedLine{Outcome: itemHeld, HeldClaimID: h.claimID, HeldBy: h.claimant}, nil
	}
	rows, wrong := r.wrong[item]
	switch {
	case r.added[item]:
		return nil, ReplayedLine{}, nil
	case wrong && rows.kind() == moving:
		return nil, ReplayedLine{Outcome: moved}, nil
	case wrong && rows.kind() != missing:
		return nil, ReplayedLine{Outcome: inconsistent, Kind: rows.kind()}, nil
	}
	row := rows.item
	if !wrong {
		if row, err = r.bank.store.ItemRow(ctx, claim.Campaign, item); err != nil {
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

// make makes the claim. Its items are free, or are in lost with the item rows that prove them missing. done is false
// if the claimant holds a claim or an item was taken meanwhile.
func (r *replay) make(
	ctx context.Context, claim engine.Claim, lost map[engine.Hash]*engine.ItemRow,
) (done bool, err error) {
	if r.report.DryRun {
		r.planned[claim.Key()] = claim
		return true, nil
	}
	items := make([]engine.FreeItem, 0, engine.MaxClaimItems)
	for i, h := range claim.Hashes() {
		items = append(items, engine.FreeItem{Shard: r.campaign.shardOf(h), Hash: h, Value: claim.Items()[i]})
	}
	if len(lost) > 0 {
		return r.bank.store.Repair(ctx, putBack(claim, items, lost))
	}
	return whileBusy(ctx, r.bank.Bank, rowsBusy, func() (done, busy bool, err error) {
		taken, err := r.bank.store.Take(ctx, items, claim)
		done = err == nil && taken.Taken()
		return done, !done && taken.Held == nil && !taken.ItemGone, err
	})
}

// putBack returns the repair that puts a claim back, if some of its items are missing.
func putBack(claim engine.Claim, items []engine.FreeItem, lost map[engine.Hash]*engine.ItemRow) engine.RepairRequest {
	r := engine.RepairRequest{Campaign: claim.Campaign, PutClaim: &claim, Shard: items[0].Shard}
	for _, item := range items {
		switch row := lost[item.Hash]; {
		case row == nil:
			r.More = append(r.More, engine.RepairItem{Hash: item.Hash, Free: &item})
		case r.IfRow == nil:
			r.Hash, r.IfRow = item.Hash, row
		default:
			r.More = append(r.More, engine.RepairItem{Hash: item.Hash, IfRow: row})
		}
	}
	return r
}

func (r *replay) count(line ReplayedLine) {
	switch line.Outcome {
	case replayed, confirmedHold, prolongedHold:
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
