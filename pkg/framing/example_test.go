package framing_test

import (
	"context"
	"fmt"
	"log"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/framing"
)

// A payload that Firehose has joined is opened, and its remaining records are joined in the same way.
func Example() {
	payload := []byte(`{"id":"a"}{"id":"b"}{"id":"a"}`)
	records, _, err := framing.Concatenated{}.Open(context.Background(), payload, dedupe.NewRoom())
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Printf("%s\n", r)
	}
	left, err := framing.Concatenated{}.Pack(payload, records[:2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("left: %s\n", left)
	// Output:
	// {"id":"a"}
	// {"id":"b"}
	// {"id":"a"}
	// left: {"id":"a"}{"id":"b"}
}
