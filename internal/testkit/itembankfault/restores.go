package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// CopyCampaign copies the rows of a campaign and of the claims of its scope into another store, which has none of them.
// It is the copy of a store that a restore makes. It leaves out the rows of loads.
func CopyCampaign(ctx context.Context, from engine.Store, to enginetest.Engine, campaign string) error {
	c, err := from.Campaign(ctx, campaign)
	if err != nil {
		return err
	}
	if created, err := to.Store.CreateCampaign(ctx, *c); err != nil || !created.Created() {
		return fmt.Errorf("campaign %s: %+v: %w", campaign, created, err)
	}
	for n := range c.Shards {
		page, err := from.FreeItems(ctx, engine.Shard{Campaign: campaign, Number: n}, engine.Range{}, 1000, engine.Strong)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := to.Raw.PutBankRow(ctx, item); err != nil {
				return err
			}
		}
	}
	for cursor, first := "", true; first || cursor != ""; first = false {
		rows, next, err := from.ListItemRows(ctx, campaign, cursor)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := to.Raw.PutItemRow(ctx, campaign, row); err != nil {
				return err
			}
		}
		cursor = next
	}
	for cursor, first := "", true; first || cursor != ""; first = false {
		claims, next, err := from.ListClaims(ctx, c.Scope, cursor)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if err := to.Raw.PutClaim(ctx, claim); err != nil {
				return err
			}
		}
		cursor = next
	}
	return nil
}

// restored is a sequence whose store is copied at one moment. Afterwards the copy is the new store.
type restored struct {
	*sequence
	copy      enginetest.Engine
	options   itembank.ReplayOptions
	cut       bool            // a replay was cut, and customers acted before the next one
	confirmed map[string]bool // the ids of holds that were confirmed in the new store
}

// RunRestores plays random sequences on one store, copies its rows at a random moment into another store, and goes on.
// Then it follows the runbook of a restore: both campaigns are closed and marked, and the old store is replayed into the
// copy. Customers act until the old store is marked, and confirm holds in the new one. Replays are killed at several
// calls and repeated. Afterwards the copy must equal the old store, and only then it can be opened.
func RunRestores(t *testing.T, e, other enginetest.Engine) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &restored{sequence: newSequence(newWorld(t.Context(), e)), copy: other, confirmed: map[string]bool{}}
		violated := r.violated(func() {
			r.create(rt)
			r.act(rt)
			r.must(CopyCampaign(r.ctx, e.Store, other, r.c.Name))
			r.act(rt)
			r.must(r.newStore().CloseRestored(r.ctx, r.c.Name))
			r.SetOpen("", false)
			r.open = false
			r.options.Withdrawals = rapid.Bool().Draw(rt, "withdrawals")
			r.options.Loads = rapid.Bool().Draw(rt, "loads")
			for range rapid.IntRange(0, 2).Draw(rt, "kills before the mark") {
				r.kill(rt)
				r.actOnOld(rt)
			}
			r.block(rt)
			r.must(itembank.NewOperator(e.Store, itembank.WithClock(r.clock)).CloseMoved(r.ctx, r.c.Name))
			for range rapid.IntRange(0, 2).Draw(rt, "kills") {
				r.confirmInNew(rt)
				r.kill(rt)
			}
			r.confirmInNew(rt)
			r.replay()
			r.checkEqual()
			r.must(r.newStore().OpenCampaign(r.ctx, r.c.Name))
			r.dropCampaigns()
			r.must(other.Raw.DropCampaign(r.ctx, r.c.Name))
		})
		if violated != nil {
			rt.Fatal(violated)
		}
	})
}

// act plays random requests on the old store.
func (r *restored) act(rt *rapid.T) {
	actions := r.actions()
	delete(actions, "open or close")
	actions["forget"] = func(t *rapid.T) { r.forget(rapid.SampledFrom(claimants).Draw(t, "claimant")) }
	rt.Repeat(actions)
}

// newStore returns a Bank for the copy.
func (r *restored) newStore() *itembank.Operator {
	return itembank.NewOperator(r.copy.Store, itembank.WithClock(r.clock))
}

// forget releases all claims of a claimant, who may claim again.
func (r *restored) forget(claimant string) {
	r.forgetWith(claimant, itembank.ForgetOptions{WithoutBlock: true})
}

