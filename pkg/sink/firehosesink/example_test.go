package firehosesink_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/firehose/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
)

// The sink of a Lambda function.
func ExampleNewClient() {
	ctx := context.Background()
	client, err := firehosesink.NewClient(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	sink, err := firehosesink.New(client, "unique-clicks")
	if err != nil {
		log.Fatal(err)
	}
	sent, err := sink.Send(ctx, []dedupe.Output{{ID: "click-1", Data: []byte(`{"id":"click-1"}`)}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Delivered, sent.Repeated)
}

// Firehose refuses a record the first time, so the sink sends that record again. Check finds the records that
// Firehose can never take.
func Example() {
	ctx := context.Background()
	sink, err := firehosesink.New(&busyFirehose{}, "unique-clicks")
	if err != nil {
		log.Fatal(err)
	}
	err = sink.Check(ctx, dedupe.Output{Data: make([]byte, 2<<20)})
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		fmt.Println("dead letter:", poison.Reason)
	}
	sent, err := sink.Send(ctx, []dedupe.Output{
		{ID: "click-1", Data: []byte(`{"id":"click-1"}`)},
		{ID: "click-2", Data: []byte(`{"id":"click-2"}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent a second time:", sent.Repeated)
	// Output:
	// dead letter: it is too large for a record of a Firehose stream
	// takes "{\"id\":\"click-1\"}\n"
	// takes "{\"id\":\"click-2\"}\n"
	// sent a second time: 0
}

// busyFirehose imitates a *firehose.Client. It refuses the second record of its first request.
type busyFirehose struct{ requests int }

func (f *busyFirehose) PutRecordBatch(
	_ context.Context, in *firehose.PutRecordBatchInput, _ ...func(*firehose.Options),
) (*firehose.PutRecordBatchOutput, error) {
	f.requests++
	out := &firehose.PutRecordBatchOutput{FailedPutCount: aws.Int32(0)}
	for i, r := range in.Records {
		if f.requests == 1 && i == 1 {
			*out.FailedPutCount++
			out.RequestResponses = append(out.RequestResponses, types.PutRecordBatchResponseEntry{
				ErrorCode: aws.String("ServiceUnavailableException"),
			})
			continue
		}
		fmt.Printf("takes %q\n", r.Data)
		out.RequestResponses = append(out.RequestResponses, types.PutRecordBatchResponseEntry{RecordId: aws.String("1")})
	}
	return out, nil
}
