package dynamostore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// failing is a client whose transactions return an error that no local engine returns.
type failing struct {
	dynamostore.Client
	err error
}

func (f failing) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{}, nil // no row
}

func (f failing) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{}, nil // no rows
}

func (f failing) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return nil, f.err
}

func cancelled(reasons ...types.CancellationReason) dynamostore.Client {
	return failing{err: &types.TransactionCanceledException{CancellationReasons: reasons}}
}

func reason(code string) types.CancellationReason {
	return types.CancellationReason{Code: aws.String(code)}
}

// TestTakeReadsConflictsAndThrottles: local engines never return these results.
func TestTakeReadsConflictsAndThrottles(t *testing.T) {
	t.Parallel()
	held := reason("ConditionalCheckFailed")
	held.Item = map[string]types.AttributeValue{
		"claim_id": text("id-1"), "campaign": text("spring"), "item": text("A-1"),
		"item_hash": text(engine.HashItem("A-1").String()), "claimed_at": &types.AttributeValueMemberN{Value: "1"},
	}
	for _, test := range []struct {
		name        string
		bank, claim types.CancellationReason
		want        engine.TakeResult
		held        bool
	}{
		{"conflict on the claim", reason("None"), reason("TransactionConflict"), engine.TakeResult{ClaimConflict: true}, false},
		{"conflict on the item", reason("TransactionConflict"), reason("None"), engine.TakeResult{ItemConflict: true}, false},
		{"conflict on both", reason("TransactionConflict"), reason("TransactionConflict"), engine.TakeResult{ClaimConflict: true, ItemConflict: true}, false},
		{"item gone, conflict on the claim", reason("ConditionalCheckFailed"), reason("TransactionConflict"), engine.TakeResult{ItemGone: true, ClaimConflict: true}, false},
		{"bank throttled", reason("ThrottlingError"), reason("None"), engine.TakeResult{ItemThrottled: true}, false},
		{"claims throttled", reason("None"), reason("ProvisionedThroughputExceeded"), engine.TakeResult{ClaimThrottled: true}, false},
		{"claim exists, conflict on the item", reason("TransactionConflict"), held, engine.TakeResult{ItemConflict: true}, true},
	} {
		store := dynamostore.New(cancelled(test.bank, test.claim), bankTable, dedupeTable)
		got, err := store.Take(t.Context(), make([]engine.FreeItem, 1), engine.Claim{Claimant: "ann"})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if test.held != (got.Held != nil) || test.held && (got.Held.ID != "id-1" || got.Held.Claimant != "ann") {
			t.Errorf("%s: unexpected claim %+v", test.name, got.Held)
		}
		if got.Held = nil; got != test.want {
			t.Errorf("%s: want %+v, got %+v", test.name, test.want, got)
		}
	}
}

// TestFailuresAreErrors: only a failed condition is a result.
func TestFailuresAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		client   dynamostore.Client
		tryAgain bool
	}{
		{"server error", failing{err: &types.InternalServerError{}}, true}, // as with its status, 500
		{"throttled as a whole", failing{err: &types.ThrottlingException{}}, true},
		{"another engine's conflict", failing{err: &types.TransactionInProgressException{}}, true},
		{"a fault in the request", cancelled(reason("None"), reason("ValidationError")), false},
		{"no reason at all", cancelled(), false},
	} {
		store := dynamostore.New(test.client, bankTable, dedupeTable)
		if _, err := store.Take(t.Context(), make([]engine.FreeItem, 1), engine.Claim{}); err == nil || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain {
			t.Errorf("take, %s: want an error, try again %t; got %v", test.name, test.tryAgain, err)
		}
		if _, err := store.AddItems(t.Context(), make([]engine.AddRequest, 1)); err == nil || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain {
			t.Errorf("add, %s: want an error, try again %t; got %v", test.name, test.tryAgain, err)
		}
		if _, _, err := store.StartLoad(t.Context(), engine.Load{}, true); err == nil || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain {
			t.Errorf("first load, %s: want an error, try again %t; got %v", test.name, test.tryAgain, err)
		}
		if _, err := store.CreateCampaign(t.Context(), engine.Campaign{Name: "x"}); err == nil || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain {
			t.Errorf("create, %s: want an error, try again %t; got %v", test.name, test.tryAgain, err)
		}
	}
}

// TestCancelledIsNeverClaimed: a transaction that was cancelled without a reason has made no claim.
func TestCancelledIsNeverClaimed(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"None", ""} {
		store := dynamostore.New(cancelled(reason(code), reason(code)), bankTable, dedupeTable)
		if found, err := store.Take(t.Context(), make([]engine.FreeItem, 1), engine.Claim{}); !errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("code %q: want %v, got %+v, %v", code, itembank.ErrTryAgain, found, err)
		}
	}
}

