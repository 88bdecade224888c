package kinesissink_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// The sink of a Lambda function.
func ExampleNewClient() {
	ctx := context.Background()
	client, err := kinesissink.NewClient(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	sink, err := kinesissink.New(client, "unique-clicks", kinesissink.WithAggregation(kinesissink.AggregateAlways))
	if err != nil {
		log.Fatal(err)
	}
	sent, err := sink.Send(ctx, []dedupe.Output{{ID: "click-1", PartitionKey: "ann", Data: []byte(`{"id":"click-1"}`)}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Delivered, sent.Repeated)
}

// The stream refuses a record the first time, so the sink sends that record again. Check finds the records that the
// stream can never take.
func Example() {
	ctx := context.Background()
	sink, err := kinesissink.New(&busyStream{}, "unique-clicks")
	if err != nil {
		log.Fatal(err)
	}
	err = sink.Check(ctx, dedupe.Output{PartitionKey: "ann", Data: make([]byte, 2<<20)})
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		fmt.Println("dead letter:", poison.Reason)
	}
	sent, err := sink.Send(ctx, []dedupe.Output{
		{ID: "click-1", PartitionKey: "ann", Data: []byte("click-1")},
		{ID: "click-2", PartitionKey: "bob", Data: []byte("click-2")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent a second time:", sent.Repeated)
	// Output:
	// dead letter: it is too large for a record of the sink's stream
	// takes click-1
	// takes click-2
	// sent a second time: 0
}

// busyStream imitates a *kinesis.Client. It refuses the second record of its first request.
type busyStream struct{ requests int }

func (s *busyStream) PutRecords(
	_ context.Context, in *kinesis.PutRecordsInput, _ ...func(*kinesis.Options),
) (*kinesis.PutRecordsOutput, error) {
	s.requests++
	out := &kinesis.PutRecordsOutput{FailedRecordCount: aws.Int32(0)}
	for i, r := range in.Records {
		if s.requests == 1 && i == 1 {
			*out.FailedRecordCount++
			out.Records = append(out.Records, types.PutRecordsResultEntry{
				ErrorCode: aws.String("ProvisionedThroughputExceededException"),
			})
			continue
		}
		fmt.Printf("takes %s\n", r.Data)
		out.Records = append(out.Records, types.PutRecordsResultEntry{
			SequenceNumber: aws.String("1"), ShardId: aws.String("shardId-000000000000"),
		})
	}
	return out, nil
}

func (s *busyStream) ListShards(
	context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options),
) (*kinesis.ListShardsOutput, error) {
	return nil, errors.New("only needed for aggregates")
}
