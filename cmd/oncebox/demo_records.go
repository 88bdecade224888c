package main

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

	"github.com/oncebox/oncebox/internal/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// The records of the demo, by what becomes of them.
const (
	demoRecords   = 10_000
	demoInBatch   = 1_000 // copies next to their record
	demoLater     = 1_000 // copies some batches later
	demoSynthetic = 397   // other records under a used id
	demoPoison    = 3
	demoUnique    = demoRecords - demoInBatch - demoLater - demoPoison // with the synthetic ones
	demoBatch     = 500
)

type demoRecordsResult struct {
	Delivered int `json:"records_delivered"`
	Distinct  int `json:"distinct_ids"`
	Kept      int `json:"kept_in_the_failure_store"`
	Again     int `json:"delivered_after_everything_was_sent_again"`
}

// demoStream takes records to the handler and knows what came out.
type demoStream interface {
	// send sends records and lets the handler process them.
	send(ctx context.Context, records [][]byte) error
	// delivered returns the ids of all records that came out so far.
	delivered(ctx context.Context) ([]string, error)
}

// records is the second job of the demo.
func (d *demo) records(ctx context.Context) error {
	stream, err := d.openStream(ctx)
	if err != nil {
		return err
	}
	if err := stream.send(ctx, demoPayloads()); err != nil {
		return err
	}
	r := &d.result.Records
	if r.Delivered, r.Distinct, err = count(ctx, stream); err != nil {
		return err
	}
	if r.Kept, err = d.kept(); err != nil {
		return err
	}
	d.say(fmt.Sprintf("%d records through %s: %d unique (%d of them share an id with another), %d copies, %d poison; every tenth part as KPL aggregates",
		demoRecords, d.via, demoUnique, demoSynthetic, demoInBatch+demoLater, demoPoison),
		"%d delivered, under %d ids; %d kept in the failure store", r.Delivered, r.Distinct, r.Kept)
	if err := errors.Join(
		check("records delivered", int64(r.Delivered), demoUnique),
		check("ids delivered", int64(r.Distinct), demoUnique),
		check("records kept", int64(r.Kept), demoPoison),
	); err != nil {
		return err
	}
	if err := stream.send(ctx, demoPayloads()); err != nil {
		return err
	}
	all, _, err := count(ctx, stream)
	if err != nil {
		return err
	}
	r.Again = all - r.Delivered
	d.say("the producers send everything again", "%d delivered", r.Again)
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

// demoPayloads makes the records. Copies differ in when they were sent.
func demoPayloads() [][]byte {
	var users [][]byte
	order := func(n int, amount string) {
		users = append(users, fmt.Appendf(nil, `{"id":"order-%05d","amount":%s,"sent_at":%d}`, n, amount, len(users)))
	}
	plain := demoUnique - demoSynthetic
	for n := range plain {
		order(n, "10.00")
		if n < demoInBatch {
			order(n, "10.0") // the same number
		}
		if n < demoSynthetic {
			order(n, "99.00")
		}
	}
	for n := range demoLater {
		order(n, "10.00")
	}
	records := aggregate(users)
	broken := []byte(`{"id":"order-`)
	return append(records, broken, []byte(`{"amount":1}`), brokenAggregate())
}

// aggregate makes KPL aggregates of ten of every tenth hundred records.
func aggregate(users [][]byte) (records [][]byte) {
	var e kpl.Encoder
	for i, payload := range users {
		if i/100%10 > 0 {
			records = append(records, payload)
			continue
		}
		e.Add(kpl.UserRecord{PartitionKey: []byte("demo"), Data: payload})
		if e.Len() == 10 {
			records = append(records, bytes.Clone(e.Bytes()))
			e.Reset()
		}
	}
	return records
}

// brokenAggregate has a good digest and a message that breaks off.
func brokenAggregate() []byte {
	message := []byte{0x1a, 0x7f, 0x08}
	digest := md5.Sum(message) // the format's own
	return bytes.Join([][]byte{{0xf3, 0x89, 0x9a, 0xc2}, message, digest[:]}, nil)
}

// recordSettings are the Lambda function's variables.
func (d *demo) recordSettings(sink string, more ...string) (kinesishandler.Options, error) {
	return kinesishandler.ParseOptions(append(more,
		"ONCEBOX_ID_PATH=id", "ONCEBOX_VOLATILE=sent_at", "ONCEBOX_SINK="+sink,
		"ONCEBOX_DEAD_LETTERS=dir:"+d.failures(), "ONCEBOX_SCOPE="+d.campaign))
}

func (d *demo) failures() string { return filepath.Join(d.dir, "failures") }

// kept counts the records in the failure store.
func (d *demo) kept() (int, error) {
	objects, err := os.ReadDir(d.failures())
	return len(objects), err
}

// openStream chooses a local Kinesis where there is one, else events in process.
func (d *demo) openStream(ctx context.Context) (demoStream, error) {
	if err := os.Mkdir(d.failures(), 0o700); err != nil {
		return nil, err
	}
	if d.app.Store == dynamodbStore {
		if s, err := d.openKinesis(ctx); s != nil || err != nil {
			return s, err
		}
	}
	d.via = "the Lambda handler into a file"
	s := &inProcess{demo: d, out: filepath.Join(d.dir, "out.ndjson")}
	options, err := d.recordSettings("ndjson:" + s.out)
	if err != nil {
		return nil, err
	}
	s.handler, err = d.openRecords(ctx, options)
	return s, err
}

func (d *demo) openRecords(ctx context.Context, options kinesishandler.Options) (*kinesishandler.Handler, error) {
	ledger, closeLedger, err := d.app.openLedger(ctx, options.Concurrency)
	if err != nil {
		return nil, err
	}
	h, err := kinesishandler.Open(ctx, sdkconfig.Load, ledger, options, slog.New(slog.DiscardHandler))
	if err != nil {
		closeLedger()
		return nil, err
	}
	d.closers = append(d.closers, func() error { closeLedger(); return h.Close() })
	return h, nil
}

// inProcess hands events to the handler as Lambda does, and reads its file.
type inProcess struct {
	demo    *demo
	handler *kinesishandler.Handler
	out     string
	last    int // sequence number
}

func (s *inProcess) send(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		n := min(demoBatch, len(records))
		event, err := json.Marshal(s.event(records[:n]))
		if err != nil {
			return err
		}
		answer, err := s.handler.Handle(ctx, event)
		if err != nil {
			return err
		}
		if len(answer.BatchItemFailures) > 0 {
			return fmt.Errorf("the handler failed at record %s", answer.BatchItemFailures[0].ItemIdentifier)
		}
		records = records[n:]
	}
	return nil
}

func (s *inProcess) event(records [][]byte) (event events.KinesisEvent) {
	const shard = "shardId-000000000000"
	for _, data := range records {
		s.last++
		sequence := fmt.Sprint(s.last)
		event.Records = append(event.Records, events.KinesisEventRecord{
			EventID: shard + ":" + sequence, EventSource: "aws:kinesis", EventVersion: "1.0", AwsRegion: "us-east-1",
			EventName: "aws:kinesis:record", EventSourceArn: "arn:aws:kinesis:us-east-1:123456789012:stream/" + s.demo.campaign,
			Kinesis: events.KinesisRecord{
				SequenceNumber: sequence, PartitionKey: "demo", Data: data, KinesisSchemaVersion: "1.0",
				ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: time.Now()},
			},
		})
	}
	return event
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

// demoName is a name that no other demo has.
func demoName() string { return "demo-" + strings.ToLower(rand.Text()) }
