package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// scripted is a client that answers each call with an error or with an empty result, and counts calls. No local engine
// returns these errors.
type scripted struct {
	err       func(call int32) error // by number of the call, from 1; nil: no error
	calls     atomic.Int32
	inFlight  atomic.Int32
	most      atomic.Int32
	staleRead atomic.Bool
}

func failing(err error) *scripted { return &scripted{err: func(int32) error { return err }} }

func (s *scripted) call() error {
	call := s.calls.Add(1)
	now := s.inFlight.Add(1)
	for old := s.most.Load(); now > old && !s.most.CompareAndSwap(old, now); old = s.most.Load() {
		continue
	}
	time.Sleep(time.Millisecond) // lets other requests begin; on the clock of synctest, all that may
	s.inFlight.Add(-1)
	if s.err == nil {
		return nil
	}
	return s.err(call)
}

func (s *scripted) read(consistent *bool) error {
	if !aws.ToBool(consistent) {
		s.staleRead.Store(true)
	}
	return s.call()
}

func (s *scripted) BatchExecuteStatement(_ context.Context, in *dynamodb.BatchExecuteStatementInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	return &dynamodb.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(in.Statements))}, s.call()
}

func (s *scripted) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, s.read(in.RequestItems[table].ConsistentRead)
}

func (s *scripted) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{}, s.read(in.ConsistentRead)
}

func (s *scripted) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{}, s.read(in.ConsistentRead)
}

func (s *scripted) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, s.call()
}

func (s *scripted) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return &dynamodb.UpdateItemOutput{}, s.call()
}

func (s *scripted) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return &dynamodb.TransactWriteItemsOutput{}, s.call()
}

// everyMethod calls each method once and returns its error.
func everyMethod(ctx context.Context, s *Store) map[string]error {
	put, err := s.PutIfAbsent(ctx, entries(1))
	errs := map[string]error{"PutIfAbsent": errors.Join(err, put[0].Err)}
	inserted, err := s.PutIfAbsent(ctx, entries(FullRequest))
	errs["PutIfAbsent by statements"] = errors.Join(err, inserted[0].Err)
	transacted, err := s.Transact(ctx, dedupe.Transaction{Entry: entries(1)[0]}, nil)
	errs["Transact"] = err
	raised, err := s.RaisePurge(ctx, []dedupe.RaiseRequest{{PurgeAt: 1}})
	errs["RaisePurge"] = errors.Join(err, raised[0].Err)
	answers, err := s.Enter(ctx, dedupe.Question{Records: []dedupe.Candidate{{ID: "a"}}})
	errs["Enter"] = errors.Join(err, answers[0].Err)
	acks, err := s.ReadAcks(ctx, dedupe.AckKey{}, "1", "2")
	errs["ReadAcks"] = err
	errs["WriteAck"] = s.WriteAck(ctx, dedupe.AckKey{}, dedupe.Ack{First: "1", Last: "2"})
	consumer, err := s.ClaimConsumer(ctx, "s", dedupe.Stream{}, "me")
	errs["ClaimConsumer"] = err
	run, err := s.ReadRun(ctx, "s", "digest")
	errs["ReadRun"] = err
	errs["SaveRun"] = s.SaveRun(ctx, "s", dedupe.Run{})
	byID, err := s.RunByID(ctx, "s", "id")
	errs["RunByID"] = err
	open, err := s.OpenRuns(ctx, "s")
	errs["OpenRuns"] = err
	closed, err := s.CloseRun(ctx, "s", dedupe.Run{})
	errs["CloseRun"] = err
	if put[0].Existing != nil || transacted.Existing != nil || raised[0].Raised || answers[0].Found != dedupe.NotKnown ||
		len(acks) > 0 || consumer != "" || run != nil || byID != nil || len(open) > 0 || closed {
		errs["an answer was made up"] = nil
	}
	return errs
}

func entries(n int) []dedupe.Entry {
	all := make([]dedupe.Entry, n)
	for i := range all {
		all[i] = dedupe.Entry{
			Scope: "s", Key: format.KeyOf(fmt.Sprint(i)), Owner: dedupe.Owner{Sequence: "me"}, Arrival: time.Unix(1, 0),
		}
	}
	return all
}

