package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

const (
	maxThrottled = 1.05        // write units a record while puts fail
	maxWithAcks  = 1.02        // write units a record, acks included, without faults
	timeout      = time.Minute // of the function
)

// BenchmarkRecordsThrottled measures what throttling costs the function: batches of 500
// new records, of which some fail with all attempts of the SDK, and then no more.
func BenchmarkRecordsThrottled(b *testing.B) {
	for b.Loop() { // once or often: the rounds are its own
	}
	endpoint := testengine.Dynoxide(b)
	for _, delay := range []time.Duration{network, 150 * time.Millisecond} {
		for _, percent := range []uint32{0, 2, 5} {
			s := newShop(b, endpoint)
			var units, invocations []float64
			var took pairs
			for range 5 {
				floor := timed(1, func() {
					s.must(putBare(b.Context(), s.unmetered(delay), s.dedupe, newCandidates(batchRecords)))
				})
				before := s.meter.read()
				var invoked int
				took.add(timed(1, func() { invoked = s.drain(delay, percent) }), floor)
				units = append(units, s.meter.read().minus(before).each(batchRecords).writeUnits)
				invocations = append(invocations, float64(invoked))
			}
			name := fmt.Sprintf("%d %% of puts fail, %v a request: ", percent, delay)
			goal := maxThrottled
			if percent == 0 {
				goal = maxWithAcks
			}
			note(name+"write units a record", median(units), goal, "with acks")
			note(name+"invocations", median(invocations), 1, "")
			took.report(name+"time, against the bare loop without faults", 0)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// drain processes a batch with a new function until it is done, and returns the number of invocations. Lambda
// delivers again from the record in the answer on. It bisects a batch whose invocation failed.
func (s *shop) drain(delay time.Duration, percent uint32) (invocations int) {
	s.Helper()
	o := s.client.Options()
	o.HTTPClient = delayed{&throttling{HTTPClient: s.meter, percent: percent, refused: map[string]int{}}, delay}
	store := dynamostore.New(dynamodb.New(o), s.dedupe)
	h := newHandler(s.B, dedupe.Parts{Ledger: store, Sink: slowSink{}, Acks: store, Consumers: store},
		"ONCEBOX_SCOPE="+strings.ToLower(rand.Text()))
	var event struct{ Records []json.RawMessage }
	s.must(json.Unmarshal(newEvent(s.B, batchRecords), &event))
	for open := event.Records; len(open) > 0; {
		part := open
		for {
			invocations++
			if invocations > 100 {
				s.Fatal("100 invocations")
			}
			done, err := s.invokePart(h, part)
			if err == nil {
				open = open[done:]
				break
			}
			if !errors.Is(err, recordhandler.ErrNoProgress) {
				s.Fatal(err)
			}
			part = part[:(len(part)+1)/2]
		}
	}
	return invocations
}

// invokePart invokes the function with some records, and returns the number of records that are done.
func (s *shop) invokePart(h *recordhandler.Handler, records []json.RawMessage) (done int, err error) {
	s.Helper()
	event, err := json.Marshal(map[string]any{"Records": records})
	s.must(err)
	ctx, cancel := context.WithTimeout(s.Context(), timeout)
	defer cancel()
	result, err := h.Deliver(ctx, event)
	return result.Done, err
}

// throttling is an HTTP client that refuses a percentage of the entries: their statements, and all attempts of the SDK
// for the puts that follow. Such a statement or put does not reach the engine.
type throttling struct {
	aws.HTTPClient
	percent uint32
	mu      sync.Mutex
	refused map[string]int // attempts, by the key of the entry
}

func (t *throttling) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var request struct {
		Item       struct{ PK key }
		Statements []json.RawMessage
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	if len(request.Statements) > 0 {
		return t.some(r, request.Statements)
	}
	if t.refuses(request.Item.PK) {
		return reply(r, http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`), nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return t.HTTPClient.Do(r)
}

// some sends the statements that are not refused.
func (t *throttling) some(r *http.Request, all []json.RawMessage) (*http.Response, error) {
	responses := make([]json.RawMessage, len(all))
	var sent []json.RawMessage
	var at []int
	for i, raw := range all {
		var statement struct{ Parameters []key }
		if err := json.Unmarshal(raw, &statement); err != nil {
			return nil, err
		}
		if t.refuses(statement.Parameters[0]) {
			responses[i] = json.RawMessage(`{"Error":{"Code":"ThrottlingError"}}`)
		} else {
			sent, at = append(sent, raw), append(at, i)
		}
	}
	if len(sent) > 0 {
		body, err := json.Marshal(map[string]any{"Statements": sent})
		if err != nil {
			return nil, err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		response, err := t.HTTPClient.Do(r)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		var answer struct{ Responses []json.RawMessage }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Responses) != len(sent) {
			return nil, fmt.Errorf("%d responses, %w", len(answer.Responses), err)
		}
		for n, i := range at {
			responses[i] = answer.Responses[n]
		}
	}
	body, err := json.Marshal(map[string]any{"Responses": responses})
	return reply(r, http.StatusOK, string(body)), err
}

func reply(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

type key struct{ S string }

func (t *throttling) refuses(pk key) bool {
	if !strings.HasPrefix(pk.S, "record#") {
		return false
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(pk.S)) // never fails
	if hash.Sum32()%100 >= t.percent {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused[pk.S]++
	return t.refused[pk.S] <= 1+awsclient.MaxAttempts // the statement, and the attempts of a put
}
