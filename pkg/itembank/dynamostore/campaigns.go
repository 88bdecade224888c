package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// CreateCampaign is one transaction: {put campaign row IF absent or deleted with the version before, put
// scope row IF absent or the same, put the campaign's name into the list of all}.
func (s *Store) CreateCampaign(ctx context.Context, c engine.Campaign) (result engine.CreateResult, err error) {
	const doing = "create campaign"
	const campaign, fixed, listed = 0, 1, 2 // positions of the actions and of their cancellation reasons
	if err := s.checkLayout(ctx); err != nil {
		return result, err
	}
	scope := c.ScopeRow()
	actions := []types.TransactWriteItem{
		campaign: s.putCampaign(c), fixed: s.putScope(scope), listed: s.putName(c.Name),
	}
	_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if !cancelled {
		return result, failed(doing, err)
	}
	cause := err
	if reasons[campaign].Reason == dynamo.ConditionFailed {
		var row campaignRow
		if err := dynamo.Decode(reasons[campaign].Item, &row); err != nil {
			return result, err
		}
		if result.Existing, err = row.campaign(); err != nil {
			return result, err
		}
	}
	if reasons[fixed].Reason == dynamo.ConditionFailed {
		var row scopeRow
		if err := dynamo.Decode(reasons[fixed].Item, &row); err != nil {
			return result, err
		}
		if result.Scope, err = row.scope(scope.Name); err != nil {
			return result, err
		}
	}
	if result.Created() { // cancelled for another reason: nothing was created
		return result, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, cause)
	}
	return result, nil
}

// putCampaign puts a campaign row IF it is absent, or deleted with the version before. Otherwise the reply has the old
// row.
func (s *Store) putCampaign(c engine.Campaign) types.TransactWriteItem {
	put := putIfAbsent(s.bankTable, newCampaignRow(c))
	same, values := ifVersions(c.Version-1, c.EmptyVersion)
	values[":deleted"] = deleted
	put.Put.ConditionExpression = aws.String(ifAbsent + " OR (#state = :deleted AND " + same + ")")
	put.Put.ExpressionAttributeNames = map[string]string{"#state": "state"}
	put.Put.ExpressionAttributeValues = values
	return put
}

// ifVersions returns the condition that a campaign row has these versions.
func ifVersions(version, empty int64) (condition string, values map[string]types.AttributeValue) {
	values = map[string]types.AttributeValue{":version": number(version)}
	if empty == 0 {
		return "version = :version AND attribute_not_exists(empty_version)", values
	}
	values[":empty"] = number(empty)
	return "version = :version AND empty_version = :empty", values
}

// putScope puts the row of a scope IF it is absent or the same. Otherwise the reply has the old row.
func (s *Store) putScope(scope engine.Scope) types.TransactWriteItem {
	row := newScopeRow(scope)
	put := putIfAbsent(s.bankTable, row)
	same, values := "layout BETWEEN :oldest AND :layout", map[string]types.AttributeValue{
		":oldest": number(oldestLayout), ":layout": number(layout),
	}
	for attribute, value := range map[string]string{"claimants": row.Claimants, "sole": row.Sole} {
		if value == "" {
			same += " AND attribute_not_exists(" + attribute + ")"
			continue
		}
		same += " AND " + attribute + " = :" + attribute
		values[":"+attribute] = text(value)
	}
	put.Put.ConditionExpression = aws.String(ifAbsent + " OR (" + same + ")")
	put.Put.ExpressionAttributeValues = values
	return put
}

// putName puts a name into the list of all campaigns.
func (s *Store) putName(name string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(nameKey(name)),
	}}
}

// nameKey is the key of a name in the list of all campaigns. A name is in the list if and only if its campaign row exists
// and is not deleted: the transactions that create and delete a campaign also change the list.
func nameKey(name string) key { return key{campaignsKey, name} }

// checkLayout reads the first of the campaigns, if there is any. No campaign is created beside one of a layout that this
// version does not read: they could share a scope.
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
	found, err := s.get(ctx, readingCampaign, s.bankTable, campaignKey(name), &row)
	if err != nil || !found {
		return nil, err
	}
	return row.campaign()
}

const readingCampaign = "read campaign"

// campaignReaders is how many campaign rows Campaigns reads at the same time.
const campaignReaders = 16

// Campaigns reads the list of names page by page, and the campaign rows of each page, several at a time.
func (s *Store) Campaigns(ctx context.Context) (campaigns []engine.Campaign, err error) {
	var unreadable engine.UnreadableError
	err = s.query(ctx, "list campaigns", s.partition(s.bankTable, campaignsKey), func(page *dynamodb.QueryOutput) error {
		names, err := namesOf(page)
		if err != nil {
			return err
		}
		rows, err := s.campaignsNamed(ctx, names)
		if err != nil {
			return err
		}
		for i, row := range rows {
			c, err := row.campaign()
			switch {
			case err != nil:
				unreadable.Campaigns = append(unreadable.Campaigns, engine.Unreadable{Name: names[i], Scope: row.scope(), Err: err})
			case c != nil && c.Mode != engine.Deleted: // it may have been deleted since the page was read
				campaigns = append(campaigns, *c)
			}
		}
		return nil
	})
	if err == nil && len(unreadable.Campaigns) > 0 {
		return campaigns, &unreadable
	}
	return campaigns, err
}

