package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// DrainTime is how long Repair waits before it reads. For this time after a campaign was closed, a request can still
// hand out an item of it. The request uses a copy of the rules for up to DefaultCampaignCache, and then runs for up
// to 30 s, the longest integration time-out of an API Gateway HTTP API
// (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html). 5 s are in reserve.
const DrainTime = DefaultCampaignCache + 30*time.Second + 5*time.Second

// repairedLoad is the load id of item rows that Repair puts.
const repairedLoad = "repaired"

// RepairOptions are the options of a Repair.
type RepairOptions struct {
	// Items has the items that were loaded, or is nil if they are not known. A missing item goes back to the bank
	// only if Items has it, because no row has its text.
	Items Source

	// ReturnSeenItems puts missing items back also if the campaign burns items. A missing item may have been in a
	// claim that is lost, and a customer may have seen it. Then two customers have it.
	ReturnSeenItems bool
}

// Repair reconciles a closed campaign and repairs the inconsistencies that have only one right repair. Each repair is
// one transaction, which tests that the rows have not changed.
//
//	missing                        where items are burned: marks the item as "lost", so that
//	                               no claimant gets it; where they return, or with
//	                               ReturnSeenItems: puts it back into the bank, if Items has it.
//	                               One that was withdrawn while it was held ends as "withdrawn"
//	held-and-free, free-and-ended  deletes the bank row
//	held-not-loaded                puts the item row
//
// The other kinds need a decision by people. If you have the claims that the store has lost, call Replay before
// Repair: it gives missing items back to their claimants. Replay also uses items that are marked as lost.
//
// Repair first waits for DrainTime, until requests that began before the campaign was closed have finished. Before
// you call it, stop Banks with a longer WithCampaignCache. The wait only keeps moving items out of the report; the
// repairs are safe without it. At the end Repair reads again the rows that it changed. If an item had several
// inconsistencies, the report has the remaining ones; another Repair may repair them.
//
// A Repair that was stopped while it put items back stays an UnfinishedLoad, so that the campaign is not marked as
// sold out. The next Repair ends it, whatever it repairs; GiveUpLoad does so, too, also while the campaign is open.
//
// Errors: the errors of Reconcile; *InvalidError if the campaign is not closed; ErrReopened if it was opened
// meanwhile. After an error the report has the results up to then.
func (b *Operator) Repair(ctx context.Context, campaign string, o RepairOptions) (report ReconcileReport, err error) {
	report.From = b.now()
	defer func() { report.To = b.now() }()
	c, err := b.drained(ctx, campaign)
	if err != nil {
		return report, err
	}
	wrong, err := b.reconcile(ctx, c, &report.Counts)
	if err != nil {
		return report, err
	}
	texts, err := missingTexts(wrong, o.Items)
	if err != nil {
		return report, err
	}
	if err := b.checkClosed(ctx, campaign); err != nil {
		return report, err
	}
	repaired := map[engine.Hash]bool{}
	into := &adding{bank: b, campaign: c, command: repairing}
	for _, rows := range wrong {
		i := rows.inconsistency()
		if i.Repaired, err = b.repair(ctx, rows.repairRequest(c, texts[rows.hash], o.ReturnSeenItems), into); err != nil {
			return report, err
		}
		if i.Repaired {
			repaired[rows.hash] = true
		}
		report.Inconsistencies = append(report.Inconsistencies, i)
	}
	if err := into.finish(ctx); err != nil {
		return report, err
	}
	if err := b.checkRepaired(ctx, c, repaired, report.Inconsistencies); err != nil {
		return report, err
	}
	return report, b.checkClosed(ctx, campaign)
}

// drained reads the campaign, which must be closed, and waits until no request can hand out one of its items.
func (b *Operator) drained(ctx context.Context, campaign string) (Campaign, error) {
	c, err := b.closedCampaign(ctx, campaign)
	if err != nil {
		return c, err
	}
	return c, b.drain(ctx, campaign, repairing)
}

