package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/eventsource"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// streams are two streams of a local Kinesis with the handler in between.
type streams struct {
	client  *kinesis.Client
	handler *kinesishandler.Handler
	source  string // name
	in, out string // ARNs
}

// openKinesis makes the streams, where an endpoint of its own is set; else it
// returns nil: the demo makes nothing in an account.
func (d *demo) openKinesis(ctx context.Context) (demoStream, error) {
	client, err := kinesissink.NewClient(ctx, sdkconfig.Load)
	if err != nil || client.Options().BaseEndpoint == nil {
		return nil, err
	}
	d.via = "a Kinesis stream, the Lambda handler and another stream"
	s := &streams{client: client, source: d.campaign + "-in"}
	sink := d.campaign + "-out"
	if s.in, err = s.create(ctx, s.source, 2); err != nil {
		return nil, err
	}
	if s.out, err = s.create(ctx, sink, 2); err != nil {
		return nil, err
	}
	options, err := d.recordSettings("kinesis:"+sink, "ONCEBOX_CHECKPOINT=on")
	if err != nil {
		return nil, err
	}
	s.handler, err = d.openRecords(ctx, options)
	return s, err
}

func (s *streams) create(ctx context.Context, name string, shards int32) (arn string, err error) {
	if _, err := s.client.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: &name, ShardCount: &shards}); err != nil {
		return "", fmt.Errorf("create stream: %w", err)
	}
	describe := &kinesis.DescribeStreamInput{StreamName: &name}
	out, err := kinesis.NewStreamExistsWaiter(s.client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay = 50 * time.Millisecond
	}).WaitForOutput(ctx, describe, time.Minute)
	if err != nil {
		return "", fmt.Errorf("create stream: %w", err)
	}
	return *out.StreamDescription.StreamARN, nil
}

func (s *streams) send(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		n := min(demoBatch, len(records))
		in := &kinesis.PutRecordsInput{StreamName: &s.source}
		for i, data := range records[:n] {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: data, PartitionKey: aws.String(fmt.Sprint(i))})
		}
		out, err := s.client.PutRecords(ctx, in)
		if err != nil {
			return err
		}
		if failed := aws.ToInt32(out.FailedRecordCount); failed > 0 {
			return fmt.Errorf("the local Kinesis refused %d records", failed)
		}
		records = records[n:]
	}
	return s.poll(ctx, s.in, eventsource.Handler(s.handler.Handle))
}

// poll hands all records of a stream to a function, from the first on. What was
// handed over before comes again, and the checkpoint skips it. Nothing is given up in
// silence: what fails ends the demo.
func (s *streams) poll(ctx context.Context, arn string, f eventsource.Function) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := eventsource.Mapping{
		Client: s.client, StreamARN: arn, Function: f, BatchSize: demoBatch, ReportBatchItemFailures: true,
		Retries: new(0), Timeout: time.Minute, PollPause: 10 * time.Millisecond, StopWhenDrained: true,
		OnFailure: func(_ context.Context, d eventsource.Discard) error {
			stop(fmt.Errorf("%d records of %s from %s on were not delivered: %w", len(d.Records), d.Shard, *d.Records[0].SequenceNumber, d.Err))
			return nil
		},
	}.Run(ctx)
	return cmp.Or(context.Cause(ctx), err)
}

func (s *streams) delivered(ctx context.Context) (ids []string, err error) {
	var mu sync.Mutex // the shards are polled at the same time
	err = s.poll(ctx, s.out, func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
		var event events.KinesisEvent
		if err := json.Unmarshal(raw, &event); err != nil {
			return nil, err
		}
		var errs []error
		mu.Lock()
		defer mu.Unlock()
		for _, r := range event.Records {
			id, err := demoID(r.Kinesis.Data)
			ids, errs = append(ids, id), append(errs, err)
		}
		return nil, errors.Join(errs...)
	})
	return ids, err
}
