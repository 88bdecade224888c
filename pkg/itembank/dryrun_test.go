package itembank_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
)

var dryRunCases = []testCase{
	{"dry-run-is-true", dryRunIsTrue},
	{"errors-of-a-dry-run", errorsOfDryRun},
}

// dryRunIsTrue: whatever was loaded, claimed, withdrawn or cut before, a load reports what its
// dry run said, in however many passes the dry run read the input.
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
		bank := f.bank()
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
				if _, err := itembank.New(cut).Load(f.ctx, campaign, source, nil); !errors.Is(err, errCut) {
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
		said, err := itembank.DryRunInPasses(itembank.New(counted), f.ctx, campaign, itembank.Items(items...), rowsPerPass)
		must(err)
		for _, call := range counted.Calls() {
			if !slices.Contains([]string{"Campaign", "LatestLoad", "ListItemRows", "ItemRow"}, call) {
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

// TestDryRunLooksUpOrLists: a dry run of a few items does not list thousands. The numbers are those
// of an engine with pages of 1,000 rows.
func TestDryRunLooksUpOrLists(t *testing.T) {
	t.Parallel()
	f := inMemory(t)
	_, stock := f.stocked(3500, itembank.Settings{})
	counted := f.counted()
	bank := itembank.New(counted)
	for _, test := range []struct {
		items   []string
		lookups int // at least; a page of 1,000 rows has fewer than all of the items
		want    itembank.Tally
	}{
		{[]string{stock[1], "new", stock[2], "new", stock[1]}, 1, itembank.Tally{Rows: 5, Known: 3, Added: 1, Repeated: 1}},
		{append([]string{"new"}, stock...), 0, itembank.Tally{Rows: 3501, Known: 3500, Added: 1}},
	} {
		counted.Calls()
		report, err := bank.DryRun(f.ctx, f.name, itembank.Items(test.items...))
		if err != nil || report.Tally != test.want {
			f.Errorf("want %+v, got %+v, %v", test.want, report, err)
		}
		calls := map[string]int{}
		for _, call := range counted.Calls() {
			calls[call]++
		}
		if calls["ItemRow"] < test.lookups || test.lookups == 0 && calls["ItemRow"] > 0 || test.lookups > 0 && calls["ListItemRows"] > 1 {
			f.Errorf("%d items: %v", len(test.items), calls)
		}
	}
}

// errorsOfDryRun are those of a load.
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
	for _, call := range []string{"Campaign", "LatestLoad", "ListItemRows"} {
		failing := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
			if method == call {
				return itembank.ErrTryAgain
			}
			return nil
		}}
		if _, err := itembank.New(failing).DryRun(f.ctx, f.name, itembank.Items("A-1")); !errors.Is(err, itembank.ErrTryAgain) {
			f.Errorf("%s failed, and the dry run returned %v", call, err)
		}
	}
}
