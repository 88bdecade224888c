package format_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/format"
)

// duplicate is the context that holds "old".
const duplicate = `{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":"old"}}`

func TestRename(t *testing.T) {
	t.Parallel()
	const (
		noArray  = "the contexts are not an array"
		noParent = "a parent of the contexts is not an object"
	)
	top := format.Options{IDPath: "id"}
	deep := format.Options{IDPath: "e.0.id", ContextsPath: `meta.a\.b.contexts`}
	for _, test := range []struct {
		name                 string
		options              format.Options
		record, want, reason string // in want, DUP is the context
	}{
		{"in front", top, `{"id":"old","contexts":[1,2]}`, `{"id":"new","contexts":[DUP,1,2]}`, ""},
		{"empty array", top, `{"id":"old","contexts":[]}`, `{"id":"new","contexts":[DUP]}`, ""},
		{"empty array with space", top, `{"id":"old","contexts":[ ` + "\n" + `]}`, `{"id":"new","contexts":[DUP ` + "\n" + `]}`, ""},
		{"null", top, `{"id":"old","contexts": null , "x":null}`, `{"id":"new","contexts": [DUP] , "x":null}`, ""},
		{"absent", top, `{"id":"old"}`, `{"id":"new","contexts":[DUP]}`, ""},
		{"absent, with space", top, ` { "id" : "old" } `, ` { "id" : "new" ,"contexts":[DUP]} `, ""},
		{"contexts before the id", top, `{"contexts":[{"x":"]"}],"id":"old"}`, `{"contexts":[DUP,{"x":"]"}],"id":"new"}`, ""},
		{"no other byte", top, "\t{ \"id\" : \"old\" ,\r\n\"n\":1.50E+3,\"s\":\"\\u00e9\\/<\xff\",\"contexts\" :\t[ 1 ],\"n\":-0}\n",
			"\t{ \"id\" : \"new\" ,\r\n\"n\":1.50E+3,\"s\":\"\\u00e9\\/<\xff\",\"contexts\" :\t[DUP, 1 ],\"n\":-0}\n", ""},
		{"a number becomes a string", top, `{"id":17}`, `{"id":"new","contexts":[DUP]}`, ""},
		{"two ids", top, `{"\u0069d":"old","id":"old","contexts":[]}`, "", "a member on the path of the id is there twice"},
		{"first of two contexts", top, `{"id":"old","contexts":null,"contexts":[1]}`, `{"id":"new","contexts":[DUP],"contexts":[1]}`, ""},
		{"an escaped name", top, `{"id":"old","context\u0073":[1]}`, `{"id":"new","context\u0073":[DUP,1]}`, ""},
		{"string", top, `{"id":"old","contexts":"[]"}`, "", noArray},
		{"object", top, `{"id":"old","contexts":{}}`, "", noArray},
		{"number", top, `{"id":"old","contexts":0}`, "", noArray},
		{"false", top, `{"id":"old","contexts":false}`, "", noArray},
		{"first is no array", top, `{"id":"old","contexts":{},"contexts":[]}`, "", noArray},
		{"no id", top, `{"contexts":[]}`, "", "the id is missing, null or empty"},
		{"no record", top, `[]`, "", "not a JSON object"},

		{"deep", deep, `{"e":[{"id":"old"}],"meta":{"a.b":{"contexts":[1]}}}`, `{"e":[{"id":"new"}],"meta":{"a.b":{"contexts":[DUP,1]}}}`, ""},
		{"one parent", deep, `{"meta":{"a.b":{}},"e":[{"id":"old"}]}`, `{"meta":{"a.b":{"contexts":[DUP]}},"e":[{"id":"new"}]}`, ""},
		{"half a parent", deep, `{"meta":{"x":1},"e":[{"id":"old"}]}`, `{"meta":{"x":1,"a.b":{"contexts":[DUP]}},"e":[{"id":"new"}]}`, ""},
		{"no parent", deep, `{"e":[{"id":"old"}]}`, `{"e":[{"id":"new"}],"meta":{"a.b":{"contexts":[DUP]}}}`, ""},
		{"parent null", deep, `{"e":[{"id":"old"}],"meta":null}`, "", noParent},
		{"parent array", deep, `{"e":[{"id":"old"}],"meta":{"a.b":[]}}`, "", noParent},
		{"parent string", deep, `{"e":[{"id":"old"}],"meta":"{}"}`, "", noParent},
		{"second parent", deep, `{"meta":1,"e":[{"id":"old"}],"meta":{"a.b":{"contexts":null}}}`, `{"meta":1,"e":[{"id":"new"}],"meta":{"a.b":{"contexts":[DUP]}}}`, ""},
		{"first parent is none", deep, `{"meta":1,"e":[{"id":"old"}],"meta":{}}`, "", noParent},
		{"odd names", format.Options{IDPath: "id", ContextsPath: `"\\.é<`}, `{"id":"old"}`, `{"id":"new","\"\\":{"é<":[DUP]}}`, ""},
	} {
		f := newJSON(t, test.options)
		record := []byte(test.record)
		got, err := f.Rename(context.Background(), record, "old", "new")
		checkReason(t, test.name, err, test.reason)
		if want := strings.ReplaceAll(test.want, "DUP", duplicate); string(got) != want {
			t.Errorf("%s:\nwant %s\ngot  %s", test.name, want, got)
		}
		if string(record) != test.record {
			t.Errorf("%s: the input was changed", test.name)
		}
	}
}

// TestRenameIDs: whatever characters the ids have, the record stays JSON and the ids are read back.
func TestRenameIDs(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id"})
	for _, id := range []string{"", "order-1", `"`, `\`, "\x00\x01\n\x1f\x7f", "é😀\u2028</script>", "\ufffd",
		strings.Repeat(`"\`, 1000)} {
		renamed, err := f.Rename(context.Background(), []byte(`{"id":"x"}`), id, "new"+id)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			ID       string
			Contexts []struct {
				Schema string
				Data   struct{ OriginalEventID string }
			}
		}
		if err := json.Unmarshal(renamed, &got); err != nil || got.ID != "new"+id || len(got.Contexts) != 1 ||
			got.Contexts[0].Data.OriginalEventID != id {
			t.Errorf("%.20q: got %.200s, %v", id, renamed, err)
		}
	}
}
