package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func ExampleBank_DryRun() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "itembank")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := sqlitestore.Create(ctx, filepath.Join(dir, "codes.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	bank := itembank.New(store)
	if _, _, err := bank.CreateCampaign(ctx, "spring", itembank.Settings{}); err != nil {
		log.Fatal(err)
	}
	if _, err := bank.Load(ctx, "spring", itembank.Items("SAVE-10", "SAVE-20"), nil); err != nil {
		log.Fatal(err)
	}
	would, err := bank.DryRun(ctx, "spring", itembank.Items("SAVE-20", "SAVE-30", "SAVE-30"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a load would add %d, know %d, and meet %d again\n", would.Added, would.Known, would.Repeated)
	// Output:
	// a load would add 1, know 1, and meet 1 again
}

var errCut = errors.New("cut")

// hookedFile is a store whose calls can be counted and cut.
func hookedFile(t *testing.T) *itembanktest.Hooked {
	t.Helper()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "codes.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &itembanktest.Hooked{Store: store}
}

// TestDryRunIsTrue: whatever was loaded, claimed, withdrawn or cut before, a load
// reports what its dry run said, in however many passes that read the input.
func TestDryRunIsTrue(t *testing.T) {
	t.Parallel()
	store := hookedFile(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		n++
		campaign := fmt.Sprintf("c-%d", n)
		bank := itembank.New(store)
		_, _, err := bank.CreateCampaign(ctx, campaign, itembank.Settings{})
		must(err)
		inputs := rapid.SliceOfN(rapid.SliceOfN(rapid.StringMatching("[a-f][1-9]?"), 1, 150), 1, 4).Draw(rt, "inputs")
		for i := range rapid.IntRange(0, 6).Draw(rt, "steps before") {
			source := itembank.Items(rapid.SampledFrom(inputs).Draw(rt, "input")...)
			switch rapid.SampledFrom([]string{"load", "cut", "claim", "withdraw"}).Draw(rt, "step") {
			case "load":
				_, err := bank.Load(ctx, campaign, source, nil)
				must(err)
			case "cut":
				calls := rapid.IntRange(0, 8).Draw(rt, "calls")
				store.Before = func(string) error {
					if calls--; calls < 0 {
						return errCut
					}
					return nil
				}
				_, err := bank.Load(ctx, campaign, source, nil)
				if store.Before = nil; err != nil && !errors.Is(err, errCut) {
					rt.Fatal(err)
				}
			case "claim":
				if _, err := bank.Claim(ctx, campaign, fmt.Sprint("claimant ", i)); !errors.Is(err, itembank.ErrSoldOut) {
					must(err)
				}
			case "withdraw":
				_, err := bank.Withdraw(ctx, campaign, source)
				must(err)
			}
		}
		items := rapid.SampledFrom(inputs).Draw(rt, "the input")
		store.Calls()
		said, err := itembank.DryRunInPasses(bank, ctx, campaign, itembank.Items(items...), rapid.Int64Range(1, 200).Draw(rt, "rows a pass"))
		must(err)
		for _, call := range store.Calls() {
			if !slices.Contains([]string{"Campaign", "LatestLoad", "ListItemRows", "ItemRow"}, call) {
				rt.Fatalf("a dry run called %s", call)
			}
		}
		done, err := bank.Load(ctx, campaign, itembank.Items(items...), nil)
		must(err)
		if said != done {
			rt.Fatalf("the dry run said %+v, the load did %+v", said, done)
		}
	})
}

// TestDryRunLooksUpOrLists: a few items are not worth a list of thousands.
func TestDryRunLooksUpOrLists(t *testing.T) {
	t.Parallel()
	store := hookedFile(t)
	bank := itembank.New(store)
	if _, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{}); err != nil {
		t.Fatal(err)
	}
	stock := make([]string, 3500)
	for i := range stock {
		stock[i] = fmt.Sprintf("code-%d", i)
	}
	if _, err := bank.Load(t.Context(), "spring", itembank.Items(stock...), nil); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		items   []string
		lookups int // in a page of 1,000 are fewer than all of the items
		want    itembank.Tally
	}{
		{[]string{"code-1", "new", "code-2", "new", "code-1"}, 1, itembank.Tally{Rows: 5, Known: 3, Added: 1, Repeated: 1}},
		{append([]string{"new"}, stock...), 0, itembank.Tally{Rows: 3501, Known: 3500, Added: 1}},
	} {
		store.Calls()
		report, err := bank.DryRun(t.Context(), "spring", itembank.Items(test.items...))
		if err != nil || report.Tally != test.want {
			t.Errorf("want %+v, got %+v, %v", test.want, report, err)
		}
		calls := map[string]int{}
		for _, call := range store.Calls() {
			calls[call]++
		}
		if calls["ItemRow"] < test.lookups || test.lookups == 0 && calls["ItemRow"] > 0 || test.lookups > 0 && calls["ListItemRows"] > 1 {
			t.Errorf("%d items: %v", len(test.items), calls)
		}
	}
}

// TestDryRunErrors: as those of a load.
func TestDryRunErrors(t *testing.T) {
	t.Parallel()
	store := hookedFile(t)
	bank := itembank.New(store)
	if _, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{}); err != nil {
		t.Fatal(err)
	}
	changing := func(later ...string) itembank.Source {
		sources := []itembank.Source{itembank.Items("A-1", "A-2"), itembank.Items(later...)}
		return func() iter.Seq2[itembank.Line, error] {
			next := sources[0]
			sources = sources[1:]
			return next()
		}
	}
	for _, test := range []struct {
		name, campaign string
		source         itembank.Source
		want           error
	}{
		{"no such campaign", "autumn", itembank.Items("A-1"), itembank.ErrNoCampaign},
		{"a bad name", "Spring!", itembank.Items("A-1"), itembank.ErrInvalid},
		{"nothing", "spring", itembank.Items(), itembank.ErrInvalid},
		{"a bad line", "spring", itembank.Items("A-1", ""), itembank.ErrInvalid},
		{"other items", "spring", changing("A-1", "A-3"), itembank.ErrInputChanged},
		{"fewer items", "spring", changing("A-1"), itembank.ErrInputChanged},
	} {
		if _, err := bank.DryRun(t.Context(), test.campaign, test.source); !errors.Is(err, test.want) {
			t.Errorf("%s: want %v, got %v", test.name, test.want, err)
		}
	}
	for _, call := range []string{"Campaign", "LatestLoad", "ListItemRows"} {
		store.Before = func(method string) error {
			if method == call {
				return itembank.ErrTryAgain
			}
			return nil
		}
		if _, err := bank.DryRun(t.Context(), "spring", itembank.Items("A-1")); !errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("%s failed, and the dry run says %v", call, err)
		}
	}
}
