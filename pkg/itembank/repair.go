package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// DrainTime is how long Repair waits before it reads. For so long after a campaign was
// closed a request can still hand out an item of it: the request uses a copy of the rules
// for up to DefaultCampaignCache, and then runs for up to 30 s, the longest integration
// time-out of an API Gateway HTTP API
// (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html).
// 5 s are in reserve.
const DrainTime = DefaultCampaignCache + 30*time.Second + 5*time.Second

// repairedLoad is the load id of item rows that Repair puts.
const repairedLoad = "repaired"

// Repair reconciles a closed campaign and repairs the inconsistencies that have only one
// right repair. Each repair is one transaction, which tests that the rows are still the
// same.
//
//	missing                          puts the item back into the bank, if items has it:
//	                                 no row has its text. The item row counts that as a
//	                                 return, so that one of two Repairs does it. An item
//	                                 that was withdrawn stays away
//	held-and-free, free-and-ended    deletes the bank row
//	free-twice                       deletes the bank rows that are in a wrong place, if
//	                                 one is in the right place
//	free-not-loaded, held-not-loaded puts the item row
//
// The other kinds need a decision by people. items may be nil.
//
// First Repair waits for DrainTime, for requests that began before the campaign was
// closed. Stop Banks with a longer WithCampaignCache before. The wait only keeps moving
// items out of the report; the repairs do not depend on it. At the end Repair reads again
// what it changed. An item that had several inconsistencies is reported with those that
// are left; another Repair may repair them.
//
// Errors: those of Reconcile; *InvalidError if the campaign is not closed; ErrReopened if
// it was opened meanwhile. After an error the report says what was done before it.
func (b *Bank) Repair(ctx context.Context, campaign string, items Source) (report ReconcileReport, err error) {
	report.From = b.now()
	defer func() { report.To = b.now() }()
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	if c.StateAt(b.clock.Now()) != Closed {
		return report, &InvalidError{"campaign", "must be closed before it is repaired"}
	}
	if err := b.clock.Sleep(ctx, DrainTime); err != nil {
		return report, err
	}
	wrong, err := b.reconcile(ctx, c, &report.Counts)
	if err != nil {
		return report, err
	}
	texts, err := missingTexts(wrong, items)
	if err != nil {
		return report, err
	}
	if err := b.checkClosed(ctx, campaign); err != nil {
		return report, err
	}
	repaired := map[engine.Hash]bool{}
	for _, rows := range wrong {
		i := rows.inconsistency()
		if i.Repaired, err = b.repair(ctx, c, rows, texts[rows.hash]); err != nil {
			return report, err
		}
		if i.Repaired {
			repaired[rows.hash] = true
		}
		report.Inconsistencies = append(report.Inconsistencies, i)
	}
	if err := b.checkRepaired(ctx, c, repaired, report.Inconsistencies); err != nil {
		return report, err
	}
	return report, b.checkClosed(ctx, campaign)
}

// checkRepaired reads again what was repaired, and replaces the inconsistencies of items
// that had more than one.
func (b *Bank) checkRepaired(
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

// repair repairs one item. done = false: there is no safe repair, or the rows have
// changed.
func (b *Bank) repair(ctx context.Context, c Campaign, rows itemRows, text string) (done bool, err error) {
	steps := rows.repairRequests(c, text)
	for _, r := range steps {
		done, err := b.store.Repair(ctx, r)
		if r.PutFree != nil { // also after an error
			b.memoryOf(c.Name).free.itemReturned(r.PutFree.Shard)
		}
		if err != nil || !done {
			return false, err
		}
	}
	return len(steps) > 0, nil
}

// repairRequests returns the steps that repair an item. Rows with the text of another
// item are left alone: they may be the only ones that have it.
func (r itemRows) repairRequests(c Campaign, text string) (steps []engine.RepairRequest) {
	if r.otherText() {
		return nil
	}
	step := func(request engine.RepairRequest) {
		request.Campaign, request.Hash = c.Name, r.hash
		steps = append(steps, request)
	}
	switch r.kind() {
	case missing:
		if text != "" && !r.item.Withdraw {
			shard := c.shardOf(r.hash)
			free := engine.FreeItem{Shard: shard, Hash: r.hash, Value: text, EndsAt: r.item.EndsAt}
			step(engine.RepairRequest{PutFree: &free, IfRow: r.item})
		}
	case heldAndFree:
		for i := range r.free {
			step(engine.RepairRequest{DropFree: &r.free[i], IfClaim: &r.claims[0]})
		}
	case freeAndEnded:
		for i := range r.free {
			step(engine.RepairRequest{DropFree: &r.free[i], IfRow: r.item})
		}
	case freeTwice:
		if right := r.rightPlace(); right != nil {
			for i := range r.free {
				if r.free[i].Shard != right.Shard {
					step(engine.RepairRequest{DropFree: &r.free[i], IfFree: right})
				}
			}
		}
	case freeNotLoaded:
		row := engine.ItemRow{LoadID: repairedLoad, EndsAt: r.free[0].EndsAt}
		step(engine.RepairRequest{PutRow: &row, IfFree: &r.free[0]})
	case heldNotLoaded:
		// When the item was loaded is not known, only that it was before it was claimed.
		end := endOf(r.claims[0].ClaimedAt, c.ItemLife)
		row := engine.ItemRow{LoadID: repairedLoad, EndsAt: end}
		step(engine.RepairRequest{PutRow: &row, IfClaim: &r.claims[0]})
	}
	return steps
}

// rightPlace returns the bank row that is where the item belongs.
func (r itemRows) rightPlace() *engine.FreeItem {
	for i, free := range r.free {
		if r.item != nil && free.Shard.Number == r.hash.ShardOf(r.shards) {
			return &r.free[i]
		}
	}
	return nil
}

func (b *Bank) checkClosed(ctx context.Context, campaign string) error {
	c, err := b.readCampaign(ctx, campaign)
	if err == nil && c.StateAt(b.clock.Now()) != Closed {
		err = fmt.Errorf("%w: %s", ErrReopened, campaign)
	}
	return err
}
