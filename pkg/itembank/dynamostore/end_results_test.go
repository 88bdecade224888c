package dynamostore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var (
	none       = reason("None")
	failed     = reason("ConditionalCheckFailed")
	conflicted = reason("TransactionConflict")
	throttled  = reason("ThrottlingError")
)

// TestCloseClaimReadsConflictsAndThrottles: local engines never return these results.
func TestCloseClaimReadsConflictsAndThrottles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name              string
		claim, item, bank types.CancellationReason
		want              engine.CloseResult
	}{
		{"conflict on the claim", conflicted, none, none, engine.CloseResult{Conflict: true}},
		{"conflict on the item row", none, conflicted, none, engine.CloseResult{Conflict: true}},
		{"conflict on the bank row", none, none, conflicted, engine.CloseResult{Conflict: true}},
		{"throttled", none, none, throttled, engine.CloseResult{Throttled: true}},
		{"in the middle of another close", conflicted, none, failed, engine.CloseResult{Conflict: true, ItemFree: true}},
		{"claim gone, conflict on the bank row", failed, none, conflicted, engine.CloseResult{ClaimChanged: true, Conflict: true}},
		{"item ended, throttled", none, failed, throttled, engine.CloseResult{ItemChanged: true, Throttled: true}},
	} {
		store := dynamostore.New(cancelled(test.claim, test.item, test.bank), bankTable, dedupeTable)
		got, err := store.CloseClaim(t.Context(), engine.CloseRequest{Claim: engine.Claim{Campaign: "spring"}, Return: &engine.FreeItem{}})
		if err != nil || got != test.want {
			t.Errorf("%s: want %+v, got %+v, %v", test.name, test.want, got, err)
		}
	}
}

// TestReplaceReadsConflictsAndThrottles: as above, for a claim with another one in its place.
func TestReplaceReadsConflictsAndThrottles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name              string
		claim, next, item types.CancellationReason
		want              engine.CloseResult
	}{
		{"conflict on the next item", none, conflicted, none, engine.CloseResult{Conflict: true}},
		{"next item gone, conflict on the claim", conflicted, failed, none, engine.CloseResult{Conflict: true, ItemGone: true}},
		{"next item gone, item ended", none, failed, failed, engine.CloseResult{ItemChanged: true, ItemGone: true}},
		{"throttled", none, throttled, none, engine.CloseResult{Throttled: true}},
	} {
		store := dynamostore.New(cancelled(test.claim, test.next, test.item), bankTable, dedupeTable)
		claim := engine.Claim{Campaign: "spring"}
		got, err := store.CloseClaim(t.Context(), engine.CloseRequest{
			Claim: claim, State: engine.Replaced, Next: &claim, NextItem: &engine.FreeItem{},
		})
		if err != nil || got != test.want {
			t.Errorf("%s: want %+v, got %+v, %v", test.name, test.want, got, err)
		}
	}
}

// reading is a client whose TransactGetItems finds an item row and a bank row, or fails.
type reading struct {
	dynamostore.Client
	item, bank row
	err        error
}

func (r reading) TransactGetItems(
	context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options),
) (*dynamodb.TransactGetItemsOutput, error) {
	return &dynamodb.TransactGetItemsOutput{Responses: []types.ItemResponse{{Item: r.item}, {Item: r.bank}}}, r.err
}

var (
	aBankRow  = row{"pk": text("bank"), "sk": text(engine.Hash{}.String()), "item": text("A-1")}
	anItemRow = row{"load_id": text("l"), "row": number(1)}
	anEndRow  = row{"load_id": text("l"), "row": number(1), "state": text("expired")}
)

// TestEndItemsReadsConflicts: an item that conflicted with another transaction is unsettled, and so are the other items
// of the same request. An item is inconsistent only if a read shows it.
func TestEndItemsReadsConflicts(t *testing.T) {
	t.Parallel()
	client := cancelled(
		none, none,
		conflicted, none,
		none, conflicted,
		failed, none,
		failed, failed,
		none, failed,
		conflicted, failed,
		failed, conflicted,
		none, throttled,
	)
	busy := reading{Client: client, err: &types.TransactionCanceledException{
		CancellationReasons: []types.CancellationReason{none, conflicted},
	}}
	for _, test := range []struct {
		name      string
		client    dynamostore.Client
		rowFailed engine.EndResult
	}{
		{"the bank row was deleted meanwhile", reading{Client: client, item: anEndRow}, engine.EndNotFree},
		{"free and ended", reading{Client: client, item: anEndRow, bank: aBankRow}, engine.EndInconsistent},
		{"free and not loaded", reading{Client: client, bank: aBankRow}, engine.EndInconsistent},
		{"right by now", reading{Client: client, item: anItemRow, bank: aBankRow}, engine.EndUnsettled},
		{"another transaction ends the item", busy, engine.EndUnsettled},
	} {
		got, err := dynamostore.New(test.client, bankTable, dedupeTable).EndItems(t.Context(), make([]engine.EndRequest, 9))
		want := []engine.EndResult{
			engine.EndUnsettled, engine.EndUnsettled, engine.EndUnsettled, engine.EndNotFree, engine.EndNotFree,
			test.rowFailed, engine.EndUnsettled, engine.EndUnsettled, engine.EndUnsettled,
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: want %v, got %v, %v", test.name, want, got, err)
		}
	}
}

