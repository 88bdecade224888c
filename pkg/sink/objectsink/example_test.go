package objectsink_test

import (
	"context"
	"fmt"
	"log"

	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// A batch comes twice. The second time it has one record more, and comes to another container. In production, replace
// the storage in memory by a Bucket: objectsink.NewBucket(client, "my-bucket", "events/").
func Example() {
	ctx, storage := context.Background(), memobjects.New()
	key := dedupe.ChainKey{
		Scope: "orders", Stream: dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"}, Shard: "shard-1",
	}
	for _, sequences := range [][]string{{"17", "18"}, {"17", "18", "19"}} {
		sink, err := objectsink.New(storage, objectsink.Options{})
		if err != nil {
			log.Fatal(err)
		}
		chain, err := sink.Open(ctx, key, sequences[0], sequences[len(sequences)-1])
		if err != nil {
			log.Fatal(err)
		}
		var records []dedupe.ChainRecord
		for _, sequence := range sequences {
			if !chain.Done(sequence) {
				output := dedupe.Output{Data: []byte(`{"n":` + sequence + `}`)}
				records = append(records, dedupe.ChainRecord{Sequence: sequence, Outputs: []dedupe.Output{output}})
			}
		}
		if _, err := chain.Commit(ctx, records); err != nil {
			log.Fatal(err)
		}
	}
	err := objectsink.List(ctx, storage, objectsink.Filter{}, func(e objectsink.Entry, err error) error {
		fmt.Println(e.Name, "has handled", e.First, "to", e.Last)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 001-0-00000000 has handled 17 to 18
	// 002-18-00000000 has handled 19 to 19
}
