package demo

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// demoPatience limits the time of a request to the Kinesis emulator. On a busy machine the emulator takes many seconds
// for a request that AWS answers at once.
const demoPatience = 10 * time.Minute

// streams are two streams of a local Kinesis. The handler reads one and writes to the other.
type streams struct {
	client       *kinesis.Client
	handler      *recordhandler.Handler
	source, sink string            // names
	in           string            // ARN of the source
	progress     map[string]string // as in read
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
	s := &streams{client: client, source: d.campaign + "-in", sink: d.campaign + "-out", progress: map[string]string{}}
	if s.in, err = s.create(ctx, s.source, 2); err != nil {
		return nil, err
	}
	if _, err = s.create(ctx, s.sink, 2); err != nil {
		return nil, err
	}
	s.handler, err = d.openHandler(ctx, client, s.sink)
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
	return s.read(ctx, s.source, s.progress, func(shard string, records []types.Record) error {
		return s.handle(ctx, shard, records)
	})
}

// read passes the records of a stream to a function, shard by shard. progress has the last sequence number that was read
// from each shard.
func (s *streams) read(
	ctx context.Context, stream string, progress map[string]string, take func(shard string, records []types.Record) error,
) error {
	list, err := s.client.ListShards(ctx, &kinesis.ListShardsInput{StreamName: &stream})
	if err != nil {
		return err
	}
	for _, shard := range list.Shards {
		begin := &kinesis.GetShardIteratorInput{
			StreamName: &stream, ShardId: shard.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
		}
		if last := progress[*shard.ShardId]; last != "" {
			begin.ShardIteratorType, begin.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &last
		}
		at, err := s.client.GetShardIterator(ctx, begin)
		if err != nil {
			return err
		}
		for next, behind := at.ShardIterator, true; behind; {
			page, err := s.client.GetRecords(ctx, &kinesis.GetRecordsInput{
				ShardIterator: next, Limit: aws.Int32(int32(s.load().batches)),
			})
			if err != nil {
				return err
			}
			if n := len(page.Records); n > 0 {
				if err := take(*shard.ShardId, page.Records); err != nil {
					return err
				}
				progress[*shard.ShardId] = *page.Records[n-1].SequenceNumber
			}
			next, behind = page.NextShardIterator, len(page.Records) > 0 || aws.ToInt64(page.MillisBehindLatest) > 0
		}
	}
	return nil
}

// handle hands records of the first stream to the handler.
func (s *streams) handle(ctx context.Context, shard string, records []types.Record) error {
	var event events.KinesisEvent
	for _, r := range records {
		event.Records = append(event.Records,
			eventRecord(s.in, shard, *r.SequenceNumber, *r.PartitionKey, r.Data, *r.ApproximateArrivalTimestamp))
	}
	return handle(ctx, s.handler, event)
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
	err = s.read(ctx, s.sink, map[string]string{}, func(_ string, records []types.Record) error {
		for _, r := range records {
			payloads, err := userPayloads(r.Data)
			if err != nil {
				return err
			}
			for _, payload := range payloads {
				id, err := demoID(payload)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}
