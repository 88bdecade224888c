package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// statementWire is a table behind a proxy that breaks requests, with a client that repeats them without a pause.
type statementWire struct {
	plain  *Store // without the proxy
	target string
}

// The attempts of the SDK for a request.
const attempts = 3

// statementFault breaks a request and those of its operation right after it.
type statementFault struct {
	operation string
	at, times int
	fault     faultproxy.Fault
}

func (f statementFault) plan(n int, operation string) faultproxy.Fault {
	if operation != f.operation || n < f.at || n >= f.at+f.times {
		return faultproxy.None
	}
	return f.fault
}

// mayFail reports whether the SDK gives a request up. It does not repeat one whose reply was cut.
func (f statementFault) mayFail() bool { return f.times == attempts || f.fault == faultproxy.Cut }

// hidesEffect reports whether records may have been put although the reply does not say so.
func (f statementFault) hidesEffect() bool {
	return slices.Contains([]faultproxy.Fault{
		faultproxy.Drop, faultproxy.Cut, faultproxy.ErrorAfter, faultproxy.PutNotKnown,
	}, f.fault)
}

// TestStatementsAtTheWire breaks each request with statements and each read of the rows of refused ones, once, and for
// all attempts of the SDK. A fault that passes fails no entry. An entry that fails can be put again. At the end each
// entry has its one owner, and was answered accordingly.
func TestStatementsAtTheWire(t *testing.T) {
	t.Parallel()
	w := newStatementWire(t)
	requests := w.play(t, "", statementFault{}, nil)
	for at, operation := range requests {
		if !strings.HasPrefix(operation, "Batch") {
			continue
		}
		for _, fault := range faultproxy.Of(operation) {
			for _, times := range []int{1, attempts} {
				name := fmt.Sprintf("%s of %s %d, %d times", fault, operation, at, times)
				w.play(t, name, statementFault{operation, at, times, fault}, nil)
			}
		}
	}
}

// TestStatementMutants: the test finds a store that reads the replies to statements wrongly.
func TestStatementMutants(t *testing.T) {
	t.Parallel()
	w := newStatementWire(t)
	for name, mutant := range map[string]brokenStatements{
		"a-taken-key-is-put":           {forgives: types.BatchStatementErrorCodeEnumDuplicateItem},
		"a-throttled-statement-is-put": {forgives: types.BatchStatementErrorCodeEnumThrottlingError},
		"taken-rows-are-read-late":     {late: true},
	} {
		t.Run(name, func(t *testing.T) {
			mutanttest.MustFail(t, func(tb testing.TB) {
				w.play(tb, name, statementFault{"BatchExecuteStatement", 0, 1, faultproxy.PutFirst}, &mutant)
			})
		})
	}
}

func newStatementWire(t *testing.T) statementWire {
	t.Helper()
	endpoint := testengine.Dynoxide(t)
	return statementWire{New(newClient(t, endpoint), table), endpoint}
}

// brokenStatements is a client that hides what a correct store must see.
type brokenStatements struct {
	Client
	forgives types.BatchStatementErrorCodeEnum
	late     bool // reads are eventually consistent
}

func (b *brokenStatements) BatchExecuteStatement(
	ctx context.Context, in *dynamodb.BatchExecuteStatementInput, options ...func(*dynamodb.Options),
) (*dynamodb.BatchExecuteStatementOutput, error) {
	out, err := b.Client.BatchExecuteStatement(ctx, in, options...)
	for i := range out.Responses {
		if e := out.Responses[i].Error; e != nil && e.Code == b.forgives {
			out.Responses[i].Error = nil
		}
	}
	return out, err
}

func (b *brokenStatements) BatchGetItem(
	ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	keys := in.RequestItems[table]
	keys.ConsistentRead = aws.Bool(!b.late)
	in.RequestItems[table] = keys
	return b.Client.BatchGetItem(ctx, in, options...)
}

// consistent is a client that notes reads that are not.
type consistent struct {
	Client
	late atomic.Bool
}

func (c *consistent) BatchGetItem(
	ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	if !aws.ToBool(in.RequestItems[table].ConsistentRead) {
		c.late.Store(true)
	}
	return c.Client.BatchGetItem(ctx, in, options...)
}