// TestFailuresAreErrors: no method takes a failure for a result.
func TestFailuresAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		err      error
		tryAgain bool
	}{
		{"throttled", &types.ThrottlingException{}, true},
		{"met a transaction", &types.TransactionConflictException{}, true},
		{"deadline", context.DeadlineExceeded, true},
		{"denied", errors.New("denied"), false},
	} {
		client := failing(test.err)
		for method, err := range everyMethod(t.Context(), New(client, table)) {
			if err == nil || errors.Is(err, dedupe.ErrTryAgain) != test.tryAgain {
				t.Errorf("%s, %s: want an error, try again %t; got %v", test.name, method, test.tryAgain, err)
			}
		}
		if client.staleRead.Load() {
			t.Errorf("%s: a read was not consistent", test.name)
		}
	}
}

// TestRowsOfOthers: rows of another version, and conditions that failed without the old row, are faults. They make no
// record a duplicate.
func TestRowsOfOthers(t *testing.T) {
	t.Parallel()
	type row = map[string]types.AttributeValue
	entry, digest := entries(1)[0], binary(make([]byte, len(dedupe.Digest{})))
	for name, old := range map[string]row{
		"no old row":              nil,
		"other attributes":        {"owner": text("a/b/c/d/1"), "fingerprint": text(""), "arrival": number(1), "purge_at": number(9)},
		"no owner":                {"c": digest, "purge_at": number(9)},
		"no content":              {"o": digest, "purge_at": number(9)},
		"a short owner":           {"o": binary([]byte("short")), "c": digest},
		"a long content":          {"o": digest, "c": binary(make([]byte, 17))},
		"an owner of a text":      {"o": text("0123456789abcdef"), "c": digest},
		"a purge time of a text":  {"o": digest, "c": digest, "purge_at": text("9")},
		"a purge time in between": {"o": digest, "c": digest, "purge_at": &types.AttributeValueMemberN{Value: "9.5"}},
	} {
		s := New(failing(&types.ConditionalCheckFailedException{Item: old}), table)
		got, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{entry})
		if err != nil || got[0].Err == nil || errors.Is(got[0].Err, dedupe.ErrTryAgain) || got[0].Existing != nil {
			t.Errorf("%s: a put made up an answer: %+v, %v", name, got, err)
		}
		raise := dedupe.RaiseRequest{Owner: entry.Owner.Digest(), PurgeAt: 1}
		if got, err := s.RaisePurge(t.Context(), []dedupe.RaiseRequest{raise}); err != nil || got[0].Raised {
			t.Errorf("%s: a raise made up an answer: %+v, %v", name, got, err)
		}
	}
	const says = "has layout %d, and this version of oncebox reads layout 2; use the version that wrote it, or another scope"
	for name, c := range map[string]struct {
		old  row
		says string
	}{
		"no old row":      {nil, "claim consumer"},
		"no layout":       {row{"function": text("me")}, fmt.Sprintf(says, 0)},
		"an older layout": {row{"function": text("me"), "layout": number(1)}, fmt.Sprintf(says, 1)},
		"a later layout":  {row{"function": text("me"), "layout": number(3)}, fmt.Sprintf(says, 3)},
		"layout of a map": {row{"function": text("me"), "layout": &types.AttributeValueMemberM{}}, ""},
	} {
		s := New(failing(&types.ConditionalCheckFailedException{Item: c.old}), table)
		consumer, err := s.ClaimConsumer(t.Context(), "s", dedupe.Stream{}, "me")
		if consumer != "" || err == nil || errors.Is(err, dedupe.ErrTryAgain) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got consumer %q, %v", name, consumer, err)
		}
	}
}

