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

// DeleteScratch deletes all rows of a campaign and of its claims, for good. It is for a campaign of which only the
// caller knows. items and claimants must be complete: the claim of a missing claimant would stay, and name a campaign
// that does not exist. Never delete a campaign that others know and that was loaded.
//
// The campaign must have the scope of its own name and one claim for each claimant. DeleteScratch is safe to repeat:
// missing rows are no error. It deletes the row of the campaign last, so that the campaign still exists after an
// interrupted call, which can then be repeated.
//
// Errors: engine.ErrTryAgain.
func (s *Store) DeleteScratch(ctx context.Context, c engine.Campaign, items, claimants []string) error {
	const doing = "delete scratch campaign"
	if c.Scope != c.Name || c.PerClaimant > 1 {
		return fmt.Errorf("dynamodb: %s: %s shares its scope, or has claims in several slots", doing, c.Name)
	}
	var rows []types.TransactWriteItem
	for _, claimant := range claimants {
		rows = append(rows, deleteRow(s.dedupeTable, s.claimKey(engine.ClaimKey{Scope: c.Scope, Claimant: claimant, Slot: 1})))
	}
	for _, item := range items {
		h := engine.HashItem(item)
		shard := engine.Shard{Campaign: c.Name, Number: h.ShardOf(c.Shards)}
		rows = append(rows, deleteRow(s.bankTable, key{bankPartition(shard), h.String()}),
			deleteRow(s.bankTable, s.itemKey(c.Name, h)))
	}
	err := s.query(ctx, doing, s.partition(s.bankTable, loadPartition(c.Name)), func(page *dynamodb.QueryOutput) error {
		for _, attributes := range page.Items {
			var load key
			if err := dynamo.Decode(attributes, &load); err != nil {
				return err
			}
			rows = append(rows, deleteRow(s.bankTable, load))
		}
		return nil
	})
	if err != nil {
		return err
	}
	own := []types.TransactWriteItem{
		deleteRow(s.bankTable, scopeKey(c.Scope)), deleteRow(s.bankTable, nameKey(c.Name)),
		deleteRow(s.bankTable, campaignKey(c.Name)),
	}
	for _, all := range [][]types.TransactWriteItem{rows, own} {
		_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: all})
		if _, cancelled := dynamo.Cancellations(err, len(all)); cancelled { // busy or throttled: there are no conditions
			return fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
		}
		if err != nil {
			return failed(doing, err)
		}
	}
	return nil
}

func deleteRow(table string, k key) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String(table), Key: dynamo.Encode(k)}}
}
