package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// Log is the storage of a log ledger on DynamoDB. It is safe for concurrent use.
//
// A chain row or an item is one conditional put. An item costs one write unit for each KB. A consistent read costs
// one read unit for each 4 KB, other reads half.
type Log struct {
	client Client
	table  string
}

var _ logledger.Storage = (*Log)(nil)

// NewLog makes a Log on an existing table, which may be the table of a Store.
func NewLog(client Client, table string) *Log { return &Log{client, table} }

// Epochs implements logledger.Storage.
func (l *Log) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	in := l.query(chainPartition(lane), "pk = :pk AND sk < :sk", below, limit)
	in.ScanIndexForward, in.ConsistentRead = aws.Bool(false), aws.Bool(true)
	var epochs []logledger.Epoch
	for more := true; more && len(epochs) < limit; {
		var rows []map[string]types.AttributeValue
		var err error
		if rows, more, err = l.page(ctx, "read epochs", in); err != nil {
			return nil, err
		}
		for _, row := range rows {
			e, err := epochOf(row)
			if err != nil {
				return nil, err
			}
			epochs = append(epochs, *e)
		}
	}
	return epochs[:min(len(epochs), limit)], nil
}

// PutEpoch implements logledger.Storage.
func (l *Log) PutEpoch(ctx context.Context, lane logledger.LaneID, e logledger.Epoch) (*logledger.Epoch, error) {
	old, err := l.put(ctx, "put epoch", dynamo.Encode(newEpochRow(lane, e)))
	if err != nil || old == nil {
		return nil, err
	}
	return epochOf(old)
}

// Append implements logledger.Storage.
func (l *Log) Append(ctx context.Context, at logledger.Place, data []byte, purgeAt int64) (existing []byte, err error) {
	old, err := l.put(ctx, "append to the log", logItem(at, data, purgeAt))
	if err != nil || old == nil {
		return nil, err
	}
	item, err := itemOf(old)
	return item.Data, err
}

// Read implements logledger.Storage. It returns items whatever their purge times are.
func (l *Log) Read(ctx context.Context, from logledger.Place, limit int, consistent bool) (
	items []logledger.Item, more bool, err error,
) {
	in := l.query(itemPartition(from), "pk = :pk AND sk >= :sk", from.Index, limit)
	in.ConsistentRead = &consistent
	rows, more, err := l.page(ctx, "read the log", in)
	if err != nil {
		return nil, false, err
	}
	items = make([]logledger.Item, len(rows))
	for n, row := range rows {
		if items[n], err = itemOf(row); err != nil {
			return nil, false, err
		}
	}
	return items, more, nil
}

// put puts a row if its key is free. Otherwise it returns the existing row.
func (l *Log) put(ctx context.Context, doing string, row map[string]types.AttributeValue) (
	old map[string]types.AttributeValue, err error,
) {
	_, err = l.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &l.table, Item: row, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	old, there := dynamo.ConditionFailure(err)
	switch {
	case !there:
		return nil, failed(doing, err)
	case len(old) == 0:
		return nil, fmt.Errorf("dynamodb: %s: %w: %w", doing, dedupe.ErrTryAgain, errNoOldRow)
	}
	return old, nil
}

// errNoOldRow says that the place is taken, but not by whom: it may be this process, by an attempt whose reply was
// lost.
var errNoOldRow = errors.New("the place is taken, and the answer does not say by what")

// query returns a query for rows of a partition. A limit of 0 means no limit.
func (l *Log) query(partition, condition string, sk, limit int) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: &l.table, KeyConditionExpression: &condition,
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text(partition), ":sk": text(logNumber(sk))},
	}
	if limit > 0 {
		in.Limit = aws.Int32(int32(limit))
	}
	return in
}

// page returns the next rows. It returns no rows only at the end. It prepares the query for the next page.
func (l *Log) page(ctx context.Context, doing string, in *dynamodb.QueryInput) (
	rows []map[string]types.AttributeValue, more bool, err error,
) {
	for {
		out, err := l.client.Query(ctx, in)
		if err != nil {
			return nil, false, failed(doing, err)
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		if more = len(out.LastEvaluatedKey) > 0; len(out.Items) > 0 || !more {
			return out.Items, more, nil
		}
	}
}
