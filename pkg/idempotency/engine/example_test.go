package engine_test

import (
	"fmt"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// An engine can store a row under the digest of its key. A name that ends where another namespace begins is another key.
func ExampleKey_Digest() {
	one := engine.Key{Namespace: "shop", Name: "-1"}
	other := engine.Key{Namespace: "shop-", Name: "1"}
	fmt.Println(len(one.Digest()), one.Digest() == other.Digest())
	// Output: 64 false
}
