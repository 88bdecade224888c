package records

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// vector is the aggregate of a/pk0 and b/pk1, as the KPL makes it.
const vector = `84mawgoDcGswCgNwazEaBQgAGgFhGgUIARoBYoA4lzDZUZf4PCBW3STYSm0=`

func TestKPLEncode(t *testing.T) {
	t.Parallel()
	line := func(data, key, more string) string {
		return fmt.Sprintf(`{"data":%q,"partitionKey":%q%s}`+"\n", base64.StdEncoding.EncodeToString([]byte(data)), key, more)
	}
	parent := func(key, more string, records ...string) string {
		var e kpl.Encoder
		for _, r := range records {
			data, key, _ := strings.Cut(r, "/")
			e.Add(kpl.UserRecord{Data: []byte(data), PartitionKey: []byte(key)})
		}
		return line(string(e.Bytes()), key, more)
	}
	const agg = `,"aggregated":true`
	for name, test := range map[string]struct{ in, out string }{
		"the vector":          {line("a", "pk0", agg) + line("b", "pk1", agg), fmt.Sprintf(`{"data":%q,"partitionKey":"pk0"}`+"\n", vector)},
		"one":                 {line("a", "k", agg), parent("k", "", "a/k")},
		"plain":               {line("a", "k", `,"explicitHashKey":"1","sequenceNumber":"2","subSequence":0`), line("a", "k", `,"explicitHashKey":"1","sequenceNumber":"2"`)},
		"plain in between":    {line("a", "k", agg) + line("b", "k", "") + line("c", "k", agg), parent("k", "", "a/k") + line("b", "k", "") + parent("k", "", "c/k")},
		"sequence numbers":    {line("a", "k", agg+`,"sequenceNumber":"1"`) + line("b", "l", agg+`,"SequenceNumber":"1"`) + line("c", "l", agg+`,"sequenceNumber":"2"`) + line("d", "l", agg), parent("k", `,"sequenceNumber":"1"`, "a/k", "b/l") + parent("l", `,"sequenceNumber":"2"`, "c/l") + parent("l", "", "d/l")},
		"sub-sequence resets": {line("a", "k", agg+`,"subSequence":0`) + line("b", "k", agg+`,"subSequence":1`) + line("c", "k", agg+`,"subSequence":0`) + line("d", "k", agg+`,"subSequence":0`), parent("k", "", "a/k", "b/k") + parent("k", "", "c/k") + parent("k", "", "d/k")},
		"nothing":             {"\n \n", ""},
	} {
		if got := filtered(t, &kplEncoder{}, test.in); got != test.out {
			t.Errorf("%s: want\n%sgot\n%s", name, test.out, got)
		}
	}
}

// TestKPLRoundTrip: encode undoes decode, and decode undoes encode.
func TestKPLRoundTrip(t *testing.T) {
	t.Parallel()
	optional := func(t *rapid.T, name string) *string {
		if !rapid.Bool().Draw(t, name+"?") {
			return nil
		}
		text := rapid.StringMatching("[0-9]{1,3}").Draw(t, name)
		return &text
	}
	rapid.Check(t, func(t *rapid.T) {
		var parents bytes.Buffer
		for range rapid.IntRange(0, 5).Draw(t, "parents") {
			p := kplParent{Data: []byte("plain"), PartitionKey: "p", ExplicitHashKey: optional(t, "hash key"), SequenceNumber: optional(t, "sequence")}
			if n := rapid.IntRange(0, 4).Draw(t, "records"); n > 0 {
				p.PartitionKey, p.ExplicitHashKey = "", nil
				var e kpl.Encoder
				for i := range n {
					u := kpl.UserRecord{Data: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data"), PartitionKey: []byte(rapid.String().Draw(t, "key"))}
					if key := optional(t, "its hash key"); key != nil {
						u.ExplicitHashKey = []byte(*key)
						if i == 0 {
							p.ExplicitHashKey = key
						}
					}
					if i == 0 {
						p.PartitionKey = string(u.PartitionKey)
					}
					e.Add(u)
				}
				p.Data = e.Bytes()
			}
			line, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			parents.Write(append(line, '\n'))
		}
		users := filtered(t, &kplDecoder{}, parents.String())
		again := filtered(t, &kplEncoder{}, users)
		if canonical(t, again) != canonical(t, parents.String()) {
			t.Fatalf("encode(decode):\nwant\n%sgot\n%s", parents.String(), again)
		}
		if back := filtered(t, &kplDecoder{}, again); back != users {
			t.Fatalf("decode(encode):\nwant\n%sgot\n%s", users, back)
		}
	})
}

func filtered(t rapid.TB, f kplFilter, text string) string {
	var out bytes.Buffer
	a := &cli.App{Process: cli.Process{Stdin: strings.NewReader(text), Stdout: &out}}
	if err := filterKPL(context.Background(), a, "-", f); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// canonical writes lines as package json does.
func canonical(t *rapid.T, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(again, '\n'))
	}
	return out.String()
}
