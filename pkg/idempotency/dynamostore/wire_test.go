package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// wire notes the requests to an engine.
type wire struct {
	mu       sync.Mutex
	requests []string
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if bytes.Contains(body, []byte(`"ConsistentRead":true`)) {
		operation += " consistent"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, operation)
	return http.DefaultClient.Do(r)
}

// TestRequests: a new call costs two requests, each of one write unit, because the row has at most 1 KB. A replay costs
// a refused put, and half a read unit where replays are frequent. A process that has seen no Date reads first.
func TestRequests(t *testing.T) {
	t.Parallel()
	endpoint := testengine.Dynoxide(t)
	newClient(t, endpoint) // makes the table
	counted := &wire{}
	client := itembankengines.Client(endpoint, counted)
	runner, err := idempotency.New(dynamostore.New(client, table), "requests", idempotency.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(key string, want ...string) {
		t.Helper()
		fn := func(_ context.Context, e idempotency.Execution, _ int) (string, error) {
			if key == "effects" {
				e.Commit(dynamostore.Effects(add("requests")))
			}
			return strings.Repeat("x", 598), nil
		}
		_, err := idempotency.Do(t.Context(), runner, key, 0, fn)
		if got := counted.requests; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: want %v, got %v, %v", key, want, got, err)
		}
		counted.requests = nil
	}
	call("first", "GetItem consistent", "PutItem", "UpdateItem")
	call("new", "PutItem", "UpdateItem")
	call("new", "PutItem")
	call("new", "PutItem")
	call("new", "GetItem")
	call("effects", "GetItem", "PutItem", "TransactWriteItems")
	all, err := client.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: aws.String(table), FilterExpression: aws.String("begins_with(pk, :pk)"),
		ExpressionAttributeValues: row{":pk": text("once#requests#")},
	})
	if err != nil || len(all.Items) != 3 || sizeOf(all.Items[0]) > 1024 {
		t.Errorf("want 3 rows of up to 1,024 bytes, got %v, %v", all, err)
	}
}

type row = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// sizeOf returns at least the size of an item: a number has fewer bytes than its text.
func sizeOf(item row) (size int) {
	for name, value := range item {
		size += len(name)
		switch v := value.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		}
	}
	return size
}

// TestKeyOfRow: a store with other keys would not find the rows of existing tables, and policies allow keys by their
// beginning.
func TestKeyOfRow(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	key := engine.Key{Namespace: "key-of-row", Name: "order-1"}
	record := engine.Record{Status: engine.InProgress, Token: "t", PurgeAt: time.Unix(4_000_000_000, 0)}
	if a, err := dynamostore.New(client, table).Put(t.Context(), key, record); err != nil || !a.Done {
		t.Fatal(a, err)
	}
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table),
		Key: row{
			"pk": text("once#key-of-row#03f0b907f3b6b725987fe4a1cea1a7ff2e39d00139f6b59c3a034ba854a25f21"), "sk": text("record"),
		},
	})
	if err != nil || out.Item["purge_at"] == nil || out.Item["purge_at"].(*types.AttributeValueMemberN).Value != "4000000000" {
		t.Error(key.Digest(), out, err)
	}
}

// scripted is a server of DynamoDB's protocol.
type scripted func(w http.ResponseWriter)

func (s scripted) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	s(w)
}

func (s scripted) store(t *testing.T) *dynamostore.Store {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return dynamostore.New(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	}), table)
}

