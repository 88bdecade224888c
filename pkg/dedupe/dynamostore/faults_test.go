package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// scripted is a client that answers every call with the same error, or with none, and counts calls. No local engine
// returns these errors.
type scripted struct {
	err       error
	calls     atomic.Int32
	inFlight  atomic.Int32
	most      atomic.Int32
	staleRead atomic.Bool
}

func (s *scripted) call() error {
	s.calls.Add(1)
	now := s.inFlight.Add(1)
	for old := s.most.Load(); now > old && !s.most.CompareAndSwap(old, now); old = s.most.Load() {
		continue
	}
	time.Sleep(time.Millisecond) // so that other requests begin meanwhile
	s.inFlight.Add(-1)
	return s.err
}

func (s *scripted) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		s.staleRead.Store(true)
	}
	return &dynamodb.GetItemOutput{}, s.call()
}

func (s *scripted) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, s.call()
}

func (s *scripted) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return &dynamodb.UpdateItemOutput{}, s.call()
}

// everyMethod calls each method once and returns its error.
func everyMethod(ctx context.Context, s *Store) map[string]error {
	put, err := s.PutIfAbsent(ctx, entries(1))
	errs := map[string]error{"PutIfAbsent": errors.Join(err, put[0].Err)}
	raised, err := s.RaisePurge(ctx, []dedupe.RaiseRequest{{Owner: "me", PurgeAt: 1}})
	errs["RaisePurge"] = errors.Join(err, raised[0].Err)
	if put[0].Existing != nil || raised[0].Raised {
		errs["an answer was made up"] = nil
	}
	_, errs["ReadCheckpoint"] = s.ReadCheckpoint(ctx, dedupe.CheckpointKey{})
	errs["AdvanceCheckpoint"] = s.AdvanceCheckpoint(ctx, dedupe.CheckpointKey{}, dedupe.Checkpoint{Sequence: "1", Consumer: "me"})
	_, errs["ReadRun"] = s.ReadRun(ctx, "s", "digest")
	errs["SaveRun"] = s.SaveRun(ctx, "s", dedupe.Run{})
	return errs
}

func entries(n int) []dedupe.Entry {
	all := make([]dedupe.Entry, n)
	for i := range all {
		all[i] = dedupe.Entry{Scope: "s", Key: format.KeyOf(fmt.Sprint(i)), Owner: "me", Arrival: time.Unix(1, 0)}
	}
	return all
}

// TestFailuresAreErrors: no method takes a failure for an answer.
func TestFailuresAreErrors(t *testing.T) {
	t.Parallel()
	broken := map[string]types.AttributeValue{"arrival": text("no number"), "consumer": &types.AttributeValueMemberM{}}
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
		client := &scripted{err: test.err}
		for method, err := range everyMethod(t.Context(), New(client, table)) {
			if err == nil || errors.Is(err, dedupe.ErrTryAgain) != test.tryAgain {
				t.Errorf("%s, %s: want an error, try again %t; got %v", test.name, method, test.tryAgain, err)
			}
		}
		if client.staleRead.Load() {
			t.Errorf("%s: a read was not consistent", test.name)
		}
	}
	for name, old := range map[string]map[string]types.AttributeValue{"no old row": nil, "an unreadable old row": broken} {
		s := New(&scripted{err: &types.ConditionalCheckFailedException{Item: old}}, table)
		if got, err := s.PutIfAbsent(t.Context(), entries(1)); err != nil || got[0].Err == nil || got[0].Existing != nil {
			t.Errorf("%s: a put made up an answer: %+v, %v", name, got, err)
		}
		if got, err := s.RaisePurge(t.Context(), []dedupe.RaiseRequest{{PurgeAt: 1}}); err != nil || got[0].Raised {
			t.Errorf("%s: a raise made up an answer: %+v, %v", name, got, err)
		}
		if err := s.AdvanceCheckpoint(t.Context(), dedupe.CheckpointKey{}, dedupe.Checkpoint{Sequence: "1"}); err == nil || errors.Is(err, dedupe.ErrOtherConsumer) {
			t.Errorf("%s: a checkpoint made up an answer: %v", name, err)
		}
	}
}

// TestRequests: one request for each entry, as many at a time as allowed.
func TestRequests(t *testing.T) {
	t.Parallel()
	const n = 200
	for _, concurrency := range []int{1, 8} {
		client := &scripted{}
		if _, err := New(client, table, WithConcurrency(concurrency)).PutIfAbsent(t.Context(), entries(n)); err != nil {
			t.Fatal(err)
		}
		if calls, most := client.calls.Load(), int(client.most.Load()); calls != n || most != concurrency {
			t.Errorf("want %d requests, %d at a time; got %d, %d", n, concurrency, calls, most)
		}
	}
}

// TestTableDown: every entry fails, none is taken for a duplicate, and there is not one request for each.
func TestTableDown(t *testing.T) {
	t.Parallel()
	const n, concurrency = 500, 8
	client := &scripted{err: &types.ThrottlingException{}}
	results, err := New(client, table, WithConcurrency(concurrency)).PutIfAbsent(t.Context(), entries(n))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Existing != nil || !errors.Is(r.Err, dedupe.ErrTryAgain) {
			t.Fatalf("entry %d: want %v, got %+v", i, dedupe.ErrTryAgain, r)
		}
	}
	if calls := client.calls.Load(); calls > 2*concurrency {
		t.Errorf("%d requests were made", calls)
	}
}
