package itembank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A restored store is a copy of an older moment. ReplayStore reads the store that was in use until the restore, the
// old store, and compares it with the new one, row by row. What customers saw in the old store wins. What operators
// did there since the copy is counted, and taken over only by choice, because a restore often undoes exactly that.

// ReplayOptions are the options of ReplayStore.
type ReplayOptions struct {
	// DryRun: report what the replay would do. It changes nothing and does not wait.
	DryRun bool
	// Withdrawals: withdraw the items that were withdrawn in the old store. Without it, only those items are withdrawn
	// that a claim of a campaign that burns held when they were withdrawn, because a customer saw them.
	Withdrawals bool
	// Loads: load the items that the new store does not know and that are free in the old store.
	Loads bool
	// Releases: close also those confirmed holds of the new store that the old store does not have. An operator may
	// have released the hold in the old store, or the hold was confirmed in the new one after it had ended or was replaced
	// in the old one. Without it, such a hold is refused, and a person decides. A hold whose replacement is confirmed in
	// the old store needs no decision.
	Releases bool
}

// StoreReplay is the part of a ReplayReport about ReplayStore.
type StoreReplay struct {
	Closed int64 `json:"closed"` // claims that were released, have ended or were forgotten in the old store
	Ended  int64 `json:"ended"`  // items that are not held, and were burned, expired, replaced or lost in the old store
	// Kept counts claims that only the new store has, because a repair of the old store marked their items as lost.
	Kept        int64           `json:"kept"`
	Blocked     int64           `json:"blocked"`   // slots that are blocked in the old store
	Unblocked   int64           `json:"unblocked"` // slots that are not blocked there any more
	Withdrawals OperatorChanges `json:"withdrawals"`
	Loads       OperatorChanges `json:"loads"`
	Settings    []string        `json:"settings"` // the names of settings that differ: opens, closes, page-size
	Mark        MarkOutcome     `json:"mark"`     // what became of the campaign's mark Restored
}

// OperatorChanges counts items that operators changed in the old store, and not in the new one.
type OperatorChanges struct {
	Found int64 `json:"found"`
	Taken int64 `json:"taken"` // taken over into the new store
}

// replayedLoad is the load id of item rows that a replay puts. A later load counts these items as known.
const replayedLoad = "replayed"

// ReplayStore makes the new store, b, equal to the old store in everything that customers saw, in a campaign that is
// Restored in the new store, and closed in the old one:
//
//   - A claim of the old store is made, or confirmed.
//   - A claim that the old store no longer has is closed. Its item ends as in the old store, or returns. If the
//     claimant has another claim in the old store, that claim is made instead.
//   - A free item that was burned, was replaced or has expired in the old store ends in the same way. If the new store
//     never had the item, it gets the item row, so that no later load brings the item back.
//   - An item that was never loaded into the new store is loaded if a claim of the old store holds it.
//   - A claimant of the scope is blocked in the new store exactly if the old store has the block.
//
// What operators did in the old store is counted in the report: withdrawals and loads, which the options take over,
// and settings, which are never changed.
//
// At its end ReplayStore clears the mark Restored of the campaign, if it refused nothing and all campaigns of the scope
// were Moved in the old store before it waited. StoreReplay.Mark says so. The campaign stays closed.
//
// ReplayStore first reads all rows of the campaign in both stores, and checks them. It changes nothing before that.
// Every change is one conditional transaction. Claims and items whose rows contradict each other in one of the stores
// are refused, each in a line of the report. ReplayStore is safe to repeat: after a call that was cut, another call
// does the rest. It needs about 200 bytes of memory for each item of a store, and 500 for each claim.
//
// Each Bank keeps to its own WithRate.
//
// Errors: the errors of Repair; *InvalidError also if the campaign is not Restored in the new store: then the new store
// may know more than the old one. *InvalidError also if the campaign is Restored in the old store, or not closed there,
// or has other fixed settings there. After an error the report has the results up to then.
func (b *Operator) ReplayStore(ctx context.Context, campaign string, old *Operator, o ReplayOptions) (ReplayReport, error) {
	report := ReplayReport{DryRun: o.DryRun, Store: &StoreReplay{Settings: []string{}}}
	r := &storeReplay{replay: replay{bank: b, report: report}, old: old, options: o, refused: map[engine.ClaimKey]bool{}}
	err := r.run(ctx, campaign)
	return r.report, err
}

