package kinesishandler_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/framing"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

// required lists the variables without which the function does not start.
var required = []string{
	"ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_ID_PATH=event.id", "ONCEBOX_SINK=kinesis:unique",
	"ONCEBOX_DEAD_LETTERS=s3://bad-records/clicks",
}

func with(more ...string) []string {
	return append(append([]string{"PATH=/bin", "ONCE=1", "AWS_LAMBDA_FUNCTION_NAME=dedupe-clicks"}, required...), more...)
}

func without(name string, more ...string) []string {
	var rest []string
	for _, v := range required {
		if !strings.HasPrefix(v, name+"=") {
			rest = append(rest, v)
		}
	}
	return append(rest, more...)
}

func TestSettingsDefaults(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_LOG_LEVEL=", "ONCEBOX_OTHER="))
	must(t, err)
	equal(t, "table", s.DedupeTable, "dedupe")
	equal(t, "sink", s.Sink, kinesishandler.SinkSetting{Stream: "unique"})
	equal(t, "dead-letter store", s.DeadLetterStore, "s3://bad-records/clicks")
	equal(t, "queue", s.NotifyQueueURL, "")
	equal(t, "scope", s.Scope, "")
	equal(t, "retention", s.Retention, dedupe.Retention{Window: 48 * time.Hour, Horizon: 336 * time.Hour})
	equal(t, "passing", s.PassNatural || s.PassSynthetic, false)
	equal(t, "no acks", s.NoAcks, false)
	equal(t, "derived ids", s.Derive, false)
	equal(t, "poison limit", s.PoisonLimit, dedupe.DefaultPoisonLimit)
	equal(t, "no aggregates in the source", s.Unaggregated, false)
	equal(t, "largest record of the sink", s.SinkMaxRecord, 1<<20)
	equal(t, "concurrency", s.Concurrency, 32)
	equal(t, "log level", s.LogLevel, slog.LevelInfo)
	for format, want := range map[string]objectsink.Format{
		"json": objectsink.NDJSON, "snowplow": objectsink.Raw, "raw": objectsink.Raw,
	} {
		o, _ := kinesishandler.ParseOptions([]string{"ONCEBOX_FORMAT=" + format, "ONCEBOX_SINK=s3://lake"})
		equal(t, "objects of "+format, o.SinkObjects.Format, want)
	}
	fields, err := s.Format.Read(t.Context(), []byte(`{"event":{"id":"a"}}`))
	must(t, err)
	equal(t, "id", fields.ID, "a")
}

func TestSettingsGiven(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_SINK=ndjson:/tmp/a:b.ndjson", "ONCEBOX_DEAD_LETTERS=dir:/tmp/bad",
		"ONCEBOX_NOTIFY_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/notifier", "ONCEBOX_SCOPE=web-1",
		"ONCEBOX_WINDOW=1h", "ONCEBOX_HORIZON=7d", "ONCEBOX_FINGERPRINT_PATH=fp", "ONCEBOX_VOLATILE=sent, meta.try",
		"ONCEBOX_CONTEXTS_PATH=meta.contexts", "ONCEBOX_NATURAL=off", "ONCEBOX_SYNTHETIC=on", "ONCEBOX_ACKS=off",
		"ONCEBOX_POISON_LIMIT=50% of 400", "ONCEBOX_SOURCE_AGGREGATION=off", "ONCEBOX_CONCURRENCY=100", "ONCEBOX_LOG_LEVEL=debug", "ONCEBOX_IDS=first-keeps"))
	must(t, err)
	equal(t, "sink", s.Sink, kinesishandler.SinkSetting{File: "/tmp/a:b.ndjson"})
	equal(t, "dead-letter store", s.DeadLetterStore, "dir:/tmp/bad")
	equal(t, "queue", s.NotifyQueueURL, "https://sqs.eu-central-1.amazonaws.com/123456789012/notifier")
	equal(t, "scope", s.Scope, "web-1")
	equal(t, "retention", s.Retention, dedupe.Retention{Window: time.Hour, Horizon: 7 * 24 * time.Hour})
	equal(t, "natural duplicates pass", s.PassNatural, true)
	equal(t, "synthetic duplicates pass", s.PassSynthetic, false)
	equal(t, "no acks", s.NoAcks, true)
	equal(t, "poison limit", s.PoisonLimit, dedupe.PoisonLimit{Share: 0.5, Records: 400})
	equal(t, "no aggregates in the source", s.Unaggregated, true)
	equal(t, "consumer", s.Consumer, "dedupe-clicks")
	equal(t, "concurrency", s.Concurrency, 100)
	equal(t, "log level", s.LogLevel, slog.LevelDebug)
	one, err := s.Format.Read(t.Context(), []byte(`{"event":{"id":"a"},"sent":1,"meta":{"try":1}}`))
	must(t, err)
	two, err := s.Format.Read(t.Context(), []byte(`{"event":{"id":"a"},"sent":2,"meta":{"try":2}}`))
	must(t, err)
	equal(t, "fingerprint without the volatile members", one.Fingerprint, two.Fingerprint)
	renamed, err := s.Format.Rename(t.Context(), []byte(`{"event":{"id":"a"},"meta":{}}`), "a", "b")
	must(t, err)
	if !strings.HasPrefix(string(renamed), `{"event":{"id":"b"},"meta":{"contexts":[{`) {
		t.Errorf("renamed: %s", renamed)
	}
}

