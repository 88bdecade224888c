package claims

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// planter makes an inconsistency of each kind, with theItem, through the store.

type planter struct {
	*fixture
	campaign itembank.Campaign
	claim    engine.Claim // it stays all the time
}

// plants returns a planter. It claims another item first, on which the conditions of its changes rest.
func (w *fixture) plants() planter {
	w.Helper()
	campaign, err := w.bank.Campaign(w.Context(), w.name)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.bank.Load(w.Context(), w.name, itembank.Items("there"), nil); err != nil {
		w.Fatal(err)
	}
	grant, err := w.bank.Claim(w.Context(), w.name, "planter")
	if err != nil {
		w.Fatal(err)
	}
	return planter{w, campaign, engine.Claim{ID: grant.Claim.ID, Scope: grant.Claim.Scope, Claimant: "planter", Slot: 1}}
}

func (p planter) free(item string) engine.FreeItem {
	h := engine.HashItem(item)
	return engine.FreeItem{Shard: engine.Shard{Campaign: p.name, Number: h.ShardOf(p.campaign.Shards)}, Hash: h, Value: item}
}

// astray is the item in a wrong shard.
func (p planter) astray(by int) engine.FreeItem {
	i := p.free(theItem)
	i.Shard.Number = (i.Shard.Number + by) % p.campaign.Shards
	return i
}

func (p planter) must(done bool, err error) {
	p.Helper()
	if err != nil || !done {
		p.Fatalf("planting: %t, %v", done, err)
	}
}

// change puts or drops a bank row without a condition.
func (p planter) change(put, drop *engine.FreeItem) {
	p.Helper()
	m := engine.RepairRequest{Campaign: p.name, PutFree: put, DropFree: drop, IfClaim: &p.claim}
	p.must(p.store.Store.Repair(p.Context(), m))
}

func (p planter) put(i engine.FreeItem)  { p.Helper(); p.change(&i, nil) }
func (p planter) drop(i engine.FreeItem) { p.Helper(); p.change(nil, &i) }

func (p planter) take(claimant string) {
	p.Helper()
	claim := engine.Claim{
		ID: "of-" + claimant, Campaign: p.name, Scope: p.campaign.Scope, Claimant: claimant, Slot: 1,
		Item: theItem, ItemHash: engine.HashItem(theItem), ClaimedAt: p.clock.Now(),
	}
	found, err := p.store.Take(p.Context(), []engine.FreeItem{p.free(theItem)}, claim)
	p.must(found.Taken(), err)
}

func (p planter) loaded() {
	p.Helper()
	_, err := p.bank.Load(p.Context(), p.name, itembank.Items(theItem), nil)
	p.must(true, err)
}

// end marks the free item as withdrawn.
func (p planter) end() {
	p.Helper()
	ended, err := p.store.EndItems(p.Context(), []engine.EndRequest{{Item: p.free(theItem), State: engine.Withdrawn}})
	p.must(len(ended) == 1 && ended[0] == engine.EndDone, err)
}

var inconsistencies = map[string]func(planter){
	"missing": func(p planter) { p.loaded(); p.drop(p.free(theItem)) },
	"held-twice": func(p planter) {
		p.loaded()
		p.take("ann")
		p.put(p.free(theItem))
		p.take("bob")
	},
	"held-and-free": func(p planter) { p.loaded(); p.take("ann"); p.put(p.free(theItem)) },
	"held-and-ended": func(p planter) {
		p.loaded()
		p.take("ann")
		p.put(p.free(theItem))
		p.end()
	},
	"free-and-ended":  func(p planter) { p.loaded(); p.end(); p.put(p.free(theItem)) },
	"free-twice":      func(p planter) { p.loaded(); p.put(p.astray(1)) },
	"misplaced":       func(p planter) { p.loaded(); p.put(p.astray(1)); p.drop(p.free(theItem)) },
	"free-not-loaded": func(p planter) { p.put(p.free(theItem)) },
	"held-not-loaded": func(p planter) { p.put(p.free(theItem)); p.take("ann") },
	"ends-differ": func(p planter) {
		p.loaded()
		p.drop(p.free(theItem))
		ending := p.free(theItem)
		ending.EndsAt = p.clock.Now().Add(time.Hour)
		p.put(ending)
	},
	"moving": func(p planter) {
		p.loaded()
		p.put(p.astray(1))
		p.drop(p.free(theItem))
		from, to := 1, 2
		p.store.After = func(method string) error {
			if method == "ReadItems" { // the last call of a look at the item
				p.put(p.astray(to))
				p.drop(p.astray(from))
				from, to = to, from
			}
			return nil
		}
	},
}

// TestInconsistencies makes an inconsistency of every kind. The report and the exit codes must name it, and --repair
// must do what the table in docs/claims.md says.
func TestInconsistencies(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../pkg/itembank/operator_reconcile.go")
	if err != nil {
		t.Fatal(err)
	}
	var kinds, listed []string
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ += "([a-z-]+)"$`).FindAllStringSubmatch(string(source), -1) {
		kinds = append(kinds, m[1])
	}
	repairable := map[string]bool{}
	for _, cells := range pageTable(t, "kind") {
		kind := strings.Trim(cells[0], "`")
		listed = append(listed, kind)
		repairable[kind] = !strings.HasPrefix(cells[2], "leaves it")
	}
	slices.Sort(kinds)
	slices.Sort(listed)
	if !slices.Equal(kinds, listed) {
		t.Errorf("the kinds are %q, and %s has %q", kinds, campaignsPage, listed)
	}
	onEngines(t, func(t *testing.T, store engine.Store) {
		for _, kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				w := newFixture(t, store, itembank.Settings{})
				w.inconsistency(kind, repairable[kind])
			})
		}
	})
}

