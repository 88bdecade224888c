package bench

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// Goals of records.
const (
	maxPipeline = 1.5  // times validation, two reads by path and a SHA-256
	maxComputed = 4.0  // the same, with a computed fingerprint
	maxKPL      = 1.25 // times the MD5 that is a part of it
	maxHandler  = 1. / 3
)

const (
	batchRecords = 500 // of 1 KB
	repeats      = 10  // batches a round, so that rounds are not over in a millisecond
)

// BenchmarkRecordsPipeline measures the steps from decoded records to decided keys, on one core. It compares them
// with a loop that every reader of such records needs: validate, read two paths, hash. The ledger and the sink cost
// no time.
func BenchmarkRecordsPipeline(b *testing.B) {
	oneCore(b)
	batch := newBatch(b, batchRecords)
	byPath := newPipeline(b, format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint"})
	computed := newPipeline(b, format.Options{IDPath: "event_id", Volatile: []string{"etl_tstamp", "sent_at"}})
	var tookByPath, tookComputed pairs
	for b.Loop() {
		floor := timed(repeats, func() { validateReadHash(b, batch) })
		tookByPath.add(timed(repeats, func() { process(b.Context(), b, byPath, batch) }), floor)
		tookComputed.add(timed(repeats, func() { process(b.Context(), b, computed, batch) }), floor)
	}
	tookByPath.report("records to decisions, fingerprint by path", maxPipeline)
	tookComputed.report("records to decisions, computed fingerprint", maxComputed)
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
}

func newPipeline(b *testing.B, o format.Options) *dedupe.Processor {
	b.Helper()
	f, err := format.NewJSON(o)
	if err != nil {
		b.Fatal(err)
	}
	return newProcessor(b, dedupe.ByKey(costless{}), f)
}

// newProcessor is a Processor with a sink that costs nothing.
func newProcessor(b *testing.B, ledger dedupe.Ledger, f dedupe.Format) *dedupe.Processor {
	b.Helper()
	p, err := dedupe.NewProcessor(dedupe.Parts{Ledger: ledger, Format: f, Sink: costless{}, DeadLetters: costless{}},
		dedupe.Settings{Scope: "clicks", Retention: retention})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func process(ctx context.Context, b *testing.B, p *dedupe.Processor, batch dedupe.Batch) {
	if r := p.Process(ctx, batch); r.Tally.New != int64(len(batch.Records)) {
		b.Fatalf("%+v", r)
	}
}

// validateReadHash is the floor.
func validateReadHash(b *testing.B, batch dedupe.Batch) {
	for i := range batch.Records {
		data := batch.Records[i].Data
		id, fingerprint := gjson.GetBytes(data, "event_id"), gjson.GetBytes(data, "event_fingerprint")
		if sum := sha256.Sum256(data); !gjson.ValidBytes(data) || id.Str == "" || fingerprint.Str == "" || sum == [32]byte{} {
			b.Fatal("nothing read")
		}
	}
}

// BenchmarkRecordsKPL measures the opening of aggregates against the MD5 of the same bytes, which is a part of it.
// Partition keys are as long as UUIDs.
func BenchmarkRecordsKPL(b *testing.B) {
	shapes := []*aggregates{
		{records: 1, size: 100, keys: 1}, {records: 10, size: 1000, keys: 10}, {records: 100, size: 100, keys: 100},
		{records: 100, size: 500, keys: 10}, {records: 1000, size: 20, keys: 10}, {records: 1000, size: 20, keys: 1000},
		{records: 1000, size: 20, keys: 10, hashKeys: true}, {records: 1000, size: 100, keys: 1000}, {records: 1000, size: 1000, keys: 1},
	}
	for _, s := range shapes {
		s.data = s.encode()
	}
	for b.Loop() {
		for _, s := range shapes {
			s.round(b)
		}
	}
	for _, s := range shapes {
		name := fmt.Sprintf("KPL decode, %d records of %d bytes, %d keys", s.records, s.size, s.keys)
		if s.hashKeys {
			name += " and hash keys"
		}
		s.took.report(name, maxKPL)
	}
	b.ReportMetric(0, "ns/op")
}

// aggregates are of one shape.
type aggregates struct {
	records, size, keys int
	hashKeys            bool // one beside each key
	data                []byte
	decoder             kpl.Decoder
	took                pairs
}

func (a *aggregates) round(b *testing.B) {
	const magic = 4
	end := len(a.data) - md5.Size
	times := 1 + 1<<21/len(a.data) // some MiB a round
	floor := timed(times, func() {
		if md5.Sum(a.data[magic:end]) != [md5.Size]byte(a.data[end:]) {
			b.Fatal("another sum")
		}
	})
	a.took.add(timed(times, func() {
		if records, _, err := a.decoder.Decode(a.data); err != nil || len(records) != a.records {
			b.Fatal(len(records), err)
		}
	}), floor)
}

func (a *aggregates) encode() []byte {
	var e kpl.Encoder
	for i := range a.records {
		r := kpl.UserRecord{Data: make([]byte, a.size), PartitionKey: fmt.Appendf(nil, "%036d", i%a.keys)}
		if a.hashKeys {
			r.ExplicitHashKey = fmt.Appendf(nil, "%038d", i%a.keys)
		}
		e.Add(r)
	}
	return e.Bytes()
}

// BenchmarkRecordsHandler measures the whole function on one core, as the Lambda runtime calls it, from the bytes of
// an event to the bytes of the answer. It compares the function with the plain way to write it. Ledger and sink are
// the same, in memory.
func BenchmarkRecordsHandler(b *testing.B) {
	oneCore(b)
	event := newEvent(b, batchRecords)
	var ours, withGJSON, stdDecode pairs
	for b.Loop() {
		structs := handled(b, plainly(byStruct), event)
		gjsons := handled(b, plainly(byGJSON), event)
		handler := handled(b, ourHandler, event)
		ours.add(handler, structs)
		withGJSON.add(handler, gjsons)
		stdDecode.add(timed(repeats, func() {
			if err := json.Unmarshal(event, &events.KinesisEvent{}); err != nil {
				b.Fatal(err)
			}
		}), handler)
	}
	ours.report("whole handler, against the plain way", maxHandler)
	withGJSON.report("whole handler, against the plain way with gjson", 0)
	stdDecode.report("encoding/json for the event alone, against the whole handler", 0)
	perSecond := func(times []time.Duration) float64 { return batchRecords * repeats / median(times).Seconds() }
	note("records a second on one core: whole handler", perSecond(ours.measured), 0, "of 1 KB")
	note("records a second on one core: plain way", perSecond(ours.floor), 0, "")
	note("records a second on one core: plain way with gjson", perSecond(withGJSON.floor), 0, "")
	b.ReportMetric(0, "ns/op")
}

// handled returns the time in which a new function handles an event.
func handled(b *testing.B, start func(b *testing.B, m *memory) lambda.Handler, event []byte) (took time.Duration) {
	b.Helper()
	for range repeats {
		m := &memory{entries: map[dedupe.Key]dedupe.Entry{}}
		handler := start(b, m)
		begun := time.Now()
		answer, err := handler.Invoke(b.Context(), event)
		took += time.Since(begun)
		if err != nil || string(bytes.TrimSpace(answer)) != `{"batchItemFailures":[]}` || m.sent != batchRecords {
			b.Fatalf("%d sent, %s, %v", m.sent, answer, err)
		}
	}
	return took
}

func ourHandler(b *testing.B, m *memory) lambda.Handler {
	return newHandler(b, dedupe.Parts{Ledger: dedupe.ByKey(m), Sink: m})
}

// newHandler returns the function with the given parts, and a dead-letter store that must get nothing.
func newHandler(b *testing.B, p dedupe.Parts, settings ...string) *recordhandler.Handler {
	b.Helper()
	o, err := recordhandler.ParseOptions(append(settings,
		"ONCEBOX_ID_PATH=event_id", "ONCEBOX_FINGERPRINT_PATH=event_fingerprint", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused",
	))
	if err != nil {
		b.Fatal(err)
	}
	p.DeadLetters = costless{}
	h, err := recordhandler.New(p, o, slog.New(slog.NewJSONHandler(nowhere{}, nil)))
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// plainly is the function as most programmers would first write it, with the usual libraries. It handles no
// aggregates, poison or failures.
func plainly(read func(data []byte) (id, fingerprint string, err error)) func(b *testing.B, m *memory) lambda.Handler {
	return func(_ *testing.B, m *memory) lambda.Handler {
		return lambda.NewHandler(func(ctx context.Context, event events.KinesisEvent) (events.KinesisEventResponse, error) {
			var entries []dedupe.Entry
			for _, r := range event.Records {
				id, fingerprint, err := read(r.Kinesis.Data)
				if err != nil {
					return events.KinesisEventResponse{}, err
				}
				sum := sha256.Sum256([]byte(id))
				entries = append(entries, dedupe.Entry{
					Scope: "s", Key: dedupe.Key(sum[:16]), Owner: dedupe.Owner{Sequence: r.EventID}, Fingerprint: fingerprint,
					Arrival: r.Kinesis.ApproximateArrivalTimestamp.Time,
				})
			}
			results, err := m.PutIfAbsent(ctx, entries)
			if err != nil {
				return events.KinesisEventResponse{}, err
			}
			var outputs []dedupe.Output
			for i, r := range event.Records {
				if results[i].Existing == nil {
					outputs = append(outputs, dedupe.Output{PartitionKey: r.Kinesis.PartitionKey, Data: r.Kinesis.Data})
				}
			}
			_, err = m.Send(ctx, outputs)
			return events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{}}, err
		})
	}
}

func byStruct(data []byte) (id, fingerprint string, err error) {
	var record struct {
		ID          string `json:"event_id"`
		Fingerprint string `json:"event_fingerprint"`
	}
	err = json.Unmarshal(data, &record)
	return record.ID, record.Fingerprint, err
}

func byGJSON(data []byte) (id, fingerprint string, err error) {
	if !gjson.ValidBytes(data) {
		err = fmt.Errorf("no JSON")
	}
	return gjson.GetBytes(data, "event_id").String(), gjson.GetBytes(data, "event_fingerprint").String(), err
}

// oneCore limits the benchmark, including its garbage collection, to one core.
func oneCore(b *testing.B) {
	b.Helper()
	before := runtime.GOMAXPROCS(1)
	b.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// timed is the time of a round.
func timed(times int, work func()) time.Duration {
	begun := time.Now()
	for range times {
		work()
	}
	return time.Since(begun)
}

var retention = dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour}

// newBatch is a batch of page views that differ in their ids.
func newBatch(b *testing.B, records int) dedupe.Batch {
	b.Helper()
	batch := dedupe.Batch{Stream: clicks, Shard: shard}
	for i := range records {
		batch.Records = append(batch.Records, dedupe.Record{
			Sequence: sequence(i), PartitionKey: uuid.NewString(), Arrival: time.UnixMilli(1_795_176_000_123).UTC(), Data: pageView(b),
		})
	}
	return batch
}

var clicks = dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "clicks"}

const shard = "shardId-000000000006"

func sequence(i int) string {
	return fmt.Sprintf("4959033827149025660855969253836157109592157598%010d", i)
}

// pageView returns a realistic record of 1 KB with its own id.
func pageView(b *testing.B) []byte {
	b.Helper()
	page := bytes.TrimSpace(readFile(b, "testdata/page-view.json"))
	return bytes.Replace(page, []byte("0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d"), []byte(uuid.NewString()), 1)
}

// newEvent is an event of page views.
func newEvent(b *testing.B, records int) []byte {
	b.Helper()
	return newEventFrom(b, 0, records)
}

// newEventFrom returns an event of page views. first is the number from which its sequence numbers count.
func newEventFrom(b *testing.B, first, records int) []byte {
	b.Helper()
	pages := make([][]byte, records)
	for i := range pages {
		pages[i] = pageView(b)
	}
	return eventFrom(first, pages)
}

// eventOf returns an event of records, with the members of Lambda's events in Lambda's order.
func eventOf(records [][]byte) []byte { return eventFrom(0, records) }

func eventFrom(first int, records [][]byte) []byte {
	event := bytes.NewBufferString(`{"Records":[`)
	for i, data := range records {
		if i > 0 {
			event.WriteByte(',')
		}
		fmt.Fprintf(event, `{"kinesis":{"kinesisSchemaVersion":"1.0","partitionKey":%q,"sequenceNumber":%q,"data":%q,"approximateArrivalTimestamp":1795176000.%03d},`+
			`"eventSource":"aws:kinesis","eventVersion":"1.0","eventID":"%s:%s","eventName":"aws:kinesis:record",`+
			`"invokeIdentityArn":"arn:aws:iam::123456789012:role/dedupe","awsRegion":"eu-central-1","eventSourceARN":"arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"}`,
			uuid.NewString(), sequence(first+i), base64.StdEncoding.EncodeToString(data), rand.N(1000), shard, sequence(first+i))
	}
	event.WriteString("]}")
	return event.Bytes()
}

// costless is a ledger without entries, a sink, and a dead-letter store, which cost no time.
type costless struct{}

func (costless) PutIfAbsent(_ context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	return make([]dedupe.PutResult, len(entries)), nil
}

func (costless) RaisePurge(_ context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return make([]dedupe.RaiseResult, len(raises)), nil
}

func (costless) Check(context.Context, dedupe.Output) error { return nil }

func (costless) Send(context.Context, []dedupe.Output) (dedupe.Sent, error) {
	return dedupe.Sent{}, nil
}

func (costless) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	return len(letters), nil
}

// memory is a ledger of a map, and a sink that counts.
type memory struct {
	costless
	entries map[dedupe.Key]dedupe.Entry
	sent    int
}

func (m *memory) PutIfAbsent(_ context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	for i, e := range entries {
		if there, ok := m.entries[e.Key]; ok {
			existing := there.Existing()
			results[i].Existing = &existing
			continue
		}
		m.entries[e.Key] = e
	}
	return results, nil
}

func (m *memory) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	m.sent += len(outputs)
	return dedupe.Sent{}, nil
}
