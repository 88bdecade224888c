package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ConfirmClaim is one UpdateItem: {remove ends_at and due IF claim_id = :id AND ends_at exists}. If the condition
// fails, the reply has the old row, which is the result.
func (s *Store) ConfirmClaim(ctx context.Context, claim engine.Claim) (engine.ConfirmResult, error) {
	return s.changeEnd(ctx, "confirm claim", claim, &dynamodb.UpdateItemInput{
		UpdateExpression:    aws.String("REMOVE ends_at, due"),
		ConditionExpression: aws.String("claim_id = :id AND campaign = :campaign AND attribute_exists(ends_at)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":id": text(claim.ID), ":campaign": text(claim.Campaign),
		},
	})
}

// ProlongClaim is one UpdateItem: {set ends_at IF claim_id = :id AND ends_at = :end}. The index moves its entry.
func (s *Store) ProlongClaim(
	ctx context.Context, claim engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	return s.changeEnd(ctx, "prolong claim", claim, &dynamodb.UpdateItemInput{
		UpdateExpression:    aws.String("SET ends_at = :new"),
		ConditionExpression: aws.String("claim_id = :id AND campaign = :campaign AND ends_at = :end"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":id": text(claim.ID), ":campaign": text(claim.Campaign),
			":end": number(millis(claim.EndsAt)), ":new": number(millis(endsAt)),
		},
	})
}

// changeEnd makes an update of a claim row. The result is the row after it: the old one if the condition fails.
func (s *Store) changeEnd(
	ctx context.Context, what string, claim engine.Claim, update *dynamodb.UpdateItemInput,
) (engine.ConfirmResult, error) {
	update.TableName, update.Key = aws.String(s.dedupeTable), dynamo.Encode(s.claimKey(claim.Key()))
	update.ReturnValues, update.ReturnValuesOnConditionCheckFailure = types.ReturnValueAllNew, allOld
	out, err := s.client.UpdateItem(ctx, update)
	var conflict *types.TransactionConflictException
	if errors.As(err, &conflict) {
		return engine.ConfirmResult{Conflict: true}, nil
	}
	found, unchanged := dynamo.ConditionFailure(err)
	switch {
	case unchanged:
	case err != nil:
		return engine.ConfirmResult{}, failed(what, err)
	default:
		found = out.Attributes
	}
	if len(found) == 0 {
		return engine.ConfirmResult{}, nil
	}
	var row claimRow
	if err := dynamo.Decode(found, &row); err != nil {
		return engine.ConfirmResult{}, err
	}
	held, err := row.claim(claim.Key())
	return engine.ConfirmResult{Held: held}, err
}

// dueIndex is the name of the sparse index of the dedupe table over claims that end. Its keys are due and ends_at,
// and it has no other attributes. DynamoDB updates it a moment after the table.
const dueIndex = "due"

// DueClaims queries the index, which names each claim by the keys of its row.
func (s *Store) DueClaims(
	ctx context.Context, shard engine.Shard, after, before time.Time, limit int,
) (engine.DuePage, error) {
	if !after.Before(before) { // DynamoDB refuses such a BETWEEN
		return engine.DuePage{}, nil
	}
	q := &dynamodb.QueryInput{
		TableName: aws.String(s.dedupeTable), IndexName: aws.String(dueIndex), Limit: aws.Int32(int32(limit)),
		KeyConditionExpression: aws.String("due = :due AND ends_at BETWEEN :after AND :last"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":due": text(duePartition(shard)), ":after": number(millis(after)), ":last": number(millis(before) - 1),
		},
	}
	out, err := s.client.Query(ctx, q)
	for err == nil && len(out.Items) == 0 && out.LastEvaluatedKey != nil { // a page may be empty without being the last
		q.ExclusiveStartKey = out.LastEvaluatedKey
		out, err = s.client.Query(ctx, q)
	}
	if err != nil {
		return engine.DuePage{}, failed("read due claims", err)
	}
	page := engine.DuePage{More: out.LastEvaluatedKey != nil}
	for _, attributes := range out.Items {
		var row claimRow
		if err := dynamo.Decode(attributes, &row); err != nil {
			return engine.DuePage{}, err
		}
		claim, err := row.dueClaim()
		if err != nil {
			return engine.DuePage{}, err
		}
		page.Claims = append(page.Claims, claim)
	}
	return page, nil
}

// dueClaim returns the key of a claim, from the key of its row.
func (r claimRow) dueClaim() (engine.DueClaim, error) {
	parts := strings.Split(r.PK, "#")
	if len(parts) != 3 || parts[0] != "claim" {
		return engine.DueClaim{}, fmt.Errorf("dynamodb: read due claims: %w: a row of partition %q is no claim",
			engine.ErrInconsistent, r.PK)
	}
	key, err := r.claimKeyOf(parts[1])
	if err != nil {
		return engine.DueClaim{}, fmt.Errorf("dynamodb: read due claims: %w", err)
	}
	return engine.DueClaim{ClaimKey: key, EndsAt: fromMillis(r.EndsAt)}, nil
}
