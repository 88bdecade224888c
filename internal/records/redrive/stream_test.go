package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TestReadStream checks that exactly the records of a batch are read from a stream.
func TestReadStream(t *testing.T) {
	t.Parallel()
	testengine.CheckOnly(t)
	client := kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(testengine.Kinesis(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	name := aws.String("redrive-" + newScope())
	_, err := client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(1)})
	must(t, err)
	about := &kinesis.DescribeStreamInput{StreamName: name}
	must(t, kinesis.NewStreamExistsWaiter(client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay = 10 * time.Millisecond
	}).Wait(t.Context(), about, 5*time.Minute))
	described, err := client.DescribeStream(t.Context(), about)
	must(t, err)
	arn := *described.StreamDescription.StreamARN
	var sequences []string
	for i := range 10 {
		out, err := client.PutRecord(t.Context(), &kinesis.PutRecordInput{
			StreamName: name, PartitionKey: aws.String("pk"), Data: fmt.Append(nil, "payload ", i),
		})
		must(t, err)
		sequences = append(sequences, *out.SequenceNumber)
	}
	s, err := dedupe.ParseStreamARN(arn)
	must(t, err)
	b := &deadletter.GivenUp{
		StreamARN: arn, Stream: s, Shard: *described.StreamDescription.Shards[0].ShardId,
		First: sequences[2], Last: sequences[6], Size: 5,
	}
	for _, size := range []int{5, 6} { // if the size is wrong, the batch is read up to its last record
		b.Size = size
		records, err := redrive.ReadStream(t.Context(), client, b)
		must(t, err)
		if len(records) != 5 {
			t.Fatalf("%d records", len(records))
		}
		for i, r := range records {
			if r.Sequence != sequences[i+2] || string(r.Data) != fmt.Sprint("payload ", i+2) || r.PartitionKey != "pk" ||
				time.Since(r.Arrival) > time.Hour {
				t.Errorf("record %d: %+v", i, r)
			}
		}
	}
	b.StreamARN = strings.Replace(arn, *name, "gone", 1)
	if _, err := redrive.ReadStream(t.Context(), client, b); !errors.Is(err, redrive.ErrLost) {
		t.Errorf("a stream that is gone: %v", err)
	}
}

// pages is a shard in memory, page by page.
type pages struct {
	all   [][]string // the sequence numbers, by page
	err   error
	calls int
}

func (p *pages) GetShardIterator(
	context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options),
) (*kinesis.GetShardIteratorOutput, error) {
	return &kinesis.GetShardIteratorOutput{ShardIterator: aws.String("next")}, p.err
}

func (p *pages) GetRecords(
	context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options),
) (*kinesis.GetRecordsOutput, error) {
	out := &kinesis.GetRecordsOutput{NextShardIterator: aws.String("next"), MillisBehindLatest: aws.Int64(1)}
	for _, s := range p.all[p.calls] {
		out.Records = append(out.Records, types.Record{
			SequenceNumber: &s, PartitionKey: aws.String("pk"), ApproximateArrivalTimestamp: &epoch,
		})
	}
	if p.calls++; p.calls == len(p.all) {
		out.MillisBehindLatest = aws.Int64(0)
	}
	return out, nil
}

// TestReadStreamPages checks that an empty page is not the end of a shard, and that a record after the batch is the
// end.
func TestReadStreamPages(t *testing.T) {
	t.Parallel()
	b := &deadletter.GivenUp{First: "3", Last: "5", Size: 3}
	for _, test := range []struct {
		pages [][]string
		want  int
		calls int
	}{
		{[][]string{{}, {"3"}, {}, {"4", "5"}, {"6"}}, 3, 4},
		{[][]string{{"4", "5", "6"}}, 2, 1},
		{[][]string{{"4"}, {"7"}, {"8"}}, 1, 2},
		{[][]string{{"6"}, {"7"}}, 0, 1},
		{[][]string{{}, {}}, 0, 2},
	} {
		p := &pages{all: test.pages}
		records, err := redrive.ReadStream(t.Context(), p, b)
		if len(records) != test.want || p.calls != test.calls || (test.want == 0) != errors.Is(err, redrive.ErrLost) {
			t.Errorf("%v: %d records in %d calls, %v", test.pages, len(records), p.calls, err)
		}
	}
	for err, lost := range map[error]bool{
		&types.ResourceNotFoundException{}: true, &types.InvalidArgumentException{}: true, errCrash: false,
		&types.ProvisionedThroughputExceededException{}: false,
	} {
		if _, got := redrive.ReadStream(t.Context(), &pages{err: err}, b); errors.Is(got, redrive.ErrLost) != lost {
			t.Errorf("%T: %v", err, got)
		}
	}
}

// incomplete is a shard with one record.
type incomplete struct {
	pages
	record types.Record
}

func (i *incomplete) GetRecords(
	context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options),
) (*kinesis.GetRecordsOutput, error) {
	return &kinesis.GetRecordsOutput{Records: []types.Record{i.record}}, nil
}

// TestIncompleteRecords checks that a record without a partition key is read, and that a record without a position or
// an arrival is an error and no panic.
func TestIncompleteRecords(t *testing.T) {
	t.Parallel()
	b := &deadletter.GivenUp{First: "3", Last: "3", Size: 1, Shard: shard}
	whole := types.Record{SequenceNumber: aws.String("3"), ApproximateArrivalTimestamp: &epoch}
	records, err := redrive.ReadStream(t.Context(), &incomplete{record: whole}, b)
	if err != nil || len(records) != 1 || records[0].PartitionKey != "" {
		t.Errorf("%+v, %v", records, err)
	}
	for _, r := range []types.Record{
		{SequenceNumber: aws.String("3")}, {ApproximateArrivalTimestamp: &epoch},
		{SequenceNumber: aws.String("x"), ApproximateArrivalTimestamp: &epoch},
	} {
		if _, err := redrive.ReadStream(t.Context(), &incomplete{record: r}, b); err == nil || errors.Is(err, redrive.ErrLost) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// askedStream records which stream is read. It has no records.
type askedStream struct{ arn string }

func (s *askedStream) GetShardIterator(
	_ context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options),
) (*kinesis.GetShardIteratorOutput, error) {
	s.arn = *in.StreamARN
	return &kinesis.GetShardIteratorOutput{}, nil
}

func (*askedStream) GetRecords(
	context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options),
) (*kinesis.GetRecordsOutput, error) {
	return nil, errors.New("it has no iterator")
}

// TestReadStreamOfAConsumer checks that a batch of enhanced fan-out is read from its stream. Kinesis finds no stream
// by the ARN of a consumer, so the records would count as lost.
func TestReadStreamOfAConsumer(t *testing.T) {
	t.Parallel()
	const stream = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
	asked := &askedStream{}
	batch := &deadletter.GivenUp{StreamARN: stream + "/consumer/dedupe:1700000000", Shard: "shardId-000000000000", First: "1"}
	if _, err := redrive.ReadStream(t.Context(), asked, batch); !errors.Is(err, redrive.ErrLost) || asked.arn != stream {
		t.Errorf("read %q, %v", asked.arn, err)
	}
}
