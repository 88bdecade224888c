package dynamostore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

func TestLog(t *testing.T) {
	client := newClient(t, testengine.Dynoxide(t))
	enginetest.RunStorage(t, func(*testing.T) logledger.Storage { return NewLog(client, table) })
}

func TestLogOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	client := newClient(t, testengine.DynamoDBLocal(t))
	enginetest.RunStorage(t, func(*testing.T) logledger.Storage { return NewLog(client, table) })
}

// TestLogLedger: each process of a case has its own ledger, and all use the same log.
func TestLogLedger(t *testing.T) {
	testengine.CheckOnly(t)
	for name, start := range map[string]func(testing.TB) string{
		"dynoxide": testengine.Dynoxide, "dynamodb-local": testengine.DynamoDBLocal,
	} {
		t.Run(name, func(t *testing.T) {
			log := NewLog(newClient(t, start(t)), table)
			rules := enginetest.Rules{Ahead: time.Hour}
			enginetest.RunLedger(t, rules, func(t testing.TB, now func() time.Time) dedupe.Ledger {
				l, err := logledger.New(log, logledger.Options{Clock: dedupe.Clock{Now: now}})
				if err != nil {
					t.Fatal(err)
				}
				return l
			})
		})
	}
}

// everyLogMethod calls each method once and returns its error.
func everyLogMethod(ctx context.Context, l *Log) map[string]error {
	lane := logledger.LaneID{Scope: "s"}
	epochs, epochsErr := l.Epochs(ctx, lane, 1, 1)
	epoch, epochErr := l.PutEpoch(ctx, lane, logledger.Epoch{})
	data, appendErr := l.Append(ctx, logledger.Place{LaneID: lane}, []byte("x"), 1)
	items, more, readErr := l.Read(ctx, logledger.Place{LaneID: lane}, 0, true)
	errs := map[string]error{"Epochs": epochsErr, "PutEpoch": epochErr, "Append": appendErr, "Read": readErr}
	if len(epochs) > 0 || epoch != nil || data != nil || len(items) > 0 || more {
		errs["an answer was made up"] = nil
	}
	return errs
}

// TestLogFailuresAreErrors: no method takes a failure for a result. If a place is taken and the old row is unknown,
// it may be this process's own.
func TestLogFailuresAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		err      error
		tryAgain bool
	}{
		{"throttled", &types.ThrottlingException{}, true},
		{"deadline", context.DeadlineExceeded, true},
		{"no old row", &types.ConditionalCheckFailedException{}, true},
		{"denied", errors.New("denied"), false},
		{"cancelled", context.Canceled, false},
	} {
		for method, err := range everyLogMethod(t.Context(), NewLog(failing(test.err), table)) {
			if test.name == "no old row" && (method == "Epochs" || method == "Read") {
				continue // they have no condition
			}
			if err == nil || errors.Is(err, dedupe.ErrTryAgain) != test.tryAgain {
				t.Errorf("%s, %s: want an error, try again %t; got %v", test.name, method, test.tryAgain, err)
			}
		}
	}
}

// pages is a client that answers queries with pages, one after the other.
type pages struct {
	*scripted
	left []*dynamodb.QueryOutput
}

func (p *pages) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	page := p.left[0]
	p.left = p.left[1:]
	return page, nil
}

type logRow = map[string]types.AttributeValue

// TestRowsOfOthersInTheLog: a row that another version wrote is a fault, and neither the end of the log nor a free
// place.
func TestRowsOfOthersInTheLog(t *testing.T) {
	t.Parallel()
	lane, number := logledger.LaneID{Scope: "s"}, text("0000000001")
	for name, row := range map[string]logRow{
		"no data":         {"sk": number},
		"data of a text":  {"sk": number, "d": text("x")},
		"no number":       {"d": binary([]byte("x"))},
		"number of words": {"sk": text("entry"), "d": binary([]byte("x"))},
	} {
		conflict := NewLog(failing(&types.ConditionalCheckFailedException{Item: row}), table)
		existing, err := conflict.Append(t.Context(), logledger.Place{LaneID: lane}, []byte("x"), 1)
		if existing != nil || err == nil || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: an append has returned %v, %v", name, existing, err)
		}
		page := NewLog(&pages{left: []*dynamodb.QueryOutput{{Items: []logRow{row}}}}, table)
		items, more, err := page.Read(t.Context(), logledger.Place{LaneID: lane}, 0, false)
		if len(items) > 0 || more || err == nil || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: a read has returned %v, %t, %v", name, items, more, err)
		}
	}
	for name, row := range map[string]logRow{
		"no number":       {"layout": text("1")},
		"number of words": {"sk": text("one"), "layout": aNumber("1")},
		"layout of words": {"sk": number, "layout": text("one")},
		"ends in between": {"sk": number, "layout": aNumber("1"), "ends": aNumber("1.5")},
	} {
		conflict := NewLog(failing(&types.ConditionalCheckFailedException{Item: row}), table)
		e, err := conflict.PutEpoch(t.Context(), lane, logledger.Epoch{})
		if e != nil || err == nil || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: a put has returned %+v, %v", name, e, err)
		}
		page := NewLog(&pages{left: []*dynamodb.QueryOutput{{Items: []logRow{row}}}}, table)
		if e, err := page.Epochs(t.Context(), lane, 2, 2); len(e) > 0 || err == nil || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: a read has returned %+v, %v", name, e, err)
		}
	}
}

func aNumber(text string) types.AttributeValue { return &types.AttributeValueMemberN{Value: text} }

// TestPagesWithoutRows: DynamoDB may answer with a page that has no rows, or few, and a key behind which there are
// more.
func TestPagesWithoutRows(t *testing.T) {
	t.Parallel()
	lane := logledger.LaneID{Scope: "s"}
	item := func(index int) logRow { return logItem(logledger.Place{LaneID: lane, Index: index}, []byte{1}, 1) }
	chain := func(number int) logRow { return dynamo.Encode(newEpochRow(lane, logledger.Epoch{Number: number})) }
	behind := logRow{"pk": text("x")}
	log := NewLog(&pages{left: []*dynamodb.QueryOutput{
		{LastEvaluatedKey: behind}, {LastEvaluatedKey: behind}, {Items: []logRow{item(0)}, LastEvaluatedKey: behind},
		{LastEvaluatedKey: behind}, {},
		{LastEvaluatedKey: behind}, {Items: []logRow{chain(2)}, LastEvaluatedKey: behind},
		{Items: []logRow{chain(1), chain(0)}},
	}}, table)
	items, more, err := log.Read(t.Context(), logledger.Place{LaneID: lane}, 0, false)
	if err != nil || !more || len(items) != 1 {
		t.Errorf("want one item, and more: got %v, %t, %v", items, more, err)
	}
	items, more, err = log.Read(t.Context(), logledger.Place{LaneID: lane, Index: 1}, 0, false)
	if err != nil || more || len(items) > 0 {
		t.Errorf("want the end: got %v, %t, %v", items, more, err)
	}
	if epochs, err := log.Epochs(t.Context(), lane, 9, 3); err != nil || len(epochs) != 3 || epochs[2].Number != 0 {
		t.Errorf("want 3 chain rows: got %v, %v", epochs, err)
	}
}