func replyError(w http.ResponseWriter, status int, code, more string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"__type": "com.amazonaws.dynamodb.v20120810#%s"%s}`, code, more)
}

var (
	key    = engine.Key{Namespace: "n", Name: "k"}
	record = engine.Record{Status: engine.InProgress, Token: "t"}
)

// everyMethod calls each method once.
func everyMethod(ctx context.Context, s *dynamostore.Store) map[string]func() (engine.Answer, error) {
	return map[string]func() (engine.Answer, error){
		"Put":      func() (engine.Answer, error) { return s.Put(ctx, key, record) },
		"Replace":  func() (engine.Answer, error) { return s.Replace(ctx, key, record.Version(), record) },
		"Prolong":  func() (engine.Answer, error) { return s.Prolong(ctx, key, "t", engine.Ends{}) },
		"Complete": func() (engine.Answer, error) { return s.Complete(ctx, key, "t", engine.Completion{}) },
		"Release":  func() (engine.Answer, error) { return s.Release(ctx, key, "t", "u") },
		"Read":     func() (engine.Answer, error) { return s.Read(ctx, key, engine.Strong) },
	}
}

// TestFailuresAreErrors: no method takes a failure for an answer, and only a failure that may pass belongs to
// ErrTryAgain.
func TestFailuresAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status   int
		code     string
		tryAgain bool
	}{
		{400, "ThrottlingException", true},
		{400, "ProvisionedThroughputExceededException", true},
		{400, "TransactionConflictException", true},
		{500, "InternalServerError", true},
		{400, "ValidationException", false},
		{400, "AccessDeniedException", false},
		{400, "ResourceNotFoundException", false},
	} {
		s := scripted(func(w http.ResponseWriter) { replyError(w, test.status, test.code, "") }).store(t)
		for name, method := range everyMethod(t.Context(), s) {
			a, err := method()
			if err == nil || errors.Is(err, engine.ErrTryAgain) != test.tryAgain || a.Done || a.Row != nil || !a.Date.IsZero() {
				t.Errorf("%s, %s: want an error, try again %t; got %+v, %v", test.code, name, test.tryAgain, a, err)
			}
		}
	}
}

// TestDates: an answer has the Date of the reply that it rests on, also if the condition failed, or if it is the reply
// to a second attempt of the SDK. A reply without a Date cannot be used.
func TestDates(t *testing.T) {
	t.Parallel()
	date := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, reply := range map[string]func(w http.ResponseWriter){
		"done": func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "{}") },
		"refused": func(w http.ResponseWriter) {
			replyError(w, 400, "ConditionalCheckFailedException", `, "Item": {"layout": {"N": "1"}}`)
		},
	} {
		requests := 0
		s := scripted(func(w http.ResponseWriter) {
			if requests++; requests%2 == 1 {
				w.Header().Set("Date", date.Add(-time.Hour).Format(http.TimeFormat))
				replyError(w, 500, "InternalServerError", "")
				return
			}
			w.Header().Set("Date", date.Format(http.TimeFormat))
			reply(w)
		}).store(t)
		for method, call := range everyMethod(t.Context(), s) {
			if a, err := call(); err != nil || !a.Date.Equal(date) {
				t.Errorf("%s, %s: got %v, %v", name, method, a.Date, err)
			}
		}
		if requests != 12 {
			t.Errorf("%s: got %d requests", name, requests)
		}
	}
	s := scripted(func(w http.ResponseWriter) {
		w.Header()["Date"] = nil
		_, _ = fmt.Fprint(w, "{}")
	}).store(t)
	for method, call := range everyMethod(t.Context(), s) {
		if a, err := call(); err == nil || errors.Is(err, engine.ErrTryAgain) || !strings.Contains(err.Error(), "no Date") {
			t.Errorf("no date, %s: got %+v, %v", method, a, err)
		}
	}
}

// TestRowsOfOthers: a row of another layout is a fault. A put that was refused without the old row may have been done
// before, so its outcome is unknown. An update that was refused without the old row has found none.
func TestRowsOfOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		item string
		says string // of a put
	}{
		"another layout": {`, "Item": {"layout": {"N": "2"}}`, "has layout 2, and this version of oncebox reads layout 1"},
		"no layout":      {`, "Item": {"pk": {"S": "x"}}`, "has layout 0"},
		"another type":   {`, "Item": {"layout": {"N": "1"}, "number": {"S": "x"}}`, "does not decode"},
		"no row":         {"", "the key has a row, and the reply does not show it"},
	} {
		s := scripted(func(w http.ResponseWriter) {
			replyError(w, 400, "ConditionalCheckFailedException", test.item)
		}).store(t)
		for method, call := range everyMethod(t.Context(), s) {
			a, err := call()
			if put := method == "Put" || method == "Replace"; put || test.item != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, engine.ErrTryAgain) != (test.item == "") {
					t.Errorf("%s, %s: want %q, got %+v, %v", name, method, test.says, a, err)
				}
			} else if err != nil || a.Done || a.Row != nil {
				t.Errorf("%s, %s: want no row, got %+v, %v", name, method, a, err)
			}
		}
	}
}
