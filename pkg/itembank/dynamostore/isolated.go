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

// Consistent reads can show only some of the writes of a running transaction. TransactGetItems conflicts with the
// transaction instead
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-isolation). It
// costs 2 read units a row.

// attributes is a row as DynamoDB returns it. It is empty if the row is absent.
type attributes = map[string]types.AttributeValue

// getIsolated reads rows at one moment. If transactions are working on some of them, no row is read, and conflicts has
// the positions of these rows.
func (s *Store) getIsolated(
	ctx context.Context, doing string, gets ...types.TransactGetItem,
) (rows []attributes, conflicts map[int]bool, err error) {
	out, err := s.client.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: gets})
	if reasons, cancelled := dynamo.Cancellations(err, len(gets)); cancelled {
		conflicts, err = conflictsOf(reasons, doing, err)
		return nil, conflicts, err
	}
	if err != nil {
		return nil, nil, failed(doing, err)
	}
	rows = make([]attributes, len(gets)) // a fake client may return fewer
	for i, r := range out.Responses {
		rows[i] = r.Item
	}
	return rows, nil, nil
}

// conflictsOf returns the positions of the rows that a read conflicted on, or an error if it failed for another reason.
func conflictsOf(reasons []dynamo.Cancellation, doing string, err error) (map[int]bool, error) {
	conflicts := map[int]bool{}
	family := engine.ErrTryAgain
	for i, r := range reasons {
		switch r.Reason {
		case dynamo.Conflict:
			conflicts[i] = true
		case dynamo.Throttled:
			family = engine.ErrThrottled
		}
	}
	if len(conflicts) == 0 {
		return nil, fmt.Errorf("dynamodb: %s: %w: %w", doing, family, err)
	}
	return conflicts, nil
}

func getOf(table string, k key) types.TransactGetItem {
	return types.TransactGetItem{Get: &types.Get{TableName: aws.String(table), Key: dynamo.Encode(k)}}
}

func (s *Store) isolatedClaim(
	ctx context.Context, key engine.ClaimKey,
) (held *engine.Claim, conflict bool, err error) {
	rows, conflicts, err := s.getIsolated(ctx, "read claim", getOf(s.dedupeTable, s.claimKey(key)))
	if err != nil || conflicts[0] || len(rows[0]) == 0 {
		return nil, conflicts[0], err
	}
	var row claimRow
	if err := dynamo.Decode(rows[0], &row); err != nil {
		return nil, false, err
	}
	held, err = row.claim(key)
	return held, false, err
}

// ReadItems reads the rows of all items in one request. Items with a conflict are left out of the next request, until
// all others are read.
func (s *Store) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	reads := make([]engine.ItemRead, len(keys))
	open := make([]int, len(keys)) // positions of the items that are not read yet
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 {
		gets := make([]types.TransactGetItem, 0, 2*len(open))
		for _, i := range open {
			k := keys[i]
			gets = append(gets, getOf(s.bankTable, s.itemKey(k.Shard.Campaign, k.Hash)), getOf(s.bankTable, bankKey(k)))
		}
		rows, conflicts, err := s.getIsolated(ctx, "read items", gets...)
		if err != nil {
			return nil, err
		}
		var left []int
		for n, i := range open {
			switch {
			case conflicts[2*n] || conflicts[2*n+1]:
				reads[i].Conflict = true
			case len(conflicts) > 0:
				left = append(left, i)
			default:
				if reads[i], err = itemRead(keys[i], rows[2*n], rows[2*n+1]); err != nil {
					return nil, err
				}
			}
		}
		open = left
	}
	return reads, nil
}

func itemRead(k engine.FreeItem, item, bank attributes) (read engine.ItemRead, err error) {
	if len(item) > 0 {
		var row itemRow
		if err := dynamo.Decode(item, &row); err != nil {
			return read, err
		}
		decoded := row.itemRow()
		read.Row = &decoded
	}
	if len(bank) > 0 {
		var row bankRow
		if err := dynamo.Decode(bank, &row); err != nil {
			return read, err
		}
		free, err := row.freeItem(k.Shard)
		if err != nil {
			return read, err
		}
		read.Free = &free
	}
	return read, nil
}

// readItem reads the rows of one item.
func (s *Store) readItem(ctx context.Context, k engine.FreeItem) (engine.ItemRead, error) {
	reads, err := s.ReadItems(ctx, []engine.FreeItem{k})
	if err != nil {
		return engine.ItemRead{}, err
	}
	return reads[0], nil
}
