package offline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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
	b.wantTally(got.Tally, dedupe.Tally{In: 9, New: 5, Natural: 2, DeadLettered: 1, Skipped: 1, Out: 5})
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

// TestRenameAllResumed checks that a run that was interrupted at any place continues with the same keys. One place is
// the search for the keys.
func TestRenameAllResumed(t *testing.T) {
	t.Parallel()
	job := func() *bench {
		b := newBench(t, everything()...)
		b.job.IDs, b.job.BatchSize, b.tick = RenameAll, 4, recordEvery
		return b
	}
	reference := job()
	reference.run()
	for n := 0; ; n++ {
		b := job()
		ctx, cancel := context.WithCancel(context.Background())
		left := n
		interrupted := b.job
		interrupted.Progress = func(Progress) {
			if left--; left < 0 {
				cancel()
			}
		}
		_, err := interrupted.Run(ctx)
		cancel()
		if err == nil {
			if n < 10 {
				t.Errorf("only %d steps", n)
			}
			return
		}
		b.now = b.now.Add(time.Hour)
		b.finish()
		if b.read("out") != reference.read("out") || b.read("dead") != reference.read("dead") {
			t.Fatalf("interrupted at %d: want\n%s\ngot\n%s", n, reference.read("out"), b.read("out"))
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