// TestFirstLoadReadsConflicts: a failed condition is the result, even if the transaction had a conflict too.
func TestFirstLoadReadsConflicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		load, campaign types.CancellationReason
		conflict       bool
	}{
		{reason("TransactionConflict"), reason("None"), true},
		{reason("None"), reason("TransactionConflict"), true},
		{reason("ConditionalCheckFailed"), reason("TransactionConflict"), false},
		{reason("TransactionConflict"), reason("ConditionalCheckFailed"), false},
	} {
		store := dynamostore.New(cancelled(test.load, test.campaign), bankTable, dedupeTable)
		if started, conflict, err := store.StartLoad(t.Context(), engine.Load{}, true); started || conflict != test.conflict || err != nil {
			t.Errorf("want conflict %t, got started %t, conflict %t, %v", test.conflict, started, conflict, err)
		}
	}
}

// TestAddItemsReadsConflicts: an item that conflicted with another transaction is unsettled, and so are the other items
// of the same request. An item is inconsistent only if a read shows it.
func TestAddItemsReadsConflicts(t *testing.T) {
	t.Parallel()
	known := reason("ConditionalCheckFailed")
	known.Item = map[string]types.AttributeValue{"load_id": text("l#1"), "row": &types.AttributeValueMemberN{Value: "7"}}
	client := cancelled(
		reason("None"), reason("None"),
		reason("TransactionConflict"), reason("None"),
		known, reason("ConditionalCheckFailed"),
		known, reason("None"),
		reason("None"), reason("ConditionalCheckFailed"),
		reason("None"), reason("ThrottlingError"),
		reason("TransactionConflict"), reason("ConditionalCheckFailed"),
	)
	busy := reading{Client: client, err: &types.TransactionCanceledException{
		CancellationReasons: []types.CancellationReason{none, conflicted},
	}}
	for _, test := range []struct {
		name      string
		client    dynamostore.Client
		bankThere engine.AddOutcome
	}{
		{"free and not loaded", reading{Client: client, bank: aBankRow}, engine.AddOrphan},
		{"loaded by now", reading{Client: client, item: known.Item, bank: aBankRow}, engine.AddKnown},
		{"gone by now", reading{Client: client}, engine.AddUnsettled},
		{"another load adds the item", busy, engine.AddUnsettled},
	} {
		added, err := dynamostore.New(test.client, bankTable, dedupeTable).AddItems(t.Context(), make([]engine.AddRequest, 7))
		if err != nil {
			t.Fatal(err)
		}
		want := []engine.AddOutcome{
			engine.AddUnsettled, engine.AddUnsettled, engine.AddKnown, engine.AddKnown,
			test.bankThere, engine.AddUnsettled, engine.AddUnsettled,
		}
		for i, a := range added {
			if a.Outcome != want[i] {
				t.Errorf("%s: item %d: want outcome %d, got %+v", test.name, i, want[i], a)
			}
			if a.Outcome == engine.AddKnown && (a.Existing.LoadID != "l#1" || a.Existing.Row != 7) {
				t.Errorf("%s: item %d: want the old row, got %+v", test.name, i, a.Existing)
			}
		}
	}
}

// TestAddItemsReadsItsOwnRow: a row that this request wants to put is known only if no transaction is working on the rows
// of the item. Until then the item may not be in the bank.
func TestAddItemsReadsItsOwnRow(t *testing.T) {
	t.Parallel()
	known := reason("ConditionalCheckFailed")
	known.Item = map[string]types.AttributeValue{"load_id": text("l#1"), "row": &types.AttributeValueMemberN{Value: "7"}}
	busy := &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{none, conflicted}}
	for _, bank := range []string{"None", "TransactionConflict", "ConditionalCheckFailed"} {
		client := cancelled(known, reason(bank))
		for _, test := range []struct {
			name   string
			client dynamostore.Client
			row    int64
			want   engine.AddOutcome
		}{
			{"a transaction is working on a row", reading{Client: client, err: busy}, 7, engine.AddUnsettled},
			{"no transaction is working on a row", reading{Client: client, item: known.Item, bank: aBankRow}, 7, engine.AddKnown},
			{"the item was claimed", reading{Client: client, item: known.Item}, 7, engine.AddKnown},
			{"another row of the load", client, 8, engine.AddKnown}, // without a read
		} {
			store := dynamostore.New(test.client, bankTable, dedupeTable)
			added, err := store.AddItems(t.Context(), []engine.AddRequest{{LoadID: "l#1", Row: test.row}})
			if err != nil || added[0].Outcome != test.want {
				t.Errorf("%s, bank row %s: want outcome %d, got %+v, %v", test.name, bank, test.want, added, err)
			}
		}
	}
}
