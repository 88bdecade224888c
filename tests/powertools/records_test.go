package powertools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/powertoolsworker"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// fleet is a function in Go and in the language of a format, on one table.
type fleet struct {
	*testing.T
	format powertools.Format
	theirs *powertoolsworker.Worker
	asked  powertoolsworker.Request
	runner *idempotency.Runner
	key    string
}

// event is what both get. Its key is the value of key, and its payload is compared.
func event(name, payload string) map[string]any {
	return map[string]any{"key": name, "payload": payload}
}

var layouts = map[string]dynamostore.Powertools{
	"default": {},
	"custom": {
		KeyAttr: "pk", SortKeyAttr: "sk", StaticPKValue: "idempotency#pay", StatusAttr: "state", ExpiryAttr: "ends",
		InProgressExpiryAttr: "lease", DataAttr: "response", ValidationKeyAttr: "hash",
	},
}

// inFleets runs a test in a fleet of each format, with default and custom names.
func inFleets(t *testing.T, do func(fleet)) {
	t.Helper()
	testengine.CheckOnly(t)
	t.Parallel()
	endpoint := testengine.DynamoDBLocal(t)
	for _, format := range powertoolsworker.Formats {
		for name, layout := range layouts {
			t.Run(string(format)+"/"+name, func(t *testing.T) {
				t.Parallel()
				do(newFleet(t, endpoint, format, layout))
			})
		}
	}
}

func newFleet(t *testing.T, endpoint string, format powertools.Format, layout dynamostore.Powertools) fleet {
	t.Helper()
	layout.Format, layout.Validation = format, true
	f := fleet{T: t, format: format, theirs: powertoolsworker.Start(t, format)}
	client := itembankengines.Client(endpoint, nil)
	table := fmt.Sprintf("powertools-%d", time.Now().UnixNano())
	createTable(t, client, table, layout)
	store, err := dynamostore.NewPowertools(client, table, layout)
	if err != nil {
		t.Fatal(err)
	}
	if f.runner, err = idempotency.New(store, "pay", idempotency.Settings{DoNotWait: true}); err != nil {
		t.Fatal(err)
	}
	f.key = f.keyOf("order é")
	minute := int(time.Minute / time.Millisecond)
	f.asked = powertoolsworker.Request{
		Do: "call", Endpoint: endpoint, Table: table, Prefix: "pay", Event: event("order é", "19.90"), Validation: true,
		Remaining: &minute, Names: map[string]string{},
	}
	for name, value := range map[string]string{
		"key": layout.KeyAttr, "sort": layout.SortKeyAttr, "pk": layout.StaticPKValue, "status": layout.StatusAttr,
		"expiry": layout.ExpiryAttr, "in_progress_expiry": layout.InProgressExpiryAttr, "data": layout.DataAttr,
		"validation": layout.ValidationKeyAttr,
	} {
		if value != "" {
			f.asked.Names[name] = value
		}
	}
	return f
}

// keyOf returns the key of an event.
func (f fleet) keyOf(name string) string {
	f.Helper()
	key, err := f.format.Key([]byte(strconv.Quote(name)))
	if err != nil {
		f.Fatal(err)
	}
	return key
}

func createTable(t *testing.T, client *dynamodb.Client, table string, layout dynamostore.Powertools) {
	t.Helper()
	in := &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest}
	names := []string{"id"}
	if layout.SortKeyAttr != "" {
		names = []string{layout.KeyAttr, layout.SortKeyAttr}
	}
	for n, name := range names {
		kind := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[n]
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String(name), KeyType: kind})
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	if _, err := client.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// receipt has values of all kinds of JSON.
const receipt = `{"charge":"ch é","items":[1,2.5,true,null,{"n":"x"}],"cents":1990}`

// ours calls the function in Go. It returns the result, or what fn says.
func (f fleet) ours(payload string, fn func() (json.RawMessage, error)) (idempotency.Outcome[json.RawMessage], error) {
	return idempotency.Do(f.Context(), f.runner, f.key, payload,
		func(context.Context, idempotency.Execution, string) (json.RawMessage, error) { return fn() })
}

func returns(text string) func() (json.RawMessage, error) {
	return func() (json.RawMessage, error) { return json.RawMessage(text), nil }
}

// begin lets their function begin.
func (f fleet) begin() {
	f.Helper()
	if a := f.theirs.Ask(f.T, f.asked); !a.Running {
		f.Fatalf("it does not run: %+v", a)
	}
}

// end lets their function return a receipt.
func (f fleet) end() powertoolsworker.Answer {
	f.Helper()
	return f.theirs.Ask(f.T, map[string]any{"result": json.RawMessage(receipt)})
}

// equal reports whether two texts have the same JSON.
func (f fleet) equal(a, b []byte) bool {
	f.Helper()
	var one, other any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return false
	}
	return fmt.Sprint(one) == fmt.Sprint(other)
}