// statementCase is an entry, and the one that its key has before.
type statementCase struct {
	dedupe.Entry
	before *dedupe.Entry
	stays  bool // the entry before counts
}

// statementCases are entries whose keys are free, or have an entry of another record, of a record past its purge time,
// or of the record itself. One is void.
func statementCases(scope string) []statementCase {
	arrival := time.Unix(1_000_000, 0)
	all := make([]statementCase, FullRequest+5)
	for i := range all {
		all[i].Entry = dedupe.Entry{
			Scope: scope, Key: format.KeyOf(fmt.Sprint(i)), Owner: dedupe.Owner{Sequence: fmt.Sprint("new ", i)},
			Fingerprint: "f", Arrival: arrival, PurgeAt: arrival.Unix() + 100,
		}
		before := all[i].Entry
		switch i % 6 {
		case 0:
			before.Owner.Sequence, all[i].stays = fmt.Sprint("old ", i), true
		case 1:
			before.Owner.Sequence, before.PurgeAt = fmt.Sprint("old ", i), arrival.Unix()-1
			before.Arrival = arrival.Add(-time.Hour)
		case 2:
			all[i].stays = true
		case 3:
			if i != 3 {
				continue
			}
			before.Owner = dedupe.Owner{Source: dedupe.RunSource("stopped", 1), Sequence: "1", Sub: dedupe.Plain}
		default:
			continue
		}
		all[i].before = &before
	}
	return all
}

// play puts entries, with a fault, until each has an answer. It returns the operations. A mutant may be around the
// client.
func (w statementWire) play(t testing.TB, name string, f statementFault, mutant *brokenStatements) []string {
	t.Helper()
	cases := statementCases("wire " + name)
	w.prepare(t, cases)
	proxy, stop := faultproxy.Start(w.target, f.plan)
	defer stop()
	client := &consistent{Client: newClientOf(proxy.URL)}
	var calls Client = client
	if mutant != nil {
		mutant.Client = client
		calls = mutant
	}
	s := New(calls, table, WithConcurrency(1))
	open := make([]int, len(cases))
	for i := range open {
		open[i] = i
	}
	for range 1 + attempts {
		open = putOpen(t, name, s, f, cases, open)
	}
	if len(open) > 0 || client.late.Load() {
		t.Errorf("%s: %d entries have no answer; late reads: %t", name, len(open), client.late.Load())
	}
	w.check(t, name, cases)
	return proxy.Operations()
}

// prepare puts the entries that were there before.
func (w statementWire) prepare(t testing.TB, cases []statementCase) {
	t.Helper()
	var before []dedupe.Entry
	for _, c := range cases {
		if c.before != nil {
			before = append(before, *c.before)
		}
	}
	results, err := w.plain.PutIfAbsent(t.Context(), before)
	if err == nil {
		err = w.plain.SaveRun(t.Context(), cases[0].Scope, dedupe.Run{ID: "stopped", OutputID: "o", Beat: 1, Rests: true})
	}
	for _, r := range results {
		if err != nil || r.Err != nil || r.Existing != nil {
			t.Fatalf("prepare: %+v, %v", r, err)
		}
	}
}

// putOpen puts entries and returns those that failed.
func putOpen(
	t testing.TB, name string, s *Store, f statementFault, cases []statementCase, open []int,
) (again []int) {
	t.Helper()
	all := make([]dedupe.Entry, len(open))
	for i, at := range open {
		all[i] = cases[at].Entry
	}
	results, err := s.PutIfAbsent(t.Context(), all)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i, at := range open {
		c, r := cases[at], results[i]
		switch own := c.Existing(); {
		case r.Err != nil:
			if !errors.Is(r.Err, dedupe.ErrTryAgain) || !f.mayFail() {
				t.Errorf("%s: entry %d: %v", name, at, r.Err)
			}
			again = append(again, at)
		case c.stays:
			if r.Existing == nil || *r.Existing != c.before.Existing() {
				t.Errorf("%s: entry %d: want the entry before, got %+v", name, at, r.Existing)
			}
		case r.Existing != nil && (*r.Existing != own || !f.hidesEffect()):
			t.Errorf("%s: entry %d: want it put, got %+v", name, at, r.Existing)
		}
	}
	return again
}

