package itembank_test

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
)

var dryRunCases = []testCase{
	{"dry-run-is-true", dryRunIsTrue},
	{"errors-of-a-dry-run", errorsOfDryRun},
}

// dryRunIsTrue: whatever was loaded, claimed, withdrawn or interrupted before, a load reports the same as its dry
// run, in any number of passes.
func dryRunIsTrue(f *fixture) {
	n := 0
	rapid.Check(f.TB, func(rt *rapid.T) {
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		n++
		campaign := fmt.Sprintf("%s-%d", f.name, n)
		clock := itembank.WithClock(itembankfault.NewClock()) // a load into a sold-out campaign waits
		bank := f.bank(clock)
		_, _, err := bank.CreateCampaign(f.ctx, campaign, itembank.Settings{})
		must(err)
		inputs := rapid.SliceOfN(rapid.SliceOfN(rapid.StringMatching("[a-f][1-9]?"), 1, 150), 1, 4).Draw(rt, "inputs")
		for i := range rapid.IntRange(0, 6).Draw(rt, "steps before") {
			source := itembank.Items(rapid.SampledFrom(inputs).Draw(rt, "input")...)
			switch rapid.SampledFrom([]string{"load", "cut", "claim", "withdraw"}).Draw(rt, "step") {
			case "load":
				_, err := bank.Load(f.ctx, campaign, source, nil)
				must(err)
			case "cut":
				cut := f.cutAt(rapid.IntRange(1, 9).Draw(rt, "call"), false)
				if _, err := itembank.NewOperator(cut, clock).Load(f.ctx, campaign, source, nil); !errors.Is(err, errCut) {
					must(err)
				}
			case "claim":
				if _, err := bank.Claim(f.ctx, campaign, fmt.Sprint("claimant ", i)); !errors.Is(err, itembank.ErrSoldOut) {
					must(err)
				}
			case "withdraw":
				_, err := bank.Withdraw(f.ctx, campaign, source)
				must(err)
			}
		}
		items := rapid.SampledFrom(inputs).Draw(rt, "the input")
		counted := f.counted()
		rowsPerPass := rapid.Int64Range(1, 200).Draw(rt, "rows a pass")
		said, err := itembank.DryRunInPasses(itembank.NewOperator(counted), f.ctx, campaign, itembank.Items(items...), rowsPerPass)
		must(err)
		for _, call := range counted.Calls() {
			if !slices.Contains([]string{"Campaign", "LatestLoad", "ItemRows"}, call) {
				rt.Fatalf("a dry run called %s", call)
			}
		}
		done, err := bank.Load(f.ctx, campaign, itembank.Items(items...), nil)
		must(err)
		if said != done {
			rt.Fatalf("the dry run said %+v, the load did %+v", said, done)
		}
	})
}

// errorsOfDryRun: a dry run returns the same errors as a load.
func errorsOfDryRun(f *fixture) {
	f.create(itembank.Settings{})
	for _, test := range []struct {
		name, campaign string
		source         itembank.Source
		want           error
	}{
		{"no such campaign", f.name + "-other", itembank.Items("A-1"), itembank.ErrNoCampaign},
		{"invalid name", "Spring!", itembank.Items("A-1"), itembank.ErrInvalid},
		{"no items", f.name, itembank.Items(), itembank.ErrInvalid},
		{"invalid line", f.name, itembank.Items("A-1", ""), itembank.ErrInvalid},
		{"other items", f.name, changing(itembank.Items("A-1", "A-2"), itembank.Items("A-1", "A-3")), itembank.ErrInputChanged},
		{"fewer items", f.name, changing(itembank.Items("A-1", "A-2"), itembank.Items("A-1")), itembank.ErrInputChanged},
	} {
		if _, err := f.bank().DryRun(f.ctx, test.campaign, test.source); !errors.Is(err, test.want) {
			f.Errorf("%s: want %v, got %v", test.name, test.want, err)
		}
	}
	for _, call := range []string{"Campaign", "LatestLoad", "ItemRows"} {
		failing := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
			if method == call {
				return itembank.ErrTryAgain
			}
			return nil
		}}
		if _, err := itembank.NewOperator(failing).DryRun(f.ctx, f.name, itembank.Items("A-1")); !errors.Is(err, itembank.ErrTryAgain) {
			f.Errorf("%s failed, and the dry run returned %v", call, err)
		}
	}
}