// TestTheyWrite: our function replays their result, and refuses another payload.
func TestTheyWrite(t *testing.T) {
	inFleets(t, func(f fleet) {
		f.begin()
		if a := f.end(); !a.Ran || a.Error != "" {
			f.Fatalf("got %+v", a)
		}
		out, err := f.ours("19.90", returns(`"ours"`))
		if err != nil || !out.Replayed || !f.equal(out.Value, []byte(receipt)) {
			f.Errorf("got %s, %+v, %v", out.Value, out, err)
		}
		if _, err := f.ours("99.00", returns(`"ours"`)); !errors.Is(err, idempotency.ErrOtherPayload) {
			f.Errorf("another payload: %v", err)
		}
	})
}

// TestWeWrite: their function replays our result, byte for byte ours, and refuses another payload.
func TestWeWrite(t *testing.T) {
	inFleets(t, func(f fleet) {
		for range 2 {
			if out, err := f.ours("19.90", returns(receipt)); err != nil || string(out.Value) != receipt {
				f.Fatalf("got %s, %v", out.Value, err)
			}
		}
		if a := f.theirs.Ask(f.T, f.asked); a.Ran || a.Error != "" || !f.equal(a.Result, []byte(receipt)) {
			f.Errorf("got %+v", a)
		}
		f.asked.Event = event("order é", "99.00")
		if a := f.theirs.Ask(f.T, f.asked); a.Error != "IdempotencyValidationError" && a.Cause != "IdempotencyValidationError" {
			f.Errorf("another payload: %+v", a)
		}
	})
}

// TestFinalFailures: they neither run nor replay after a final failure of ours: their package says that it does not know
// the status.
func TestFinalFailures(t *testing.T) {
	inFleets(t, func(f fleet) {
		_, err := f.ours("19.90", func() (json.RawMessage, error) { return nil, idempotency.Final(errors.New("declined")) })
		if !errors.Is(err, idempotency.ErrFailed) {
			f.Fatal(err)
		}
		a := f.theirs.Ask(f.T, f.asked)
		if a.Running || a.Error != "IdempotencyInvalidStatusError" && a.Cause != "IdempotencyInvalidStatusError" {
			f.Errorf("got %+v", a)
		}
	})
}

// TestInProgress: each waits for a function of the other.
func TestInProgress(t *testing.T) {
	inFleets(t, func(f fleet) {
		_, err := f.ours("19.90", func() (json.RawMessage, error) {
			a := f.theirs.Ask(f.T, f.asked)
			if a.Error != "IdempotencyAlreadyInProgressError" {
				f.Errorf("ours runs, and they say %+v", a)
			}
			return nil, errors.New("fails")
		})
		if err == nil {
			f.Error("no error")
		}
		f.begin() // ours has given the key back: they take it over at once
		if _, err := f.ours("19.90", returns(`1`)); !errors.Is(err, idempotency.ErrInProgress) {
			f.Errorf("theirs runs, and ours says %v", err)
		}
		f.end()
	})
}

// takeOver calls the function in Go until the lease of theirs is over. The store's clock is seen up to two seconds late.
func (f fleet) takeOver(fn func() (json.RawMessage, error)) idempotency.Outcome[json.RawMessage] {
	f.Helper()
	for {
		out, err := f.ours("19.90", fn)
		if err == nil {
			return out
		}
		if !errors.Is(err, idempotency.ErrInProgress) {
			f.Fatal(err)
		}
	}
}

// TestTheirsLate: theirs ends after the end of its lease. If ours runs meanwhile, their completion is not taken for
// ours: our caller gets their result.
func TestTheirsLate(t *testing.T) {
	inFleets(t, func(f fleet) {
		soon := 1 // millisecond
		f.asked.Remaining = &soon
		f.begin()
		out := f.takeOver(func() (json.RawMessage, error) {
			if a := f.end(); a.Error != "" {
				f.Errorf("theirs, late: %+v", a)
			}
			return json.RawMessage(`"ours"`), nil
		})
		if !out.Replayed || !f.equal(out.Value, []byte(receipt)) {
			f.Errorf("got %s, %+v", out.Value, out)
		}
	})
}

// TestTheirsLateAfterOurs: theirs ends after ours has taken over and completed. Their package writes without a
// condition: a late result replaces ours for all later callers, and a late failure deletes our record.
func TestTheirsLateAfterOurs(t *testing.T) {
	inFleets(t, func(f fleet) {
		soon := 1 // millisecond
		f.asked.Remaining = &soon
		f.begin()
		if out := f.takeOver(returns(`"ours"`)); out.Replayed || string(out.Value) != `"ours"` {
			f.Errorf("got %s, %+v", out.Value, out)
		}
		if a := f.end(); a.Error != "" {
			f.Errorf("theirs, late: %+v", a)
		}
		out, err := f.ours("19.90", returns(`"again"`))
		if err != nil || !out.Replayed || !f.equal(out.Value, []byte(receipt)) {
			f.Errorf("after a late result: %s, %+v, %v", out.Value, out, err)
		}

		f.asked.Event, f.key = event("order-2", "19.90"), f.keyOf("order-2")
		f.begin()
		f.takeOver(returns(`"ours"`))
		f.theirs.Ask(f.T, map[string]any{"fails": "late"})
		out, err = f.ours("19.90", returns(`"again"`))
		if err != nil || out.Replayed || string(out.Value) != `"again"` {
			f.Errorf("after a late failure: %s, %+v, %v", out.Value, out, err)
		}
	})
}
