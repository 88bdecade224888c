// Command library hands out voucher codes with the Go library, without AWS. docs/library.md shows it.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func main() {
	ctx := context.Background()
	store, err := sqlitestore.Create(ctx, "shop.db")
	check(err)
	bank := itembank.NewOperator(store)
	_, _, err = bank.CreateCampaign(ctx, "spring", itembank.Settings{})
	check(err)
	_, err = bank.Load(ctx, "spring", itembank.Items("SAVE-10"), nil)
	check(err)

	for range 2 { // both return the same claim
		grant, err := bank.Claim(ctx, "spring", "ann")
		check(err)
		fmt.Println(grant.Claim.Items[0], grant.Replayed)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
