package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "records-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := run(context.Background(), os.Stdout, filepath.Join(dir, "seen.db"), filepath.Join(dir, "dead")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"id":"order-1","amount":"5.00","sent_at":1}
	// {"id":"58b993cf-137f-5b83-876c-f603ffe3d5d3","amount":"9.00","sent_at":3,"contexts":[{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":"order-1"}}]}
	// new 1, natural 1, synthetic 1, dead-lettered 1
}
