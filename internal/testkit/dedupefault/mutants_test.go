package dedupefault

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

// TestMutants checks that every engine case and every scenario that a mutant names finds it. TestMutants of package
// dedupe runs the cases of that package.
func TestMutants(t *testing.T) {
	for _, m := range Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if len(m.CaughtBy) == 0 {
				t.Error("no test finds it")
			}
			for _, by := range m.CaughtBy {
				switch {
				case by.Engine != "":
					engineCaseMustFail(t, &m, by.Engine)
				case by.Sink != "":
					sinkCaseMustFail(t, &m, by.Sink)
				case by.Scenario != "":
					scenarioMustFail(t, &m, by)
				case by.Histories != "":
					sourceHistoriesMustFail(t, &m, by)
				case by.Processor == "":
					t.Error("a catch names no test")
				}
			}
			if search.All() && !m.Rare {
				historiesMustFail(t, &m)
			}
		})
	}
}

func engineCaseMustFail(t *testing.T, m *Mutant, name string) {
	c := mutanttest.Named(t, enginetest.Cases(), name, func(c enginetest.Case) string { return c.Name })
	engine := m.engine().Open(t)
	broken := HookStore(engine, m.HookIn(Env{Engine: engine, Store: engine}))
	mutanttest.MustFail(t, func(tb testing.TB) { c.Run(tb, broken) })
}

func sinkCaseMustFail(t *testing.T, m *Mutant, name string) {
	c := mutanttest.Named(t, sinktest.ObjectCases(), name, func(c sinktest.ObjectCase) string { return c.Name })
	memory := memobjects.New()
	var storage objectsink.Storage = memory
	if m.storage != nil {
		storage = memobjects.Hooked(memory, m.storage)
	}
	open := func() dedupe.ObjectSink {
		sink, err := objectsink.New(storage, objectsink.Options{
			Encoding: objectsink.Encoding{Compression: objectsink.Uncompressed},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m.objectSink(sink, storage)
	}
	read := func() (lines []string) {
		if err := eachLine(t.Context(), memory, func(_, line string) { lines = append(lines, line) }); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	mutanttest.MustFail(t, func(tb testing.TB) { c.Run(tb, sinktest.ObjectStore{Open: open, Read: read}) })
}

// scenarioMustFail plays a scenario without a fault, and then with each fault, until one play violates a guarantee.
// It must be the guarantee that the mutant breaks.
func scenarioMustFail(t *testing.T, m *Mutant, by Catch) {
	s := mutanttest.Named(t, Scenarios, by.Scenario, func(s Scenario) string { return s.Name })
	play := Play{Scenario: m.in(s), Engine: m.engine().Open(t), Mutant: m}
	calls, err := play.Run(t.Context())
	found := "without a fault"
	for _, f := range faultsOf(calls) {
		if err != nil {
			break
		}
		play.Plan = planOf(f)
		_, err = play.Run(t.Context())
		found = "by " + f.String()
	}
	if err == nil {
		t.Fatalf("scenario %s does not find it, with any fault", by.Scenario)
	}
	violation := search.FirstLine(err)
	if !strings.HasPrefix(violation, by.Violates+":") {
		t.Fatalf("found %s, but not as a violation of %s: %v", found, by.Violates, err)
	}
	t.Logf("found %s: %s", found, violation)
}

// mostHistories is the number of random histories after which a mutant counts as not found.
const mostHistories = 10_000

func historiesMustFail(t *testing.T, m *Mutant) {
	engine := m.engine().Open(t)
	play := func(h history) error {
		h.Scenario = m.in(h.Scenario)
		return h.play(t.Context(), engine, m)
	}
	seed, _ := search.First(t, mostHistories, func(seed int) error { return play(historyOf(seed)) })
	t.Log(historyOf(seed).keepable(play))
}

// sourceHistoriesMustFail plays random histories of a source until one violates the guarantee that the mutant breaks.
func sourceHistoriesMustFail(t *testing.T, m *Mutant, by Catch) {
	engine := m.engine().Open(t)
	_, violation := search.First(t, mostHistories, func(seed int) error {
		return sourceHistories[by.Histories](seed)(t.Context(), engine, m)
	})
	if !strings.HasPrefix(violation, by.Violates) {
		t.Errorf("it does not violate %s", by.Violates)
	}
}
