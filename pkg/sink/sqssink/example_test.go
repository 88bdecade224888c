package sqssink_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

const queueURL = "https://sqs.eu-west-1.amazonaws.com/123456789012/unique-clicks.fifo"

// The sink of a Lambda function.
func ExampleNewClient() {
	ctx := context.Background()
	client, err := sqssink.NewClient(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	sink, err := sqssink.New(client, queueURL, sqssink.WithEncoding(sqssink.EncodingBase64))
	if err != nil {
		log.Fatal(err)
	}
	sent, err := sink.Send(ctx, []dedupe.Output{{ID: "click-1", PartitionKey: "ann", Data: []byte{0xff, 0x00}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Delivered, sent.Repeated)
}

// The queue refuses the first message of ann the first time, so the second one waits for it. Check finds the records
// that the queue can never take.
func Example() {
	ctx := context.Background()
	sink, err := sqssink.New(&busyQueue{}, queueURL)
	if err != nil {
		log.Fatal(err)
	}
	err = sink.Check(ctx, dedupe.Output{ID: "click-0", Data: []byte{0xff, 0x00}})
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		fmt.Println("dead letter:", poison.Reason)
	}
	sent, err := sink.Send(ctx, []dedupe.Output{
		{ID: "click-1", PartitionKey: "ann", Data: []byte("click-1")},
		{ID: "click-2", PartitionKey: "bob", Data: []byte("click-2")},
		{ID: "click-3", PartitionKey: "ann", Data: []byte("click-3")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent a second time:", sent.Repeated)
	// Output:
	// dead letter: it has bytes that a text message of SQS cannot have
	// takes click-2 of bob
	// takes click-1 of ann
	// takes click-3 of ann
	// sent a second time: 0
}

// busyQueue imitates an *sqs.Client. It refuses the first message of its first request.
type busyQueue struct{ requests int }

func (q *busyQueue) SendMessageBatch(
	_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options),
) (*sqs.SendMessageBatchOutput, error) {
	q.requests++
	out := &sqs.SendMessageBatchOutput{}
	for i, m := range in.Entries {
		if q.requests == 1 && i == 0 {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: m.Id, Code: aws.String("RequestThrottled")})
			continue
		}
		fmt.Println("takes", *m.MessageBody, "of", *m.MessageGroupId)
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: m.Id})
	}
	return out, nil
}
