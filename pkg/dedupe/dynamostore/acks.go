package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ackPage is how many acks a request reads. An ack of 500 records has about 4 KB, which is one read unit.
const ackPage = 100

// ReadAcks reads the acks that end at first or later, consistently and in the order of their ends. It stops after a
// page that ends after last and has no ack that begins before last. It may miss an ack that begins in the batch and
// ends far after it, with more than a page of other acks between. The records of that ack are then processed again.
// (Such an ack is from a batch of a rare partition key, with a parallelization above 1.)
func (s *Store) ReadAcks(ctx context.Context, k dedupe.AckKey, first, last string) (acks []dedupe.Ack, err error) {
	from, to, err := dedupe.PadSequences(first, last)
	if err != nil {
		return nil, err
	}
	in := &dynamodb.QueryInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true), Limit: aws.Int32(ackPage),
		KeyConditionExpression: aws.String("pk = :pk AND sk >= :from"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": text(ackPartition(k)), ":from": text(from),
		},
	}
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, failed("read acks", err)
		}
		reaches := false // an ack of the page overlaps the batch, or a later page may have one that ends in it
		for _, item := range out.Items {
			var row ackRow
			if err := dynamo.Decode(item, &row); err != nil {
				return nil, err
			}
			if row.First <= to {
				acks = append(acks, row.ack())
				reaches = true
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 || !reaches {
			return acks, nil
		}
	}
}

// WriteAck puts an ack. A repeat changes nothing.
func (s *Store) WriteAck(ctx context.Context, k dedupe.AckKey, a dedupe.Ack) error {
	first, last, err := dedupe.PadSequences(a.First, a.Last)
	if err != nil {
		return err
	}
	row := ackRow{key: ackKey(k, last, a.Owners), First: first, Owners: a.Owners, PurgeAt: a.PurgeAt}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: dynamo.Encode(row)})
	return failed("write ack", err)
}

// ClaimConsumer puts the function's row IF it is absent, and returns the function of the row. If the row has another
// layout, whose entries cannot be compared, the error names it. It may also be dedupe.ErrOtherLedger: see WithLedger.
func (s *Store) ClaimConsumer(ctx context.Context, scope string, stream dedupe.Stream, function string) (
	consumer string, err error,
) {
	row := consumerRow{consumerKey(scope, stream), function, layout, s.ledger}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.table), Item: dynamo.Encode(row),
		ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	if err == nil {
		return function, nil
	}
	old, there := dynamo.ConditionFailure(err)
	if !there || len(old) == 0 {
		return "", failed("claim consumer", err)
	}
	row = consumerRow{} // so that fields that the old row lacks are empty
	if err := dynamo.Decode(old, &row); err != nil {
		return "", err
	}
	if row.Layout != layout {
		return "", fmt.Errorf("dynamodb: the scope %s has layout %d, and this version of oncebox reads layout %d; "+
			"use the version that wrote it, or another scope", scope, row.Layout, layout)
	}
	if row.Ledger != s.ledger {
		return "", fmt.Errorf("%w (scope %s; the ledger was %s, and is %s)", dedupe.ErrOtherLedger, scope, row.Ledger, s.ledger)
	}
	return row.Function, nil
}
