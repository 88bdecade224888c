package dynamosink

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
)

func reasonOf(err error) string {
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		return poison.Reason
	}
	return fmt.Sprint(err)
}

// TestDecode: a record becomes attributes without loss, or is refused.
func TestDecode(t *testing.T) {
	t.Parallel()
	i, err := decode([]byte(` {"s":"ü\n\u0000","n":1.50,"b":true,"z":null,"l":[1,"x",{}],"m":{"n":{"n":-0}}} `))
	must(t, err)
	var got map[string]any
	must(t, attributevalue.UnmarshalMap(i, &got))
	if text := fmt.Sprint(got); text != "map[b:true l:[1 x map[]] m:map[n:map[n:0]] n:1.5 s:ü\n\x00 z:<nil>]" {
		t.Errorf("got %q", text)
	}
	if got := textOf(i.at(path{"l", "1"})); got != "x" {
		t.Errorf("the element is %q", got)
	}
	for _, p := range []path{{"l", "3"}, {"l", "01"}, {"l", "-1"}, {"s", "x"}, {"x"}} {
		if v := i.at(p); v != nil {
			t.Errorf("%q: got %v", p, v)
		}
	}
	for data, reason := range map[string]string{
		``: reasonNotJSON, `[]`: reasonNotJSON, `"x"`: reasonNotJSON, `{"a":1`: reasonNotJSON, `{} {}`: reasonNotJSON,
		`{"a":tru}`: reasonNotJSON, "{\"a\":\"\xff\"}": reasonNotJSON, `{"a":[1}`: reasonNotJSON, `{"a":01}`: reasonNotJSON,
		`{"":1}`: reasonNames, `{"a":1,"a":1}`: reasonNames, `{"a":{"b":1,"\u0062":2}}`: reasonNames,
		`{"a":"\ud800"}`: reasonNoUnicode, `{"\ud800":1}`: reasonNoUnicode, `{"a":"\ud83d\ude00"}`: "<nil>", `{"a":"\ufffd"}`: "<nil>",
		`{"a":1e126}`: reasonNumber, `{"a":[1e-131]}`: reasonNumber, `{"a":` + strings.Repeat("1", 39) + `}`: reasonNumber,
		`{"a":` + strings.Repeat(`[`, 32) + strings.Repeat(`]`, 32) + `}`: "<nil>",
		`{"a":` + strings.Repeat(`[`, 33) + strings.Repeat(`]`, 33) + `}`: reasonTooDeep,
		`{"a":` + strings.Repeat(`[`, 1e6):                                reasonTooDeep,
	} {
		if _, err := decode([]byte(data)); reasonOf(err) != reason {
			t.Errorf("%.40s: got %v, want %s", data, err, reason)
		}
	}
}

// TestNumbers: numbers are stored exactly, as the engine reads them.
func TestNumbers(t *testing.T) {
	t.Parallel()
	d := newDB(t, testengine.Dynoxide(t))
	for text, fits := range map[string]bool{
		"0": true, "-0": true, "0.0": true, "0e999999999999": true, "1": true, "-1": true, "1.50": true, "1e5": true, "1E+5": true, "-12.5e-3": true,
		"12345678901234567890123456789012345678": true, "1.2345678901234567890123456789012345678": true,
		"123456789012345678901234567890123456789": false, "1000000000000000000000000000000000000000": true,
		"0.00000000000000000000000000000000000000000000000001": true,
		"1e125": true, "9.9999999999999999999999999999999999999e125": true, "1e126": false, "10e125": false, "0.1e126": true,
		"1e-130": true, "1e-131": false, "0.1e-130": false, "10e-131": true, "1e99999999999999999999": false,
		"1" + strings.Repeat("0", 2000): false,
	} {
		got, err := number(text)
		if (err == nil) != fits {
			t.Errorf("%.50s: %v", text, err)
		}
		if err != nil || strings.Contains(text, "e9999") {
			continue
		}
		d.put(t, item{"key": &types.AttributeValueMemberS{Value: text}, "n": &types.AttributeValueMemberN{Value: got}})
		want, _ := new(big.Rat).SetString(text)
		back, ok := new(big.Rat).SetString(textOf(d.get(t, text)["n"]))
		if !ok || back.Cmp(want) != 0 {
			t.Errorf("%s came back as %v", text, d.get(t, text)["n"])
		}
	}
}

// TestLargestItem: the engine accepts an item of the largest size, and refuses one with a byte more.
func TestLargestItem(t *testing.T) {
	t.Parallel()
	largestItems(t, testengine.Dynoxide(t))
}

func TestLargestItemOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	largestItems(t, testengine.DynamoDBLocal(t))
}