func (w *fixture) inconsistency(kind string, repairable bool) {
	planted := w.plants()
	look := reconcileCommand{Campaign: w.name}
	if r := w.reconcile(look, cli.ExitDone); len(r.Inconsistencies) != 0 {
		w.Fatalf("before: %+v", r.Inconsistencies)
	}
	inconsistencies[kind](planted)
	r := w.reconcile(look, cli.ExitLook)
	if len(r.Inconsistencies) != 1 || r.Inconsistencies[0].Kind != kind || r.Inconsistencies[0].Repaired || r.Inconsistencies[0].Hash != engine.HashItem(theItem).String() {
		w.Fatalf("want one item %s, got %+v", kind, r.Inconsistencies)
	}
	repair := reconcileCommand{Campaign: w.name, Repair: true, Items: "codes.txt"}
	w.reconcile(repair, cli.ExitUsage) // it is open
	if err := w.bank.CloseCampaign(w.Context(), w.name); err != nil {
		w.Fatal(err)
	}
	begun, code, after := w.clock.Now(), cli.ExitLook, 1
	if repairable {
		code, after = cli.ExitDone, 0
	}
	r = w.reconcile(repair, code)
	if len(r.Inconsistencies) != 1 || r.Inconsistencies[0].Repaired != repairable {
		w.Errorf("repair: %+v", r.Inconsistencies)
	}
	if waited := w.clock.Now().Sub(begun); waited < itembank.DrainTime {
		w.Errorf("it waited %v", waited)
	}
	if after == 0 {
		code = cli.ExitDone
	}
	if r = w.reconcile(look, code); len(r.Inconsistencies) != after {
		w.Errorf("after: %+v", r.Inconsistencies)
	}
}

// TestDrainTime: --repair waits as long as the help and docs/claims.md say.
func TestDrainTime(t *testing.T) {
	t.Parallel()
	want := fmt.Sprintf("waits %.0f seconds", itembank.DrainTime.Seconds())
	for what, text := range map[string]string{"help": reconcileCommand{}.Help(), campaignsPage: page(t)} {
		if !strings.Contains(text, want) || strings.Contains(text, "%!") {
			t.Errorf("%s: want %q, got\n%s", what, want, text)
		}
	}
}

// reconcile runs the command as JSON and as text, and compares the two.
func (w *fixture) reconcile(c reconcileCommand, code int) (r itembank.ReconcileReport) {
	w.Helper()
	run := func(output string) string {
		a := w.app()
		a.Output = output
		err := c.reconcile(w.Context(), a, w.bank, itembank.Items("there", theItem))
		if got := cli.ExitCode(w.Context(), err); got != code {
			w.Fatalf("want exit %d, got %d: %v", code, got, err)
		}
		return w.out.String()
	}
	raw := run("json")
	if code == cli.ExitUsage {
		return r
	}
	if err := json.Unmarshal([]byte(raw), &r); err != nil || !strings.Contains(raw, `"inconsistencies":[`) || r.From.IsZero() || !r.From.Before(r.To) && !r.From.Equal(r.To) {
		w.Errorf("unexpected report %s (%v)", raw, err)
	}
	if c.Repair {
		return r // a second run would find nothing
	}
	text := run("text")
	for _, d := range r.Inconsistencies {
		line := regexp.MustCompile(`(?m)^` + d.Kind + ` .*$`).FindString(text)
		for _, want := range append([]string{d.LoadID, d.Item}, d.Claims...) {
			if !strings.Contains(line, want) {
				w.Errorf("want %s in the line of %+v, got\n%s", want, d, text)
			}
		}
		if d.Item == "" && !strings.Contains(line, "hash:"+d.Hash) {
			w.Errorf("want the hash %s, got\n%s", d.Hash, text)
		}
	}
	if len(r.Inconsistencies) == 0 && !strings.Contains(text, "no inconsistencies") {
		w.Errorf("want no inconsistencies, got\n%s", text)
	}
	return r
}

// TestMissingItems: where items are burned a missing item is ended, unless a flag says that it returns. Where items
// return it needs the file of the load.
func TestMissingItems(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		for _, test := range []struct {
			onEnd      itembank.OnEnd
			returnSeen bool
			items      itembank.Source
			code       int
			where      string
		}{
			{itembank.Burn, false, nil, cli.ExitDone, "lost"},
			{itembank.Burn, false, itembank.Items(theItem), cli.ExitDone, "lost"},
			{itembank.Burn, true, itembank.Items(theItem), cli.ExitDone, "free"},
			{itembank.Return, false, nil, cli.ExitLook, ""},
			{itembank.Return, false, itembank.Items(theItem), cli.ExitDone, "free"},
		} {
			w := newFixture(t, store, itembank.Settings{OnEnd: test.onEnd})
			inconsistencies["missing"](w.plants())
			if err := w.bank.CloseCampaign(t.Context(), w.name); err != nil {
				t.Fatal(err)
			}
			c := reconcileCommand{Campaign: w.name, Repair: true, ReturnSeenItems: test.returnSeen}
			err := c.reconcile(t.Context(), w.app(), w.bank, test.items)
			if cli.ExitCode(t.Context(), err) != test.code {
				t.Errorf("%+v: %v\n%s", test, err, w.out.String())
			}
			if test.where != "" && w.state() != test.where {
				t.Errorf("%+v: the item is %s", test, w.state())
			}
		}
	})
}