// TestSettingsOfSnowplow: the columns of events are known, and further columns can be volatile.
func TestSettingsOfSnowplow(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_VOLATILE=app_id, br_name"))
	must(t, err)
	const id = "\tc6ef3124-b53a-4b13-a233-0088f79dcbcb"
	event := func(app, browser string) []byte {
		return []byte(app + strings.Repeat("\t", 5) + id + strings.Repeat("\t", 72) + browser + strings.Repeat("\t", 52))
	}
	one, err := s.Format.Read(t.Context(), event("shop", ""))
	must(t, err)
	two, err := s.Format.Read(t.Context(), event("", "curl"))
	must(t, err)
	equal(t, "fields without the volatile columns", one, two)
	equal(t, "id", one.ID, id[1:])
}

// TestSettingsOfASink covers settings that cannot be combined with the file sink or the ids of TestSettingsGiven.
func TestSettingsOfASink(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_SINK_MAX_RECORD=10MiB", "ONCEBOX_SINK_AGGREGATION=on",
		"ONCEBOX_IDS=derived", "ONCEBOX_POISON_LIMIT=off"))
	must(t, err)
	equal(t, "aggregation", s.SinkAggregation, kinesissink.AggregateAlways)
	equal(t, "largest record of the sink", s.SinkMaxRecord, 10<<20)
	equal(t, "derived ids", s.Derive, true)
	equal(t, "poison limit", s.PoisonLimit, dedupe.PoisonLimit{Off: true})
	for text, want := range map[string]kinesissink.Aggregation{
		"": kinesissink.AggregateAuto, "auto": kinesissink.AggregateAuto, "off": kinesissink.AggregateNever,
	} {
		s, err = kinesishandler.ParseSettings(with("ONCEBOX_SINK_AGGREGATION=" + text))
		must(t, err)
		equal(t, "aggregation "+text, s.SinkAggregation, want)
	}
}

const queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/unique"

func TestSettingsOfOtherSinks(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_SINK=firehose:unique"))
	must(t, err)
	equal(t, "Firehose", s.Sink, kinesishandler.SinkSetting{Firehose: "unique"})
	equal(t, "no delimiter", s.SinkNoDelimiter, false)
	s, err = kinesishandler.ParseSettings(with("ONCEBOX_SINK=firehose:unique", "ONCEBOX_SINK_DELIMITER=none"))
	must(t, err)
	equal(t, "no delimiter", s.SinkNoDelimiter, true)
	s, err = kinesishandler.ParseSettings(with("ONCEBOX_SINK=sqs:"+queueURL, "ONCEBOX_SYNTHETIC=off"))
	must(t, err)
	equal(t, "queue", s.Sink, kinesishandler.SinkSetting{Queue: queueURL})
	equal(t, "largest message", s.SinkMaxRecord, 1<<20)
	s, err = kinesishandler.ParseSettings(
		with("ONCEBOX_SINK=sqs:"+queueURL+".fifo", "ONCEBOX_SINK_ENCODING=base64", "ONCEBOX_SINK_MAX_RECORD=256KiB"))
	must(t, err)
	equal(t, "encoding", s.SinkEncoding, sqssink.EncodingBase64)
	equal(t, "largest message", s.SinkMaxRecord, 256<<10)
}