func largestItems(t *testing.T, endpoint string) {
	d := newDB(t, endpoint)
	s, err := New(dynamostore.New(d.client, d.entries), Table{Name: d.name, Key: []Attribute{{"key", "key"}}})
	must(t, err)
	record := func(filling int) []byte {
		return fmt.Appendf(nil, `{"key":"a","s":%q,"l":["x",true,[]],"m":{"a":{},"b":null}}`, strings.Repeat("ü", filling/2)+strings.Repeat("x", filling%2))
	}
	probe, err := decode(record(0))
	must(t, err)
	for over := range 2 {
		o := dedupe.Output{ID: "a", Data: record(largestItem - probe.size() + over)}
		i, err := decode(o.Data)
		must(t, err)
		_, err = d.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &d.name, Item: i})
		if err := s.Check(t.Context(), o); (err != nil) != (over > 0) || over > 0 && reasonOf(err) != reasonTooLarge {
			t.Errorf("%d bytes over: %v", over, err)
		}
		if (err != nil) != (over > 0) {
			t.Errorf("%d bytes over: the engine says %v", over, err)
		}
	}
}

// TestItemOf: keys, versions and deletes of a table with a sort key.
func TestItemOf(t *testing.T) {
	t.Parallel()
	s, err := New(dynamostore.New(nil, "d"), Table{
		Name: "tab", Key: []Attribute{{"pk", "customer.id"}, {"sk", "n"}}, Version: Attribute{"v", "at"},
		DeletePath: "op", DeleteValue: "d",
	})
	must(t, err)
	for data, reason := range map[string]string{
		`{"customer":{"id":"c"},"n":5,"at":"2026","op":"u"}`:                     "<nil>",
		`{"customer":{"id":"c"},"n":5,"at":"2026","op":"d"}`:                     "<nil>",
		`{"customer":{"id":""},"n":5,"at":1}`:                                    reasonNoKey,
		`{"customer":{},"n":5,"at":1}`:                                           reasonNoKey,
		`{"customer":{"id":true},"n":5,"at":1}`:                                  reasonNoKey,
		`{"customer":{"id":"` + strings.Repeat("c", 2049) + `"},"n":5,"at":1}`:   reasonNoKey,
		`{"customer":{"id":"c"},"n":"` + strings.Repeat("c", 1025) + `","at":1}`: reasonNoKey,
		`{"customer":{"id":"c"},"n":5}`:                                          reasonNoVersion,
		`{"customer":{"id":"c"},"n":5,"at":null,"op":"d"}`:                       reasonNoVersion,
		`{"customer":{"id":"c"},"n":5,"at":"2026-11-22T11:00:00+01:00"}`:         reasonText,
		`{"customer":{"id":"c"},"n":5,"at":"0190163D86999d"}`:                    reasonCases,
		`{"customer":{"id":"c"},"n":5,"at":"20261122T090000"}`:                   reasonZone,
		`{"customer":{"id":"c"},"n":5,"at":"00000000T1"}`:                        "<nil>",
		`{"customer":{"id":"c"},"n":5,"at":1,"pk":2}`:                            reasonTaken,
		`{"customer":{"id":"c"},"n":5,"at":1,"oncebox_deleted":true}`:            reasonReserved,
	} {
		if err := s.Check(t.Context(), dedupe.Output{ID: "a", Data: []byte(data)}); reasonOf(err) != reason {
			t.Errorf("%.60s: got %v, want %s", data, err, reason)
		}
	}
	actions, err := s.effect(t.Context(), dedupe.Output{ID: "a", Data: []byte(`{"customer":{"id":"c"},"n":5,"at":1,"op":"d","x":1}`)})
	must(t, err)
	var got map[string]any
	must(t, attributevalue.UnmarshalMap(actions[0].Put.Item, &got))
	if len(got) != 5 || got["pk"] != "c" || got["sk"] != 5.0 || got["v"] != 1.0 || got[DeletedAttribute] != true {
		t.Errorf("a delete leaves %v", got)
	}
}