// TestRepairReadsConflicts: a failed condition is a result, and a conflict is an error.
func TestRepairReadsConflicts(t *testing.T) {
	t.Parallel()
	repair := engine.RepairRequest{DropFree: &engine.FreeItem{}, IfClaim: &engine.Claim{}}
	for _, test := range []struct {
		name              string
		change, condition types.CancellationReason
		tryAgain          bool
	}{
		{"nothing to change", failed, none, false},
		{"the condition failed", none, failed, false},
		{"the condition failed, conflict on the change", conflicted, failed, false},
		{"conflict on the change", conflicted, none, true},
		{"conflict on the condition", none, conflicted, true},
		{"throttled", throttled, none, true},
		{"no reason", none, none, true},
	} {
		done, err := dynamostore.New(cancelled(test.change, test.condition), bankTable, dedupeTable).Repair(t.Context(), repair)
		if done || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain || (err != nil) != test.tryAgain {
			t.Errorf("%s: want not done, try again %t, got %t, %v", test.name, test.tryAgain, done, err)
		}
	}
}

// TestEndFailuresAreErrors: only a failed condition is a result. A transaction that was cancelled without a reason has
// not been made.
func TestEndFailuresAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		client   dynamostore.Client
		tryAgain bool
	}{
		{"server error", failing{err: &types.InternalServerError{}}, true}, // as with its status, 500
		{"throttled as a whole", failing{err: &types.ThrottlingException{}}, true},
		{"another engine's conflict", failing{err: &types.TransactionInProgressException{}}, true},
		{"a fault in the request", cancelled(none, reason("ValidationError")), false},
		{"no reason at all", cancelled(), false},
		{"two reasons None", cancelled(none, none), true},
	} {
		store := dynamostore.New(test.client, bankTable, dedupeTable)
		_, closing := store.CloseClaim(t.Context(), engine.CloseRequest{Claim: engine.Claim{Campaign: "spring"}, State: engine.Burned})
		_, repair := store.Repair(t.Context(), engine.RepairRequest{DropFree: &engine.FreeItem{}, IfClaim: &engine.Claim{}})
		for method, err := range map[string]error{"close": closing, "repair": repair} {
			if err == nil || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain {
				t.Errorf("%s, %s: want an error, try again %t; got %v", method, test.name, test.tryAgain, err)
			}
		}
		if test.name == "two reasons None" {
			continue // EndItems leaves all items unsettled
		}
		if _, err := store.EndItems(t.Context(), make([]engine.EndRequest, 1)); err == nil || errors.Is(err, itembank.ErrTryAgain) != test.tryAgain {
			t.Errorf("end, %s: want an error, try again %t; got %v", test.name, test.tryAgain, err)
		}
	}
}

// TestHeldClaimOfARunningTransaction: a read that conflicts with a transaction is a result. All other failures are
// errors.
func TestHeldClaimOfARunningTransaction(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code     string
		conflict bool
		want     error
	}{
		{"TransactionConflict", true, nil},
		{"ProvisionedThroughputExceeded", false, engine.ErrThrottled},
		{"None", false, engine.ErrTryAgain},
	} {
		client := reading{err: &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{reason(test.code)}}}
		store, key := dynamostore.New(client, bankTable, dedupeTable), engine.ClaimKey{Scope: "spring", Claimant: "ann", Slot: 1}
		held, conflict, err := store.HeldClaim(t.Context(), key, engine.Strong)
		if held != nil || conflict != test.conflict || !errors.Is(err, test.want) {
			t.Errorf("%s: want conflict %t and %v; got %+v, %t, %v", test.code, test.conflict, test.want, held, conflict, err)
		}
	}
}

// TestReadsThatAreEventuallyConsistent: Eventual reads are, at half the price. All other reads are strongly consistent.
func TestReadsThatAreEventuallyConsistent(t *testing.T) {
	t.Parallel()
	reads := &readsSeen{}
	store := dynamostore.New(reads, bankTable, dedupeTable)
	key := engine.ClaimKey{Scope: "spring", Claimant: "ann", Slot: 1}
	_, _, eventually := store.HeldClaim(t.Context(), key, engine.Eventual)
	_, _, held := store.HeldClaim(t.Context(), key, engine.Strong)
	_, row := store.ItemRow(t.Context(), "spring", engine.Hash{})
	_, _, claims := store.ListClaims(t.Context(), "spring", "")
	_, _, rows := store.ListItemRows(t.Context(), "spring", "")
	shard := engine.Shard{Campaign: "spring"}
	_, free := store.FreeItems(t.Context(), shard, engine.Range{}, 1, engine.Strong)
	_, freeEventually := store.FreeItems(t.Context(), shard, engine.Range{}, 1, engine.Eventual)
	_, items := store.ItemRows(t.Context(), "spring", make([]engine.Hash, 1), engine.Strong)
	_, itemsEventually := store.ItemRows(t.Context(), "spring", make([]engine.Hash, 1), engine.Eventual)
	if err := errors.Join(eventually, held, row, claims, rows, free, freeEventually, items, itemsEventually); err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, true, true, true, true, false, true, false}; !slices.Equal(reads.consistent, want) {
		t.Errorf("want %v, got %v", want, reads.consistent)
	}
}

// readsSeen is a client that finds nothing, and records which reads are consistent.
type readsSeen struct {
	dynamostore.Client
	consistent []bool
}

func (r *readsSeen) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	r.consistent = append(r.consistent, aws.ToBool(in.ConsistentRead))
	return &dynamodb.GetItemOutput{}, nil
}

func (r *readsSeen) TransactGetItems(
	context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options),
) (*dynamodb.TransactGetItemsOutput, error) {
	return &dynamodb.TransactGetItemsOutput{}, nil // its reads are always consistent
}

func (r *readsSeen) BatchGetItem(
	_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	r.consistent = append(r.consistent, aws.ToBool(in.RequestItems[bankTable].ConsistentRead))
	return &dynamodb.BatchGetItemOutput{}, nil
}

func (r *readsSeen) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	r.consistent = append(r.consistent, aws.ToBool(in.ConsistentRead))
	return &dynamodb.QueryOutput{}, nil
}