func (b *Operator) closedCampaign(ctx context.Context, campaign string) (Campaign, error) {
	c, err := b.Campaign(ctx, campaign)
	if err == nil && c.StateAt(b.serverNow()) != Closed {
		err = &InvalidError{"campaign", "must be closed first"}
	}
	return c, err
}

// checkRepaired reads the repaired items again. If an item has another inconsistency left, that one replaces the
// repaired one in the report.
func (b *Operator) checkRepaired(
	ctx context.Context, c Campaign, repaired map[engine.Hash]bool, inconsistencies []Inconsistency,
) error {
	if len(repaired) == 0 {
		return nil
	}
	now, err := b.readSuspects(ctx, c, repaired)
	if err != nil {
		return err
	}
	left := map[string]Inconsistency{}
	for h, rows := range now {
		if rows.kind() != "" {
			left[h.String()] = rows.inconsistency()
		}
	}
	for n, i := range inconsistencies {
		if i, wrong := left[i.Hash]; wrong {
			inconsistencies[n] = i
		}
	}
	return nil
}

// missingTexts finds the texts of the missing items, which no row has.
func missingTexts(wrong []itemRows, items Source) (map[engine.Hash]string, error) {
	texts := map[engine.Hash]string{}
	for _, rows := range wrong {
		if rows.kind() == missing {
			texts[rows.hash] = ""
		}
	}
	if items == nil || len(texts) == 0 {
		return texts, nil
	}
	for line, err := range items() {
		if err != nil {
			return nil, err
		}
		if h := engine.HashItem(line.Item); ValidateItem(line.Item) == nil {
			if _, isMissing := texts[h]; isMissing {
				texts[h] = line.Item
			}
		}
	}
	return texts, nil
}

// repair repairs one item. done is false if there is no safe repair or the rows have changed. into may be nil if the
// repair does not put the item into the bank.
func (b *Operator) repair(ctx context.Context, r *engine.RepairRequest, into *adding) (done bool, err error) {
	if r == nil {
		return false, nil
	}
	if err := b.pace(ctx, 1); err != nil {
		return false, err
	}
	if r.PutFree != nil {
		if err := into.before(ctx); err != nil {
			return false, err
		}
		// Also after an error: the item may be back nevertheless.
		defer b.memoryOf(r.Campaign).free.itemReturned(r.PutFree.Shard)
	}
	return b.store.Repair(ctx, *r)
}

// repairRequest returns the repair of an item, or nil if there is none. It leaves rows that have the text of another
// item alone: no other row may have that text.
func (r itemRows) repairRequest(c Campaign, text string, returnSeen bool) *engine.RepairRequest {
	if r.otherText() {
		return nil
	}
	request := &engine.RepairRequest{Campaign: c.Name, Hash: r.hash}
	switch r.kind() {
	case missing:
		request.IfRow = r.item
		switch {
		case r.item.Withdraw: // it was to end with its claim, which is missing
			request.End = engine.Withdrawn
		case c.OnEnd == Burn && !returnSeen:
			request.End = engine.Lost
		case text != "":
			request.PutFree = &engine.FreeItem{Shard: c.shardOf(r.hash), Hash: r.hash, Value: text, EndsAt: r.item.EndsAt}
		default:
			return nil
		}
	case heldAndFree:
		request.DropFree, request.IfClaim = &r.free[0], &r.claims[0]
	case freeAndEnded:
		request.DropFree, request.IfRow = &r.free[0], r.item
	case heldNotLoaded:
		// The time of the load is not known, only that it was before the claim.
		end := endOf(r.claims[0].ClaimedAt, c.ItemLife)
		request.PutRow, request.IfClaim = &engine.ItemRow{LoadID: repairedLoad, EndsAt: end}, &r.claims[0]
	default:
		return nil
	}
	return request
}

func (b *Operator) checkClosed(ctx context.Context, campaign string) error {
	c, err := b.readCampaign(ctx, campaign)
	if err == nil && c.StateAt(b.serverNow()) != Closed {
		err = fmt.Errorf("%w: %s", ErrReopened, campaign)
	}
	return err
}
