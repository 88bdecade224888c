package ndjsonsink_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ndjson")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "out.ndjson")
	sink, err := ndjsonsink.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	outputs := []dedupe.Output{
		{ID: "order-1", Data: []byte(`{"id":"order-1"}`)},
		{ID: "order-2", Data: []byte(`{"id":"order-2"}`)},
	}
	for _, o := range outputs {
		if err := sink.Check(ctx, o); err != nil { // a record with a line break
			log.Fatal(err)
		}
	}
	if _, err := sink.Send(ctx, outputs); err != nil {
		log.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		log.Fatal(err)
	}
	lines, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(lines))
	// Output:
	// {"id":"order-1"}
	// {"id":"order-2"}
}
