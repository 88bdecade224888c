package dynamostore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// get reads one row with a consistent read.
func (s *Store) get(ctx context.Context, doing, table string, k key, row any) (found bool, err error) {
	attributes, err := s.attributes(ctx, doing, table, k)
	if err != nil || attributes == nil {
		return false, err
	}
	return true, dynamo.Decode(attributes, row)
}

// attributes reads the attributes of a row consistently; nil: the row is absent.
func (s *Store) attributes(ctx context.Context, doing, table string, k key) (map[string]types.AttributeValue, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: dynamo.Encode(k), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, failed(doing, err)
	}
	return out.Item, nil
}

// batchGet reads rows of one table, and calls each for every row that exists. A reply may leave
// out keys that were throttled. These are sent again as long as each reply has at least one row.
func (s *Store) batchGet(
	ctx context.Context, doing, table string, keys []key, c engine.Consistency,
	each func(attributes map[string]types.AttributeValue) error,
) error {
	rest := types.KeysAndAttributes{ConsistentRead: aws.Bool(bool(c))}
	for _, k := range keys {
		rest.Keys = append(rest.Keys, dynamo.Encode(k))
	}
	for len(rest.Keys) > 0 {
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{table: rest},
		})
		if err != nil {
			return failed(doing, err)
		}
		left := out.UnprocessedKeys[table].Keys
		if len(left) == len(rest.Keys) {
			return fmt.Errorf("dynamodb: %s: %w", doing, engine.ErrThrottled)
		}
		for _, attributes := range out.Responses[table] {
			if err := each(attributes); err != nil {
				return err
			}
		}
		rest.Keys = left
	}
	return nil
}

// partition returns a consistent query of all rows of a partition.
func (s *Store) partition(table, pk string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName: aws.String(table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text(pk)},
	}
}

// query reads all pages of a query, each at most 1 MB.
func (s *Store) query(
	ctx context.Context, doing string, q *dynamodb.QueryInput, each func(*dynamodb.QueryOutput) error,
) error {
	for {
		page, err := s.client.Query(ctx, q)
		if err != nil {
			return failed(doing, err)
		}
		if err := each(page); err != nil || page.LastEvaluatedKey == nil {
			return err
		}
		q.ExclusiveStartKey = page.LastEvaluatedKey
	}
}

// counter adds up the counts of several partitions.
type counter struct{ atomic.Int64 }

func (c *counter) add(n int32) { c.Add(int64(n)) }
