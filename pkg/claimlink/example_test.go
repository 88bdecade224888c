package claimlink_test

import (
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/claimlink"
)

func Example() {
	key, err := claimlink.NewKey() // in a back end; PEM stores it
	check(err)
	expires := time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	token, err := key.Sign(claimlink.Claims{Claimant: "customer-17", Campaign: "spring", Expires: expires})
	check(err)

	public, err := key.Public()
	check(err)
	keys, err := claimlink.ParseKeys(public) // in the server
	check(err)
	claims, err := keys.Verify(token, expires.AddDate(0, 0, -1))
	fmt.Println(claims.Claimant, claims.Campaign, err)
	_, err = keys.Verify(token, expires)
	fmt.Println(err)
	// Output:
	// customer-17 spring <nil>
	// claimlink: the link has expired
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