func TestTablesThatAreNone(t *testing.T) {
	t.Parallel()
	key := []Attribute{{"id", "id"}}
	for says, table := range map[string]Table{
		"not the name of a table":  {Name: "a b", Key: key},
		"0 key attributes":         {Name: "tab"},
		"3 key attributes":         {Name: "tab", Key: []Attribute{{"a", "a"}, {"b", "b"}, {"c", "c"}}},
		`"id" is named twice`:      {Name: "tab", Key: key, Version: Attribute{"id", "v"}},
		"is not the name of an at": {Name: "tab", Key: key, Version: Attribute{KeyAttribute, "v"}},
		"wildcards":                {Name: "tab", Key: []Attribute{{"id", "a.*"}}},
		"a path and a value":       {Name: "tab", Key: key, Version: Attribute{"v", "v"}, DeletePath: "op"},
		"it needs a version":       {Name: "tab", Key: key, DeletePath: "op", DeleteValue: "d"},
	} {
		if err := table.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	for text, want := range map[string]Attribute{"id": {"id", "id"}, "pk=a.b": {"pk", "a.b"}} {
		if a, err := ParseAttribute(text); err != nil || a != want {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "a.b", "=a", "a=", "a=b..c", DeletedAttribute} {
		if a, err := ParseAttribute(text); err == nil {
			t.Errorf("%q: got %v", text, a)
		}
	}
}

// TestVersionsThatProveNothing: the existing item has no version that is comparable with the record's.
func TestVersionsThatProveNothing(t *testing.T) {
	t.Parallel()
	d := newDB(t, testengine.Dynoxide(t))
	target := modes["versions"](t, d, d.client)
	for name, version := range map[string]types.AttributeValue{
		"none": nil, "boolean": &types.AttributeValueMemberBOOL{Value: true}, "null": &types.AttributeValueMemberNULL{Value: true},
		"binary": &types.AttributeValueMemberB{Value: []byte("9")}, "text": &types.AttributeValueMemberS{Value: "9"},
		"numbers": &types.AttributeValueMemberNS{Value: []string{"9"}},
	} {
		i := item{"key": &types.AttributeValueMemberS{Value: name}}
		if version != nil {
			i["v"] = version
		}
		d.put(t, i)
		result, err := target.Sink.Transact(t.Context(), transaction(name, versioned(name, name, "x", 5, false)))
		if reasonOf(err) != reasonUnproven || result.Superseded {
			t.Errorf("%s: got %+v, %v", name, result, err)
		}
	}
	for _, version := range []string{
		"2027-03-01 10:00:00Z", "2027-03-01T10:00:00+", "2027-03-01T09:00:00z", "2027-03-01,09:00:00Z", "01JNHZ3Q9D7V8YB2C4F6",
		"+1234567890123456789", "2027-03-01t08:00:00z", "1027=03=01#09*00*00@", "1027-03-01T09:00:00~", "1026-03-01T09:00;00Z",
		"1025-03-01T09:00|00Z",
	} {
		text := &types.AttributeValueMemberS{Value: version}
		d.put(t, item{"key": text, "v": text})
		record := versioned(version, version, "x", "2027-03-01T09:00:00Z", false)
		result, err := target.Sink.Transact(t.Context(), transaction(version, record))
		if reasonOf(err) != reasonUnproven || result.Superseded {
			t.Errorf("%s: got %+v, %v", version, result, err)
		}
	}
	// An item with an equal version that another program wrote stays.
	d.put(t, item{"key": &types.AttributeValueMemberS{Value: "equal"}, "v": &types.AttributeValueMemberN{Value: "5"}})
	result, err := target.Sink.Transact(t.Context(), transaction("equal", versioned("equal", "equal", "x", 5, false)))
	if err != nil || !result.Superseded {
		t.Errorf("got %+v, %v", result, err)
	}
}

func transaction(id string, data []byte) dedupe.Transaction {
	e := dedupe.Entry{Scope: "s", Owner: dedupe.Owner{Source: "x", Sequence: id}, Fingerprint: "x", Done: true}
	copy(e.Key[:], id)
	return dedupe.Transaction{Entry: e, Output: dedupe.Output{ID: id, Data: data}}
}

// TestJudgeOfTheCaller: the caller decides what a failed condition of its own action means.
func TestJudgeOfTheCaller(t *testing.T) {
	t.Parallel()
	d := newDB(t, testengine.Dynoxide(t))
	target := modes["own"](t, d, d.client)
	s := target.Sink.(*Sink)
	if _, err := s.Transact(t.Context(), transaction("a", target.Refused(t, "a"))); reasonOf(err) != "the condition of action 0 of its effect failed" {
		t.Errorf("got %v", err)
	}
	s.judge = func(_ dedupe.Output, failed []dynamostore.FailedCondition) (bool, error) {
		return false, dedupe.ErrTryAgain
	}
	if _, err := s.Transact(t.Context(), transaction("a", target.Refused(t, "a"))); !errors.Is(err, dedupe.ErrTryAgain) {
		t.Errorf("got %v", err)
	}
	s.judge = func(_ dedupe.Output, failed []dynamostore.FailedCondition) (bool, error) {
		return failed[0].Action == 0, nil
	}
	result, err := s.Transact(t.Context(), transaction("a", target.Refused(t, "a")))
	if err != nil || !result.Superseded || result.Existing != nil {
		t.Errorf("got %+v, %v", result, err)
	}
	result, err = s.Transact(t.Context(), transaction("a", target.Refused(t, "a")))
	if err != nil || result.Superseded || result.Existing == nil || !result.Existing.Done {
		t.Errorf("again: got %+v, %v", result, err)
	}
}
