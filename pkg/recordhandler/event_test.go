package recordhandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// plainDecode decodes by encoding/json into the type of aws-lambda-go.
func plainDecode(raw []byte) (dedupe.Batch, error) {
	var event events.KinesisEvent
	if err := json.Unmarshal(raw, &event); err != nil {
		return dedupe.Batch{}, notKinesis("by encoding/json: " + err.Error())
	}
	if event.Records == nil {
		return dedupe.Batch{}, notKinesis("no Records")
	}
	d := decoder{allowConsumers: true}
	for _, r := range event.Records {
		k := r.Kinesis
		if err := d.add(eventRecord{
			source: []byte(r.EventSource), arn: []byte(r.EventSourceArn), id: []byte(r.EventID),
			sequence: []byte(k.SequenceNumber), partitionKey: []byte(k.PartitionKey),
			arrival: float64(k.ApproximateArrivalTimestamp.Round(time.Millisecond).UnixMilli()), data: k.Data,
		}); err != nil {
			return dedupe.Batch{}, err
		}
	}
	return d.batch, nil
}

// sameAsPlain checks that decode gives the same result as encoding/json, except for events that Lambda never sends.
func sameAsPlain(t *testing.T, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	got, err := decode(raw, true)
	want, plainErr := plainDecode(raw)
	switch {
	case !bytes.Equal(raw, before):
		t.Errorf("decode changes the event %q", before)
	case err != nil && !errors.Is(err, ErrNotKinesis) && !errors.Is(err, ErrManyShards):
		t.Errorf("%q: %v", raw, err)
	case err == nil && unlikeLambda(raw):
		t.Errorf("%q is taken", raw)
	case err == nil && plainErr != nil:
		t.Errorf("%q is taken, and encoding/json says: %v", raw, plainErr)
	case err != nil && plainErr == nil && !unlikeLambda(raw):
		t.Errorf("%q: encoding/json takes it: %v", raw, err)
	case err == nil:
		checkBatch(t, got, want)
		clear(raw) // as the next event does to the memory
		checkBatch(t, got, want)
	}
}

func checkBatch(t *testing.T, got, want dedupe.Batch) {
	t.Helper()
	if got.Stream != want.Stream || got.Shard != want.Shard || len(got.Records) != len(want.Records) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i, g := range got.Records {
		w := want.Records[i]
		// A time with more digits than Kinesis sends is rounded differently.
		if off := g.Arrival.Sub(w.Arrival).Abs(); g.Sequence != w.Sequence || g.PartitionKey != w.PartitionKey ||
			!bytes.Equal(g.Data, w.Data) || off > time.Millisecond {
			t.Errorf("record %d: got %+v, want %+v", i, g, w)
		}
	}
}

// unlikeLambda reports whether an event, a record or its "kinesis" has a known name twice or in another case, or data
// as a list of numbers.
func unlikeLambda(event []byte) bool { return unlike(event, eventNames) }

func unlike(object []byte, known []string) bool {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return false
	}
	var seen []string
	for d.More() {
		token, err := d.Token()
		name, isName := token.(string)
		var value json.RawMessage
		if err != nil || !isName || d.Decode(&value) != nil {
			return false
		}
		if slices.Contains(seen, name) || !slices.Contains(known, name) &&
			slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return true
		}
		if slices.Contains(known, name) {
			seen = append(seen, name)
			if unlikeBelow(name, value) {
				return true
			}
		}
	}
	return false
}

func unlikeBelow(name string, value json.RawMessage) bool {
	switch name {
	case "kinesis":
		return unlike(value, kinesisNames)
	case "Records":
		var records []json.RawMessage
		_ = json.Unmarshal(value, &records) // none, if it is no list
		return slices.ContainsFunc(records, func(r json.RawMessage) bool { return unlike(r, recordNames) })
	case "data":
		return value[0] == '['
	}
	return false
}