// namesOf returns the names on a page of the list of all campaigns.
func namesOf(page *dynamodb.QueryOutput) (names []string, err error) {
	for _, attributes := range page.Items {
		var listed key
		if err := dynamo.Decode(attributes, &listed); err != nil {
			return nil, err
		}
		if listed.SK != oldFence {
			names = append(names, listed.SK)
		}
	}
	return names, nil
}

// campaignsNamed reads the rows of campaigns.
func (s *Store) campaignsNamed(ctx context.Context, names []string) ([]campaignAttributes, error) {
	rows := make([]campaignAttributes, len(names))
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(campaignReaders)
	for i, name := range names {
		readers.Go(func() (err error) {
			rows[i], err = s.attributes(ctx, readingCampaign, s.bankTable, campaignKey(name))
			return err
		})
	}
	return rows, readers.Wait()
}

// campaignAttributes are the attributes of a campaign row; nil: the row is absent.
type campaignAttributes map[string]types.AttributeValue

// campaign returns the campaign of the row. The error says why this version cannot read the row.
func (a campaignAttributes) campaign() (*engine.Campaign, error) {
	if a == nil {
		return nil, nil
	}
	var row campaignRow
	if err := dynamo.Decode(a, &row); err != nil {
		return nil, err
	}
	return row.campaign()
}

// scope returns the scope of a row that may be unreadable, or "".
func (a campaignAttributes) scope() string {
	if scope, ok := a["scope"].(*types.AttributeValueMemberS); ok {
		return scope.Value
	}
	return ""
}

// ifNotDeleted is the condition for changes of a campaign that must exist. In it, #state is the state of the campaign,
// and :deleted is deleted.
const ifNotDeleted = ifPresent + " AND #state <> :deleted"

var deleted = text(string(engine.Deleted))

// ReplaceCampaign puts the campaign row IF the existing row has the versions of old. If the new row is deleted, the page
// row and the name in the list of all campaigns are deleted with it.
func (s *Store) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	condition, values := ifVersions(old.Version, old.EmptyVersion)
	put := &types.Put{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(newCampaignRow(now)),
		ConditionExpression: &condition, ExpressionAttributeValues: values,
	}
	if now.Mode == engine.Deleted {
		return s.deleteCampaign(ctx, put, now.Name)
	}
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: put.TableName, Item: put.Item,
		ConditionExpression: put.ConditionExpression, ExpressionAttributeValues: put.ExpressionAttributeValues,
	})
	if _, unmet := dynamo.ConditionFailure(err); unmet {
		return false, nil
	}
	return err == nil, failed("change campaign", err)
}

// NextVersion raises the version of a campaign row by 1.
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

// updateCampaign updates a campaign row and returns it, or nil if the condition failed.
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

// countMore counts the further items of claims. A query that only counts cannot add them up, so this one returns rows.
func (s *Store) countMore(ctx context.Context, c engine.Campaign, shard int, how engine.Consistency, claimed *counter) error {
	q := s.partition(s.dedupeTable, claimPartition(c.Scope, shard))
	q.ConsistentRead = aws.Bool(bool(how))
	q.FilterExpression = aws.String("campaign = :campaign AND attribute_exists(more)")
	q.ExpressionAttributeValues[":campaign"] = text(c.Name)
	q.ProjectionExpression = aws.String("more")
	return s.query(ctx, "count rows", q, func(page *dynamodb.QueryOutput) error {
		for _, attributes := range page.Items {
			var row claimRow
			if err := dynamo.Decode(attributes, &row); err != nil {
				return err
			}
			claimed.add(int32(len(row.More)))
		}
		return nil
	})
}

// countReaders is how many partitions Counts reads at the same time.
const countReaders = 8

// Counts counts the item rows, the bank rows, and the claims of the scope that name the campaign. Eventually consistent
// reads cost half as much.
func (s *Store) Counts(ctx context.Context, c engine.Campaign, how engine.Consistency) (engine.Counts, error) {
	var loaded, ended, free, claimed counter
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countReaders)
	count := func(q *dynamodb.QueryInput, matched, scanned *counter) {
		q.Select, q.ConsistentRead = types.SelectCount, aws.Bool(bool(how))
		g.Go(func() error {
			return s.query(ctx, "count rows", q, func(page *dynamodb.QueryOutput) error {
				matched.add(page.Count)
				scanned.add(page.ScannedCount)
				return nil
			})
		})
	}
	var ignored counter
	for shard := range s.rowShards {
		items := s.partition(s.bankTable, itemPartition(c.Name, shard))
		items.FilterExpression = aws.String("attribute_exists(#state)")
		items.ExpressionAttributeNames = map[string]string{"#state": "state"}
		count(items, &ended, &loaded)

		claims := s.partition(s.dedupeTable, claimPartition(c.Scope, shard))
		claims.FilterExpression = aws.String("campaign = :campaign")
		claims.ExpressionAttributeValues[":campaign"] = text(c.Name)
		count(claims, &claimed, &ignored)
		if c.Choice {
			g.Go(func() error { return s.countMore(ctx, c, shard, how, &claimed) })
		}
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