// TestUnheardSave: a save whose condition failed had taken effect only if the stored row equals it.
func TestUnheardSave(t *testing.T) {
	t.Parallel()
	r := dedupe.Run{ID: "run-1", OutputID: "o", Beat: 5, Lines: 7, Tally: dedupe.Tally{In: 7, New: 7}}
	earlier, later, closed := r, r, r
	earlier.Beat, later.Beat, closed.Closed = 4, 6, true
	encoded := func(r dedupe.Run) map[string]types.AttributeValue { return dynamo.Encode(newRunRow("s", r)) }
	for name, c := range map[string]struct {
		old      map[string]types.AttributeValue
		saved    bool
		replaced bool
	}{
		"the same row":  {encoded(r), true, false},
		"an earlier":    {encoded(earlier), false, true},
		"a later":       {encoded(later), false, true},
		"a closed":      {encoded(closed), false, true},
		"no old row":    {nil, false, false},
		"an empty row":  {map[string]types.AttributeValue{}, false, false},
		"other layouts": {map[string]types.AttributeValue{"beat": text("5")}, false, false},
	} {
		err := New(failing(&types.ConditionalCheckFailedException{Item: c.old}), table).SaveRun(t.Context(), "s", r)
		if (err == nil) != c.saved || errors.Is(err, dedupe.ErrReplaced) != c.replaced {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestRequests: each entry of a small call costs one request, and from 25 entries on a request has up to 25 of them,
// with the allowed number of requests at a time. Messages of a queue cost one request each.
func TestRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ entries, requests, concurrency, most int }{
			{24, 24, 1, 1}, {24, 24, 8, 8}, {25, 1, 8, 1}, {26, 2, 8, 2}, {500, 20, 8, 8}, {501, 21, 1, 1},
		} {
			client := &scripted{}
			s := New(client, table, WithConcurrency(test.concurrency))
			if _, err := s.PutIfAbsent(t.Context(), entries(test.entries)); err != nil {
				t.Fatal(err)
			}
			if calls, most := int(client.calls.Load()), int(client.most.Load()); calls != test.requests || most != test.most {
				t.Errorf("%+v: got %d requests, %d at a time", test, calls, most)
			}
		}
		client, held := &scripted{}, entries(100)
		held[99].Hold.Ends = 1
		if _, err := New(client, table).PutIfAbsent(t.Context(), held); err != nil || client.calls.Load() != 100 {
			t.Errorf("messages of a queue: %d requests, %v", client.calls.Load(), err)
		}
	})
}

// TestTableDown: if the table is down, every entry fails, none is taken for a duplicate, and far fewer requests than
// entries are sent. This is also true if the table goes down after the first requests.
func TestTableDown(t *testing.T) {
	t.Parallel()
	const n, concurrency = 500, 8
	for _, good := range []int32{0, 20} {
		client := &scripted{err: func(call int32) error {
			if call <= good {
				return nil
			}
			return &types.ThrottlingException{}
		}}
		results, err := withStatements(client, n+1, WithConcurrency(concurrency)).PutIfAbsent(t.Context(), entries(n))
		if err != nil {
			t.Fatal(err)
		}
		put := int32(0)
		for i, r := range results {
			if r.Err == nil && r.Existing == nil {
				put++
			} else if r.Existing != nil || !errors.Is(r.Err, dedupe.ErrTryAgain) {
				t.Fatalf("entry %d: want %v, got %+v", i, dedupe.ErrTryAgain, r)
			}
		}
		if calls := client.calls.Load(); put != good || calls > 2*good+2*concurrency {
			t.Errorf("down after %d requests: %d entries were put, with %d requests", good, put, calls)
		}
	}
}

// TestFewFailures: an entry that fails, for example by throttling, does not stop the others. On the clock of synctest
// no request waits to begin while others fail.
func TestFewFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, every = 500, 4
		client := &scripted{err: func(call int32) error {
			if call%every == 0 {
				return &types.ThrottlingException{}
			}
			return nil
		}}
		results, err := withStatements(client, n+1, WithConcurrency(8)).PutIfAbsent(t.Context(), entries(n))
		failures := 0
		for _, r := range results {
			if r.Err != nil {
				failures++
			}
		}
		if calls := client.calls.Load(); err != nil || calls != n || failures != n/every {
			t.Errorf("want %d requests and %d failures, got %d and %d, %v", n, n/every, calls, failures, err)
		}
	})
}
