package recordhandler_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/framing"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
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
	words, s, err := recordhandler.ParseSettings(with("ONCEBOX_LOG_LEVEL=", "ONCEBOX_OTHER="))
	must(t, err)
	equal(t, "table", words.DedupeTable, "dedupe")
	equal(t, "sink", *s.Sink.Stream, kinesissink.Config{Stream: "unique", Aggregation: kinesissink.AggregateAuto, MaxRecord: 1 << 20})
	equal(t, "dead-letter store", s.DeadLetterStore, "s3://bad-records/clicks")
	equal(t, "scope", s.Scope, "")
	equal(t, "retention", s.Retention, dedupe.Retention{Window: 48 * time.Hour, Horizon: 336 * time.Hour})
	equal(t, "passing", s.PassNatural || s.PassSynthetic, false)
	equal(t, "no acks", s.NoAcks, false)
	equal(t, "derived ids", s.Derive, false)
	equal(t, "poison limit", s.PoisonLimit, dedupe.DefaultPoisonLimit)
	equal(t, "no aggregates in the source", s.Unaggregated, false)
	equal(t, "concurrency", s.Concurrency, 32)
	equal(t, "log level", s.LogLevel, slog.LevelInfo)
	for format, want := range map[string]objectsink.Format{
		"json": objectsink.NDJSON, "snowplow": objectsink.Raw, "raw": objectsink.Raw,
	} {
		o, _ := recordhandler.ParseOptions([]string{"ONCEBOX_FORMAT=" + format, "ONCEBOX_SINK=s3://lake"})
		equal(t, "objects of "+format, o.Sink.Objects.Format, want)
	}
	fields, err := s.Format.Read(t.Context(), []byte(`{"event":{"id":"a"}}`))
	must(t, err)
	equal(t, "id", fields.ID, "a")
}

func TestSettingsGiven(t *testing.T) {
	t.Parallel()
	_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SINK=ndjson:/tmp/a:b.ndjson",
		"ONCEBOX_DEAD_LETTERS=dir:/tmp/bad?notify=https://sqs.eu-central-1.amazonaws.com/123456789012/notifier", "ONCEBOX_SCOPE=web-1",
		"ONCEBOX_WINDOW=1h", "ONCEBOX_HORIZON=7d", "ONCEBOX_FINGERPRINT_PATH=fp", "ONCEBOX_VOLATILE=sent, meta.try",
		"ONCEBOX_CONTEXTS_PATH=meta.contexts", "ONCEBOX_NATURAL=off", "ONCEBOX_SYNTHETIC=on", "ONCEBOX_ACKS=off",
		"ONCEBOX_POISON_LIMIT=50% of 400", "ONCEBOX_SOURCE_AGGREGATION=off", "ONCEBOX_LEDGER=keys?concurrency=100", "ONCEBOX_LOG_LEVEL=debug", "ONCEBOX_IDS=first-keeps"))
	must(t, err)
	equal(t, "sink", s.Sink, recordhandler.SinkSetting{File: "/tmp/a:b.ndjson"})
	letters, err := deadletter.ParseSetting(s.DeadLetterStore)
	must(t, err)
	equal(t, "dead-letter store", letters, deadletter.Setting{
		Folder: "/tmp/bad", Notify: "https://sqs.eu-central-1.amazonaws.com/123456789012/notifier",
	})
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
	_, s, err := recordhandler.ParseSettings(without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_VOLATILE=app_id, br_name"))
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
	_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SINK=kinesis:unique?max-record=10MiB&aggregation=kpl",
		"ONCEBOX_IDS=derived", "ONCEBOX_POISON_LIMIT=off"))
	must(t, err)
	equal(t, "sink", *s.Sink.Stream, kinesissink.Config{Stream: "unique", Aggregation: kinesissink.AggregateAlways, MaxRecord: 10 << 20})
	equal(t, "derived ids", s.Derive, true)
	equal(t, "poison limit", s.PoisonLimit, dedupe.PoisonLimit{Off: true})
	for text, want := range map[string]kinesissink.Aggregation{
		"": kinesissink.AggregateAuto, "?aggregation=auto": kinesissink.AggregateAuto, "?aggregation=none": kinesissink.AggregateNever,
	} {
		_, s, err = recordhandler.ParseSettings(with("ONCEBOX_SINK=kinesis:unique" + text))
		must(t, err)
		equal(t, "aggregation "+text, s.Sink.Stream.Aggregation, want)
	}
}

const queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/unique"

func TestSettingsOfOtherSinks(t *testing.T) {
	t.Parallel()
	_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SINK=firehose:unique"))
	must(t, err)
	equal(t, "Firehose", *s.Sink.Firehose, firehosesink.Config{Stream: "unique", Delimited: true})
	_, s, err = recordhandler.ParseSettings(with("ONCEBOX_SINK=firehose:unique?delimiter=none"))
	must(t, err)
	equal(t, "Firehose", *s.Sink.Firehose, firehosesink.Config{Stream: "unique"})
	_, s, err = recordhandler.ParseSettings(with("ONCEBOX_SINK=sqs:"+queueURL, "ONCEBOX_SYNTHETIC=off"))
	must(t, err)
	equal(t, "queue", *s.Sink.Queue, sqssink.Config{URL: queueURL, Encoding: sqssink.EncodingText, MaxRecord: 1 << 20})
	_, s, err = recordhandler.ParseSettings(with("ONCEBOX_SINK=sqs:" + queueURL + ".fifo?encoding=base64&max-record=256KiB"))
	must(t, err)
	equal(t, "queue", *s.Sink.Queue, sqssink.Config{URL: queueURL + ".fifo", Encoding: sqssink.EncodingBase64, MaxRecord: 256 << 10})
}

func TestSettingsOfRaw(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]format.Raw{
		"": {}, "content": {}, "partition-key": {PartitionKey: true},
	} {
		_, s, err := recordhandler.ParseSettings(without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID="+id))
		must(t, err)
		equal(t, "format with "+id, s.Format, dedupe.Format(want))
	}
	_, _, err := recordhandler.ParseSettings(
		without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID=partition-key", "ONCEBOX_IDS=derived"))
	must(t, err)
}

// TestSettingsOfSourceRecords: only a stream gets records in their original form.
func TestSettingsOfSourceRecords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dedupe.Framing{"": nil, "one": nil, "array": framing.Array{}, "logs": framing.Logs{}} {
		_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SOURCE_RECORDS=" + text))
		must(t, err)
		equal(t, "framing "+text, s.Framing, want)
	}
	_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SOURCE_RECORDS=array", "ONCEBOX_SINK=firehose:unique"))
	must(t, err)
	equal(t, "framing", s.Framing, framing.Single(framing.Array{}))
}

func TestSettingsOfATable(t *testing.T) {
	t.Parallel()
	_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SINK=dynamodb:items?key=customer=customer.id,n&version=changed_at&delete=meta.op=a=b"))
	must(t, err)
	table := s.Sink.Table
	equal(t, "table", table.Name, "items")
	equal(t, "key", fmt.Sprint(table.Key), "[{customer customer.id} {n n}]")
	equal(t, "version", table.Version, dynamosink.Attribute{Name: "changed_at", Path: "changed_at"})
	equal(t, "delete", table.DeletePath+" "+table.DeleteValue, "meta.op a=b")
}

