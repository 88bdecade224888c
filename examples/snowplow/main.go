// Command snowplow puts the dedupe function between Enrich and a loader of Snowplow. Enrich and the loader are
// stand-ins. The Enrich writes events with the usual duplicates, and the loader counts the events that a warehouse
// would get.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func main() {
	if err := run(context.Background(), os.Stdout, "seen.db", "dead"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, ledgerFile, deadLetterFolder string) error {
	ledger, err := sqlitestore.Create(ctx, ledgerFile)
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }()
	var behind warehouse
	function, err := newFunction(ctx, ledger, deadLetterFolder, &behind)
	if err != nil {
		return err
	}
	stream := enrich(100)
	for at, lines := range slices.Collect(slices.Chunk(stream, batchSize)) {
		answer, err := function.Invoke(ctx, kinesisEvent(lines, at*batchSize))
		if err != nil {
			return err
		}
		if string(answer) != `{"batchItemFailures":[]}` {
			return fmt.Errorf("records failed: %s", answer)
		}
	}
	var direct warehouse
	direct.load(stream...)
	letters, err := os.ReadDir(deadLetterFolder)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "a loader of the stream gets %s\na loader behind oncebox gets %s\ndead letters: %d\n",
		direct.view(), behind.view(), len(letters))
	return err
}

// newFunction makes the function in front of the loader. The stack deploys the same function with
// ONCEBOX_FORMAT=snowplow, a ledger in DynamoDB, and a stream from which the loader reads.
func newFunction(
	ctx context.Context, ledger recordhandler.Store, deadLetterFolder string, loader *warehouse,
) (*recordhandler.Handler, error) {
	enriched, err := format.NewSnowplow(format.SnowplowOptions{})
	letters, lettersErr := deadletter.Open(ctx, awsclient.FromEnvironment, "dir:"+deadLetterFolder, nil)
	if err := errors.Join(err, lettersErr); err != nil {
		return nil, err
	}
	send := func(_ context.Context, o dedupe.Output) error {
		loader.load(string(o.Data))
		return nil
	}
	return recordhandler.New(dedupe.Parts{
		Ledger: ledger, Acks: ledger, Consumers: ledger, Format: enriched, Sink: dedupe.SinkFunc(send), DeadLetters: letters,
	}, recordhandler.Options{}, slog.New(slog.DiscardHandler))
}

// batchSize is how many records Lambda gives to the function.
const batchSize = 50

// kinesisEvent returns the event that Lambda sends to the function: the records of a shard from a position on.
func kinesisEvent(lines []string, from int) json.RawMessage {
	var e events.KinesisEvent
	for i, line := range lines {
		sequence := fmt.Sprint(from + i + 1)
		e.Records = append(e.Records, events.KinesisEventRecord{
			EventID: "shardId-000000000000:" + sequence, EventSource: "aws:kinesis",
			EventSourceArn: "arn:aws:kinesis:eu-west-1:123456789012:stream/enriched",
			Kinesis: events.KinesisRecord{
				SequenceNumber: sequence, PartitionKey: "a", Data: []byte(line),
				ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: time.Now()},
			},
		})
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // it holds nothing that JSON cannot
	}
	return raw
}