func TestSettingsOfRaw(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]format.Raw{
		"": {}, "content": {}, "partition-key": {PartitionKey: true},
	} {
		s, err := kinesishandler.ParseSettings(without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID="+id))
		must(t, err)
		equal(t, "format with "+id, s.Format, dedupe.Format(want))
	}
	_, err := kinesishandler.ParseSettings(
		without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID=partition-key", "ONCEBOX_IDS=derived"))
	must(t, err)
}

// TestSettingsOfSourceRecords: only a stream gets records in their original form.
func TestSettingsOfSourceRecords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dedupe.Framing{"": nil, "one": nil, "array": framing.Array{}, "logs": framing.Logs{}} {
		s, err := kinesishandler.ParseSettings(with("ONCEBOX_SOURCE_RECORDS=" + text))
		must(t, err)
		equal(t, "framing "+text, s.Framing, want)
	}
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_SOURCE_RECORDS=array", "ONCEBOX_SINK=firehose:unique"))
	must(t, err)
	equal(t, "framing", s.Framing, framing.Single(framing.Array{}))
}

func TestSettingsOfATable(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=customer=customer.id,n",
		"ONCEBOX_SINK_VERSION=changed_at", "ONCEBOX_SINK_DELETE=meta.op=a=b"))
	must(t, err)
	equal(t, "sink", s.Sink, kinesishandler.SinkSetting{Table: "items"})
	table := s.SinkTable
	equal(t, "key", fmt.Sprint(table.Key), "[{customer customer.id} {n n}]")
	equal(t, "version", table.Version, dynamosink.Attribute{Name: "changed_at", Path: "changed_at"})
	equal(t, "delete", table.DeletePath+" "+table.DeleteValue, "meta.op a=b")
}

// TestSettingsOfTheLog: the memory for entries is a share of the function's memory, and the garbage collector
// respects it.
func TestSettingsOfTheLog(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	inLambda := "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1000"
	for _, c := range []struct {
		environ []string
		ledger  kinesishandler.LedgerSetting
		limit   int64
	}{
		{with("ONCEBOX_LEDGER=keys", inLambda), kinesishandler.LedgerSetting{}, -1},
		{with("ONCEBOX_LEDGER=log"), kinesishandler.LedgerSetting{Log: true, Lanes: 8}, -1},
		{
			with("ONCEBOX_LEDGER=log", inLambda),
			kinesishandler.LedgerSetting{Log: true, Lanes: 8, Memory: 600 * mib}, 900 * mib,
		},
		{
			with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_MEMORY=800MiB", inLambda),
			kinesishandler.LedgerSetting{Log: true, Lanes: 8, Memory: 800 * mib}, 900 * mib,
		},
		{
			with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_LANES=256", "ONCEBOX_LEDGER_MEMORY=2GiB"),
			kinesishandler.LedgerSetting{Log: true, Lanes: 256, Memory: 2048 * mib}, -1,
		},
	} {
		s, err := kinesishandler.ParseSettings(c.environ)
		must(t, err)
		equal(t, fmt.Sprint("ledger of ", c.environ), s.Ledger, c.ledger)
		equal(t, fmt.Sprint("memory limit of ", c.environ), s.MemoryLimit, c.limit)
	}
}

// TestSettingsOfValkey: the present and the former servers, and the source of the password.
func TestSettingsOfValkey(t *testing.T) {
	t.Parallel()
	s, err := kinesishandler.ParseSettings(with("ONCEBOX_LEDGER=valkey://cache:6379"))
	must(t, err)
	equal(t, "servers", fmt.Sprint(s.Ledger.Valkey.Servers), "{[cache:6379] 65536}")
	equal(t, "more", s.Ledger.Valkey.TLS != nil || s.Ledger.Valkey.Credentials != nil || s.Ledger.Valkey.Previous != nil, false)
	equal(t, "memory limit", s.MemoryLimit, -1)

	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("hunter2\n"), 0o600))
	s, err = kinesishandler.ParseSettings(with("ONCEBOX_LEDGER=valkeys://a:1,b:2", "ONCEBOX_LEDGER_BUCKETS=9",
		"ONCEBOX_LEDGER_PREVIOUS=valkeys://c:3", "ONCEBOX_LEDGER_SINCE=2027-03-01T09:00:00Z", "ONCEBOX_LEDGER_PASSWORD_FILE="+file))
	must(t, err)
	o := s.Ledger.Valkey
	equal(t, "servers", fmt.Sprint(o.Servers, *o.Previous), "{[a:1 b:2] 9} {[c:3] 9}")
	equal(t, "since", o.Since, time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC))
	equal(t, "TLS", o.TLS != nil, true)
	credentials, err := o.Credentials(t.Context())
	must(t, err)
	equal(t, "password", credentials.Password, "hunter2")
	s, err = kinesishandler.ParseSettings(with("ONCEBOX_LEDGER=valkey://a:1", "ONCEBOX_LEDGER_BUCKETS=9",
		"ONCEBOX_LEDGER_PREVIOUS=valkey://c:3?buckets=4", "ONCEBOX_LEDGER_SINCE=2027-03-01T09:00:00Z"))
	must(t, err)
	equal(t, "previous", fmt.Sprint(*s.Ledger.Valkey.Previous), "{[c:3] 4}")
}

