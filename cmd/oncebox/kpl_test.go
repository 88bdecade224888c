package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// kplVector is the aggregate of a/pk0 and b/pk1, as the KPL makes it.
const kplVector = `84mawgoDcGswCgNwazEaBQgAGgFhGgUIARoBYoA4lzDZUZf4PCBW3STYSm0=`

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// signed returns an aggregate with any message.
func signed(message string) string {
	sum := md5.Sum([]byte(message))
	return base64Of("\xF3\x89\x9A\xC2" + message + string(sum[:]))
}

func TestKPLDecode(t *testing.T) {
	s := newShell(t)
	r := s.want(exitDone, s.runWith("\xef\xbb\xbf"+`{"data":"`+kplVector+`","partitionKey":"parent","explicitHashKey":"7","sequenceNumber":"49","other":{"data":1}}`+"\r\n\n"+
		`{"Data":"`+kplVector+`","PartitionKey":"parent","SequenceNumber":"50","ApproximateArrivalTimestamp":1.5}`+"\n"+
		`{"Data":"aGk=","PartitionKey":"p","ExplicitHashKey":"7"}`+"\n"+`{"data":""}`, "kpl", "decode"))
	want := `{"data":"YQ==","partitionKey":"pk0","sequenceNumber":"49","subSequence":0,"aggregated":true}
{"data":"Yg==","partitionKey":"pk1","sequenceNumber":"49","subSequence":1,"aggregated":true}
{"data":"YQ==","partitionKey":"pk0","sequenceNumber":"50","subSequence":0,"aggregated":true}
{"data":"Yg==","partitionKey":"pk1","sequenceNumber":"50","subSequence":1,"aggregated":true}
{"data":"aGk=","partitionKey":"p","explicitHashKey":"7","subSequence":0,"aggregated":false}
{"data":"","partitionKey":"","subSequence":0,"aggregated":false}
`
	if r.stdout != want {
		t.Errorf("want\n%sgot\n%s", want, r.stdout)
	}
	s.file("in", `{"data":"`+kplVector+`"}`)
	s.run(exitDone, "kpl", "decode", "in").saying(t, `"subSequence":1`)
}

// TestKPLPoison: an aggregate that cannot be decoded is printed whole, and the others are decoded.
func TestKPLPoison(t *testing.T) {
	s := newShell(t)
	broken := signed("\x1a\xff")
	oddKey := signed("\x0a\x01\xff" + "\x1a\x05\x08\x00\x1a\x01a")
	r := s.want(exitLook, s.runWith(`{"data":"aGk="}`+"\n"+`{"data":"`+broken+`","sequenceNumber":"7"}`+"\n"+`{"data":"`+oddKey+`"}`+"\n"+`{"data":"`+kplVector+`"}`, "kpl", "decode"))
	r.saying(t, "2 aggregates cannot be decoded", `"partitionKey":"pk1"`)
	lines := strings.Split(r.stdout, "\n")
	for i, want := range map[int]kplPoison{1: {Line: 2, Data: []byte(broken)}, 2: {Line: 3, Data: []byte(oddKey)}} {
		var got kplPoison
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil || got.Error == "" || got.Line != want.Line || base64Of(string(got.Data)) != string(want.Data) {
			t.Errorf("unexpected %s (%v)", lines[i], err)
		}
		if strings.Contains(lines[i], `"sequenceNumber":"7"`) != (i == 1) {
			t.Errorf("unexpected sequence number: %s", lines[i])
		}
	}
	if back := s.want(exitDone, s.runWith(lines[1], "kpl", "encode")); back.stdout != `{"data":"`+broken+`","sequenceNumber":"7"}`+"\n" {
		t.Errorf("encode made %s of it", back.stdout)
	}
}

func TestKPLEncode(t *testing.T) {
	t.Parallel()
	line := func(data, key, more string) string {
		return fmt.Sprintf(`{"data":%q,"partitionKey":%q%s}`+"\n", base64Of(data), key, more)
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
		"the vector":          {line("a", "pk0", agg) + line("b", "pk1", agg), fmt.Sprintf(`{"data":%q,"partitionKey":"pk0"}`+"\n", kplVector)},
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

func TestKPLBadInput(t *testing.T) {
	s := newShell(t)
	good := `{"data":"aGk=","partitionKey":"p"}` + "\n"
	for _, test := range []struct {
		in   string
		says []string
	}{
		{good + "\n{", []string{"line 3", "JSON"}},
		{good + `{"data":"?"}`, []string{"line 2", "base64"}},
		{`{"data":null}`, []string{"line 1", `no "data"`}},
		{`{"partitionKey":"p"}`, []string{"line 1", `no "data"`}},
		{`{"data":"aGk=","partitionKey":1}`, []string{"line 1", "partitionKey"}},
		{`[]`, []string{"line 1"}},
		{good + `{"data":"aGk=","partitionKey":"` + "\xff" + `","aggregated":true}`, []string{"line 2", "UTF-8"}},
		{good + strings.Repeat("x", longestLine+1), []string{"line 2", "longer than"}},
	} {
		for _, command := range []string{"decode", "encode"} {
			r := s.want(exitUsage, s.runWith(test.in, "kpl", command))
			r.saying(t, append(test.says, "-: line")...)
			if strings.HasPrefix(test.in, good) != strings.HasPrefix(r.stdout, `{"data":"aGk="`) {
				t.Errorf("%s: the lines before are not printed: %s", command, r.stdout)
			}
		}
	}
	s.run(exitUsage, "kpl", "decode", "none").saying(t, "none")
	s.run(exitUsage, "kpl", "encode", ".").saying(t, "directory")
	s.run(exitUsage, "kpl").saying(t, "decode", "encode")
	half := `{"data":"` + base64Of(strings.Repeat("x", largestAggregate/2)) + `","partitionKey":"p","aggregated":true}` + "\n"
	s.want(exitUsage, s.runWith(half+half, "kpl", "encode")).saying(t, "line 2", "larger than 10485760 bytes")
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
