package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestDerivedIDs checks the derived ids, and the context with the old id. A record gets them even if no other record
// has its id. Copies are dropped.
func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t, rec("order-1", "fp1")+rec("order-1", "fp1")+rec("order-1", "fp2")+rec("order-2", "fp1"))
	b.job.IDs = Derived
	got := b.run()
	b.wantOut(`{"id":"a78d0945-7855-5071-b185-8466c665a24d","fp":"fp1","contexts":[` + duplicate("order-1") + "]}\n" +
		renamed("order-1", "fp2") + renamed("order-2", "fp1"))
	b.wantTally(got.Tally, dedupe.Tally{In: 4, New: 3, Natural: 1, Out: 3})
}

// TestRenameAll checks that every record of a key with two fingerprints gets a derived id. This includes the first
// record, wherever the second is. Other records do not change.
func TestRenameAll(t *testing.T) {
	t.Parallel()
	upper, lower := "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
	b := newBench(t,
		rec("order-1", "fp1")+rec("order-2", "fp1")+rec("order-2", "fp1")+"\nbroken\n"+rec(upper, "fp1"),
		rec("order-1", "fp1")+rec("order-1", "fp2")+rec(lower, "fp2"))
	b.job.IDs = RenameAll
	got := b.run()
	b.wantOut(`{"id":"a78d0945-7855-5071-b185-8466c665a24d","fp":"fp1","contexts":[` + duplicate("order-1") + "]}\n" +
		rec("order-2", "fp1") + renamed(upper, "fp1") + renamed("order-1", "fp2") + renamed(lower, "fp2"))
	b.wantTally(got.Tally, dedupe.Tally{In: 9, New: 3, Natural: 2, Synthetic: 2, DeadLettered: 1, Skipped: 1, Out: 5})
}

// keptThenRenamed are two inputs: in one of them the id "1" has two fingerprints, in the other only one.
var keptThenRenamed = [][]string{
	{rec("1", "x"), rec("1", "x") + rec("1", "y")},
	{rec("1", "x") + rec("1", "y"), rec("1", "x")},
}

// deliversOnce runs the inputs one after the other and checks G7: of the records with one id and one fingerprint exactly
// one is in an output, and no two records in the outputs have one id.
func deliversOnce(t testing.TB, policy IDs, inputs []string, ledger func(Store) Store) {
	t.Helper()
	b := newBench(t)
	b.dir = t.TempDir() // rapid cleans up after each of its checks
	b.job.IDs, b.job.BatchSize, b.job.Store = policy, 3, ledger(b.store)
	read, ids := map[string]int{}, map[string]int{}
	for i, input := range inputs {
		for line := range strings.Lines(input) {
			read[line] += 0
		}
		b.now = b.now.Add(time.Hour)
		b.job.Inputs, b.job.Out, b.job.DeadLetters = texts(input), b.path(fmt.Sprint("out", i)), b.path(fmt.Sprint("dead", i))
		if _, err := b.job.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.read(fmt.Sprint("out", i))) {
			var is struct {
				ID, FP   string
				Contexts []struct {
					Data struct{ OriginalEventID string }
				}
			}
			if err := json.Unmarshal([]byte(line), &is); err != nil {
				t.Fatal(err)
			}
			ids[is.ID]++
			for _, context := range is.Contexts {
				is.ID = context.Data.OriginalEventID
			}
			read[rec(is.ID, is.FP)]++
		}
	}
	for what, counts := range map[string]map[string]int{"record": read, "id": ids} {
		for name, n := range counts {
			if n != 1 {
				t.Errorf("%s: %s %s is in the outputs %d times, of the inputs %q", policy, what, name, n, inputs)
			}
		}
	}
}

func itself(s Store) Store { return s }

// TestCopiesInOtherRuns checks that a copy of a record of another run is found with every policy of ids, whether that run
// has renamed the record or not.
func TestCopiesInOtherRuns(t *testing.T) {
	t.Parallel()
	policies := []IDs{FirstKeeps, Derived, RenameAll}
	for _, policy := range policies {
		for _, inputs := range keptThenRenamed {
			deliversOnce(t, policy, inputs, itself)
		}
	}
	if t.Failed() {
		return
	}
	derived := format.DerivedID("a", "x")
	some := []string{rec(derived, "z"), rec(format.DerivedID(derived, "x"), "z")}
	for _, id := range []string{"a", "b", "c"} {
		some = append(some, rec(id, "x"), rec(id, "y"))
	}
	line := rapid.SampledFrom(some)
	input := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(line, 0, 8).Draw(t, "lines"), "") })
	rapid.Check(t, func(rt *rapid.T) {
		inputs := rapid.SliceOfN(input, 1, 4).Draw(rt, "inputs")
		policy := rapid.SampledFrom(policies).Draw(rt, "policy")
		t.Run("", func(t *testing.T) { deliversOnce(t, policy, inputs, itself) })
		if t.Failed() {
			rt.Fatal(policy, inputs)
		}
	})
}

