package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// demoLoad holds the numbers of records of the second job, by what happens to them.
type demoLoad struct {
	orders  int // records with their own id
	reused  int // other orders with the id of an order: delivered under new ids
	next    int // duplicates next to their original
	later   int // duplicates that come some batches later
	batches int // the number of records in a batch
}

// Two records without an order and an aggregate that breaks off.
const demoBroken = 3

// The load is smaller on the Kinesis emulator, because its time for a record grows with the number of records in the
// stream.
var (
	demoInProcess  = demoLoad{orders: 7600, reused: 397, next: 1000, later: 1000, batches: 500}
	demoOnKinesis  = demoLoad{orders: 1520, reused: 77, next: 200, later: 200, batches: 100}
	demoAggregated = 10 // one hundred of so many hundreds goes as KPL aggregates
)

func (l demoLoad) unique() int     { return l.orders + l.reused }
func (l demoLoad) duplicates() int { return l.next + l.later }
func (l demoLoad) all() int        { return l.unique() + l.duplicates() + demoBroken }

type demoRecordsResult struct {
	Sent        int `json:"sent"`
	Delivered   int `json:"delivered"`
	Distinct    int `json:"distinct_ids"`
	DeadLetters int `json:"dead_letters"`
	Again       int `json:"delivered_after_everything_was_sent_again"`
}

// demoStream carries records to the handler and reads what the handler delivered.
type demoStream interface {
	// path names the way of a record, for the heading.
	path() string
	load() demoLoad
	// send sends records and lets the handler process them.
	send(ctx context.Context, records [][]byte) error
	// delivered returns the ids of all records that the handler has delivered so far.
	delivered(ctx context.Context) ([]string, error)
}

// records runs the second job.
func (d *demo) records(ctx context.Context) error {
	stream, err := d.openStream(ctx)
	if err != nil {
		return err
	}
	load, r := stream.load(), &d.result.Records
	payloads := load.payloads()
	d.text("Records: %d records %s", load.all(), stream.path())
	d.text("     %d orders, %d other orders with a used id, %d duplicates, %d broken records",
		load.orders, load.reused, load.duplicates(), demoBroken)
	if err := stream.send(ctx, payloads); err != nil {
		return err
	}
	r.Sent = load.all()
	if r.Delivered, r.Distinct, err = count(ctx, stream); err != nil {
		return err
	}
	if r.DeadLetters, err = d.countDeadLetters(); err != nil {
		return err
	}
	d.step("the producer sends all records", "%d delivered, each under its own id; %d dead letters",
		r.Delivered, r.DeadLetters)
	if err := errors.Join(
		check("records delivered", int64(r.Delivered), int64(load.unique())),
		check("ids delivered", int64(r.Distinct), int64(load.unique())),
		check("dead letters", int64(r.DeadLetters), demoBroken),
	); err != nil {
		return err
	}
	if err := stream.send(ctx, payloads); err != nil {
		return err
	}
	all, _, err := count(ctx, stream)
	if err != nil {
		return err
	}
	r.Again = all - r.Delivered
	d.step("the producer sends all records again", "%d delivered", r.Again)
	return check("records delivered again", int64(r.Again), 0)
}

func count(ctx context.Context, s demoStream) (all, distinct int, err error) {
	ids, err := s.delivered(ctx)
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	return len(ids), len(seen), err
}

// payloads makes the records. Duplicates differ in the time at which they were sent.
func (l demoLoad) payloads() [][]byte {
	var users [][]byte
	order := func(n int, amount string) {
		users = append(users, fmt.Appendf(nil, `{"id":"order-%05d","amount":%s,"sent_at":%d}`, n, amount, len(users)))
	}
	for n := range l.orders {
		order(n, "10.00")
		if n < l.next {
			order(n, "10.0") // the same number
		}
		if n < l.reused {
			order(n, "99.00")
		}
	}
	for n := range l.later {
		order(n, "10.00")
	}
	broken := []byte(`{"id":"order-`)
	return append(aggregate(users), broken, []byte(`{"amount":1}`), brokenAggregate())
}

// aggregate packs some of the records into KPL aggregates of ten.
func aggregate(users [][]byte) (records [][]byte) {
	var e kpl.Encoder
	for i, payload := range users {
		if i/100%demoAggregated > 0 {
			records = append(records, payload)
			continue
		}
		e.Add(kpl.UserRecord{PartitionKey: []byte("demo"), Data: payload})
		if e.Len() == 10 {
			records = append(records, bytes.Clone(e.Bytes()))
			e.Reset()
		}
	}
	if e.Len() > 0 {
		records = append(records, bytes.Clone(e.Bytes()))
	}
	return records
}

