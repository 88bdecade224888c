package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// DrainTime is how long Repair waits before it reads: so long after the closing of a
// campaign a request may still hand out an item of it. It trusts a copy of the rules
// for DefaultCampaignCache, and then lives for 30 s at most, which is the longest
// integration time-out of an API Gateway HTTP API
// (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html).
// 5 s are to spare.
const DrainTime = DefaultCampaignCache + 30*time.Second + 5*time.Second

// repairedLoad is the load id of item rows that Repair puts.
const repairedLoad = "repaired"

// Repair reconciles a closed campaign, and repairs the differences that can be repaired
// without a guess: each by one transaction that holds only if what the difference
// rests on is still so.
//
//   - lost: the item goes back to the bank, if items holds it, since no row does; its
//     row counts that as a return, so that of two Repairs one does it
//   - held-and-free, free-and-ended: the bank row goes
//   - free-twice: the bank rows that are not where they belong go, if one is
//   - free-not-loaded, held-not-loaded: the item row is put
//
// What two claimants hold, a claimant holds although it ended, has two ends, or is a
// row with the text of another item, is for people to settle. Items may be nil.
//
// It waits DrainTime first, for requests that began before the campaign was closed; a
// Bank with a longer WithCampaignCache elsewhere has to be stopped. Nothing rests on
// that but the report: what moves looks wrong. In the end it looks again at what it
// changed: an item that had several things wrong is reported with what is left, and
// may be repaired by another Repair. The report says
// what was done, and until when, also when there is an error. Errors: those of
// Reconcile; an open or scheduled campaign is an *InvalidError, one that was opened
// meanwhile ErrReopened.
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
	found, err := b.reconcile(ctx, c, &report)
	if err != nil {
		return report, err
	}
	texts, err := textsOf(found, items)
	if err != nil {
		return report, err
	}
	if err := b.checkClosed(ctx, campaign); err != nil {
		return report, err
	}
	repaired := map[engine.Hash]bool{}
	for _, f := range found {
		d := f.difference()
		if d.Repaired, err = b.repair(ctx, c, f, texts[f.hash]); err != nil {
			return report, err
		}
		if d.Repaired {
			repaired[f.hash] = true
		}
		report.Inconsistencies = append(report.Inconsistencies, d)
	}
	if err := b.judge(ctx, c, repaired, report.Inconsistencies); err != nil {
		return report, err
	}
	return report, b.checkClosed(ctx, campaign)
}

// judge looks once more at what was repaired, and reports with what is left an item that
// had more than one thing wrong.
func (b *Bank) judge(ctx context.Context, c Campaign, repaired map[engine.Hash]bool, differences []Inconsistency) error {
	if len(repaired) == 0 {
		return nil
	}
	now, err := b.lookAt(ctx, c, repaired)
	if err != nil {
		return err
	}
	left := map[string]Inconsistency{}
	for h, f := range now {
		if f.kind() != "" {
			left[h.String()] = f.difference()
		}
	}
	for i, d := range differences {
		if d, wrong := left[d.Hash]; wrong {
			differences[i] = d
		}
	}
	return nil
}

// textsOf finds the items that are lost, whose texts no row holds.
func textsOf(found []finding, items Source) (map[engine.Hash]string, error) {
	texts := map[engine.Hash]string{}
	for _, f := range found {
		if f.kind() == missing {
			texts[f.hash] = ""
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
			if _, lost := texts[h]; lost {
				texts[h] = line.Item
			}
		}
	}
	return texts, nil
}

// repair does what is safe for one item. False: nothing is, or it is no longer so.
func (b *Bank) repair(ctx context.Context, c Campaign, f finding, text string) (bool, error) {
	steps := f.repairRequests(c, text)
	for _, m := range steps {
		done, err := b.store.Repair(ctx, m)
		if err != nil || !done {
			return false, err
		}
	}
	return len(steps) > 0, nil
}

// repairRequests are the steps that repair an item. There are none for rows whose text is
// another item's: they may be the only ones that hold it.
func (f finding) repairRequests(c Campaign, text string) (steps []engine.RepairRequest) {
	if f.foreign() {
		return nil
	}
	step := func(m engine.RepairRequest) {
		m.Campaign, m.Hash = c.Name, f.hash
		steps = append(steps, m)
	}
	switch f.kind() {
	case missing:
		if text != "" {
			shard := engine.Shard{Campaign: c.Name, Generation: f.row.Generation, Number: f.hash.ShardOf(c.Shards)}
			step(engine.RepairRequest{PutFree: &engine.FreeItem{Shard: shard, Hash: f.hash, Value: text, EndsAt: f.row.EndsAt}, IfRow: f.row})
		}
	case heldAndFree:
		for i := range f.free {
			step(engine.RepairRequest{DropFree: &f.free[i], IfClaim: &f.claims[0]})
		}
	case freeAndEnded:
		for i := range f.free {
			step(engine.RepairRequest{DropFree: &f.free[i], IfRow: f.row})
		}
	case freeTwice:
		if right := f.rightPlace(); right != nil {
			for i := range f.free {
				if f.free[i].Shard != right.Shard {
					step(engine.RepairRequest{DropFree: &f.free[i], IfFree: right})
				}
			}
		}
	case freeNotLoaded:
		row := engine.ItemRow{LoadID: repairedLoad, Generation: f.free[0].Shard.Generation, EndsAt: f.free[0].EndsAt}
		step(engine.RepairRequest{PutRow: &row, IfFree: &f.free[0]})
	case heldNotLoaded:
		// When it was loaded is not known, but that it was before it was claimed.
		row := engine.ItemRow{LoadID: repairedLoad, Generation: c.generation, EndsAt: ends(f.claims[0].ClaimedAt, c.ItemLife)}
		step(engine.RepairRequest{PutRow: &row, IfClaim: &f.claims[0]})
	}
	return steps
}

// rightPlace is the bank row that is where the item belongs.
func (f finding) rightPlace() *engine.FreeItem {
	for i, free := range f.free {
		if f.row != nil && free.Shard.Generation == f.row.Generation && free.Shard.Number == f.hash.ShardOf(f.shards) {
			return &f.free[i]
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