// TestSinkNames: the name of a sink in acks fits into a key of every engine, and no two sinks have the same name.
func TestSinkNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4000)
	names := map[string]bool{}
	for _, s := range []kinesishandler.SinkSetting{
		{}, {Own: "a"}, {Stream: "a"}, {Firehose: "a"}, {Queue: "a"}, {File: "a"}, {File: long}, {File: long + "x"},
	} {
		name := s.String()
		if names[name] || len(name) > 200 {
			t.Errorf("%.50v has the name %.300s", s, name)
		}
		names[name] = true
	}
	equal(t, "a stream", kinesishandler.SinkSetting{Stream: "unique"}.String(), "kinesis:unique")
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	everything := "ONCEBOX_DEDUPE_TABLE ONCEBOX_ID_PATH ONCEBOX_SINK ONCEBOX_DEAD_LETTERS"
	for name, c := range map[string]struct {
		environ []string
		names   string // of the wrong variables, in the order of the message
	}{
		"nothing set":        {nil, everything},
		"all empty":          {[]string{"ONCEBOX_DEDUPE_TABLE=", "ONCEBOX_ID_PATH=", "ONCEBOX_SINK=", "ONCEBOX_DEAD_LETTERS="}, everything},
		"unknown":            {with("ONCEBOX_STORE=dynamodb:", "ONCEBOX_BANK_TABLE=bank"), "ONCEBOX_BANK_TABLE ONCEBOX_STORE"},
		"bad table":          {with("ONCEBOX_DEDUPE_TABLE=hunter2 "), "ONCEBOX_DEDUPE_TABLE"},
		"no format":          {with("ONCEBOX_FORMAT=hunter2"), "ONCEBOX_FORMAT"},
		"JSON without an id": {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=json"), "ONCEBOX_ID_PATH"},
		"paths in columns": {
			with("ONCEBOX_FORMAT=snowplow", "ONCEBOX_FINGERPRINT_PATH=hunter2", "ONCEBOX_CONTEXTS_PATH=hunter2", "ONCEBOX_VOLATILE=a,hunter2"),
			"ONCEBOX_ID_PATH ONCEBOX_FINGERPRINT_PATH ONCEBOX_CONTEXTS_PATH ONCEBOX_VOLATILE",
		},
		"no column":            {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_VOLATILE=page_title,hunter2"), "ONCEBOX_VOLATILE"},
		"fingerprint by luck":  {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_VOLATILE=event_fingerprint"), "ONCEBOX_VOLATILE"},
		"raw with a path":      {with("ONCEBOX_FORMAT=raw", "ONCEBOX_VOLATILE=hunter2"), "ONCEBOX_ID_PATH ONCEBOX_VOLATILE"},
		"no such raw id":       {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID=hunter2"), "ONCEBOX_RAW_ID"},
		"raw id of JSON":       {with("ONCEBOX_RAW_ID=content"), "ONCEBOX_RAW_ID"},
		"no such records":      {with("ONCEBOX_SOURCE_RECORDS=hunter2"), "ONCEBOX_SOURCE_RECORDS"},
		"key of many records":  {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID=partition-key", "ONCEBOX_SOURCE_RECORDS=lines"), "ONCEBOX_RAW_ID"},
		"derived from content": {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_IDS=derived"), "ONCEBOX_IDS"},
		"id by query":          {with("ONCEBOX_ID_PATH=hunter2.#.id"), "ONCEBOX_ID_PATH"},
		"id by modifier":       {with("ONCEBOX_ID_PATH=@hunter2"), "ONCEBOX_ID_PATH"},
		"fingerprint is id":    {with("ONCEBOX_FINGERPRINT_PATH=event.id"), "ONCEBOX_ID_PATH"},
		"id in contexts":       {with("ONCEBOX_CONTEXTS_PATH=event"), "ONCEBOX_ID_PATH"},
		"contexts in a list":   {with("ONCEBOX_CONTEXTS_PATH=a.0.b"), "ONCEBOX_CONTEXTS_PATH"},
		"empty volatile":       {with("ONCEBOX_VOLATILE=a,,b"), "ONCEBOX_VOLATILE"},
		"volatile id":          {with("ONCEBOX_VOLATILE=a,event.id"), "ONCEBOX_ID_PATH"},
		"all paths":            {with("ONCEBOX_ID_PATH=*", "ONCEBOX_FINGERPRINT_PATH=..", "ONCEBOX_CONTEXTS_PATH=#", "ONCEBOX_VOLATILE=a|b"), "ONCEBOX_ID_PATH ONCEBOX_FINGERPRINT_PATH ONCEBOX_CONTEXTS_PATH ONCEBOX_VOLATILE"},
		"ids of the command":   {with("ONCEBOX_IDS=rename-all"), "ONCEBOX_IDS"},
		"derived, unchanged":   {with("ONCEBOX_IDS=derived", "ONCEBOX_SYNTHETIC=off"), "ONCEBOX_SYNTHETIC"},
		"no such ids":          {with("ONCEBOX_IDS=hunter2"), "ONCEBOX_IDS"},
		"scope of markers":     {with("ONCEBOX_SCOPE=done"), "ONCEBOX_SCOPE"},
		"sink without bucket":  {with("ONCEBOX_SINK=s3://"), "ONCEBOX_SINK"},
		"hidden objects":       {with("ONCEBOX_SINK=s3://bucket/a/_hunter2"), "ONCEBOX_SINK"},
		"objects, no acks":     {with("ONCEBOX_SINK=s3://bucket/a", "ONCEBOX_ACKS=off"), "ONCEBOX_ACKS"},
		"objects, aggregates":  {with("ONCEBOX_SINK=s3://bucket/a", "ONCEBOX_SINK_AGGREGATION=on"), "ONCEBOX_SINK_AGGREGATION"},
		"letters in objects":   {with("ONCEBOX_SINK=s3://bad-records"), "ONCEBOX_DEAD_LETTERS"},
		"objects in letters":   {with("ONCEBOX_SINK=s3://bad-records/clicks/a"), "ONCEBOX_DEAD_LETTERS"},
		"what objects":         {with("ONCEBOX_SINK=s3://bucket/a", "ONCEBOX_SINK_OBJECT_FORMAT=csv", "ONCEBOX_SINK_COMPRESSION=lz4", "ONCEBOX_SINK_OBJECT_SIZE=1"), "ONCEBOX_SINK_OBJECT_FORMAT ONCEBOX_SINK_COMPRESSION ONCEBOX_SINK_OBJECT_SIZE"},
		"objects of a stream":  {with("ONCEBOX_SINK_COMPRESSION=zstd"), "ONCEBOX_SINK_COMPRESSION"},
		"events as JSON":       {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_SINK=s3://bucket/a", "ONCEBOX_SINK_OBJECT_FORMAT=ndjson"), "ONCEBOX_SINK_OBJECT_FORMAT"},
		"table without a key":  {with("ONCEBOX_SINK=dynamodb:hunter2"), "ONCEBOX_SINK_KEY"},
		"no table":             {with("ONCEBOX_SINK=dynamodb:a b", "ONCEBOX_SINK_KEY=id"), "ONCEBOX_SINK"},
		"table of entries":     {with("ONCEBOX_SINK=dynamodb:dedupe", "ONCEBOX_SINK_KEY=id"), "ONCEBOX_SINK"},
		"key of three":         {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=a,b,c"), "ONCEBOX_SINK_KEY"},
		"key without a name":   {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=hunter2.id"), "ONCEBOX_SINK_KEY"},
		"version twice":        {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id", "ONCEBOX_SINK_VERSION=id=at"), "ONCEBOX_SINK_KEY"},
		"no version":           {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id", "ONCEBOX_SINK_VERSION=hunter2.*"), "ONCEBOX_SINK_VERSION"},
		"delete, no version":   {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id", "ONCEBOX_SINK_DELETE=op=d"), "ONCEBOX_SINK_DELETE"},
		"no delete":            {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id", "ONCEBOX_SINK_VERSION=v", "ONCEBOX_SINK_DELETE=hunter2"), "ONCEBOX_SINK_DELETE"},
		"items that pass":      {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id", "ONCEBOX_NATURAL=off", "ONCEBOX_SYNTHETIC=off"), "ONCEBOX_NATURAL ONCEBOX_SYNTHETIC"},
		"items, aggregates":    {with("ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id", "ONCEBOX_SINK_AGGREGATION=on"), "ONCEBOX_SINK_AGGREGATION"},
		"key of a stream":      {with("ONCEBOX_SINK_KEY=id", "ONCEBOX_SINK_VERSION=v", "ONCEBOX_SINK_DELETE=op=d"), "ONCEBOX_SINK_KEY ONCEBOX_SINK_VERSION ONCEBOX_SINK_DELETE"},
		"no such sink":         {with("ONCEBOX_SINK=hunter2"), "ONCEBOX_SINK"},
		"no stream":            {with("ONCEBOX_SINK=kinesis:"), "ONCEBOX_SINK"},
		"stream by ARN":        {with("ONCEBOX_SINK=kinesis:arn:aws:kinesis:eu-central-1:123456789012:stream/hunter2"), "ONCEBOX_SINK"},
		"no Firehose stream":   {with("ONCEBOX_SINK=firehose:hunter2/"), "ONCEBOX_SINK"},
		"no queue as the sink": {with("ONCEBOX_SINK=sqs:hunter2"), "ONCEBOX_SINK"},
		"Firehose settings":    {with("ONCEBOX_SINK=firehose:a", "ONCEBOX_SINK_AGGREGATION=on", "ONCEBOX_SINK_MAX_RECORD=1MiB", "ONCEBOX_SINK_ENCODING=text", "ONCEBOX_SINK_DELIMITER=hunter2"), "ONCEBOX_SINK_DELIMITER ONCEBOX_SINK_AGGREGATION ONCEBOX_SINK_MAX_RECORD ONCEBOX_SINK_ENCODING"},
		"SQS settings":         {with("ONCEBOX_SINK=sqs:"+queueURL, "ONCEBOX_SINK_MAX_RECORD=2MiB", "ONCEBOX_SINK_ENCODING=hunter2", "ONCEBOX_SINK_DELIMITER=none"), "ONCEBOX_SINK_MAX_RECORD ONCEBOX_SINK_ENCODING ONCEBOX_SINK_DELIMITER"},
		"encoded stream":       {with("ONCEBOX_SINK_ENCODING=base64"), "ONCEBOX_SINK_ENCODING"},
		"FIFO, same ids":       {with("ONCEBOX_SINK=sqs:"+queueURL+".fifo", "ONCEBOX_SYNTHETIC=off"), "ONCEBOX_SYNTHETIC"},
		"no file":              {with("ONCEBOX_SINK=ndjson:"), "ONCEBOX_SINK"},
		"no bucket":            {with("ONCEBOX_DEAD_LETTERS=s3://"), "ONCEBOX_DEAD_LETTERS"},
		"no such store":        {with("ONCEBOX_DEAD_LETTERS=hunter2"), "ONCEBOX_DEAD_LETTERS"},
		"sink is the store":    {with("ONCEBOX_SINK=ndjson:hunter2/a", "ONCEBOX_DEAD_LETTERS=dir:hunter2//a/"), "ONCEBOX_DEAD_LETTERS"},
		"no queue":             {with("ONCEBOX_NOTIFY_QUEUE_URL=hunter2"), "ONCEBOX_NOTIFY_QUEUE_URL"},
		"FIFO queue":           {with("ONCEBOX_NOTIFY_QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/1/hunter2.fifo"), "ONCEBOX_NOTIFY_QUEUE_URL"},
		"capital scope":        {with("ONCEBOX_SCOPE=Hunter2"), "ONCEBOX_SCOPE"},
		"long scope":           {with("ONCEBOX_SCOPE=" + strings.Repeat("a", 64)), "ONCEBOX_SCOPE"},
		"no window":            {with("ONCEBOX_WINDOW=0"), "ONCEBOX_WINDOW"},
		"negative window":      {with("ONCEBOX_WINDOW=-48h"), "ONCEBOX_WINDOW"},
		"window in weeks":      {with("ONCEBOX_WINDOW=2w"), "ONCEBOX_WINDOW"},
		"horizon in days":      {with("ONCEBOX_HORIZON=0d23h"), "ONCEBOX_HORIZON"},
		"endless window":       {with("ONCEBOX_WINDOW=2000000h"), "ONCEBOX_WINDOW"},
		"horizon of a batch":   {with("ONCEBOX_HORIZON=23h59m"), "ONCEBOX_HORIZON"},
		"endless horizon":      {with("ONCEBOX_HORIZON=2000000h"), "ONCEBOX_HORIZON"},
		"switches":             {with("ONCEBOX_NATURAL=true", "ONCEBOX_SYNTHETIC=1", "ONCEBOX_ACKS=On"), "ONCEBOX_NATURAL ONCEBOX_SYNTHETIC ONCEBOX_ACKS"},
		"source aggregation":   {with("ONCEBOX_SOURCE_AGGREGATION=auto"), "ONCEBOX_SOURCE_AGGREGATION"},
		"sink aggregation":     {with("ONCEBOX_SINK_AGGREGATION=always"), "ONCEBOX_SINK_AGGREGATION"},
		"aggregates in a file": {with("ONCEBOX_SINK=ndjson:hunter2", "ONCEBOX_SINK_AGGREGATION=on"), "ONCEBOX_SINK_AGGREGATION"},
		"small largest record": {with("ONCEBOX_SINK_MAX_RECORD=10"), "ONCEBOX_SINK_MAX_RECORD"},
		"large largest record": {with("ONCEBOX_SINK_MAX_RECORD=11MiB"), "ONCEBOX_SINK_MAX_RECORD"},
		"record of what unit":  {with("ONCEBOX_SINK_MAX_RECORD=hunter2"), "ONCEBOX_SINK_MAX_RECORD"},
		"record of a file":     {with("ONCEBOX_SINK=ndjson:hunter2", "ONCEBOX_SINK_MAX_RECORD=2MiB"), "ONCEBOX_SINK_MAX_RECORD"},
		"no poison limit":      {with("ONCEBOX_POISON_LIMIT=hunter2"), "ONCEBOX_POISON_LIMIT"},
		"poison, no count":     {with("ONCEBOX_POISON_LIMIT=90%"), "ONCEBOX_POISON_LIMIT"},
		"poison, no share":     {with("ONCEBOX_POISON_LIMIT=0% of 100"), "ONCEBOX_POISON_LIMIT"},
		"poison, all and more": {with("ONCEBOX_POISON_LIMIT=101% of 100"), "ONCEBOX_POISON_LIMIT"},
		"poison, of none":      {with("ONCEBOX_POISON_LIMIT=90% of 0"), "ONCEBOX_POISON_LIMIT"},
		"no concurrency":       {with("ONCEBOX_CONCURRENCY=0"), "ONCEBOX_CONCURRENCY"},
		"too much concurrency": {with("ONCEBOX_CONCURRENCY=1001"), "ONCEBOX_CONCURRENCY"},
		"some concurrency":     {with("ONCEBOX_CONCURRENCY=many"), "ONCEBOX_CONCURRENCY"},
		"no such ledger":       {with("ONCEBOX_LEDGER=hunter2.db"), "ONCEBOX_LEDGER"},
		"Valkey, no port":      {with("ONCEBOX_LEDGER=valkeys://hunter2"), "ONCEBOX_LEDGER"},
		"Valkey, password":     {with("ONCEBOX_LEDGER=valkey://user:hunter2@cache:6379"), "ONCEBOX_LEDGER"},
		"Valkey of keys":       {with("ONCEBOX_LEDGER_BUCKETS=8", "ONCEBOX_LEDGER_PREVIOUS=valkey://hunter2:1", "ONCEBOX_LEDGER_SINCE=hunter2", "ONCEBOX_LEDGER_PASSWORD_FILE=hunter2"), "ONCEBOX_LEDGER_BUCKETS ONCEBOX_LEDGER_PREVIOUS ONCEBOX_LEDGER_SINCE ONCEBOX_LEDGER_PASSWORD_FILE"},
		"Valkey of the log":    {with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_BUCKETS=8"), "ONCEBOX_LEDGER_BUCKETS"},
		"log of Valkey":        {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_LEDGER_LANES=8", "ONCEBOX_CONCURRENCY=8"), "ONCEBOX_LEDGER_LANES ONCEBOX_CONCURRENCY"},
		"Valkey of a table":    {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id"), "ONCEBOX_LEDGER"},
		"no Valkey bucket":     {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_LEDGER_BUCKETS=0"), "ONCEBOX_LEDGER_BUCKETS"},
		"change without time":  {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_LEDGER_PREVIOUS=valkey://old:6379"), "ONCEBOX_LEDGER_SINCE"},
		"change from nothing":  {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_LEDGER_SINCE=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER_PREVIOUS"},
		"wrong change":         {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_LEDGER_PREVIOUS=hunter2", "ONCEBOX_LEDGER_SINCE=hunter2"), "ONCEBOX_LEDGER_PREVIOUS ONCEBOX_LEDGER_SINCE"},
		"change to TLS":        {with("ONCEBOX_LEDGER=valkeys://cache:6379", "ONCEBOX_LEDGER_PREVIOUS=valkey://hunter2:6379", "ONCEBOX_LEDGER_SINCE=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER_PREVIOUS"},
		"previous buckets":     {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_LEDGER_PREVIOUS=valkey://old:6379?buckets=hunter2", "ONCEBOX_LEDGER_SINCE=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER_PREVIOUS"},
		"lanes of keys":        {with("ONCEBOX_LEDGER=keys", "ONCEBOX_LEDGER_LANES=8", "ONCEBOX_LEDGER_MEMORY=1GiB"), "ONCEBOX_LEDGER_LANES ONCEBOX_LEDGER_MEMORY"},
		"log of a table":       {with("ONCEBOX_LEDGER=log", "ONCEBOX_SINK=dynamodb:items", "ONCEBOX_SINK_KEY=id"), "ONCEBOX_LEDGER"},
		"log, concurrency":     {with("ONCEBOX_LEDGER=log", "ONCEBOX_CONCURRENCY=32"), "ONCEBOX_CONCURRENCY"},
		"no lane":              {with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_LANES=0"), "ONCEBOX_LEDGER_LANES"},
		"too many lanes":       {with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_LANES=257"), "ONCEBOX_LEDGER_LANES"},
		"memory is no size":    {with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_MEMORY=hunter2"), "ONCEBOX_LEDGER_MEMORY"},
		"too little memory":    {with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_MEMORY=15MiB"), "ONCEBOX_LEDGER_MEMORY"},
		"too much memory":      {with("ONCEBOX_LEDGER=log", "ONCEBOX_LEDGER_MEMORY=820MiB", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1024"), "ONCEBOX_LEDGER_MEMORY"},
		"bad level":            {with("ONCEBOX_LOG_LEVEL=INFO"), "ONCEBOX_LOG_LEVEL"},
		"everything": {
			[]string{
				"ONCEBOX_X=hunter2", "ONCEBOX_DEDUPE_TABLE=hunter2!", "ONCEBOX_ID_PATH=hunter2..", "ONCEBOX_SINK=hunter2",
				"ONCEBOX_DEAD_LETTERS=hunter2",
				"ONCEBOX_SCOPE=hunter2!", "ONCEBOX_WINDOW=hunter2", "ONCEBOX_HORIZON=hunter2", "ONCEBOX_CONCURRENCY=hunter2",
				"ONCEBOX_LOG_LEVEL=hunter2",
			},
			"ONCEBOX_X ONCEBOX_DEDUPE_TABLE ONCEBOX_ID_PATH ONCEBOX_SINK ONCEBOX_DEAD_LETTERS ONCEBOX_SCOPE ONCEBOX_WINDOW ONCEBOX_HORIZON ONCEBOX_CONCURRENCY ONCEBOX_LOG_LEVEL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kinesishandler.ParseSettings(c.environ)
			if err == nil {
				t.Fatal("accepted")
			}
			equal(t, "variables at fault", faultyVariables(t, err), c.names)
			if strings.Contains(strings.ToLower(err.Error()), "hunter2") {
				t.Errorf("the message repeats a value: %v", err)
			}
		})
	}
}

// faultyVariables lists the variables that the message names. For each, the message must say what is allowed, in terms
// of the variables.
func faultyVariables(t *testing.T, err error) string {
	t.Helper()
	text, ok := strings.CutPrefix(err.Error(), "settings: ")
	if !ok {
		t.Errorf("the message is %q", err)
	}
	var names []string
	for complaint := range strings.SplitSeq(text, "; ") {
		name, rest, _ := strings.Cut(complaint, " ")
		if !strings.Contains(rest, "(allowed: ") || strings.Contains(rest, "IDPath") || strings.Contains(rest, "stand-in") {
			t.Errorf("%q does not say well what is allowed", complaint)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// TestOptions: outside of Lambda the caller chooses the store.
func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := kinesishandler.ParseOptions(without("ONCEBOX_DEDUPE_TABLE", "ONCEBOX_STORE=sqlite:x.db"))
	must(t, err)
	equal(t, "consumer", o.Consumer, "")
	equal(t, "sink", o.Sink.Stream, "unique")
	equal(t, "window", o.Retention.Window, kinesishandler.DefaultWindow)
	_, err = kinesishandler.ParseOptions([]string{"ONCEBOX_SINK=nowhere", "ONCEBOX_LOG_LEVEL=loud"})
	if err == nil {
		t.Fatal("accepted")
	}
	equal(t, "variables at fault", faultyVariables(t, err),
		"ONCEBOX_ID_PATH ONCEBOX_SINK ONCEBOX_DEAD_LETTERS ONCEBOX_LOG_LEVEL")
}

// TestIsScope: a scope that may be set, or the default of a source.
func TestIsScope(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"orders": true, "Orders_v1.0": true, "orders.fifo": true, "/aws/lambda/a#b": true, "sqs:orders": true,
		"logs:" + strings.Repeat("a", 512): true,
		"":                                 false, "A B": false, "ö": false, strings.Repeat("a", 518): false,
	} {
		equal(t, "IsScope of "+text, kinesishandler.IsScope(text), want)
	}
}