// derivedOnly is a ledger in which a record that is renamed has no entry under its own id.
type derivedOnly struct{ Store }

func (d derivedOnly) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	fps := map[string]map[string]bool{}
	for i, c := range q.Records {
		if fps[c.ID] == nil {
			fps[c.ID] = map[string]bool{}
		}
		fps[c.ID][c.Fingerprint] = true
		q.Records[i].Poison = len(fps[c.ID]) > 1 || i+1 < len(q.Records) && q.Records[i+1].ID == c.ID
	}
	answers, err := d.Store.Enter(ctx, q)
	for i, c := range q.Records {
		if c.Poison && err == nil {
			answers[i] = dedupe.Answer{Found: dedupe.Put}
		}
	}
	return answers, err
}

// TestCopiesMutant checks that TestCopiesInOtherRuns finds the mutant in both orders of the runs.
func TestCopiesMutant(t *testing.T) {
	t.Parallel()
	for _, inputs := range keptThenRenamed {
		mutanttest.MustFail(t, func(tb testing.TB) {
			deliversOnce(tb, RenameAll, inputs, func(s Store) Store { return derivedOnly{s} })
		})
	}
}

// TestOrderDoesNotMatter checks that the order of the input does not change the output if every id is derived.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	var records []string
	for i := range 60 {
		records = append(records, rec(fmt.Sprint(i%7), fmt.Sprint(i%3)))
	}
	for _, policy := range []IDs{Derived, RenameAll} {
		var want []string
		for range 10 {
			rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
			b := newBench(t, strings.Join(records[:20], ""), strings.Join(records[20:], ""))
			b.job.IDs, b.job.BatchSize = policy, 7
			b.run()
			got := slices.Sorted(strings.Lines(b.read("out")))
			if want == nil {
				want = got
			}
			if len(got) != 7*3 || !slices.Equal(got, want) {
				t.Fatalf("%s: want\n%s\ngot\n%s", policy, strings.Join(want, ""), strings.Join(got, ""))
			}
		}
	}
}

// TestKilledWithDerivedIDs checks that a record that is decided again does not find the entry of a later record under
// a derived id: see TestKilledInAWindow.
func TestKilledWithDerivedIDs(t *testing.T) {
	t.Parallel()
	line := func(id, fp string, second int) string {
		return fmt.Sprintf(`{"id":%q,"fp":%q,"t":%d}`+"\n", id, fp, second)
	}
	deepest := "1"
	for range 1 + dedupe.MaxDerivations {
		deepest = format.DerivedID(deepest, "x")
	}
	input := line("1", "x", 0) + line("1", "x", 9) + line("1", "x", 11) + line("1", "y", 11) + line("1", "x", 22)
	for _, policy := range []IDs{Derived, RenameAll} {
		job := func() *bench {
			b := newBench(t, input)
			b.job.IDs, b.job.Retention = policy, dedupe.Retention{Window: 10 * time.Second}
			setFormat(&b.job, func(o *format.Options) { o.TimePath = "t" })
			return b
		}
		reference := job()
		reference.run()
		for mode := range modes {
			for n := 1; ; n++ {
				b := job()
				if !b.die(n, mode) {
					break
				}
				b.finish()
				if b.read("out") != reference.read("out") {
					t.Fatalf("%s, killed at %d (%d): want\n%s\ngot\n%s", policy, n, mode, reference.read("out"), b.read("out"))
				}
			}
		}
		r, err := newRun(job().job)
		if err != nil {
			t.Fatal(err)
		}
		keys := r.possibleKeys(format.Fields{ID: "1", Fingerprint: "x"})
		if !slices.Contains(keys, format.KeyOf("1")) || !slices.Contains(keys, format.KeyOf(deepest)) {
			t.Errorf("%s: a key is missing among %x", policy, keys)
		}
	}
}

// TestRenameAllOfAStream checks that a stream is refused: it can be read only once, so the second reading would be
// empty.
func TestRenameAllOfAStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{"id":"1","fp":"x"}`+"\n")
	b.job.IDs, b.job.Inputs[0].Size = RenameAll, Unknown
	if _, err := b.job.Run(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}
