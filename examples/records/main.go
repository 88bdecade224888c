// Command records delivers a batch of records to a sink of your own, each record once. The batch has a copy, another
// record under a used id, and a record without an id.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
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
	folder, err := deadletter.NewFolder(deadLetterFolder)
	if err != nil {
		return err
	}
	reader, err := format.NewJSON(format.Options{IDPath: "id", Volatile: []string{"sent_at"}})
	if err != nil {
		return err
	}
	processor, err := dedupe.NewProcessor(
		dedupe.Parts{
			Ledger: ledger, Acks: ledger, Format: reader, Sink: lines{out}, DeadLetters: deadletter.New(folder),
		},
		dedupe.Settings{
			Scope:     "orders",
			Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour},
			Sink:      "lines", // the acks belong to this sink
		})
	if err != nil {
		return err
	}

	result := processor.Process(ctx, batch(
		`{"id":"order-1","amount":"5.00","sent_at":1}`,
		`{"id":"order-1","amount":"5.00","sent_at":2}`,
		`{"id":"order-1","amount":"9.00","sent_at":3}`,
		`{"amount":"7.00"}`,
	))
	if result.Err != nil {
		return fmt.Errorf("deliver again from %s on: %w", result.Failed, result.Err)
	}
	_, err = fmt.Fprintf(out, "new %d, natural %d, synthetic %d, dead-lettered %d\n",
		result.Tally.New, result.Tally.Natural, result.Tally.Synthetic, result.Tally.DeadLettered)
	return err
}

// batch makes a batch as a stream delivers it: the position of a record distinguishes a redelivery from a copy.
func batch(payloads ...string) dedupe.Batch {
	b := dedupe.Batch{Stream: dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"}, Shard: "shard-1"}
	for i, payload := range payloads {
		b.Records = append(b.Records, dedupe.Record{
			Sequence: fmt.Sprint(i + 1), PartitionKey: "a", Arrival: time.Now(), Data: []byte(payload),
		})
	}
	return b
}

// lines is a sink that writes each record to a line.
type lines struct{ out io.Writer }

// Check accepts every record. A sink with a limit returns a *dedupe.PoisonError for a record that is too large.
func (lines) Check(context.Context, dedupe.Output) error { return nil }

// Send writes records in order. It reports which records are written: these are not sent again.
func (l lines) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	delivered := make([]bool, len(outputs))
	for i, o := range outputs {
		if _, err := fmt.Fprintf(l.out, "%s\n", o.Data); err != nil {
			return dedupe.Sent{Delivered: delivered}, err
		}
		delivered[i] = true
	}
	return dedupe.Sent{Delivered: delivered}, nil
}
