package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// A shop holds a seat for 15 minutes, and confirms it when the customer has paid.
func ExampleBank_Confirm() {
	ctx := context.Background()
	bank, remove := campaignWith(ctx, "concert", itembank.Settings{Hold: 15 * time.Minute}, "row 1 seat 1")
	defer remove()

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

// A visitor chooses two seats. They are one claim: both or none.
func ExampleChoosing() {
	ctx := context.Background()
	bank, remove := campaignWith(ctx, "concert", itembank.Settings{Choice: true}, "12A", "12B", "12C")
	defer remove()

	grant, err := bank.Claim(ctx, "concert", "ann", itembank.Choosing("12A", "12B"))
	fmt.Println("ann:", grant.Claim.Items, err)

	_, err = bank.Claim(ctx, "concert", "bob", itembank.Choosing("12B", "12C"))
	fmt.Println("bob:", err, "-", errors.Is(err, itembank.ErrItemTaken))

	// Ann already has a claim. She keeps it, whatever she chooses now.
	again, err := bank.Claim(ctx, "concert", "ann", itembank.Choosing("12C"))
	fmt.Println("ann:", again.Claim.Items, again.Replayed, err)
	// Output:
	// ann: [12A 12B] <nil>
	// bob: the item is not free - true
	// ann: [12A 12B] true <nil>
}

// Each customer can have two codes. The caller says which of the two a request is about, so that a repeated request
// gets the same code.
func ExampleInSlot() {
	ctx := context.Background()
	bank, remove := campaignWith(ctx, "spring", itembank.Settings{PerClaimant: 2}, "SAVE-1", "SAVE-2", "SAVE-3")
	defer remove()

	var codes []string
	for _, slot := range []int{1, 2, 2} {
		grant, err := bank.Claim(ctx, "spring", "ann", itembank.InSlot(slot))
		if err != nil {
			log.Fatal(err)
		}
		codes = append(codes, grant.Claim.Items[0])
	}
	fmt.Println("slots 1 and 2 have the same code:", codes[0] == codes[1])
	fmt.Println("slot 2 has the same code again:", codes[1] == codes[2])

	_, err := bank.Claim(ctx, "spring", "ann", itembank.InSlot(3))
	fmt.Println("slot 3 is refused:", errors.Is(err, itembank.ErrInvalid))
	// Output:
	// slots 1 and 2 have the same code: false
	// slot 2 has the same code again: true
	// slot 3 is refused: true
}

// A customer wants to be forgotten: their claim is released, and an old link gets no second code.
func ExampleOperator_Forget() {
	ctx := context.Background()
	bank, remove := campaignWith(ctx, "spring", itembank.Settings{}, "SAVE-1", "SAVE-2")
	defer remove()
	if _, err := bank.Claim(ctx, "spring", "ann"); err != nil {
		log.Fatal(err)
	}

	report, err := bank.Forget(ctx, "spring", "ann", itembank.ForgetOptions{}) // the scope has the name of its campaign
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", len(report.Released), "kept:", len(report.Kept))

	_, err = bank.Claim(ctx, "spring", "ann")
	fmt.Println("ann again:", err)
	// Output:
	// released: 1 kept: 0
	// ann again: not eligible: the claimant is blocked in the scope of the campaign
}
