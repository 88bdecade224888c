package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func Example() {
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

	bank := itembank.NewOperator(store)
	if _, _, err := bank.CreateCampaign(ctx, "spring", itembank.Settings{}); err != nil {
		log.Fatal(err)
	}
	if _, err := bank.Load(ctx, "spring", itembank.Items("SAVE-10"), nil); err != nil {
		log.Fatal(err)
	}

	first, err := bank.Claim(ctx, "spring", "ann")
	if err != nil {
		log.Fatal(err)
	}
	again, err := bank.Claim(ctx, "spring", "ann") // a retry, a reload, another day
	if err != nil {
		log.Fatal(err)
	}
	_, err = bank.Claim(ctx, "spring", "bob")

	fmt.Println("ann has", first.Claim.Items[0], "- replayed:", first.Replayed)
	fmt.Println("ann has", again.Claim.Items[0], "- replayed:", again.Replayed)
	fmt.Println("bob:", err, "- refused:", errors.Is(err, itembank.ErrRefused))
	// Output:
	// ann has SAVE-10 - replayed: false
	// ann has SAVE-10 - replayed: true
	// bob: sold out - refused: true
}

func ExampleOperator_DryRun() {
	ctx := context.Background()
	bank, remove := campaignWith(ctx, "spring", itembank.Settings{}, "SAVE-10", "SAVE-20")
	defer remove()
	would, err := bank.DryRun(ctx, "spring", itembank.Items("SAVE-20", "SAVE-30", "SAVE-30"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a load would add %d, know %d, and meet %d again\n", would.Added, would.Known, would.Repeated)
	// Output:
	// a load would add 1, know 1, and meet 1 again
}

// campaignWith makes a store in a new folder, and a campaign with items in it. remove removes the folder.
func campaignWith(
	ctx context.Context, campaign string, settings itembank.Settings, items ...string,
) (bank *itembank.Operator, remove func()) {
	dir, err := os.MkdirTemp("", "itembank")
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlitestore.Create(ctx, filepath.Join(dir, "items.db"))
	if err != nil {
		log.Fatal(err)
	}
	bank = itembank.NewOperator(store)
	if _, _, err := bank.CreateCampaign(ctx, campaign, settings); err != nil {
		log.Fatal(err)
	}
	if _, err := bank.Load(ctx, campaign, itembank.Items(items...), nil); err != nil {
		log.Fatal(err)
	}
	return bank, func() {
		_ = store.Close()
		_ = os.RemoveAll(dir)
	}
}