// check compares the rows with the answers.
func (w statementWire) check(t testing.TB, name string, cases []statementCase) {
	t.Helper()
	keys := make([]dedupe.Key, len(cases))
	for i, c := range cases {
		keys[i] = c.Key
	}
	found, err := w.plain.Find(t.Context(), cases[0].Scope, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		want := c.Existing()
		if c.stays {
			want = c.before.Existing()
		}
		if found[i] == nil || *found[i] != want {
			t.Errorf("%s: entry %d: want %+v in the table, got %+v", name, i, want, found[i])
		}
	}
}

// newClientOf makes a client that repeats requests without a pause.
func newClientOf(endpoint string) *dynamodb.Client {
	return dynamodb.New(clientOptions(endpoint), func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	})
}

// replies is a client with scripted replies to statements and to the read of rows.
type replies struct {
	*scripted
	statements *dynamodb.BatchExecuteStatementOutput
	err        error
	rows       []map[string]types.AttributeValue
	readErr    error
	reads      atomic.Int32
	puts       atomic.Int32
}

func (r *replies) BatchExecuteStatement(
	context.Context, *dynamodb.BatchExecuteStatementInput, ...func(*dynamodb.Options),
) (*dynamodb.BatchExecuteStatementOutput, error) {
	return r.statements, r.err
}

func (r *replies) BatchGetItem(
	context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	r.reads.Add(1)
	return &dynamodb.BatchGetItemOutput{Responses: map[string][]map[string]types.AttributeValue{table: r.rows}}, r.readErr
}

func (r *replies) PutItem(
	ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	r.puts.Add(1)
	return r.scripted.PutItem(ctx, in, options...)
}

// TestRepliesToStatements: an entry is put only if the reply says so, and is a duplicate only by the row of its key. An
// entry about which a reply says something else is put alone. So it is if its key has a row that another version wrote:
// the condition of a put knows whether that row is purged. So are all if DynamoDB refuses statements, or the read of
// rows, for good: the policy of an older stack lacks both actions.
func TestRepliesToStatements(t *testing.T) {
	t.Parallel()
	all := entries(2)
	other := all[1]
	other.Owner.Sequence = "other"
	row := entryItem(&other)
	broken := entryItem(&other)
	delete(broken, "o")
	others := failing(&types.ConditionalCheckFailedException{Item: broken})
	second := func(code types.BatchStatementErrorCodeEnum, item map[string]types.AttributeValue) []types.BatchStatementResponse {
		return []types.BatchStatementResponse{{}, {Error: &types.BatchStatementError{Code: code, Item: item}}}
	}
	taken := second(types.BatchStatementErrorCodeEnumDuplicateItem, nil)
	denied := &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient}
	type rows = []map[string]types.AttributeValue
	const isPut, isTaken, again, fault = "put", "taken", "again", "fault"
	type test struct {
		replies
		first, second string
		reads, puts   int32
	}
	tests := map[string]*test{
		"both put":          {replies{statements: answer(make([]types.BatchStatementResponse, 2))}, isPut, isPut, 0, 0},
		"taken":             {replies{statements: answer(taken), rows: rows{row}}, isPut, isTaken, 1, 0},
		"taken, with row":   {replies{statements: answer(second("DuplicateItem", row))}, isPut, isTaken, 0, 0},
		"taken, and gone":   {replies{statements: answer(taken)}, isPut, isPut, 1, 1},
		"taken by others":   {replies{scripted: others, statements: answer(taken), rows: rows{broken}}, isPut, fault, 1, 1},
		"others, purged":    {replies{statements: answer(taken), rows: rows{broken}}, isPut, isPut, 1, 1},
		"a part of a row":   {replies{statements: answer(second("DuplicateItem", broken))}, isPut, isPut, 0, 1},
		"read throttled":    {replies{statements: answer(taken), readErr: &types.ThrottlingException{}}, isPut, again, 1, 0},
		"read denied":       {replies{statements: answer(taken), readErr: denied}, isPut, isPut, 1, 1},
		"no statement runs": {replies{err: &types.ThrottlingException{}}, again, again, 0, 0},
		"no answer":         {replies{err: errors.New("?")}, fault, fault, 0, 0},
		"denied":            {replies{err: denied}, isPut, isPut, 0, 2},
		"not valid": {
			replies{err: &smithy.GenericAPIError{Code: "ValidationException", Fault: smithy.FaultClient}}, isPut, isPut, 0, 2,
		},
		"an answer is missing": {replies{statements: answer(taken[:1])}, again, again, 0, 0},
	}
	for _, code := range append(types.BatchStatementErrorCodeEnum("").Values(), "", "Unknown") {
		if code != types.BatchStatementErrorCodeEnumDuplicateItem {
			tests["code "+string(code)] = &test{replies{statements: answer(second(code, row))}, isPut, isPut, 0, 1}
		}
	}
	for name, c := range tests {
		if c.scripted == nil {
			c.scripted = &scripted{} // every put finds its key free
		}
		results, err := withStatements(&c.replies, 2).PutIfAbsent(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{c.first, c.second} {
			got := isPut
			switch r := results[i]; {
			case errors.Is(r.Err, dedupe.ErrTryAgain):
				got = again
			case r.Err != nil:
				got = fault
			case r.Existing != nil && *r.Existing == other.Existing():
				got = isTaken
			}
			if got != want {
				t.Errorf("%s, entry %d: want %s, got %s (%+v)", name, i, want, got, results[i])
			}
		}
		if c.replies.reads.Load() != c.reads || c.replies.puts.Load() != c.puts {
			t.Errorf("%s: %d reads and %d puts", name, c.replies.reads.Load(), c.replies.puts.Load())
		}
	}
}

