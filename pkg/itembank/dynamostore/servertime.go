package dynamostore

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// ServerTime implements engine.Store. It follows the Date of DynamoDB's last reply (package serverclock).
func (s *Store) ServerTime() time.Time { return s.server.Early() }

// dated is a Client whose requests tell a clock the Dates of their replies.
type dated struct {
	Client
	dates func(*dynamodb.Options)
}

func (d dated) GetItem(
	ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	return d.Client.GetItem(ctx, in, append(options, d.dates)...)
}

func (d dated) BatchGetItem(
	ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	return d.Client.BatchGetItem(ctx, in, append(options, d.dates)...)
}

func (d dated) PutItem(
	ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	return d.Client.PutItem(ctx, in, append(options, d.dates)...)
}

func (d dated) UpdateItem(
	ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.UpdateItemOutput, error) {
	return d.Client.UpdateItem(ctx, in, append(options, d.dates)...)
}

func (d dated) TransactGetItems(
	ctx context.Context, in *dynamodb.TransactGetItemsInput, options ...func(*dynamodb.Options),
) (*dynamodb.TransactGetItemsOutput, error) {
	return d.Client.TransactGetItems(ctx, in, append(options, d.dates)...)
}

func (d dated) Query(
	ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options),
) (*dynamodb.QueryOutput, error) {
	return d.Client.Query(ctx, in, append(options, d.dates)...)
}

func (d dated) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	return d.Client.TransactWriteItems(ctx, in, append(options, d.dates)...)
}
