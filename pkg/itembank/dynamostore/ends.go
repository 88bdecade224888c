package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ItemRow reads an item row with GetItem: a BatchGetItem costs the same, and is one more action that a role must allow.
func (s *Store) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	var row itemRow
	found, err := s.get(ctx, "read item", s.bankTable, s.itemKey(campaign, h), &row)
	if err != nil || !found {
		return nil, err
	}
	item := row.itemRow()
	return &item, nil
}

// ItemRows reads item rows with one BatchGetItem. Eventual reads have half the price.
func (s *Store) ItemRows(
	ctx context.Context, campaign string, hashes []engine.Hash, c engine.Consistency,
) ([]*engine.ItemRow, error) {
	keys, places := make([]key, len(hashes)), make(map[key]int, len(hashes))
	for i, h := range hashes {
		keys[i] = s.itemKey(campaign, h)
		places[keys[i]] = i
	}
	rows := make([]*engine.ItemRow, len(hashes))
	err := s.batchGet(ctx, "read items", s.bankTable, keys, c, func(attributes map[string]types.AttributeValue) error {
		var row itemRow
		if err := dynamo.Decode(attributes, &row); err != nil {
			return err
		}
		item := row.itemRow()
		rows[places[row.key]] = &item
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// CloseClaim is one transaction: {delete claim row IF claim_id = :id AND ended}, and for each item either {put bank row
// IF absent, count a return in the item row} or {write the state of the item row}. The condition on the item row is the
// state and the mark that the Bank read. With Next the transaction puts that row instead of deleting the claim row,
// under the same condition. If Next is a claim, it also has {delete bank row of its item IF it exists and has not ended},
// and the claim row must have the end that the Bank read.
func (s *Store) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	const doing = "close claim"
	const claim = 0 // the position of the claim's action; the actions of the items follow
	actions := []types.TransactWriteItem{claim: s.endClaim(r)}
	isBank := map[int]bool{} // by position
	taken := -1              // the position of the action of NextItem
	if r.NextItem != nil {
		taken = len(actions)
		actions = append(actions, s.takeFree(*r.NextItem, r.Next.ClaimedAt))
	}
	for _, item := range r.Items() {
		actions = append(actions, s.updateItemRow(r.Claim.Campaign, item))
		if item.Return != nil {
			isBank[len(actions)] = true
			actions = append(actions, putIfAbsent(s.bankTable, newBankRow(*item.Return)))
		}
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if !cancelled {
		return engine.CloseResult{}, failed(doing, err)
	}
	var result engine.CloseResult
	for at, c := range reasons {
		failed := c.Reason == dynamo.ConditionFailed
		switch {
		case at == claim:
			result.ClaimChanged = failed
		case at == taken:
			result.ItemGone = failed
		case isBank[at]:
			result.ItemFree = result.ItemFree || failed
		default:
			result.ItemChanged = result.ItemChanged || failed
		}
		result.Conflict = result.Conflict || c.Reason == dynamo.Conflict
		result.Throttled = result.Throttled || c.Reason == dynamo.Throttled
	}
	if result.Closed() { // cancelled for an unknown reason: nothing was closed
		return engine.CloseResult{}, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
	}
	return result, nil
}

// endClaim deletes the claim row, or puts another row in its place.
func (s *Store) endClaim(r engine.CloseRequest) types.TransactWriteItem {
	condition, values := "claim_id = :id", map[string]types.AttributeValue{":id": text(r.Claim.ID)}
	if !r.EndedBy.IsZero() {
		condition += " AND ends_at < :ended"
		values[":ended"] = number(millis(r.EndedBy))
	}
	if r.IfHold {
		condition += " AND attribute_exists(ends_at)"
	}
	var shard engine.Shard // a block has no item, and no shard
	if r.NextItem != nil {
		shard = r.NextItem.Shard
		if r.Claim.EndsAt.IsZero() {
			condition += " AND attribute_not_exists(ends_at)"
		} else {
			condition += " AND ends_at = :ends"
			values[":ends"] = number(millis(r.Claim.EndsAt))
		}
	}
	if r.Next != nil {
		return types.TransactWriteItem{Put: &types.Put{
			TableName: aws.String(s.dedupeTable), Item: dynamo.Encode(s.newClaimRow(*r.Next, shard)),
			ConditionExpression: aws.String(condition), ExpressionAttributeValues: values,
		}}
	}
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: aws.String(s.dedupeTable), Key: dynamo.Encode(s.claimKey(r.Claim.Key())),
		ConditionExpression: aws.String(condition), ExpressionAttributeValues: values,
	}}
}

// updateItemRow counts a return in the item row or writes its state. An update costs as much as a condition check.
func (s *Store) updateItemRow(campaign string, r engine.CloseItem) types.TransactWriteItem {
	table, row := aws.String(s.bankTable), dynamo.Encode(s.itemKey(campaign, r.Hash))
	condition := ifPresent + " AND attribute_not_exists(#state)"
	if r.Row.State != "" {
		condition = "#state = :state"
	}
	condition += " AND " + ifMarked(r.Row.Withdraw)
	names := map[string]string{"#state": "state", "#withdraw": "withdraw"}
	values := map[string]types.AttributeValue{}
	change := writeState
	if r.Return != nil {
		change, names["#returns"], values[":one"] = countReturn, "returns", number(1)
	} else {
		values[":state"] = text(string(r.State))
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: table, Key: row, UpdateExpression: aws.String(change), ConditionExpression: aws.String(condition),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
}

// ifMarked returns the condition that an item was marked as withdrawn while it was held, or was not.
func ifMarked(marked bool) string {
	if marked {
		return "attribute_exists(#withdraw)"
	}
	return "attribute_not_exists(#withdraw)"
}

const (
	writeState  = "SET #state = :state"
	countReturn = "ADD #returns :one"
)

// EndItems is one transaction of {delete bank row IF it exists and has ended, write the state of the item row IF it
// exists without a state} for each item. If the transaction is cancelled, EndItems settles only the items whose
// conditions failed. An item that is not free is settled only if no transaction is working on its item row, because
// that transaction decides why the item is not free.
func (s *Store) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	actions := make([]types.TransactWriteItem, 0, 2*len(requests))
	for _, r := range requests {
		actions = append(actions, s.deleteFree(r), s.setState(r))
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if err != nil && !cancelled {
		return nil, failed("end items", err)
	}
	results := make([]engine.EndResult, len(requests))
	for i := range results {
		switch {
		case !cancelled:
			results[i] = engine.EndDone
		case reasons[2*i].Reason == dynamo.ConditionFailed && reasons[2*i+1].Reason != dynamo.Conflict:
			results[i] = engine.EndNotFree
		case reasons[2*i].Reason == dynamo.NoReason && reasons[2*i+1].Reason == dynamo.ConditionFailed:
			if results[i], err = s.whyNotEnded(ctx, requests[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// MarkWithdrawn is one transaction: {mark the item row IF it exists without a state, check that the bank row is
// absent}.
func (s *Store) MarkWithdrawn(ctx context.Context, item engine.FreeItem) (bool, error) {
	mark := types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(s.itemKey(item.Shard.Campaign, item.Hash)),
		UpdateExpression:          aws.String("SET #withdraw = :true"),
		ConditionExpression:       aws.String(ifPresent + " AND attribute_not_exists(#state)"),
		ExpressionAttributeNames:  map[string]string{"#state": "state", "#withdraw": "withdraw"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":true": &types.AttributeValueMemberBOOL{Value: true}},
	}}
	notFree := check(s.bankTable, bankKey(item), types.ConditionCheck{ConditionExpression: aws.String(ifAbsent)})
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{mark, notFree},
	})
	if _, cancelled := dynamo.Cancellations(err, 2); cancelled {
		return false, nil
	}
	return err == nil, failed("mark item", err)
}

func (s *Store) deleteFree(r engine.EndRequest) types.TransactWriteItem {
	condition, values := ifPresent, map[string]types.AttributeValue(nil)
	if !r.EndedBy.IsZero() {
		condition, values = "ends_at <= :ended", map[string]types.AttributeValue{":ended": number(millis(r.EndedBy))}
	}
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(bankKey(r.Item)),
		ConditionExpression: aws.String(condition), ExpressionAttributeValues: values,
	}}
}

func (s *Store) setState(r engine.EndRequest) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(s.itemKey(r.Item.Shard.Campaign, r.Item.Hash)),
		UpdateExpression:          aws.String(writeState),
		ConditionExpression:       aws.String(ifPresent + " AND attribute_not_exists(#state)"),
		ExpressionAttributeNames:  map[string]string{"#state": "state"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":state": text(string(r.State))},
	}}
}

// whyNotEnded reads the rows of an item whose item row failed its condition. DynamoDB does not document that it reports
// every failed condition of a transaction, so an inconsistency is reported only after a read. The read is isolated:
// while another transaction ends the item, its item row may show the end before its bank row is gone.
func (s *Store) whyNotEnded(ctx context.Context, r engine.EndRequest) (engine.EndResult, error) {
	read, err := s.readItem(ctx, r.Item)
	switch {
	case err != nil || read.Conflict:
		return engine.EndUnsettled, err
	case read.Free == nil:
		return engine.EndNotFree, nil
	case read.Row == nil || read.Row.State != "":
		return engine.EndInconsistent, nil
	}
	return engine.EndUnsettled, nil
}