// TestOneByOneIsTold: a Store says once that a permission is missing, and which, in both forms in which DynamoDB can say
// so. It says nothing of other refusals.
func TestOneByOneIsTold(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	taken := answer([]types.BatchStatementResponse{{}, {Error: &types.BatchStatementError{Code: "DuplicateItem"}}})
	refusal := func(code string) error { return &smithy.GenericAPIError{Code: code, Fault: smithy.FaultClient} }
	first := func(code types.BatchStatementErrorCodeEnum, second types.BatchStatementResponse) *dynamodb.BatchExecuteStatementOutput {
		return answer([]types.BatchStatementResponse{{Error: &types.BatchStatementError{Code: code}}, second})
	}
	for name, c := range map[string]*struct {
		replies
		lines int
	}{
		"statements":    {replies{err: refusal("AccessDeniedException")}, 1},
		"reads":         {replies{statements: taken, readErr: refusal("AccessDeniedException")}, 1},
		"one statement": {replies{statements: first("AccessDenied", types.BatchStatementResponse{})}, 1},
		"statements, then reads": {
			replies{statements: first("AccessDenied", taken.Responses[1]), readErr: refusal("AccessDeniedException")}, 2,
		},
		"throttled":        {replies{statements: first("ThrottlingError", types.BatchStatementResponse{})}, 0},
		"not valid":        {replies{err: refusal("ValidationException")}, 0},
		"nothing is wrong": {replies{statements: answer(make([]types.BatchStatementResponse, 2))}, 0},
	} {
		var log strings.Builder
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		c.scripted = &scripted{} // every put finds its key free
		s := withStatements(&c.replies, 2)
		for range 2 {
			if _, err := s.PutIfAbsent(t.Context(), entries(2)); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Count(log.String(), "level=WARN msg=\""+OneByOne+"\""); got != c.lines ||
			c.lines > 0 && !strings.Contains(log.String(), "dynamodb:PartiQLInsert") {
			t.Errorf("%s: want %d warnings, got %q", name, c.lines, log.String())
		}
	}
}

func answer(responses []types.BatchStatementResponse) *dynamodb.BatchExecuteStatementOutput {
	return &dynamodb.BatchExecuteStatementOutput{Responses: responses}
}
