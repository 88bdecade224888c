package dedupefault

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	oneSeed = flag.Int("seed", -1, "TestSeeds plays the history of this seed alone")
	seeds   = flag.Int("seeds", 0, "how many histories TestSeeds plays in memory; by default five times -rapid.checks")
)

// TestSeeds plays random histories. The seed of a history decides everything in it: producers, shards, event source,
// instances, sink, clock and faults. `-seed=N -v` plays one history again and prints its events. On engines other
// than memory it plays fewer histories.
func TestSeeds(t *testing.T) {
	shares := shares{
		SQLiteFile.Name: 8, Dynoxide.Name: 8, DynamoDBLocal.Name: 20, DynoxideLog.Name: 8, DynamoDBLocalLog.Name: 20,
	}
	OnEveryEngine(t, func(t *testing.T, e Engine) {
		t.Parallel()
		store := e.Open(t)
		for _, seed := range seedsFor(e, shares.of(e)) {
			h := historyOf(seed)
			if h.needsTx() && !e.hasTx() {
				continue
			}
			w, err := h.playOn(store, nil).run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, h.keepable(func(h history) bool { return h.play(t.Context(), store, nil) != nil }))
			}
			if *oneSeed >= 0 {
				t.Log(strings.Join(w.trace, "\n"))
			}
		}
	})
}

func seedsFor(e Engine, share int) []int {
	if *oneSeed >= 0 {
		return []int{*oneSeed}
	}
	checks := 100
	if f := flag.Lookup("rapid.checks"); f != nil {
		checks = f.Value.(flag.Getter).Get().(int)
	}
	n := max(checks/share, 1)
	if e.inMemory() {
		n = cmp.Or(*seeds, 5*checks)
	}
	all, first := make([]int, n), rand.IntN(1<<50)
	for i := range all {
		all[i] = first + i
	}
	return all
}

// keepable makes the history smaller while it still fails. It returns the history as a file that TestKept plays.
func (h history) keepable(fails func(history) bool) string {
	content, err := json.Marshal(h.smallest(fails))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("to keep it, after the rule is corrected: testdata/histories/NAME.json:\n%s", content)
}

// smallest leaves out the parts of a history that the failure does not need.
func (h history) smallest(fails func(history) bool) history {
	for smaller := true; smaller; {
		smaller = false
		for _, candidate := range h.simpler() {
			if fails(candidate) {
				h, smaller = candidate, true
				break
			}
		}
	}
	return h
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

// keptHistories lists the files of histories that once failed, or that find a mutant.
func keptHistories(t *testing.T) (names []string) {
	t.Helper()
	names, err := filepath.Glob("testdata/histories/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no kept histories: %v", err)
	}
	return names
}

func readHistory(t *testing.T, name string) (h history) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(content, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestKept plays the kept histories. A history with the name of a mutant must find that mutant.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, name := range keptHistories(t) {
		h := readHistory(t, name)
		for _, e := range []Engine{Memory, MemoryLog} {
			if h.needsTx() && !e.hasTx() {
				continue
			}
			if err := h.play(t.Context(), e.Open(t), nil); err != nil {
				t.Errorf("%s on %s: %v", name, e.Name, err)
			}
		}
		mutant := strings.TrimSuffix(filepath.Base(name), ".json")
		i := slices.IndexFunc(Mutants, func(m Mutant) bool { return m.Name == mutant })
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

// TestSmallest checks that smallest leaves out what a failure does not need.
func TestSmallest(t *testing.T) {
	t.Parallel()
	h := rapid.Custom(func(t *rapid.T) history { return histories.Draw(t, "h") }).Example(7)
	hasPut := func(h history) bool { return slices.ContainsFunc(h.Steps, func(s Step) bool { return s.Do == Put }) }
	small := h.smallest(hasPut)
	if len(small.Steps) != 1 || len(small.Steps[0].Users) != 1 || slices.ContainsFunc(small.Ways, func(w Way) bool { return w != None }) {
		t.Errorf("got %+v", small)
	}
}
