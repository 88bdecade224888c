package faultproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
)

// engine answers PutRecords as Kinesis does, BatchExecuteStatement as DynamoDB does, and everything else with an empty
// answer.
func engine(t *testing.T, seen *[]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*seen = append(*seen, string(body))
		if n := strings.Count(string(body), `"Data"`); n > 0 {
			record := `{"SequenceNumber":"1","ShardId":"s","ErrorCode":null}`
			_, _ = io.WriteString(w, `{"FailedRecordCount":0,"Records":[`+strings.TrimSuffix(strings.Repeat(record+",", n), ",")+`]}`)
		}
		if n := strings.Count(string(body), `"Statement"`); n > 0 {
			_, _ = io.WriteString(w, `{"Responses":[`+strings.TrimSuffix(strings.Repeat(`{"TableName":"t"},`, n), ",")+`]}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends a body and returns the answer. Without an answer the status is 0.
func ask(t *testing.T, url, operation, body string) (status int, reply string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "Service."+operation)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, "cut"
	}
	return response.StatusCode, string(text)
}

func TestFaultsOfKinesis(t *testing.T) {
	t.Parallel()
	const body = `{"Records":[{"Data":"YQ==","PartitionKey":"key-of-a"},{"Data":"Yg==","PartitionKey":"key-of-b"},{"Data":"Yw==","PartitionKey":"key-of-c"}]}`
	for _, test := range []struct {
		fault    faultproxy.Fault
		put      string
		status   int
		contains string
	}{
		{faultproxy.None, "abc", 200, `"FailedRecordCount":0`},
		{faultproxy.Refuse, "", 0, ""},
		{faultproxy.Drop, "abc", 0, ""},
		{faultproxy.Cut, "abc", 200, "cut"},
		{faultproxy.ErrorBefore, "", 500, "InternalFailure"},
		{faultproxy.ErrorAfter, "abc", 500, "InternalFailure"},
		{faultproxy.Unavailable, "", 503, "ServiceUnavailable"},
		{faultproxy.Throttle, "", 400, "ProvisionedThroughputExceededException"},
		{faultproxy.PutFirst, "a", 200, `"FailedRecordCount":2,"Records":[{"SequenceNumber":"1","ShardId":"s","ErrorCode":null},{"ErrorCode":"Prov`},
		{faultproxy.PutOthers, "bc", 200, `"FailedRecordCount":1,"Records":[{"ErrorCode":"Prov`},
		{faultproxy.PutNone, "", 200, `"FailedRecordCount":3`},
		{faultproxy.PutNotKnown, "abc", 200, `{"ErrorCode":"InternalFailure"`},
	} {
		var seen []string
		p, puts, stop := faultproxy.StartKinesis(engine(t, &seen), func(int, string) faultproxy.Fault { return test.fault })
		status, reply := ask(t, p.URL, "PutRecords", body)
		var put string
		for _, record := range puts.Records() {
			put += string(record.Data)
			if record.PartitionKey != "key-of-"+string(record.Data) {
				t.Errorf("%s: a partition key got lost: %+v", test.fault, record)
			}
		}
		if status != test.status || !strings.Contains(reply, test.contains) || put != test.put || p.Operations()[0] != "PutRecords" {
			t.Errorf("%s: put %q, status %d, %s", test.fault, put, status, reply)
		}
		if len(seen) != min(1, len(test.put)) {
			t.Errorf("%s: the engine saw %q", test.fault, seen)
		}
		stop()
	}
}

func TestFaultsOfBatches(t *testing.T) {
	t.Parallel()
	const body = `{"Statements":[{"Statement":"a"},{"Statement":"b"},{"Statement":"c"}]}`
	const done, throttled = `{"TableName":"t"}`, `{"Error":{"Code":"ThrottlingError","Message":"by faultproxy"}}`
	for fault, want := range map[faultproxy.Fault]struct{ sent, reply string }{
		faultproxy.None:      {"abc", done + "," + done + "," + done},
		faultproxy.PutFirst:  {"a", done + "," + throttled + "," + throttled},
		faultproxy.PutOthers: {"bc", throttled + "," + done + "," + done},
		faultproxy.PutNone:   {"", throttled + "," + throttled + "," + throttled},
		faultproxy.PutNotKnown: {
			"abc", done + "," + done + `,{"Error":{"Code":"InternalServerError","Message":"by faultproxy"}}`,
		},
	} {
		var seen []string
		p := faultproxy.New(t, engine(t, &seen), func(int, string) faultproxy.Fault { return fault })
		status, reply := ask(t, p.URL, "BatchExecuteStatement", body)
		if status != 200 || reply != `{"Responses":[`+want.reply+`]}` {
			t.Errorf("%s: status %d, %s", fault, status, reply)
		}
		sent := ""
		for _, letter := range want.sent {
			sent += `{"Statement":"` + string(letter) + `"},`
		}
		if all := strings.Join(seen, ""); (sent != "" || all != "") && all != `{"Statements":[`+strings.TrimSuffix(sent, ",")+`]}` {
			t.Errorf("%s: the engine saw %q", fault, all)
		}
	}
	var seen []string
	p := faultproxy.New(t, engine(t, &seen), func(int, string) faultproxy.Fault { return faultproxy.Unprocessed })
	status, reply := ask(t, p.URL, "BatchGetItem", `{"RequestItems":{"t":{"Keys":[]}}}`)
	if status != 200 || strings.TrimSpace(reply) != `{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[]}}}` || len(seen) > 0 {
		t.Errorf("keys: status %d, %s, the engine saw %q", status, reply, seen)
	}
	if ask(t, p.URL, "GetItem", "{}"); len(seen) != 1 {
		t.Errorf("the engine saw %q, and a fault of BatchGetItem must not break GetItem", seen)
	}
}

func TestFaultsOfS3AndSQS(t *testing.T) {
	t.Parallel()
	type start func(target string, plan func(int, string) faultproxy.Fault) (*faultproxy.Proxy, func())
	var s3, sqs start = faultproxy.StartS3, faultproxy.StartSQS
	for _, test := range []struct {
		start     start
		operation string
		fault     faultproxy.Fault
		effect    bool
		status    int
		contains  string
	}{
		{s3, "PUT", faultproxy.None, true, 200, ""},
		{s3, "PUT", faultproxy.Refuse, false, 0, ""},
		{s3, "PUT", faultproxy.Drop, true, 0, ""},
		{s3, "PUT", faultproxy.ErrorBefore, false, 500, "<Code>InternalError<"},
		{s3, "PUT", faultproxy.ErrorAfter, true, 500, "<Code>InternalError<"},
		{s3, "PUT", faultproxy.Unavailable, false, 503, "<Code>ServiceUnavailable<"},
		{s3, "PUT", faultproxy.Throttle, false, 503, "<Code>SlowDown<"},
		{s3, "PUT", faultproxy.Conflict, false, 409, "<Code>ConditionalRequestConflict<"},
		{s3, "PUT", faultproxy.ConflictAfter, true, 409, "<Code>ConditionalRequestConflict<"},
		{sqs, "SendMessage", faultproxy.None, true, 200, ""},
		{sqs, "SendMessage", faultproxy.Refuse, false, 0, ""},
		{sqs, "SendMessage", faultproxy.Drop, true, 0, ""},
		{sqs, "SendMessage", faultproxy.ErrorBefore, false, 500, "sqs#InternalFailure"},
		{sqs, "SendMessage", faultproxy.ErrorAfter, true, 500, "sqs#InternalFailure"},
		{sqs, "SendMessage", faultproxy.Unavailable, false, 503, "sqs#ServiceUnavailable"},
		{sqs, "SendMessage", faultproxy.Throttle, false, 400, "sqs#RequestThrottled"},
	} {
		var seen []string
		p, stop := test.start(engine(t, &seen), func(int, string) faultproxy.Fault { return test.fault })
		status, reply := ask(t, p.URL, test.operation, "a body")
		if status != test.status || !strings.Contains(reply, test.contains) || (len(seen) == 1) != test.effect || p.Operations()[0] != test.operation {
			t.Errorf("%s, %s: status %d, %s, the engine saw %q", test.operation, test.fault, status, reply, seen)
		}
		stop()
	}
}
