package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/records/eventsource"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// demoPatience limits the time of a request to the Kinesis emulator, and of an invocation of the handler. On a busy
// machine the emulator takes many seconds for a request that AWS answers at once.
const demoPatience = 10 * time.Minute

// streams are two streams of a local Kinesis. The handler reads one and writes to the other.
type streams struct {
	client   *kinesis.Client
	handler  *recordhandler.Handler
	source   string // name
	in, out  string // ARNs
	progress *eventsource.Checkpoint
}

// openKinesis makes the streams if the environment names an endpoint. Without one it
// returns nil: the demo makes nothing in an AWS account.
func (d *demo) openKinesis(ctx context.Context) (demoStream, error) {
	client, err := kinesissink.NewClient(ctx, sdkconfig.Load)
	if err != nil || client.Options().BaseEndpoint == nil {
		return nil, err
	}
	client = kinesis.New(client.Options(), func(o *kinesis.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(demoPatience)
	})
	s := &streams{client: client, source: d.campaign + "-in", progress: new(eventsource.Checkpoint)}
	sink := d.campaign + "-out"
	if s.in, err = s.create(ctx, s.source, 2); err != nil {
		return nil, err
	}
	if s.out, err = s.create(ctx, sink, 2); err != nil {
		return nil, err
	}
	s.handler, err = d.openHandler(ctx, client, sink)
	return s, err
}

// openHandler makes the handler as recordhandler.Open does, but with the patient client.
func (d *demo) openHandler(
	ctx context.Context, client *kinesis.Client, stream string,
) (*recordhandler.Handler, error) {
	options, err := d.recordSettings("kinesis:" + stream)
	if err != nil {
		return nil, err
	}
	ledger, err := d.openRecords(ctx, options)
	if err != nil {
		return nil, err
	}
	sink, err := kinesissink.New(client, stream)
	if err != nil {
		return nil, err
	}
	folder, err := deadletter.NewFolder(d.deadLetters())
	if err != nil {
		return nil, err
	}
	parts := dedupe.Parts{
		Ledger: ledger, Sink: sink, DeadLetters: deadletter.New(folder), Acks: ledger, Consumers: ledger,
	}
	return recordhandler.New(parts, options, slog.New(slog.DiscardHandler))
}

func (s *streams) create(ctx context.Context, name string, shards int32) (arn string, err error) {
	create := &kinesis.CreateStreamInput{StreamName: &name, ShardCount: &shards}
	if _, err := s.client.CreateStream(ctx, create); err != nil {
		return "", fmt.Errorf("create stream: %w", err)
	}
	describe := &kinesis.DescribeStreamInput{StreamName: &name}
	out, err := kinesis.NewStreamExistsWaiter(s.client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay = 50 * time.Millisecond
	}).WaitForOutput(ctx, describe, demoPatience)
	if err != nil {
		return "", fmt.Errorf("create stream: %w", err)
	}
	return *out.StreamDescription.StreamARN, nil
}

func (s *streams) path() string {
	return "from a Kinesis stream through the dedupe function into another stream"
}

func (s *streams) load() demoLoad { return demoOnKinesis }

func (s *streams) send(ctx context.Context, records [][]byte) error {
	for batch := range slices.Chunk(records, s.load().batches) {
		in := &kinesis.PutRecordsInput{StreamName: &s.source}
		for i, data := range batch {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: data, PartitionKey: aws.String(fmt.Sprint(i))})
		}
		out, err := s.client.PutRecords(ctx, in)
		if err != nil {
			return err
		}
		if failed := aws.ToInt32(out.FailedRecordCount); failed > 0 {
			return fmt.Errorf("the demo failed: the local Kinesis refused %d records", failed)
		}
	}
	return s.poll(ctx, s.in, s.progress, eventsource.Handler(s.handler.Handle))
}

// poll passes the records of a stream after the checkpoint to a function. If the function does not process a record,
// the demo ends.
func (s *streams) poll(
	ctx context.Context, arn string, progress *eventsource.Checkpoint, f eventsource.Function,
) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := eventsource.Mapping{
		Client: s.client, StreamARN: arn, Function: f, BatchSize: s.load().batches, ReportBatchItemFailures: true,
		Retries: new(0), Timeout: demoPatience, Checkpoint: progress, PollPause: 10 * time.Millisecond, StopWhenDrained: true,
		OnFailure: func(_ context.Context, d eventsource.Discard) error {
			stop(fmt.Errorf("the demo failed: %d records of %s from %s on were not delivered: %w",
				len(d.Records), d.Shard, *d.Records[0].SequenceNumber, d.Err))
			return nil
		},
	}.Run(ctx)
	return cmp.Or(context.Cause(ctx), err)
}

// userPayloads returns the payloads in a record of the destination. Records of a KPL aggregate are aggregated again.
func userPayloads(data []byte) (payloads [][]byte, err error) {
	parts, aggregated, err := new(kpl.Decoder).Decode(data)
	if !aggregated {
		return [][]byte{data}, err
	}
	for _, part := range parts {
		payloads = append(payloads, part.Data)
	}
	return payloads, err
}

func (s *streams) delivered(ctx context.Context) (ids []string, err error) {
	var mu sync.Mutex // the shards are polled at the same time
	err = s.poll(ctx, s.out, nil, func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
		var event events.KinesisEvent
		if err := json.Unmarshal(raw, &event); err != nil {
			return nil, err
		}
		var errs []error
		mu.Lock()
		defer mu.Unlock()
		for _, r := range event.Records {
			payloads, err := userPayloads(r.Kinesis.Data)
			errs = append(errs, err)
			for _, payload := range payloads {
				id, err := demoID(payload)
				ids, errs = append(ids, id), append(errs, err)
			}
		}
		return nil, errors.Join(errs...)
	})
	return ids, err
}