func (r *restored) forgetWith(claimant string, o itembank.ForgetOptions) {
	for _, holder := range []string{claimant, holderOf(claimant, 2)} {
		r.state.release(r.c, holder, r.told(holder).Claim.ID)
	}
	r.mustRepeat("forget "+claimant, func(ctx context.Context) error {
		_, err := r.bank.Forget(ctx, r.c.Scope, claimant, o)
		return err
	})
}

// block forgets a claimant, who may not claim again, or blocks one who never claimed.
func (r *restored) block(rt *rapid.T) {
	switch who := rapid.SampledFrom(append([]string{"nobody", "eve"}, claimants...)).Draw(rt, "blocked"); who {
	case "nobody":
	case "eve":
		r.mustRepeat("block eve", func(ctx context.Context) error {
			_, err := r.bank.Block(ctx, r.c.Scope, who)
			return err
		})
	default:
		r.forgetWith(who, itembank.ForgetOptions{})
	}
}

// confirmInNew lets customers pay in the new store.
func (r *restored) confirmInNew(rt *rapid.T) {
	for _, holder := range r.holders() {
		key := keyOf(r.c, holder)
		held, _, err := r.copy.Store.HeldClaim(r.ctx, key, engine.Strong)
		r.must(err)
		pays := rapid.IntRange(0, 3).Draw(rt, "pays") == 0
		if !pays || r.c.Hold == 0 || held == nil || held.IsBlock() || held.EndsAt.IsZero() ||
			!held.EndsAt.After(r.clock.Now()) {
			continue
		}
		_, err = r.newStore().Confirm(r.ctx, r.c.Name, key.Claimant, held.ID, itembank.InSlot(key.Slot))
		r.must(err)
		r.confirmed[held.ID] = true
	}
}

var errKilled = errors.New("killed")

// kill plays a replay whose process is killed.
func (r *restored) kill(rt *rapid.T) {
	left, lost := rapid.IntRange(1, 60).Draw(rt, "call"), rapid.Bool().Draw(rt, "lost reply")
	count := func(string) error {
		if left--; left <= 0 {
			return errKilled
		}
		return nil
	}
	through := func(s engine.Store) *Store {
		if lost {
			return &Store{Store: s, After: count}
		}
		return &Store{Store: s, Before: count}
	}
	bank := itembank.NewOperator(through(r.copy.Store), itembank.WithClock(r.clock))
	old := itembank.NewOperator(through(r.engine.Store), itembank.WithClock(r.clock))
	if _, err := bank.ReplayStore(r.ctx, r.c.Name, old, r.options); err != nil && !errors.Is(err, errKilled) {
		r.fail("replay that is killed: %w", err)
	}
	r.cut = true
	r.must(r.newStore().CloseRestored(r.ctx, r.c.Name)) // it may have been killed after its last call
}

// actOnOld lets customers release, confirm and prolong in the old store.
func (r *restored) actOnOld(rt *rapid.T) {
	for _, holder := range r.holders() {
		switch rapid.IntRange(0, 5).Draw(rt, "does") {
		case 0:
			r.release(holder)
		case 1:
			r.confirm(holder)
		case 2:
			r.prolong(holder)
		}
	}
}

// replay replays the old store into the copy. A dry run before it says the same. If the new store has a confirmed hold
// that the old one does not have, a person has to decide, and takes the release over.
func (r *restored) replay() {
	if r.conflict() {
		report := r.replayOnce()
		outcome := func(l itembank.ReplayedLine) bool { return l.Outcome == "confirmed-here" }
		if !slices.ContainsFunc(report.Lines, outcome) || report.Store.Mark != itembank.MarkRefused {
			r.fail("a hold is confirmed in the new store only, and the replay said %q: %+v", report.Store.Mark, report.Lines)
		}
		r.options.Releases = true
	}
	if report := r.replayOnce(); report.Refused > 0 || report.Store.Mark != itembank.MarkCleared {
		r.fail("the replay refused %d lines, mark %q: %+v", report.Refused, report.Store.Mark, report.Lines)
	}
	r.must(r.newStore().CloseRestored(r.ctx, r.c.Name))
	again := r.replayOnce()
	if s := again.Store; again.Replayed+again.Refused+s.Closed+s.Ended+s.Withdrawals.Taken+s.Loads.Taken+s.Blocked+s.Unblocked > 0 {
		r.fail("a repeated replay changed something: %+v, %+v", again, *s)
	}
}