// corpus returns every event of the project, and unusual variants.
func corpus(t testing.TB) (all [][]byte) {
	t.Helper()
	files, err := filepath.Glob("../../events/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	for _, edit := range edits {
		if !strings.Contains(kinesisRecord, edit.old) {
			t.Fatalf("no %s in the record", edit.old)
		}
		record := strings.Replace(kinesisRecord, edit.old, edit.to, 1)
		next := strings.ReplaceAll(kinesisRecord, sequence, sequence+"1")
		all = append(all, eventOf(record), eventOf(record, next),
			eventOf(strings.ReplaceAll(record, sequence, "7"), kinesisRecord))
	}
	for _, text := range []string{
		"", " ", "null", "nul", "[]", "{}", "{ }", "{,}", `{"Records":[]}`, ` { "Records" : [ ] } `, `{"Records":[],}`,
		`{"Records":[]}x`, `{"Records":[]} {}`,
		`{"Records":null}`, `{"Records":nul}`, `{"Records":[,]}`, `{"Records":[null]}`, `{"Records":[1]}`, `{"Records":{}}`,
		`{"Records":""}`, `{"Records"}`, `{"Records":}`, `{"Records" []}`, `{"Records";[]}`, `{null:1,"Records":[]}`,
		`{Records:[]}`, `{"Record\u0073":[]}`, `{"records":[]}`, `{"Recordſ":[]}`, `{"Records":[],"Records":[]}`,
		`{"a":1,"a":2,"Records":[]}`,
		`{"a":[{"b":[[],{},"\"]}",-1.5e+3,true,false,null]}],"Records":[]}`, `{"a":[1,],"Records":[]}`,
		`{"a":{"b":1,},"Records":[]}`, `{"a":{"b"},"Records":[]}`,
		`{"a":{b:1},"Records":[]}`, `{"a":[1 2],"Records":[]}`, `{"a":01,"Records":[]}`, `{"a":1.,"Records":[]}`,
		`{"a":-,"Records":[]}`, `{"a":1e,"Records":[]}`,
		`{"a":tru,"Records":[]}`, `{"a":"\x","Records":[]}`, `{"a":"\u12g4","Records":[]}`, "{\"a\":\"\t\",\"Records\":[]}",
		`{"a":`, `{"a":"`, `{"a":"\`, `{"a":"\u1`,
	} {
		all = append(all, []byte(text))
	}
	return all
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// edits are changes of a good record.
var edits = []struct{ old, to string }{
	{`"partitionKey":"pk"`, `"partitionKey":"Größe 😀"`},
	{`"partitionKey":"pk"`, `"partitionKey":"\u00e4\ud83d\ude00\n\"\\\/\b"`},
	{`"partitionKey":"pk"`, `"partitionKey":"\ud83d"`}, // half of a pair
	{`"partitionKey":"pk"`, "\"partitionKey\":\"\xff\xc0\""},
	{`"partitionKey":"pk"`, "\"partitionKey\":\"a\nb\""},
	{`"partitionKey":"pk"`, `"partitionKey":null`},
	{`"partitionKey":"pk"`, `"partitionKey":1`},
	{`"partitionKey":"pk"`, `"partitionKey":{"a":"pk"}`},
	{`"partitionKey":"pk"`, `"partitionKey":"pk","partitionKey":"other"`},
	{`"partitionKey":"pk"`, `"PartitionKey":"pk"`},
	{`"partitionKey":"pk"`, `"partition\u004bey":"pk"`},
	{`"partitionKey":"pk"`, "\"partition\u212aey\":\"pk\""}, // the Kelvin sign
	{`"partitionKey":"pk"`, `"more":{"kinesis":[{"data":"\"}"}]},"partitionKey":"pk"`},
	{`"partitionKey":"pk"`, `"more":1,"more":2,"More":3`},
	{`"partitionKey":"pk"`, `"encryptionType":"KMS"`},
	{`"partitionKey":"pk"`, `"encryptionType":7`},
	{`"data":"c2VjcmV0"`, `"data":"c2VjcmV0\r\n"`},
	{`"data":"c2VjcmV0"`, `"data":"c2Vj\/\u002b\u0041\u0041"`},
	{`"data":"c2VjcmV0"`, "\"data\":\"c2Vj\ncmV0\""},
	{`"data":"c2VjcmV0"`, "\"data\":\"c2VjcmV0\r\""},
	{`"data":"c2VjcmV0"`, `"data":"c2VjcmV0\"`},
	{`"data":"c2VjcmV0"`, `"data":"c2Vjcg=="`},
	{`"data":"c2VjcmV0"`, `"data":"c2Vjch=="`}, // padding bits that are not zero
	{`"data":"c2VjcmV0"`, `"data":"c2Vjcg"`},
	{`"data":"c2VjcmV0"`, `"data":"c2Vjcg==c2Vj"`},
	{`"data":"c2VjcmV0"`, `"data":"c2Vj-_=="`},
	{`"data":"c2VjcmV0"`, `"data":""`},
	{`"data":"c2VjcmV0"`, `"data":"="`},
	{`"data":"c2VjcmV0"`, `"data":null`},
	{`"data":"c2VjcmV0"`, `"data":[115]`},
	{`"data":"c2VjcmV0"`, `"Data":"c2VjcmV0"`},
	{`"data":"c2VjcmV0"`, `"data":"c2VjcmV0","data":"c2Vj"`},
	{`1795176000.123`, `1795176000.1234`},
	{`1795176000.123`, `1.795176000123E+9`},
	{`1795176000.123`, `-0`},
	{`1795176000.123`, `-1`},
	{`1795176000.123`, `01`},
	{`1795176000.123`, `253402300799.999`},
	{`1795176000.123`, `253402300800`},
	{`1795176000.123`, `1e308`},
	{`1795176000.123`, `1e309`},
	{`1795176000.123`, `1e-400`},
	{`1795176000.123`, `"1795176000.123"`},
	{`1795176000.123`, `true`},
	{`"eventVersion":"1.0"`, `"eventVersion":1.0`},
	{`"eventVersion":"1.0"`, `"eventVersion":null`},
	{`"eventVersion":"1.0"`, `"EventVersion":"1.0"`},
	{`"eventVersion":"1.0"`, `"eventVersion" : "1.0" `},
	{`"eventVersion":"1.0"`, `"kinesis":{}`},
	{`"eventVersion":"1.0"`, `"kinesis":null`},
	{`"aws:kinesis"`, `"aws\u003akinesis"`},
	{`shardId-000000000006:`, `shardId\u002d000000000006:`},
	{`stream/clicks`, `stream\/clicks`},
	{`}`, ``},
	{`,`, `,,`},
	{`:`, ` :` + "\t\r\n"},
}

func TestDecodeIsAsEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range corpus(t) {
		sameAsPlain(t, raw)
	}
	for level, text := range map[int]string{ // the level at which the nested part begins
		1: `{"a":NESTED,"Records":[` + kinesisRecord + `]}`,
		3: `{"Records":[` + change(t, `"eventVersion":"1.0"`, `"a":NESTED`) + `]}`,
		4: `{"Records":[` + change(t, `"partitionKey":"pk"`, `"a":NESTED`) + `]}`,
	} {
		for _, levels := range []int{maxLevels - level, maxLevels - level + 1} {
			raw := []byte(strings.Replace(text, "NESTED", nested(levels), 1))
			if _, err := decode(raw, true); (err == nil) != (levels+level <= maxLevels) {
				t.Errorf("%d levels in level %d: %v", levels, level, err)
			}
			sameAsPlain(t, raw)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, raw := range corpus(f) {
		f.Add(raw)
	}
	f.Fuzz(sameAsPlain)
}
