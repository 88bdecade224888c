package deadletter_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

func checkSame(t interface{ Errorf(string, ...any) }, got, want dedupe.DeadLetter) {
	if !got.Arrival.Equal(want.Arrival) || string(got.Data) != string(want.Data) {
		t.Errorf("arrival or data differ: %v, %v", got.Arrival, want.Arrival)
	}
	got.Arrival, want.Arrival = time.Time{}, time.Time{}
	got.Data, want.Data = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDocument fixes the format, which other programs read.
func TestDocument(t *testing.T) {
	t.Parallel()
	content, err := deadletter.Encode(newLetter("42"))
	must(t, err)
	const want = `{"format":1,"owner":"123456789012/eu-west-1/orders/shardId-000000000000/42#3","scope":"orders",` +
		`"position":{"account":"123456789012","region":"eu-west-1","stream":"orders","shard":"shardId-000000000000",` +
		`"sequence":"42","sub_sequence":3},"reason":"no id","partition_key":"key",` +
		`"arrival":"2026-11-20T01:02:03.456Z","data":"cGF5bG9hZCAA/wo="}` + "\n"
	if string(content) != want {
		t.Errorf("got  %s\nwant %s", content, want)
	}
}

// TestDocumentsAreReadBack: a document holds every record without change.
func TestDocumentsAreReadBack(t *testing.T) {
	t.Parallel()
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		want := dedupe.DeadLetter{
			Owner: "o" + text.Draw(t, "owner"), Scope: "s" + text.Draw(t, "scope"), Reason: text.Draw(t, "reason"),
			PartitionKey:    string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
			ExplicitHashKey: string(rapid.SliceOf(rapid.Byte()).Draw(t, "hash key")),
			Arrival:         time.Unix(rapid.Int64Range(0, 1<<34).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")),
			Data:            rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
			Unaggregated:    rapid.Bool().Draw(t, "unaggregated"),
			Position: dedupe.Position{
				Stream: dedupe.Stream{Account: text.Draw(t, "account"), Region: text.Draw(t, "region"), Name: text.Draw(t, "name")},
				Shard:  text.Draw(t, "shard"), Sequence: text.Draw(t, "sequence"), Sub: rapid.IntRange(dedupe.Plain, 1000).Draw(t,
					"sub"),
			},
		}
		if len(want.Data) == 0 {
			want.Data = nil
		}
		content, err := deadletter.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(content), "\n") != 1 {
			t.Errorf("not one line: %s", content)
		}
		got, err := deadletter.Decode(content)
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, want)
	})
}

func TestDecodeRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	whole, err := deadletter.Encode(newLetter("1"))
	must(t, err)
	for name, test := range map[string]struct{ content, says string }{
		"nothing":       {"", "not a document"},
		"half":          {string(whole[:len(whole)-10]), "not a document"},
		"two":           {string(whole) + string(whole), "not a document"},
		"other format":  {strings.Replace(string(whole), `"format":1`, `"format":2`, 1), "has format 2, and this version reads format 1; use the version that wrote it"},
		"no format":     {strings.Replace(string(whole), `"format":1,`, ``, 1), "format 0"},
		"no owner":      {strings.Replace(string(whole), `"owner"`, `"Eigner"`, 1), "no owner"},
		"no data":       {strings.Replace(string(whole), `"data"`, `"Daten"`, 1), "no owner or no data"},
		"data not text": {strings.Replace(string(whole), `"data":"`, `"data":"?`, 1), "not a document"},
		"null data":     {strings.Replace(string(whole), `"data":"cGF5bG9hZCAA/wo="`, `"data":null`, 1), "no owner or no data"},
	} {
		if _, err := deadletter.Decode([]byte(test.content)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
