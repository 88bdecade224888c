package readertest

import (
	"os"
	"slices"
	"strings"
)

// PageView is a realistic record of 1 KB: a page view with two contexts.
var PageView = strings.TrimSpace(read("page-view.json"))

// JSON are good and bad records in JSON, of every kind.
var JSON = []string{
	PageView,
	`{"id":"x"}`, `{"id":17.50e+3,"a":[1,{"b":null}],"contexts":null}`, `{"id":"x","contexts":[1]}`,
	`{"id":"x","contexts":{}}`,
	`{"i\u0064":"\ud83d\ude00","id":"y"}`, `{"id":"\ud800"}`, "{\"id\":\"\xff\"}",
	"{\"id\":\"x\",\"\xff\":\"\xed\xa0\x80\"}",
	`{"meta":{"id":"x","a":{}}}`, `{"meta":1,"meta":{"id":"x"},"owner":"o"}`,
	`{"meta":{"id":"x"},"owner":"o","b":[1,2],"a":{"meta":{"v":1}}}`,
	`{}`, `[]`, `null`, `"x"`, ``, ` `, `{"id"`, `{"id":01}`, `{"id":"x",}`, `{"id":"\x"}`, "{\"id\":\"\n\"}", "\ufeff{}",
	`{"id":"x"}{}`,
	strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001),
}

// Enriched is a realistic enriched event of 1.5 KB: a page view with two contexts and a fingerprint.
var Enriched = strings.TrimSuffix(read("enriched-page-view.tsv"), "\n")

// EventID is the event_id of Enriched.
const EventID = "c6ef3124-b53a-4b13-a233-0088f79dcbcb"

// Unprinted is Enriched without a fingerprint.
var Unprinted = With(Enriched, "event_fingerprint", "")

// Events are good and bad enriched events, of every kind.
var Events = []string{
	Enriched, Unprinted, Enriched + "\r\n", With(Enriched, "derived_contexts", ""), strings.Repeat("\t", 130), "", "\t",
	With(Unprinted, "derived_contexts", `{"data":[],"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1"}`),
	With(Enriched, "event_id", "x"), With(Enriched, "page_title", "a\nb"), PageView,
}

// Columns are the columns of an event that tests change, by Snowplow's table (docs.snowplow.io, "Enriched stream TSV file
// format").
var Columns = map[string]int{
	"app_id": 0, "etl_tstamp": 2, "collector_tstamp": 3, "event_id": 6, "v_etl": 11, "user_ipaddress": 13,
	"geo_country": 18, "page_title": 30, "contexts": 52, "unstruct_event": 58, "useragent": 77, "dvce_sent_tstamp": 119,
	"derived_contexts": 122, "derived_tstamp": 124, "event_fingerprint": 129, "true_tstamp": 130,
}

// With returns an event with other values in some columns: name, value, name, value ...
func With(event string, changes ...string) string {
	values := strings.Split(event, "\t")
	for pair := range slices.Chunk(changes, 2) {
		values[Columns[pair[0]]] = pair[1]
	}
	return strings.Join(values, "\t")
}

func read(file string) string {
	content, err := os.ReadFile("../../bench/testdata/" + file) // from the folder of each package that tests a reader
	if err != nil {
		panic(err)
	}
	return string(content)
}