// TestOpenedBytes: a record opens to an eighth of the function's memory, at most to 128 MiB, and elsewhere to the most.
func TestOpenedBytes(t *testing.T) {
	t.Parallel()
	for memory, want := range map[string]int{"": 0, "128": 16 << 20, "1024": 128 << 20, "10240": 128 << 20} {
		o, err := recordhandler.ParseOptions(with("AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + memory))
		must(t, err)
		equal(t, "opened bytes with the memory "+memory, o.OpenedBytes, want)
	}
	for size, reason := range map[int]string{16 << 20: "of an unknown version", 16<<20 + 1: "more bytes than the limit"} {
		b := newBench(t, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128", "ONCEBOX_SOURCE_RECORDS=snowplow")
		equal(t, "failed", b.failed(t, rawOf(t, event(string(zipped(t, make([]byte, size)))))), "")
		if !strings.Contains(b.log.String(), reason) {
			t.Errorf("%d bytes: want the reason %q in %s", size, reason, b.log)
		}
	}
}

// TestSettingsOfTheLog: the memory for entries is a share of the function's memory, and the garbage collector
// respects it.
func TestSettingsOfTheLog(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	inLambda := "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1000"
	for _, c := range []struct {
		environ []string
		ledger  recordhandler.LedgerSetting
		limit   int64
	}{
		{with("ONCEBOX_LEDGER=keys", inLambda), recordhandler.LedgerSetting{}, -1},
		{with("ONCEBOX_LEDGER=log"), recordhandler.LedgerSetting{Log: true, Lanes: 8}, -1},
		{
			with("ONCEBOX_LEDGER=log", inLambda),
			recordhandler.LedgerSetting{Log: true, Lanes: 8, Memory: 600 * mib}, 900 * mib,
		},
		{
			with("ONCEBOX_LEDGER=log?memory=800MiB", inLambda),
			recordhandler.LedgerSetting{Log: true, Lanes: 8, Memory: 800 * mib}, 900 * mib,
		},
		{
			with("ONCEBOX_LEDGER=log?lanes=256&memory=2GiB"),
			recordhandler.LedgerSetting{Log: true, Lanes: 256, Memory: 2048 * mib}, -1,
		},
	} {
		_, s, err := recordhandler.ParseSettings(c.environ)
		must(t, err)
		equal(t, fmt.Sprint("ledger of ", c.environ), s.Ledger, c.ledger)
		equal(t, fmt.Sprint("memory limit of ", c.environ), s.MemoryLimit, c.limit)
	}
}

// TestSettingsOfValkey: the present and the former servers, and the source of the password.
func TestSettingsOfValkey(t *testing.T) {
	t.Parallel()
	_, s, err := recordhandler.ParseSettings(with("ONCEBOX_LEDGER=valkey://cache:6379"))
	must(t, err)
	equal(t, "servers", fmt.Sprint(s.Ledger.Valkey.Servers), "{[cache:6379] 65536}")
	equal(t, "more", s.Ledger.Valkey.TLS != nil || s.Ledger.Valkey.Credentials != nil || s.Ledger.Valkey.Previous != nil, false)
	equal(t, "memory limit", s.MemoryLimit, -1)

	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("hunter2\n"), 0o600))
	_, s, err = recordhandler.ParseSettings(with("ONCEBOX_LEDGER=valkeys://a:1,b:2?buckets=9&previous=c:3&since=2027-03-01T09:00:00Z&password-file=" + file))
	must(t, err)
	o := s.Ledger.Valkey
	equal(t, "servers", fmt.Sprint(o.Servers, *o.Previous), "{[a:1 b:2] 9} {[c:3] 9}")
	equal(t, "since", o.Since, time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC))
	equal(t, "TLS", o.TLS != nil, true)
	credentials, err := o.Credentials(t.Context())
	must(t, err)
	equal(t, "password", credentials.Password, "hunter2")
	_, s, err = recordhandler.ParseSettings(with("ONCEBOX_LEDGER=valkey://a:1?buckets=9&previous=c:3&previous-buckets=4&since=2027-03-01T09:00:00Z"))
	must(t, err)
	equal(t, "previous", fmt.Sprint(*s.Ledger.Valkey.Previous), "{[c:3] 4}")
}

