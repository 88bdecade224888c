package kpl_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/oncebox/oncebox/pkg/kpl"
)

func Example() {
	var encoder kpl.Encoder
	encoder.Add(kpl.UserRecord{Data: []byte("order-1"), PartitionKey: []byte("ann")})
	encoder.Add(kpl.UserRecord{Data: []byte("order-2"), PartitionKey: []byte("bob")})
	data := encoder.Bytes()

	var decoder kpl.Decoder
	for _, data := range [][]byte{data, []byte("order-3")} {
		records, aggregated, err := decoder.Decode(data)
		switch {
		case errors.Is(err, kpl.ErrPoison):
			log.Fatal("store the record as a dead letter: ", err)
		case !aggregated:
			fmt.Printf("plain %s\n", data)
		}
		for i, r := range records {
			fmt.Printf("sub-sequence %d: %s, key %s\n", i, r.Data, r.PartitionKey)
		}
	}
	// Output:
	// sub-sequence 0: order-1, key ann
	// sub-sequence 1: order-2, key bob
	// plain order-3
}
