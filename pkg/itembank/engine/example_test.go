package engine_test

import (
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// An engine stores an item under its hash, in the shard that the hash chooses.
func ExampleHashItem() {
	h := engine.HashItem("SAVE-10")
	parsed, err := engine.ParseHash(h.String())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h, "is in shard", h.ShardOf(16), "of 16")
	fmt.Println(parsed == h)
	// Output:
	// 762bbdb0162ca04cd409965b16dbb1bb is in shard 11 of 16
	// true
}
