package dynamostore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ListClaims lists the claim rows of a scope, partition by partition. A row in a wrong
// partition is an error of the family ErrInconsistent.
func (s *Store) ListClaims(ctx context.Context, scope, cursor string) (claims []engine.Claim, next string, err error) {
	partition := func(n int) string { return claimPartition(scope, n) }
	out, next, err := s.list(ctx, "list claims", s.dedupeTable, cursor, partition)
	if err != nil {
		return nil, "", err
	}
	for _, attributes := range out.Items {
		var row claimRow
		if err := dynamo.Decode(attributes, &row); err != nil {
			return nil, "", err
		}
		key, err := row.claimKeyOf(scope)
		if err != nil { // name the row, because it has the key of another row
			key = engine.ClaimKey{Scope: scope, Claimant: row.SK, Slot: 1}
		}
		if err := checkPlace("list claims", row.key, s.claimKey(key)); err != nil {
			return nil, "", err
		}
		claim, err := row.claim(key)
		if err != nil {
			return nil, "", err
		}
		claims = append(claims, *claim)
	}
	return claims, next, nil
}

// ListItemRows lists the item rows of a campaign, partition by partition. A row in a
// wrong partition is an error of the family ErrInconsistent.
func (s *Store) ListItemRows(
	ctx context.Context, campaign, cursor string,
) (rows []engine.ListedItem, next string, err error) {
	partition := func(n int) string { return itemPartition(campaign, n) }
	out, next, err := s.list(ctx, "list items", s.bankTable, cursor, partition)
	if err != nil {
		return nil, "", err
	}
	for _, attributes := range out.Items {
		var row itemRow
		if err := dynamo.Decode(attributes, &row); err != nil {
			return nil, "", err
		}
		h, err := engine.ParseHash(row.SK)
		if err != nil {
			return nil, "", fmt.Errorf("row %s: %w", row.PK, err)
		}
		if err := checkPlace("list items", row.key, s.itemKey(campaign, h)); err != nil {
			return nil, "", err
		}
		rows = append(rows, engine.ListedItem{Hash: h, ItemRow: row.itemRow()})
	}
	return rows, next, nil
}

// checkPlace returns an error for a row that is stored under another key than its own. Only a list finds such a row;
// all other requests read rows by key. If a Reconcile accepted the row, it would not see that other requests miss it.
func checkPlace(doing string, found, own key) error {
	if found == own {
		return nil
	}
	return fmt.Errorf("dynamodb: %s: %w: the row %q, %q must have the keys %q, %q; "+
		"change them, or delete the row if there is one with these keys already",
		doing, engine.ErrInconsistent, found.PK, found.SK, own.PK, own.SK)
}

// list reads the next page, of at most 1 MB, of the rowShards partitions. A cursor is the number of a partition and the
// last sort key that was read there.
func (s *Store) list(
	ctx context.Context, doing, table, cursor string, partition func(int) string,
) (page *dynamodb.QueryOutput, next string, err error) {
	at, after, _ := strings.Cut(cursor, " ")
	n := 0
	if cursor != "" {
		if n, err = strconv.Atoi(at); err != nil {
			return nil, "", fmt.Errorf("dynamodb: %s: cursor: %w", doing, err)
		}
	}
	q := s.partition(table, partition(n))
	if after != "" {
		q.KeyConditionExpression = aws.String("pk = :pk AND sk > :after")
		q.ExpressionAttributeValues[":after"] = text(after)
	}
	if page, err = s.client.Query(ctx, q); err != nil {
		return nil, "", failed(doing, err)
	}
	switch {
	case page.LastEvaluatedKey != nil:
		var last key
		if err := dynamo.Decode(page.LastEvaluatedKey, &last); err != nil {
			return nil, "", err
		}
		next = fmt.Sprintf("%d %s", n, last.SK)
	case n < s.rowShards-1:
		next = fmt.Sprintf("%d ", n+1)
	}
	return page, next, nil
}
