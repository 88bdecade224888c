package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// A shop holds a seat for 15 minutes, and confirms it when the customer has paid.
func ExampleBank_Confirm() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "itembank")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	store, err := sqlitestore.Create(ctx, filepath.Join(dir, "seats.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	bank := itembank.NewOperator(store)
	if _, _, err := bank.CreateCampaign(ctx, "concert", itembank.Settings{Hold: 15 * time.Minute}); err != nil {
		log.Fatal(err)
	}
	if _, err := bank.Load(ctx, "concert", itembank.Items("row 1 seat 1"), nil); err != nil {
		log.Fatal(err)
	}

	hold, err := bank.Claim(ctx, "concert", "ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ann holds", hold.Claim.Items[0], "for", hold.Claim.EndsAt.Sub(hold.Claim.ClaimedAt))

	// ... ann pays ...

	claim, err := bank.Confirm(ctx, "concert", "ann", hold.Claim.ID)
	if err != nil {
		log.Fatal(err) // ErrNoClaim, ErrClaimEnded: too late
	}
	fmt.Println("ann has", claim.Items[0], "- ends:", !claim.EndsAt.IsZero())

	_, err = bank.ReleaseHold(ctx, "concert", "ann", claim.ID)
	fmt.Println("ann wants to give it back:", err, "-", errors.Is(err, itembank.ErrConfirmed))
	// Output:
	// ann holds row 1 seat 1 for 15m0s
	// ann has row 1 seat 1 - ends: false
	// ann wants to give it back: the claim is confirmed, so only an operator can release it - true
}
