package itembank_test

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// A testCase is one requirement on a Bank, for every engine. The cases of a subject are in one file.
type testCase struct {
	name string
	run  func(*fixture)
}

// subjects lists all cases by subject.
var subjects = map[string][]testCase{
	"claims": claimCases, "choice": choiceCases, "columns": columnCases, "published": publishedCases, "claimants": claimantCases, "slots": slotCases, "blocks": blockCases, "repeats": repeatCases, "states": stateCases, "sold-out": soldOutCases, "releases": releaseCases, "replaces": replaceCases, "expiry": expiryCases,
	"holds": holdCases, "due": dueCases, "sweeps": sweepCases, "loads": loadCases, "dry-runs": dryRunCases, "withdrawals": withdrawCases,
	"changes": changeCases, "modes": modeCases, "look-ups": lookUpCases, "counts": countCases, "reconcile": reconcileCases, "repair": repairCases,
	"moved": movedCases, "replay": replayCases, "replay-store": replayStoreCases, "adding": addingCases,
}

// listing are the subjects whose cases list campaigns again and again.
var listing = []string{"blocks", "claimants", "replay-store"}

// leftOut are the subjects whose cases make thousands of requests, because they interrupt commands at each of their
// calls, or count or list many items. What they show of a Bank they show in memory and on SQLite. The conditions of the
// engine on which they rest have cases of their own in enginetest.
var leftOut = map[string][]string{
	"dynoxide": {"adding", "changes", "dry-runs", "due", "expiry", "loads", "modes", "moved", "published", "repair"},
}

// TestBank runs the cases on each engine. Under -short it runs them in memory.
func TestBank(t *testing.T) {
	for _, e := range itembankengines.Engines {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if e.CheckOnly {
				testengine.CheckOnly(t)
			}
			for _, subject := range slices.Sorted(maps.Keys(subjects)) {
				if slices.Contains(leftOut[e.Name], subject) {
					continue
				}
				open := e.Open
				if slices.Contains(listing, subject) {
					open = e.OpenOwn
				}
				for _, c := range subjects[subject] {
					t.Run(subject+"/"+c.name, func(t *testing.T) {
						t.Parallel()
						c.run(newFixture(t, open(t)))
					})
				}
			}
		})
	}
}

// TestMutants checks that each mutant is found by every test that it names.
func TestMutants(t *testing.T) {
	for _, m := range itembankfault.Mutants {
		for _, by := range m.CaughtBy {
			t.Run(m.Name+"/"+by, func(t *testing.T) {
				t.Parallel()
				catch(t, m, by)
			})
		}
	}
}

// catch fails the test if the test named by does not find the mutant.
func catch(t *testing.T, m itembankfault.Mutant, by string) {
	t.Helper()
	e := itembankengines.Memory(t)
	kind, name, _ := strings.Cut(by, "/")
	switch kind {
	case "histories":
		m.MustBeFoundByHistories(t, e)
		return
	case "half-visible":
		m.MustBeFoundByHalfVisible(t, name)
		return
	case "pairs":
		m.MustBeFoundByPair(t, name, e)
		return
	case "scenario":
		m.MustBeFoundBy(t, name, e)
		return
	}
	broken := enginetest.Engine{Store: m.Wrap(e, itembankfault.NewClock()), Raw: e.Raw}
	mutanttest.MustFail(t, caseByName(t, kind, name, broken))
}

// caseByName returns a case that runs on an engine.
func caseByName(t *testing.T, subject, name string, e enginetest.Engine) func(testing.TB) {
	t.Helper()
	if subject == "engine" {
		c := mutanttest.Named(t, enginetest.Cases(), name, func(c enginetest.Case) string { return c.Name })
		return func(t testing.TB) { c.Run(t, e) }
	}
	c := mutanttest.Named(t, subjects[subject], name, func(c testCase) string { return c.name })
	return func(t testing.TB) { c.run(newFixture(t, e)) }
}

// TestMutantsHandOutItems: no mutant is so broken that any test would find it. On each mutant, two claimants get an
// item, and get it again.
func TestMutantsHandOutItems(t *testing.T) {
	t.Parallel()
	for _, m := range itembankfault.Mutants {
		e := itembankengines.Memory(t)
		clock := itembankfault.NewClock()
		f := newFixture(t, enginetest.Engine{Store: m.Wrap(e, clock), Raw: e.Raw})
		f.stocked(3, itembank.Settings{Shards: 1})
		b := f.bank(itembank.WithClock(clock))
		claim := func(claimant string) {
			grant := f.claimOrZero(b, claimant)
			if held, err := b.HeldClaim(f.ctx, f.name, claimant); err != nil || !reflect.DeepEqual(held, grant.Claim) || held.Items[0] == "" {
				t.Errorf("%s: want %+v, got %+v, %v", m.Name, grant.Claim, held, err)
			}
		}
		enginerows.AtOnce(func() { claim("ann") }, func() { claim("bob") })
	}
}
