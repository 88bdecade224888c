package sqlitestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// Two programs share a file. Ann asks both of them, and has one claim.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "itembank")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "codes.db")

	store, err := sqlitestore.Create(ctx, file)
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

	other, err := sqlitestore.Open(ctx, file) // Open wants the file to exist
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for _, b := range []*itembank.Operator{bank, itembank.NewOperator(other)} {
		grant, err := b.Claim(ctx, "spring", "ann")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(grant.Claim.Items[0], grant.Replayed)
	}
	// Output:
	// SAVE-10 false
	// SAVE-10 true
}