// replayOnce replays, and compares the report with that of a dry run.
func (r *restored) replayOnce() itembank.ReplayReport {
	old := itembank.NewOperator(r.engine.Store, itembank.WithClock(r.clock))
	dry := r.options
	dry.DryRun = true
	would, err := r.newStore().ReplayStore(r.ctx, r.c.Name, old, dry)
	r.must(err)
	report, err := r.newStore().ReplayStore(r.ctx, r.c.Name, old, r.options)
	r.must(err)
	would.DryRun = false
	if a, b := fmt.Sprint(*would.Store, would.Lines), fmt.Sprint(*report.Store, report.Lines); a != b {
		r.fail("the dry run said %s, the replay did %s", a, b)
	}
	return report
}

// conflict reports whether the new store has a confirmed hold, and the old store has neither it nor a confirmed
// replacement of it.
func (r *restored) conflict() bool {
	return slices.ContainsFunc(r.holders(), func(holder string) bool {
		was, is := r.bothHeld(holder)
		blocked := was != nil && was.IsBlock()
		confirmed := r.c.Hold > 0 && is != nil && !is.IsBlock() && is.EndsAt.IsZero()
		replaced := was != nil && is != nil && strings.HasPrefix(was.ID, is.ID+".") && was.EndsAt.IsZero()
		return confirmed && !blocked && !replaced && (was == nil || was.ID != is.ID)
	})
}

// bothHeld returns the rows of a holder's slot in the old store and in the new one.
func (r *restored) bothHeld(holder string) (was, is *engine.Claim) {
	was, _, err := r.engine.Store.HeldClaim(r.ctx, keyOf(r.c, holder), engine.Strong)
	r.must(err)
	is, _, err = r.copy.Store.HeldClaim(r.ctx, keyOf(r.c, holder), engine.Strong)
	r.must(err)
	return was, is
}

// checkEqual compares the copy with the old store.
func (r *restored) checkEqual() {
	found, err := r.newStore().Reconcile(r.ctx, r.c.Name)
	r.must(err)
	if len(found.Inconsistencies) > 0 {
		r.fail("reconcile found %+v", found.Inconsistencies)
	}
	for _, holder := range append([]string{"eve"}, r.holders()...) {
		was, is := r.bothHeld(holder)
		if was != nil && r.confirmed[was.ID] {
			was.EndsAt = time.Time{}
		}
		if (was == nil) != (is == nil) || was != nil && *was != *is {
			r.fail("%s holds %+v in the old store, and %+v in the new one", holder, was, is)
		}
	}
	for _, item := range slices.Sorted(maps.Keys(r.state.Loaded[r.c.Name])) {
		was, is := r.placeIn(r.engine.Store, item), r.placeIn(r.copy.Store, item)
		seen := r.state.Given[key(r.c.Name, item)] != ""
		switch {
		case was == is:
		case r.c.OnEnd == engine.Burn && seen && is == isFree:
			r.fail("%s was seen, is %q in the old store, and free in the new one", item, was)
		case is == unknownItem && was == isFree && !r.options.Loads: // an operator loaded it
		case was == string(engine.Withdrawn) && !r.options.Withdrawals &&
			(is == isFree || is == unknownItem || is == string(engine.Burned) && seen): // an operator withdrew it
		case r.cut && is == string(engine.Lost) && slices.Contains(ends, was): // it went from one claim to another
		default:
			r.fail("%s is %q in the old store, and %q in the new one", item, was, is)
		}
	}
}

// unknownItem is the place of an item without rows.
const unknownItem = "unknown"

var ends = []string{string(engine.Burned), string(engine.Expired), string(engine.Replaced)}

// placeIn returns the place of an item in one of the stores: where it is, or how it ended.
func (r *restored) placeIn(store engine.Store, item string) string {
	h := engine.HashItem(item)
	shard := engine.Shard{Campaign: r.c.Name, Number: h.ShardOf(r.c.Shards)}
	reads, err := store.ReadItems(r.ctx, []engine.FreeItem{{Shard: shard, Hash: h}})
	r.must(err)
	switch row := reads[0].Row; {
	case row == nil:
		return unknownItem
	case row.State != "":
		return string(row.State)
	case reads[0].Free != nil:
		return isFree
	case row.Withdraw && r.options.Withdrawals:
		return "held, and withdrawn"
	}
	return "held"
}