// storeReplay is one call of ReplayStore.
type storeReplay struct {
	replay
	old     *Operator
	options ReplayOptions
	marks   replayedMarks
	was     campaignPlaces           // in the old store
	is      campaignPlaces           // in the new store, before the replay changes something
	refused map[engine.ClaimKey]bool // the claimants whose claim in the new store is in the way
	toMark  []engine.Hash            // the held items to mark as withdrawn
}

func (r *storeReplay) run(ctx context.Context, campaign string) error {
	r.report.Lines = []ReplayedLine{} // JSON shows [], not null
	if err := r.read(ctx, campaign); err != nil {
		return err
	}
	steps := []func(context.Context) error{
		r.closeClaims, r.changeBlocks, r.changeItems, r.makeClaims, r.markWithdrawn, r.checkBothClosed, r.clearMark,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read reads and checks the rows of both stores.
func (r *storeReplay) read(ctx context.Context, campaign string) error {
	var err error
	if r.campaign, err = r.bank.closedCampaign(ctx, campaign); err != nil {
		return err
	}
	if !r.campaign.Restored {
		return &InvalidError{"campaign", "must be marked as restored first: a store that was open knows more than the old one"}
	}
	old, err := r.old.closedCampaign(ctx, campaign)
	if err != nil {
		return inOldStore(err)
	}
	if old.Restored {
		return inOldStore(&InvalidError{"campaign", "is marked as restored: it is a copy that was not replayed"})
	}
	if err := r.compareSettings(old); err != nil {
		return err
	}
	if err := r.readMarks(ctx); err != nil { // before the wait
		return err
	}
	if !r.options.DryRun {
		if err := r.bank.drain(ctx, campaign, replaying); err != nil {
			return err
		}
	}
	if r.was, err = r.old.readPlaces(ctx, old); err != nil {
		return inOldStore(err)
	}
	for n, key := range r.was.keys {
		if _, err := r.check(lineOf(n, r.was.claims[key])); err != nil {
			return inOldStore(err)
		}
	}
	if r.is, err = r.bank.readPlaces(ctx, r.campaign); err != nil {
		return err
	}
	r.wrong, r.holders = r.is.wrong, map[engine.Hash]holder{}
	r.planned, r.gone, r.added = map[engine.ClaimKey]engine.Claim{}, map[string]bool{}, map[engine.Hash]bool{}
	for _, claim := range r.is.claims {
		r.addHolder(claim)
	}
	return r.checkBothClosed(ctx)
}

func inOldStore(err error) error { return fmt.Errorf("in the old store: %w", err) }

func lineOf(n int, claim engine.Claim) ClaimLine {
	return ClaimLine{Number: int64(n) + 1, Claim: claimOf(claim)}
}

// compareSettings compares the settings of the campaign in both stores. The fixed settings must be the same.
func (r *storeReplay) compareSettings(old Campaign) error {
	now, differ := r.campaign, &r.report.Store.Settings
	if !now.OpensAt.Equal(old.OpensAt) {
		*differ = append(*differ, "opens")
	}
	if !now.ClosesAt.Equal(old.ClosesAt) {
		*differ = append(*differ, "closes")
	}
	if now.PageSize != old.PageSize {
		*differ = append(*differ, "page-size")
	}
	old.OpensAt, old.ClosesAt, old.PageSize = now.OpensAt, now.ClosesAt, now.PageSize
	if len(now.differences(old)) > 0 {
		return &InvalidError{"campaign", "has other fixed settings in the old store: it is not the same campaign"}
	}
	return nil
}

func (r *storeReplay) checkBothClosed(ctx context.Context) error {
	if err := r.bank.checkClosed(ctx, r.campaign.Name); err != nil {
		return err
	}
	if err := r.old.checkClosed(ctx, r.campaign.Name); err != nil {
		return inOldStore(err)
	}
	return nil
}

// campaignPlaces has the places of all items of a campaign in one store, and its claims.
type campaignPlaces struct {
	keys   []engine.ClaimKey // of the claims, in the order of the list
	claims map[engine.ClaimKey]engine.Claim
	blocks map[engine.ClaimKey]engine.Claim // of the scope
	hashes []engine.Hash                    // of the items
	items  map[engine.Hash]itemPlace
	wrong  map[engine.Hash]itemRows
}

// itemPlace is the place of an item in one store. The zero value says that the store does not know the item.
type itemPlace struct {
	loaded   bool
	held     bool             // by a claim of the campaign
	claimID  string           // of that claim
	state    engine.ItemState // how the item ended
	withdraw bool             // the item was withdrawn while it was held
	wrong    string           // the kind of inconsistency of its rows
}

// readPlaces reads all rows of a campaign. The campaign is closed, so that claims may only be closed or confirmed
// meanwhile. It reads claims before item rows: a claim that was closed between these reads looks inconsistent, if its
// item ended.
func (b *Operator) readPlaces(ctx context.Context, c Campaign) (campaignPlaces, error) {
	p := campaignPlaces{
		claims: map[engine.ClaimKey]engine.Claim{}, blocks: map[engine.ClaimKey]engine.Claim{},
		items: map[engine.Hash]itemPlace{}, wrong: map[engine.Hash]itemRows{},
	}
	wrong, err := b.reconcile(ctx, c, &Counts{})
	if err != nil {
		return p, err
	}
	err = b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		switch {
		case claim.IsBlock():
			p.blocks[claim.Key()] = claim
			return nil
		case claim.Campaign != c.Name:
			return nil
		}
		p.keys = append(p.keys, claim.Key())
		p.claims[claim.Key()] = claim
		for _, h := range claim.Hashes() {
			p.items[h] = itemPlace{held: true, claimID: claim.ID}
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	err = b.eachItemRow(ctx, c.Name, func(row engine.ListedItem) error {
		place := p.items[row.Hash]
		place.loaded, place.state, place.withdraw = true, row.State, row.Withdraw
		if place.held && place.state != "" {
			place.wrong = moving
		}
		p.hashes = append(p.hashes, row.Hash)
		p.items[row.Hash] = place
		return nil
	})
	for _, rows := range wrong {
		p.wrong[rows.hash] = rows
		place := p.items[rows.hash]
		if place.wrong = rows.kind(); !place.loaded {
			p.hashes = append(p.hashes, rows.hash)
		}
		p.items[rows.hash] = place
	}
	return p, err
}

// of returns the places of the items of a claim.
func (p campaignPlaces) of(claim engine.Claim) (places []itemPlace) {
	for _, h := range claim.Hashes() {
		places = append(places, p.items[h])
	}
	return places
}

// claimDecision is what becomes of a claim that the new store has.
type claimDecision struct {
	close, keep bool         // keep: only the new store has the claim, and it stays
	refused     ReplayedLine // with an Outcome: the claim stays, and a person must decide
}

// slotPlaces is what decides about a claim of the new store.
type slotPlaces struct {
	was       *engine.Claim // the claim of the same slot in the old store, or nil
	blocked   bool          // the slot is blocked in the old store
	confirmed bool          // the claim is a confirmed hold, which the replay may not close
	// its has the places in the old store of the items of both claims. here has the places of the claim's own items in
	// the new store, and wanted those of the items of was.
	its, here, wanted []itemPlace
}

// decideClaim decides what becomes of a claim of the new store.
func decideClaim(now engine.Claim, s slotPlaces) (d claimDecision) {
	was, its, here, wanted := s.was, s.its, s.here, s.wanted
	has := slices.ContainsFunc[[]itemPlace]
	switch {
	case was != nil && was.ID == now.ID:
	case wrongKind(here) != "":
		d.refused = ReplayedLine{Outcome: inconsistent, Kind: wrongKind(here)}
	case wrongKind(its) != "":
		d.refused = ReplayedLine{Outcome: oldInconsistent, Kind: wrongKind(its)}
	case has(its, func(p itemPlace) bool { return !p.loaded }):
		d.refused = ReplayedLine{Outcome: notInOldStore}
	case has(wanted, func(p itemPlace) bool { return p.wrong != "" && p.wrong != missing }):
		d.refused = ReplayedLine{Outcome: inconsistent, Kind: wrongKind(wanted)}
	case has(wanted, func(p itemPlace) bool { return p.state != "" && p.state != engine.Lost }):
		d.refused = ReplayedLine{Outcome: itemEnded}
	case s.blocked:
		d.close = true
	case s.confirmed:
		d.refused = ReplayedLine{Outcome: confirmedHere}
	case was == nil && has(its, func(p itemPlace) bool { return p.state == engine.Lost }):
		d.keep = true
	default:
		d.close = true
	}
	return d
}

// wrongKind returns the kind of the first inconsistency.
func wrongKind(places []itemPlace) string {
	for _, p := range places {
		if p.wrong != "" {
			return p.wrong
		}
	}
	return ""
}

// endOf returns how an item ends when its claim is closed; "": it returns to the bank. was and now are its places in
// the old store and in the new one. In a campaign that burns, an item that goes from one claim to another is lost in between: it is never free.
func (o ReplayOptions) endOf(was, now itemPlace, onEnd OnEnd) engine.ItemState {
	switch {
	case o.takesEnd(was, now, onEnd):
		return was.state
	case onEnd == Return:
		return ""
	case was.held:
		return engine.Lost
	}
	return engine.Burned
}

// takesEnd reports whether an item ended in the old store, and ends in the new one too. A withdrawal is an operator's
// choice, unless it is older than the copy, or the item was withdrawn while a claim held it and the campaign burns: then
// a customer saw the item, and its row does not say so in another way.
func (o ReplayOptions) takesEnd(was, now itemPlace, onEnd OnEnd) bool {
	chosen := o.Withdrawals || now.withdraw || was.withdraw && onEnd == Burn
	return was.state != "" && (was.state != engine.Withdrawn || chosen)
}

// itemDecision is what becomes of an item that is not held in the new store.
type itemDecision struct {
	end        engine.ItemState // the item ends so
	add        bool             // the item is loaded
	mark       bool             // the item is marked as withdrawn, after the claims are made
	withdrawal bool             // an operator withdrew it in the old store
	load       bool             // an operator loaded it in the old store
	refused    string           // the outcome of its line
}

// decideItem decides what becomes of an item, from its places in the two stores. Of an item that a claim of the new
// store holds, the decision about the claim decides.
func (o ReplayOptions) decideItem(was, now itemPlace, onEnd OnEnd) (d itemDecision) {
	ended := now.state != ""
	switch {
	case was.wrong != "":
		if !now.held && !ended {
			d.refused = oldInconsistent
		}
	case now.wrong != "":
		if was.state != "" {
			d.refused = inconsistent
		}
	case was.state != "":
		d.withdrawal = was.state == engine.Withdrawn && !ended && !now.withdraw
		if !ended && !now.held && o.takesEnd(was, now, onEnd) {
			d.end = was.state
		}
	case was.held:
		d.load = !now.loaded
		d.add = d.load
		d.withdrawal = was.withdraw && !now.withdraw && (!ended || now.state == engine.Lost)
		d.mark = d.withdrawal && o.Withdrawals
	case was.loaded:
		d.load = !now.loaded
		d.add = d.load && o.Loads
	}
	return d
}

// closeClaims closes the claims of the new store that the old store does not have.
func (r *storeReplay) closeClaims(ctx context.Context) error {
	for _, key := range r.is.keys {
		now := r.is.claims[key]
		slot := slotPlaces{its: r.was.of(now), here: r.is.of(now)}
		slot.confirmed = r.keepsConfirmed(now) && now.EndsAt.IsZero()
		if claim, ok := r.was.claims[key]; ok {
			slot.was, slot.its, slot.wanted = &claim, append(slot.its, r.was.of(claim)...), r.is.of(claim)
		}
		_, slot.blocked = r.was.blocks[key]
		d := decideClaim(now, slot)
		if d.close {
			var err error
			if d.refused, err = r.closeClaim(ctx, now); err != nil {
				return err
			}
		}
		switch {
		case d.refused.Outcome != "":
			r.refused[key] = true
			d.refused.Claimant, d.refused.ClaimID = key.Claimant, now.ID
			r.addLine(d.refused)
		case d.keep:
			r.report.Store.Kept++
		}
	}
	return nil
}

// keepsConfirmed reports whether a claim of the new store may not be closed once it is confirmed. It may be if its
// claimant loses nothing: if the old store has replaced it, and the replacement is confirmed there.
func (r *storeReplay) keepsConfirmed(now engine.Claim) bool {
	was := r.was.claims[now.Key()]
	replaced := replaces(was, now.ID) && was.EndsAt.IsZero()
	return r.campaign.Hold > 0 && !r.options.Releases && !replaced
}

// closeClaim closes a claim of the new store. Its items end as in the old store.
func (r *storeReplay) closeClaim(ctx context.Context, claim engine.Claim) (refused ReplayedLine, err error) {
	terms := closeTerms{ends: map[engine.Hash]engine.ItemState{}}
	if block, ok := r.was.blocks[claim.Key()]; ok {
		terms.next = &block
	}
	// The holder may confirm it while the replay runs.
	terms.ifHold = r.keepsConfirmed(claim) && terms.next == nil
	for _, h := range claim.Hashes() {
		terms.ends[h] = r.options.endOf(r.was.items[h], r.is.items[h], r.campaign.OnEnd)
	}
	if !r.options.DryRun {
		if err := r.bank.pace(ctx, 1); err != nil {
			return refused, err
		}
		closed, err := r.bank.closeClaim(ctx, r.campaign, claim, terms)
		var wrong *InconsistentError
		switch {
		case errors.As(err, &wrong):
			return ReplayedLine{Outcome: inconsistent, Kind: wrong.Kind}, nil
		case err != nil:
			return refused, err
		case closed.Already:
			return ReplayedLine{Outcome: moved}, nil
		}
	}
	r.report.Store.Closed++
	r.gone[claim.ID] = true
	for _, h := range claim.Hashes() {
		delete(r.holders, h)
		was, now := r.was.items[h], r.is.items[h]
		if was.state == engine.Withdrawn && !now.withdraw && r.options.takesEnd(was, now, r.campaign.OnEnd) {
			r.report.Store.Withdrawals.Taken++
		}
	}
	return refused, nil
}

// changeItems ends and loads items, as the old store says.
func (r *storeReplay) changeItems(ctx context.Context) error {
	ends, adds := map[engine.ItemState][]engine.FreeItem{}, []engine.FreeItem{}
	for _, h := range r.was.hashes {
		now := r.is.items[h]
		d := r.options.decideItem(r.was.items[h], now, r.campaign.OnEnd)
		item := engine.FreeItem{Shard: r.campaign.shardOf(h), Hash: h}
		if d.withdrawal {
			r.report.Store.Withdrawals.Found++
		}
		if d.load {
			r.report.Store.Loads.Found++
		}
		switch {
		case d.refused != "":
			r.refuseItem(h, d.refused, wrongKind([]itemPlace{now, r.was.items[h]}))
		case d.end != "" && !now.loaded:
			if err := r.putEnded(ctx, h, d.end); err != nil {
				return err
			}
		case d.end != "":
			ends[d.end] = append(ends[d.end], item)
		case d.add:
			adds = append(adds, item)
		}
		if d.mark {
			r.toMark = append(r.toMark, h)
		}
	}
	for _, state := range []engine.ItemState{engine.Burned, engine.Expired, engine.Lost, engine.Replaced, engine.Withdrawn} {
		for chunk := range slices.Chunk(ends[state], engine.MaxAddItems) {
			if err := r.endItems(ctx, chunk, state); err != nil {
				return err
			}
		}
	}
	return r.addItems(ctx, adds)
}

// refuseItem adds a line about an item that no claim of the report names.
func (r *storeReplay) refuseItem(h engine.Hash, outcome, kind string) {
	r.addLine(ReplayedLine{Hash: h.String(), Outcome: outcome, Kind: kind})
}

// addLine adds a line to the report.
func (r *storeReplay) addLine(line ReplayedLine) {
	line.Line = int64(len(r.report.Lines)) + 1
	r.count(line)
}

// putEnded puts the row of an item that ended in the old store, and that the new store does not know.
func (r *storeReplay) putEnded(ctx context.Context, h engine.Hash, state engine.ItemState) error {
	if !r.options.DryRun {
		row := engine.ItemRow{LoadID: replayedLoad, State: state}
		done, err := r.bank.repair(ctx, &engine.RepairRequest{Campaign: r.campaign.Name, Hash: h, PutRow: &row}, nil)
		if err != nil {
			return err
		}
		if !done {
			r.refuseItem(h, moved, "")
			return nil
		}
	}
	r.countEnded(state)
	return nil
}

func (r *storeReplay) countEnded(state engine.ItemState) {
	if state == engine.Withdrawn {
		r.report.Store.Withdrawals.Taken++
	} else {
		r.report.Store.Ended++
	}
}

// endItems ends free items.
func (r *storeReplay) endItems(ctx context.Context, items []engine.FreeItem, state engine.ItemState) error {
	results := make([]engine.EndResult, len(items))
	for i := range results {
		results[i] = engine.EndDone
	}
	if !r.options.DryRun {
		var err error
		if results, err = r.bank.endItems(ctx, endRequests(items, state, time.Time{})); err != nil {
			return err
		}
	}
	for i, result := range results {
		switch result {
		case engine.EndDone:
			r.countEnded(state)
		case engine.EndInconsistent:
			r.refuseItem(items[i].Hash, inconsistent, freeAndEnded)
		default:
			r.refuseItem(items[i].Hash, moved, "")
		}
	}
	return nil
}

// addItems loads items that the new store does not know, with the texts and columns of the old store.
func (r *storeReplay) addItems(ctx context.Context, items []engine.FreeItem) error {
	into := &adding{bank: r.bank, campaign: r.campaign, command: replaying}
	texts := r.heldTexts()
	for chunk := range slices.Chunk(items, engine.MaxAddItems) {
		requests, err := r.addRequests(ctx, chunk, texts)
		if err != nil {
			return err
		}
		if err := r.add(ctx, requests, into); err != nil {
			return err
		}
	}
	return into.finish(ctx)
}

// heldTexts returns the texts of the held items of the old store that the new store does not know.
func (r *storeReplay) heldTexts() map[engine.Hash]string {
	texts := map[engine.Hash]string{}
	for _, claim := range r.was.claims {
		for _, h := range claim.Hashes() {
			if !r.is.items[h].loaded {
				texts[h] = textIn(claim, h)
			}
		}
	}
	return texts
}

// addRequests reads items in the old store, and returns the requests to add them. An item that has moved there since is
// refused.
func (r *storeReplay) addRequests(
	ctx context.Context, items []engine.FreeItem, held map[engine.Hash]string,
) (requests []engine.AddRequest, err error) {
	if err := r.old.pace(ctx, len(items)); err != nil {
		return nil, err
	}
	reads, err := r.old.store.ReadItems(ctx, items)
	if err != nil {
		return nil, inOldStore(err)
	}
	for i, read := range reads {
		item := items[i]
		switch text, isHeld := held[item.Hash]; {
		case read.Conflict || read.Row == nil || isHeld == (read.Free != nil):
			r.refuseItem(item.Hash, moved, "")
			continue
		case isHeld:
			item.Value = text
		default:
			item.Value = read.Free.Value
		}
		item.EndsAt = read.Row.EndsAt
		requests = append(requests, engine.AddRequest{Item: item, LoadID: replayedLoad, Columns: read.Row.Columns})
	}
	return requests, nil
}

// add adds items to the bank.
func (r *storeReplay) add(ctx context.Context, requests []engine.AddRequest, into *adding) error {
	if !r.options.DryRun {
		results, err := r.bank.addItems(ctx, requests, into.before)
		r.bank.mayHoldItems(requests) // also after an error: the items may have been added
		if err != nil {
			return err
		}
		for i, result := range results {
			if result.Outcome == engine.AddOrphan {
				return &InconsistentError{freeNotLoaded, "item " + requests[i].Item.Hash.String()}
			}
		}
	}
	for _, request := range requests {
		r.report.Store.Loads.Taken++
		r.added[request.Item.Hash] = true
	}
	return nil
}

// makeClaims makes and confirms the claims of the old store.
func (r *storeReplay) makeClaims(ctx context.Context) error {
	for n, key := range r.was.keys {
		was := r.was.claims[key]
		now, held := r.is.claims[key]
		line := ReplayedLine{Claimant: key.Claimant, ClaimID: was.ID}
		switch {
		case r.refused[key]: // a line names the claim that is in the way
			continue
		case wrongKind(r.was.of(was)) != "":
			line.Outcome, line.Kind = oldInconsistent, wrongKind(r.was.of(was))
		case held && now.ID == was.ID && (now.EndsAt.IsZero() || now.EndsAt.Equal(was.EndsAt)):
			line.Outcome, line.HeldClaimID = already, now.ID
		default:
			if err := r.bank.pace(ctx, 1); err != nil {
				return err
			}
			var err error
			if line, err = r.line(ctx, lineOf(n, was)); err != nil {
				return err
			}
		}
		r.addLine(line)
	}
	return nil
}

// markWithdrawn marks held items that were withdrawn in the old store.
func (r *storeReplay) markWithdrawn(ctx context.Context) error {
	for _, h := range r.toMark {
		if r.holders[h].claimID != r.was.items[h].claimID { // the claim that holds it in the old store was refused
			continue
		}
		if !r.options.DryRun {
			done, err := r.bank.markWithdrawn(ctx, engine.FreeItem{Shard: r.campaign.shardOf(h), Hash: h})
			if err != nil {
				return err
			}
			if !done {
				r.refuseItem(h, moved, "")
				continue
			}
		}
		r.report.Store.Withdrawals.Taken++
	}
	return nil
}
