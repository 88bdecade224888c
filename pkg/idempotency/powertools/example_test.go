package powertools_test

import (
	"fmt"

	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// The key of an order, as functions with Powertools in both languages calculate it.
func Example() {
	for _, f := range []powertools.Format{powertools.Python, powertools.TypeScript} {
		key, err := f.Key([]byte(`{"order": "order-1", "items": 2}`))
		fmt.Println(key, f.IsKey(key), err)
	}
	// Output:
	// 627f4b0e5a47f817bd12fcf7261cc119 true <nil>
	// BeULleaaKhyov9fEL1U+LA== true <nil>
}
