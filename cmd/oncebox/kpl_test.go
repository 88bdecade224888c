package main

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
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
		{good + strings.Repeat("x", 16<<20+1), []string{"line 2", "longer than"}},
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
	half := `{"data":"` + base64Of(strings.Repeat("x", 10<<20/2)) + `","partitionKey":"p","aggregated":true}` + "\n"
	s.want(exitUsage, s.runWith(half+half, "kpl", "encode")).saying(t, "line 2", "larger than 10485760 bytes")
}
