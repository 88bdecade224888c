package deadletter_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// A store in a folder, as on a developer's machine. Open makes one in a bucket: s3://BUCKET/PREFIX.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dead")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	folder, err := deadletter.NewFolder(dir)
	if err != nil {
		log.Fatal(err)
	}
	store := deadletter.New(folder)

	position := dedupe.Position{
		Stream: dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"},
		Shard:  "shard-1", Sequence: "17", Sub: dedupe.Plain,
	}
	letter := dedupe.DeadLetter{
		Owner: position.Owner().String(), Scope: "orders", Position: position, Reason: "not valid JSON", PartitionKey: "ann",
		Arrival: time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC), Data: []byte(`{"id":`),
	}
	for range 2 { // the second time, as after a lost answer, the object exists
		stored, err := store.Put(ctx, []dedupe.DeadLetter{letter})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("stored", stored)
	}

	objects, err := os.ReadDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, object := range objects {
		read, err := store.Read(ctx, object.Name())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s: %s\n", read.Owner, read.Reason, read.Data)
	}
	// Output:
	// stored 1
	// stored 1
	// 123456789012/eu-west-1/orders/shard-1/17: not valid JSON: {"id":
}