// brokenAggregate has a right digest and a message that breaks off.
func brokenAggregate() []byte {
	message := []byte{0x1a, 0x7f, 0x08}
	digest := md5.Sum(message) // the format's own
	return bytes.Join([][]byte{{0xf3, 0x89, 0x9a, 0xc2}, message, digest[:]}, nil)
}

// recordSettings are the variables of the Lambda function.
func (d *demo) recordSettings(sink string) (recordhandler.Options, error) {
	return recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_VOLATILE=sent_at", "ONCEBOX_SINK=" + sink,
		"ONCEBOX_DEAD_LETTERS=dir:" + d.deadLetters(), "ONCEBOX_SCOPE=" + d.campaign,
	})
}

func (d *demo) deadLetters() string { return filepath.Join(d.dir, "dead-letters") }

func (d *demo) countDeadLetters() (int, error) {
	objects, err := os.ReadDir(d.deadLetters())
	return len(objects), err
}

// openStream uses a local Kinesis if the environment names one. Otherwise it uses events in this process.
func (d *demo) openStream(ctx context.Context) (demoStream, error) {
	if err := os.Mkdir(d.deadLetters(), 0o700); err != nil {
		return nil, err
	}
	if d.app.Store == cli.DynamoDBStore {
		if s, err := d.openKinesis(ctx); s != nil || err != nil {
			return s, err
		}
	}
	s := &inProcess{demo: d, out: filepath.Join(d.dir, "out.ndjson")}
	options, err := d.recordSettings("ndjson:" + s.out)
	if err != nil {
		return nil, err
	}
	ledger, err := d.openRecords(ctx, options)
	if err != nil {
		return nil, err
	}
	s.handler, err = recordhandler.Open(ctx, sdkconfig.Load, ledger, options, slog.New(slog.DiscardHandler))
	if err == nil {
		d.closers = append(d.closers, s.handler.Close)
	}
	return s, err
}

func (d *demo) openRecords(ctx context.Context, options recordhandler.Options) (dedupe.Store, error) {
	ledger, closeLedger, err := d.app.OpenLedger(ctx, ledgerdynamo.WithConcurrency(options.Concurrency))
	if err == nil {
		d.closers = append(d.closers, func() error { closeLedger(); return nil })
	}
	return ledger, err
}

// inProcess hands events to the handler as Lambda does, and reads the file of its sink.
type inProcess struct {
	demo    *demo
	handler *recordhandler.Handler
	out     string
	last    int // sequence number
}

func (s *inProcess) path() string { return "through the dedupe function into a file" }

func (s *inProcess) load() demoLoad { return demoInProcess }

func (s *inProcess) send(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		n := min(s.load().batches, len(records))
		if err := handle(ctx, s.handler, s.event(records[:n])); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func (s *inProcess) event(records [][]byte) (event events.KinesisEvent) {
	arn := "arn:aws:kinesis:us-east-1:123456789012:stream/" + s.demo.campaign
	for _, data := range records {
		s.last++
		event.Records = append(event.Records,
			eventRecord(arn, "shardId-000000000000", fmt.Sprint(s.last), "demo", data, time.Now()))
	}
	return event
}

// eventRecord makes a record of an event as Lambda does.
func eventRecord(arn, shard, sequence, key string, data []byte, arrival time.Time) events.KinesisEventRecord {
	return events.KinesisEventRecord{
		EventID: shard + ":" + sequence, EventSource: "aws:kinesis", EventVersion: "1.0", AwsRegion: "us-east-1",
		EventName: "aws:kinesis:record", EventSourceArn: arn,
		Kinesis: events.KinesisRecord{
			SequenceNumber: sequence, PartitionKey: key, Data: data, KinesisSchemaVersion: "1.0",
			ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: arrival},
		},
	}
}

// handle hands an event to the handler. All of its records must be processed.
func handle(ctx context.Context, h *recordhandler.Handler, event events.KinesisEvent) error {
	raw, err := json.Marshal(event)
	if err != nil {
		return err
	}
	answer, err := h.Handle(ctx, raw)
	if err == nil && len(answer.BatchItemFailures) > 0 {
		err = fmt.Errorf("the demo failed: the handler failed at record %s", answer.BatchItemFailures[0].ItemIdentifier)
	}
	return err
}

func (s *inProcess) delivered(context.Context) (ids []string, err error) {
	file, err := os.Open(s.out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read from
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		id, err := demoID(lines.Bytes())
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, lines.Err()
}

func demoID(record []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(record, &r)
	return r.ID, err
}

// demoName is a campaign's name that no other demo uses.
func demoName() string { return "demo-" + strings.ToLower(rand.Text()) }
