package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// CreateCampaign puts the campaign row if it is absent, and its name into the list of all
// campaigns, in one transaction.
func (s *Store) CreateCampaign(ctx context.Context, c engine.Campaign) (*engine.Campaign, error) {
	const doing = "create campaign"
	if err := s.checkLayout(ctx); err != nil {
		return nil, err
	}
	listed := types.TransactWriteItem{Put: &types.Put{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(key{campaignsKey, c.Name}),
	}}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{putIfAbsent(s.bankTable, newCampaignRow(c)), listed},
	})
	reasons, cancelled := dynamo.Cancellations(err, 2)
	switch {
	case !cancelled:
		return nil, failed(doing, err)
	case reasons[0].Reason != dynamo.ConditionFailed:
		return nil, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
	}
	var row campaignRow
	if err := dynamo.Decode(reasons[0].Item, &row); err != nil {
		return nil, err
	}
	return row.campaign()
}

// checkLayout reads one of the campaigns, if there is any. All campaigns of a store have the
// same layout: campaigns that share a scope must find each other's claims.
func (s *Store) checkLayout(ctx context.Context) error {
	names := s.partition(s.bankTable, campaignsKey)
	names.Limit = aws.Int32(1)
	page, err := s.client.Query(ctx, names)
	if err != nil {
		return failed("list campaigns", err)
	}
	for _, attributes := range page.Items {
		var listed key
		if err := dynamo.Decode(attributes, &listed); err != nil {
			return err
		}
		if _, err := s.Campaign(ctx, listed.SK); err != nil {
			return err
		}
	}
	return nil
}

// Campaign reads a campaign row.
func (s *Store) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	var row campaignRow
	found, err := s.get(ctx, "read campaign", s.bankTable, campaignKey(name), &row)
	if err != nil || !found {
		return nil, err
	}
	return row.campaign()
}

// Campaigns reads the list of names, then each campaign row.
func (s *Store) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	var campaigns []engine.Campaign
	err := s.query(ctx, "list campaigns", s.partition(s.bankTable, campaignsKey), func(page *dynamodb.QueryOutput) error {
		for _, attributes := range page.Items {
			var listed key
			if err := dynamo.Decode(attributes, &listed); err != nil {
				return err
			}
			c, err := s.Campaign(ctx, listed.SK)
			if err != nil {
				return err
			}
			if c != nil {
				campaigns = append(campaigns, *c)
			}
		}
		return nil
	})
	return campaigns, err
}

// SetMode writes the state attribute of a campaign row, and counts up its version.
func (s *Store) SetMode(ctx context.Context, name string, m engine.Mode) (bool, error) {
	changed, err := s.updateCampaign(ctx, "set campaign mode", name, &dynamodb.UpdateItemInput{
		UpdateExpression:          aws.String("SET #state = :mode ADD version :one"),
		ConditionExpression:       aws.String(ifPresent),
		ExpressionAttributeNames:  map[string]string{"#state": "state"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":mode": text(string(m)), ":one": number(1)},
	})
	return changed != nil, err
}

// NextVersion counts up the version of a campaign row.
func (s *Store) NextVersion(ctx context.Context, campaign string) (*engine.Campaign, error) {
	return s.updateCampaign(ctx, "count up version", campaign, &dynamodb.UpdateItemInput{
		UpdateExpression:          aws.String("ADD version :one"),
		ConditionExpression:       aws.String(ifPresent),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": number(1)},
	})
}

// MarkEmpty writes the EmptyVersion of a campaign row IF version = :version.
func (s *Store) MarkEmpty(ctx context.Context, campaign string, version int64) (bool, error) {
	changed, err := s.updateCampaign(ctx, "mark as empty", campaign, &dynamodb.UpdateItemInput{
		UpdateExpression:          aws.String("SET empty_version = :version"),
		ConditionExpression:       aws.String("version = :version"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":version": number(version)},
	})
	return changed != nil, err
}

// updateCampaign updates a campaign row and returns it; nil: the condition failed.
func (s *Store) updateCampaign(
	ctx context.Context, doing, name string, in *dynamodb.UpdateItemInput,
) (*engine.Campaign, error) {
	in.TableName, in.Key = aws.String(s.bankTable), dynamo.Encode(campaignKey(name))
	in.ReturnValues = types.ReturnValueAllNew
	out, err := s.client.UpdateItem(ctx, in)
	if _, unmet := dynamo.ConditionFailure(err); unmet {
		return nil, nil
	}
	if err != nil {
		return nil, failed(doing, err)
	}
	var row campaignRow
	if err := dynamo.Decode(out.Attributes, &row); err != nil {
		return nil, err
	}
	return row.campaign()
}

// countReaders is how many partitions Counts reads at once.
const countReaders = 8

// Counts counts the item rows, the bank rows, and the claims of the scope that name the
// campaign. Eventually consistent reads cost half as much.
func (s *Store) Counts(ctx context.Context, c engine.Campaign, consistent bool) (engine.Counts, error) {
	var loaded, ended, free, claimed counter
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countReaders)
	count := func(q *dynamodb.QueryInput, matched, scanned *counter) {
		q.Select, q.ConsistentRead = types.SelectCount, aws.Bool(consistent)
		g.Go(func() error {
			return s.query(ctx, "count rows", q, func(page *dynamodb.QueryOutput) error {
				matched.add(page.Count)
				scanned.add(page.ScannedCount)
				return nil
			})
		})
	}
	var ignored counter
	for shard := range rowShards {
		items := s.partition(s.bankTable, itemPartition(c.Name, shard))
		items.FilterExpression = aws.String("attribute_exists(#state)")
		items.ExpressionAttributeNames = map[string]string{"#state": "state"}
		count(items, &ended, &loaded)

		claims := s.partition(s.dedupeTable, claimPartition(c.Scope, shard))
		claims.FilterExpression = aws.String("campaign = :campaign")
		claims.ExpressionAttributeValues[":campaign"] = text(c.Name)
		count(claims, &claimed, &ignored)
	}
	for shard := range c.Shards {
		bank := bankPartition(engine.Shard{Campaign: c.Name, Number: shard})
		count(s.partition(s.bankTable, bank), &free, &ignored)
	}
	if err := g.Wait(); err != nil {
		return engine.Counts{}, err
	}
	return engine.Counts{Loaded: loaded.Load(), Free: free.Load(), Claimed: claimed.Load(), Ended: ended.Load()}, nil
}
