package dedupefault

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TestSeeds plays random histories. The seed of a history decides everything in it: producers, shards, event source,
// instances, sink, clock and faults. In memory it plays five times as many as -rapid.checks says, and on other engines
// fewer.
func TestSeeds(t *testing.T) {
	shares := shares{
		SQLiteFile.Name: 8, Dynoxide.Name: 8, DynamoDBLocal.Name: 20, DynoxideLog.Name: 8, DynamoDBLocalLog.Name: 20,
	}
	OnEveryEngine(t, func(t *testing.T, e Engine) {
		t.Parallel()
		store, plays := e.Open(t), max(rapidChecks()/shares.of(e), 1)
		if e.inMemory() {
			plays = 5 * rapidChecks()
		}
		search.Histories(t, search.Anywhere(), plays, func(seed int) error {
			h := historyOf(seed)
			if h.needsTx() && !e.hasTx() {
				return nil
			}
			return h.searched(t, store)
		})
	})
}

func rapidChecks() int { return flag.Lookup("rapid.checks").Value.(flag.Getter).Get().(int) }

// searched plays a history of a search.
func (h history) searched(t *testing.T, store dedupe.Store) error {
	t.Helper()
	w, err := h.playOn(store, nil).run(t.Context())
	switch {
	case err != nil:
		play := func(h history) error { return h.play(t.Context(), store, nil) }
		return fmt.Errorf("%w\n%s", err, h.keepable(play))
	case search.Alone():
		t.Log(strings.Join(w.trace, "\n"))
	}
	return nil
}

// keepable makes the history smaller while it still fails.
func (h history) keepable(play func(history) error) string {
	return search.Keepable(search.Smallest(h, history.simpler, func(h *history) bool { return play(*h) != nil }))
}

// simpler returns the histories that lack one part each.
func (h history) simpler() (all []history) {
	change := func(change func(*history)) {
		c := h
		c.Steps, c.Ways, c.Waits, c.Fates = slices.Clone(h.Steps), slices.Clone(h.Ways), slices.Clone(h.Waits), slices.Clone(h.Fates)
		change(&c)
		all = append(all, c)
	}
	for i, s := range h.Steps {
		change(func(c *history) { c.Steps = slices.Delete(c.Steps, i, i+1) })
		for j := range s.Users {
			if len(s.Users) > 1 {
				change(func(c *history) { c.Steps[i].Users = slices.Delete(slices.Clone(s.Users), j, j+1) })
			}
		}
	}
	for i, way := range h.Ways {
		if way != None {
			change(func(c *history) { c.Ways[i] = None })
		}
	}
	for i, d := range h.Waits {
		if d != noWait {
			change(func(c *history) { c.Waits[i] = noWait })
		}
	}
	for i, fate := range h.Fates {
		if fate != 0 {
			change(func(c *history) { c.Fates[i] = 0 })
		}
	}
	for _, f := range []func(*history) *int{
		func(c *history) *int { return &c.Shards }, func(c *history) *int { return &c.Parallel },
		func(c *history) *int { return &c.Instances }, func(c *history) *int { return &c.GiveUp },
	} {
		if *f(&h) > 1 {
			change(func(c *history) { *f(c) = 1 })
		}
	}
	return all
}

// TestKept plays the kept histories. A history with the name of a mutant must find that mutant.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, h := range search.Kept[history](t) {
		for _, e := range []Engine{Memory, MemoryLog} {
			if h.needsTx() && !e.hasTx() {
				continue
			}
			if err := h.play(t.Context(), e.Open(t), nil); err != nil {
				t.Errorf("%s on %s: %v", name, e.Name, err)
			}
		}
		i := slices.IndexFunc(Mutants, func(m Mutant) bool { return m.Name == name })
		if i < 0 {
			continue
		}
		h.Scenario = Mutants[i].in(h.Scenario)
		if err := h.play(t.Context(), Mutants[i].engine().Open(t), &Mutants[i]); err == nil {
			t.Errorf("%s does not find its mutant", name)
		}
	}
}

// TestSeedReplays checks that a seed plays the same history each time, call by call.
func TestSeedReplays(t *testing.T) {
	t.Parallel()
	for n := range 100 {
		seed, e := n/2, []Engine{Memory, MemoryLog}[n%2]
		if historyOf(seed).needsTx() && !e.hasTx() {
			continue
		}
		var traces [2]string
		for i := range traces {
			w, err := historyOf(seed).playOn(e.Open(t), nil).run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			traces[i] = strings.Join(w.trace, "\n")
		}
		if traces[0] != traces[1] {
			t.Errorf("seed %d plays two histories:\n%s\n\n%s", seed, traces[0], traces[1])
		}
	}
}

// TestSmallest checks that what a failure does not need is left out.
func TestSmallest(t *testing.T) {
	t.Parallel()
	h := rapid.Custom(func(t *rapid.T) history { return histories.Draw(t, "h") }).Example(7)
	hasPut := func(h *history) bool { return slices.ContainsFunc(h.Steps, func(s Step) bool { return s.Do == Put }) }
	small := search.Smallest(h, history.simpler, hasPut)
	if len(small.Steps) != 1 || len(small.Steps[0].Users) != 1 || slices.ContainsFunc(small.Ways, func(w Way) bool { return w != None }) {
		t.Errorf("got %+v", small)
	}
}