// TestSinkNames: the name of a sink in acks fits into a key of every engine, and no two sinks have the same name.
func TestSinkNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4000)
	names := map[string]bool{}
	for _, s := range []recordhandler.SinkSetting{
		{}, {Own: "a"}, {Stream: &kinesissink.Config{Stream: "a"}}, {Firehose: &firehosesink.Config{Stream: "a"}},
		{Queue: &sqssink.Config{URL: "a"}}, {Objects: &objectsink.Config{Bucket: "a"}}, {Table: &dynamosink.Table{Name: "a"}},
		{File: "a"}, {File: long}, {File: long + "x"},
	} {
		name := s.String()
		if names[name] || len(name) > 200 {
			t.Errorf("%.50v has the name %.300s", s, name)
		}
		names[name] = true
	}
	for address, want := range map[string]string{
		"kinesis:unique?aggregation=kpl": "kinesis:unique", "firehose:unique?delimiter=none": "firehose:unique",
		"sqs:" + queueURL + "?encoding=base64": "sqs:" + queueURL, "s3://lake/events?compression=none": "s3://lake/events/",
		"dynamodb:items?key=id": "dynamodb:items",
	} {
		_, s, err := recordhandler.ParseSettings(with("ONCEBOX_SINK=" + address))
		must(t, err)
		equal(t, "name of "+address, s.Sink.String(), want)
	}
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
		"no column":             {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_VOLATILE=page_title,hunter2"), "ONCEBOX_VOLATILE"},
		"fingerprint by luck":   {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_VOLATILE=event_fingerprint"), "ONCEBOX_VOLATILE"},
		"raw with a path":       {with("ONCEBOX_FORMAT=raw", "ONCEBOX_VOLATILE=hunter2"), "ONCEBOX_ID_PATH ONCEBOX_VOLATILE"},
		"no such raw id":        {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID=hunter2"), "ONCEBOX_RAW_ID"},
		"raw id of JSON":        {with("ONCEBOX_RAW_ID=content"), "ONCEBOX_RAW_ID"},
		"no such records":       {with("ONCEBOX_SOURCE_RECORDS=hunter2"), "ONCEBOX_SOURCE_RECORDS"},
		"key of many records":   {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_RAW_ID=partition-key", "ONCEBOX_SOURCE_RECORDS=lines"), "ONCEBOX_RAW_ID"},
		"derived from content":  {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=raw", "ONCEBOX_IDS=derived"), "ONCEBOX_IDS"},
		"id by query":           {with("ONCEBOX_ID_PATH=hunter2.#.id"), "ONCEBOX_ID_PATH"},
		"id by modifier":        {with("ONCEBOX_ID_PATH=@hunter2"), "ONCEBOX_ID_PATH"},
		"fingerprint is id":     {with("ONCEBOX_FINGERPRINT_PATH=event.id"), "ONCEBOX_ID_PATH"},
		"id in contexts":        {with("ONCEBOX_CONTEXTS_PATH=event"), "ONCEBOX_ID_PATH"},
		"contexts in a list":    {with("ONCEBOX_CONTEXTS_PATH=a.0.b"), "ONCEBOX_CONTEXTS_PATH"},
		"empty volatile":        {with("ONCEBOX_VOLATILE=a,,b"), "ONCEBOX_VOLATILE"},
		"volatile id":           {with("ONCEBOX_VOLATILE=a,event.id"), "ONCEBOX_ID_PATH"},
		"all paths":             {with("ONCEBOX_ID_PATH=*", "ONCEBOX_FINGERPRINT_PATH=..", "ONCEBOX_CONTEXTS_PATH=#", "ONCEBOX_VOLATILE=a|b"), "ONCEBOX_ID_PATH ONCEBOX_FINGERPRINT_PATH ONCEBOX_CONTEXTS_PATH ONCEBOX_VOLATILE"},
		"ids of the command":    {with("ONCEBOX_IDS=rename-all"), "ONCEBOX_IDS"},
		"derived, unchanged":    {with("ONCEBOX_IDS=derived", "ONCEBOX_SYNTHETIC=off"), "ONCEBOX_SYNTHETIC"},
		"no such ids":           {with("ONCEBOX_IDS=hunter2"), "ONCEBOX_IDS"},
		"scope of markers":      {with("ONCEBOX_SCOPE=done"), "ONCEBOX_SCOPE"},
		"sink without bucket":   {with("ONCEBOX_SINK=s3://"), "ONCEBOX_SINK"},
		"hidden objects":        {with("ONCEBOX_SINK=s3://bucket/a/_hunter2"), "ONCEBOX_SINK"},
		"objects, no acks":      {with("ONCEBOX_SINK=s3://bucket/a", "ONCEBOX_ACKS=off"), "ONCEBOX_ACKS"},
		"objects, aggregates":   {with("ONCEBOX_SINK=s3://bucket/a?aggregation=kpl"), "ONCEBOX_SINK?aggregation"},
		"letters in objects":    {with("ONCEBOX_SINK=s3://bad-records"), "ONCEBOX_DEAD_LETTERS"},
		"objects in letters":    {with("ONCEBOX_SINK=s3://bad-records/clicks/a"), "ONCEBOX_DEAD_LETTERS"},
		"what objects":          {with("ONCEBOX_SINK=s3://bucket/a?format=csv&compression=lz4&object-size=1"), "ONCEBOX_SINK?format ONCEBOX_SINK?compression ONCEBOX_SINK?object-size"},
		"objects of a stream":   {with("ONCEBOX_SINK=kinesis:unique?compression=zstd"), "ONCEBOX_SINK?compression"},
		"events as JSON":        {without("ONCEBOX_ID_PATH", "ONCEBOX_FORMAT=snowplow", "ONCEBOX_SINK=s3://bucket/a?format=ndjson"), "ONCEBOX_SINK"},
		"table without a key":   {with("ONCEBOX_SINK=dynamodb:hunter2"), "ONCEBOX_SINK?key"},
		"no table":              {with("ONCEBOX_SINK=dynamodb:a b?key=id"), "ONCEBOX_SINK"},
		"table of entries":      {with("ONCEBOX_SINK=dynamodb:dedupe?key=id"), "ONCEBOX_SINK"},
		"key of three":          {with("ONCEBOX_SINK=dynamodb:items?key=a,b,c"), "ONCEBOX_SINK?key"},
		"key without a name":    {with("ONCEBOX_SINK=dynamodb:items?key=hunter2.id"), "ONCEBOX_SINK?key"},
		"version twice":         {with("ONCEBOX_SINK=dynamodb:items?key=id&version=id=at"), "ONCEBOX_SINK?version"},
		"no version":            {with("ONCEBOX_SINK=dynamodb:items?key=id&version=hunter2.*"), "ONCEBOX_SINK?version"},
		"delete, no version":    {with("ONCEBOX_SINK=dynamodb:items?key=id&delete=op=d"), "ONCEBOX_SINK?delete"},
		"no delete":             {with("ONCEBOX_SINK=dynamodb:items?key=id&version=v&delete=hunter2"), "ONCEBOX_SINK?delete"},
		"items that pass":       {with("ONCEBOX_SINK=dynamodb:items?key=id", "ONCEBOX_NATURAL=off", "ONCEBOX_SYNTHETIC=off"), "ONCEBOX_NATURAL ONCEBOX_SYNTHETIC"},
		"items, aggregates":     {with("ONCEBOX_SINK=dynamodb:items?key=id&aggregation=kpl"), "ONCEBOX_SINK?aggregation"},
		"key of a stream":       {with("ONCEBOX_SINK=kinesis:unique?key=id&version=v&delete=op=d"), "ONCEBOX_SINK?delete ONCEBOX_SINK?key ONCEBOX_SINK?version"},
		"no such sink":          {with("ONCEBOX_SINK=hunter2"), "ONCEBOX_SINK"},
		"no stream":             {with("ONCEBOX_SINK=kinesis:"), "ONCEBOX_SINK"},
		"stream by ARN":         {with("ONCEBOX_SINK=kinesis:arn:aws:kinesis:eu-central-1:123456789012:stream/hunter2"), "ONCEBOX_SINK"},
		"no Firehose stream":    {with("ONCEBOX_SINK=firehose:hunter2/"), "ONCEBOX_SINK"},
		"no queue as the sink":  {with("ONCEBOX_SINK=sqs:hunter2"), "ONCEBOX_SINK"},
		"Firehose settings":     {with("ONCEBOX_SINK=firehose:a?aggregation=kpl&max-record=1MiB&encoding=text&delimiter=hunter2"), "ONCEBOX_SINK?delimiter ONCEBOX_SINK?aggregation ONCEBOX_SINK?encoding ONCEBOX_SINK?max-record"},
		"SQS settings":          {with("ONCEBOX_SINK=sqs:" + queueURL + "?max-record=2MiB&encoding=hunter2&delimiter=none"), "ONCEBOX_SINK?encoding ONCEBOX_SINK?max-record ONCEBOX_SINK?delimiter"},
		"encoded stream":        {with("ONCEBOX_SINK=kinesis:unique?encoding=base64"), "ONCEBOX_SINK?encoding"},
		"FIFO, same ids":        {with("ONCEBOX_SINK=sqs:"+queueURL+".fifo", "ONCEBOX_SYNTHETIC=off"), "ONCEBOX_SYNTHETIC"},
		"no file":               {with("ONCEBOX_SINK=ndjson:"), "ONCEBOX_SINK"},
		"no bucket":             {with("ONCEBOX_DEAD_LETTERS=s3://"), "ONCEBOX_DEAD_LETTERS"},
		"no such store":         {with("ONCEBOX_DEAD_LETTERS=hunter2"), "ONCEBOX_DEAD_LETTERS"},
		"sink is the store":     {with("ONCEBOX_SINK=ndjson:hunter2/a", "ONCEBOX_DEAD_LETTERS=dir:hunter2//a/"), "ONCEBOX_DEAD_LETTERS"},
		"no queue":              {with("ONCEBOX_DEAD_LETTERS=dir:failed?notify=hunter2"), "ONCEBOX_DEAD_LETTERS?notify"},
		"FIFO queue":            {with("ONCEBOX_DEAD_LETTERS=dir:failed?notify=https://sqs.eu-central-1.amazonaws.com/1/hunter2.fifo"), "ONCEBOX_DEAD_LETTERS?notify"},
		"capital scope":         {with("ONCEBOX_SCOPE=Hunter2"), "ONCEBOX_SCOPE"},
		"long scope":            {with("ONCEBOX_SCOPE=" + strings.Repeat("a", 64)), "ONCEBOX_SCOPE"},
		"no window":             {with("ONCEBOX_WINDOW=0"), "ONCEBOX_WINDOW"},
		"negative window":       {with("ONCEBOX_WINDOW=-48h"), "ONCEBOX_WINDOW"},
		"window in weeks":       {with("ONCEBOX_WINDOW=2w"), "ONCEBOX_WINDOW"},
		"horizon in days":       {with("ONCEBOX_HORIZON=0d23h"), "ONCEBOX_HORIZON"},
		"endless window":        {with("ONCEBOX_WINDOW=2000000h"), "ONCEBOX_WINDOW"},
		"horizon of a batch":    {with("ONCEBOX_HORIZON=23h59m"), "ONCEBOX_HORIZON"},
		"endless horizon":       {with("ONCEBOX_HORIZON=2000000h"), "ONCEBOX_HORIZON"},
		"switches":              {with("ONCEBOX_NATURAL=true", "ONCEBOX_SYNTHETIC=1", "ONCEBOX_ACKS=On"), "ONCEBOX_NATURAL ONCEBOX_SYNTHETIC ONCEBOX_ACKS"},
		"source aggregation":    {with("ONCEBOX_SOURCE_AGGREGATION=auto"), "ONCEBOX_SOURCE_AGGREGATION"},
		"sink aggregation":      {with("ONCEBOX_SINK=kinesis:unique?aggregation=always"), "ONCEBOX_SINK?aggregation"},
		"aggregates in a file":  {with("ONCEBOX_SINK=ndjson:hunter2?aggregation=kpl"), "ONCEBOX_SINK?aggregation"},
		"small largest record":  {with("ONCEBOX_SINK=kinesis:unique?max-record=10"), "ONCEBOX_SINK?max-record"},
		"large largest record":  {with("ONCEBOX_SINK=kinesis:unique?max-record=11MiB"), "ONCEBOX_SINK?max-record"},
		"record of what unit":   {with("ONCEBOX_SINK=kinesis:unique?max-record=hunter2"), "ONCEBOX_SINK?max-record"},
		"record of a file":      {with("ONCEBOX_SINK=ndjson:hunter2?max-record=2MiB"), "ONCEBOX_SINK?max-record"},
		"no poison limit":       {with("ONCEBOX_POISON_LIMIT=hunter2"), "ONCEBOX_POISON_LIMIT"},
		"poison, no count":      {with("ONCEBOX_POISON_LIMIT=90%"), "ONCEBOX_POISON_LIMIT"},
		"poison, no share":      {with("ONCEBOX_POISON_LIMIT=0% of 100"), "ONCEBOX_POISON_LIMIT"},
		"poison, all and more":  {with("ONCEBOX_POISON_LIMIT=101% of 100"), "ONCEBOX_POISON_LIMIT"},
		"poison, of none":       {with("ONCEBOX_POISON_LIMIT=90% of 0"), "ONCEBOX_POISON_LIMIT"},
		"no concurrency":        {with("ONCEBOX_LEDGER=keys?concurrency=0"), "ONCEBOX_LEDGER?concurrency"},
		"too much concurrency":  {with("ONCEBOX_LEDGER=keys?concurrency=1001"), "ONCEBOX_LEDGER?concurrency"},
		"some concurrency":      {with("ONCEBOX_LEDGER=keys?concurrency=many"), "ONCEBOX_LEDGER?concurrency"},
		"no such ledger":        {with("ONCEBOX_LEDGER=hunter2.db"), "ONCEBOX_LEDGER"},
		"Valkey, no port":       {with("ONCEBOX_LEDGER=valkeys://hunter2"), "ONCEBOX_LEDGER"},
		"Valkey, password":      {with("ONCEBOX_LEDGER=valkey://user:hunter2@cache:6379"), "ONCEBOX_LEDGER"},
		"Valkey of keys":        {with("ONCEBOX_LEDGER=keys?buckets=8&previous=hunter2:1"), "ONCEBOX_LEDGER?buckets ONCEBOX_LEDGER?previous"},
		"Valkey of the log":     {with("ONCEBOX_LEDGER=log?buckets=8"), "ONCEBOX_LEDGER?buckets"},
		"log of Valkey":         {with("ONCEBOX_LEDGER=valkey://cache:6379?lanes=8&concurrency=8"), "ONCEBOX_LEDGER?concurrency ONCEBOX_LEDGER?lanes"},
		"Valkey of a table":     {with("ONCEBOX_LEDGER=valkey://cache:6379", "ONCEBOX_SINK=dynamodb:items?key=id"), "ONCEBOX_LEDGER"},
		"no Valkey bucket":      {with("ONCEBOX_LEDGER=valkey://cache:6379?buckets=0"), "ONCEBOX_LEDGER?buckets"},
		"change without time":   {with("ONCEBOX_LEDGER=valkey://cache:6379?previous=old:6379"), "ONCEBOX_LEDGER?since"},
		"change from nothing":   {with("ONCEBOX_LEDGER=valkey://cache:6379?since=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER?previous"},
		"wrong change":          {with("ONCEBOX_LEDGER=valkey://cache:6379?previous=hunter2&since=hunter2"), "ONCEBOX_LEDGER?previous ONCEBOX_LEDGER?since"},
		"change to TLS":         {with("ONCEBOX_LEDGER=valkeys://cache:6379?previous=valkey://hunter2:6379&since=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER?previous"},
		"previous buckets":      {with("ONCEBOX_LEDGER=valkey://cache:6379?previous=old:6379&previous-buckets=hunter2&since=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER?previous-buckets"},
		"option twice":          {with("ONCEBOX_LEDGER=log?lanes=8&lanes=8"), "ONCEBOX_LEDGER?lanes"},
		"option, no value":      {with("ONCEBOX_LEDGER=log?lanes="), "ONCEBOX_LEDGER?lanes"},
		"password with a ?":     {with("ONCEBOX_LEDGER=valkey://user:hun?hunter2@cache:6379"), "ONCEBOX_LEDGER"},
		"password as an option": {with("ONCEBOX_LEDGER=valkey://cache:6379?hunter2"), "ONCEBOX_LEDGER"},
		"password of a queue":   {with("ONCEBOX_SINK=sqs:https://user:hunter2@sqs.eu-west-1.amazonaws.com/123456789012/x"), "ONCEBOX_SINK"},
		"password in a URL":     {with("ONCEBOX_LEDGER=valkey://cache:6379?password=hunter2"), "ONCEBOX_LEDGER?password"},
		"previous password":     {with("ONCEBOX_LEDGER=valkey://cache:6379?previous=hunter2@old:6379&since=2027-03-01T09:00:00Z"), "ONCEBOX_LEDGER"},
		"no secret":             {with("ONCEBOX_LEDGER=valkey://cache:6379?secret-arn=arn:aws:secretsmanager:eu-west-1:123456789012:secret:hunter2"), "ONCEBOX_LEDGER?secret-arn"},
		"two passwords":         {with("ONCEBOX_LEDGER=valkey://cache:6379?password-file=hunter2&secret-arn=arn:aws:secretsmanager:eu-west-1:123456789012:secret:valkey/orders-a1B2c3"), "ONCEBOX_LEDGER?secret-arn"},
		"lanes of keys":         {with("ONCEBOX_LEDGER=keys?lanes=8&memory=1GiB"), "ONCEBOX_LEDGER?lanes ONCEBOX_LEDGER?memory"},
		"log of a table":        {with("ONCEBOX_LEDGER=log", "ONCEBOX_SINK=dynamodb:items?key=id"), "ONCEBOX_LEDGER"},
		"log, concurrency":      {with("ONCEBOX_LEDGER=log?concurrency=32"), "ONCEBOX_LEDGER?concurrency"},
		"no lane":               {with("ONCEBOX_LEDGER=log?lanes=0"), "ONCEBOX_LEDGER?lanes"},
		"too many lanes":        {with("ONCEBOX_LEDGER=log?lanes=257"), "ONCEBOX_LEDGER?lanes"},
		"memory is no size":     {with("ONCEBOX_LEDGER=log?memory=hunter2"), "ONCEBOX_LEDGER?memory"},
		"too little memory":     {with("ONCEBOX_LEDGER=log?memory=15MiB"), "ONCEBOX_LEDGER?memory"},
		"too much memory":       {with("ONCEBOX_LEDGER=log?memory=820MiB", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1024"), "ONCEBOX_LEDGER"},
		"bad level":             {with("ONCEBOX_LOG_LEVEL=INFO"), "ONCEBOX_LOG_LEVEL"},
		"everything": {
			[]string{
				"ONCEBOX_X=hunter2", "ONCEBOX_DEDUPE_TABLE=hunter2!", "ONCEBOX_ID_PATH=hunter2..", "ONCEBOX_SINK=hunter2",
				"ONCEBOX_DEAD_LETTERS=hunter2",
				"ONCEBOX_SCOPE=hunter2!", "ONCEBOX_WINDOW=hunter2", "ONCEBOX_HORIZON=hunter2", "ONCEBOX_LEDGER=hunter2",
				"ONCEBOX_LOG_LEVEL=hunter2",
			},
			"ONCEBOX_X ONCEBOX_DEDUPE_TABLE ONCEBOX_ID_PATH ONCEBOX_SINK ONCEBOX_DEAD_LETTERS ONCEBOX_SCOPE ONCEBOX_WINDOW ONCEBOX_HORIZON ONCEBOX_LEDGER ONCEBOX_LOG_LEVEL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := recordhandler.ParseSettings(c.environ)
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

// faultyVariables lists the variables that the error names, each with ?OPTION if a part of an address is wrong. For
// each, the message must say what is allowed, in terms of the variables.
func faultyVariables(t *testing.T, err error) string {
	t.Helper()
	wrong, ok := errors.AsType[*settings.Error](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	var names []string
	for _, p := range wrong.Problems {
		if text := p.String(); p.Allowed == "" || strings.Contains(text, "IDPath") || strings.Contains(text, "stand-in") {
			t.Errorf("%q does not say well what is allowed", text)
		}
		name := p.Name
		if p.Option != "" {
			name += "?" + p.Option
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// TestOptions: outside of Lambda the caller chooses the store.
func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := recordhandler.ParseOptions(without("ONCEBOX_DEDUPE_TABLE", "ONCEBOX_STORE=sqlite:x.db"))
	must(t, err)
	equal(t, "consumer", o.Consumer, "")
	equal(t, "sink", o.Sink.String(), "kinesis:unique")
	equal(t, "window", o.Retention.Window, recordhandler.DefaultWindow)
	_, err = recordhandler.ParseOptions([]string{"ONCEBOX_SINK=nowhere", "ONCEBOX_LOG_LEVEL=loud"})
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
		equal(t, "IsScope of "+text, recordhandler.IsScope(text), want)
	}
}
