package dynamostore

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// rowShards is the number of partition keys of a campaign's item rows, and of a scope's claim
// rows. It is a constant, since campaigns that share a scope must find each other's claims.
// DynamoDB places keys on partitions by a hash: of 64 keys on 16 partitions the fullest
// partition has 7 to 10, so 64 keys would limit a scope to about 4,000 claims a second.
const rowShards = 256

// layout is the version of the rows and their keys. It is in every campaign row. Layout 1 had
// 64 partition keys for claims and items, and no attribute.
const layout = 2

// bankGeneration is a part of the keys of bank rows. There is one generation.
const bankGeneration = 1

const (
	metaKey      = "meta"      // the sort key of a campaign row
	campaignsKey = "campaigns" // the partition with the names of all campaigns

	// claimPrefix begins the sort key of a claim row with the claim's slot. A claimant has
	// one slot in a scope.
	claimPrefix = "1#"
)

type key struct {
	PK string `dynamodbav:"pk"`
	SK string `dynamodbav:"sk"`
}

func campaignKey(name string) key { return key{"campaign#" + name, metaKey} }

func bankPartition(s engine.Shard) string {
	return fmt.Sprintf("bank#%s#%d#%02d", s.Campaign, bankGeneration, s.Number)
}

func itemPartition(campaign string, shard int) string {
	return fmt.Sprintf("item#%s#%03d", campaign, shard)
}

func itemKey(campaign string, h engine.Hash) key {
	return key{itemPartition(campaign, h.ShardOf(rowShards)), h.String()}
}

func claimPartition(scope string, shard int) string {
	return fmt.Sprintf("claim#%s#%03d", scope, shard)
}

func claimKey(scope, claimant string) key {
	shard := engine.HashItem(claimant).ShardOf(rowShards)
	return key{claimPartition(scope, shard), claimPrefix + claimant}
}

// duePartition is the key of a shard's claims in the index. One partition for all claims of a
// campaign would limit them all to its throughput.
func duePartition(s engine.Shard) string { return fmt.Sprintf("due#%s#%02d", s.Campaign, s.Number) }

func loadPartition(campaign string) string { return "load#" + campaign }

// Times are milliseconds since 1970. An absent attribute is the zero time.

type campaignRow struct {
	key
	Name      string `dynamodbav:"name"`
	State     string `dynamodbav:"state"` // engine.Mode
	OpensAt   int64  `dynamodbav:"opens_at,omitempty"`
	ClosesAt  int64  `dynamodbav:"closes_at,omitempty"`
	Scope     string `dynamodbav:"scope"`
	Shards    int    `dynamodbav:"shards"`
	PageSize  int    `dynamodbav:"page_size"`
	ItemLife  int64  `dynamodbav:"item_life,omitempty"`  // milliseconds
	ClaimLife int64  `dynamodbav:"claim_life,omitempty"` // milliseconds
	Hold      int64  `dynamodbav:"hold,omitempty"`       // milliseconds
	OnEnd     string `dynamodbav:"on_end"`
	Layout    int    `dynamodbav:"layout"`
	Version   int64  `dynamodbav:"version"`
	Empty     int64  `dynamodbav:"empty_version,omitempty"`
	CreatedAt int64  `dynamodbav:"created_at"`
}

type bankRow struct {
	key
	Item   string `dynamodbav:"item"`
	EndsAt int64  `dynamodbav:"ends_at,omitempty"`
}

type itemRow struct {
	key
	LoadID  string `dynamodbav:"load_id"`
	Row     int64  `dynamodbav:"row"`
	EndsAt  int64  `dynamodbav:"ends_at,omitempty"`
	State   string `dynamodbav:"state,omitempty"`
	Returns int    `dynamodbav:"returns,omitempty"`

	// Withdraw is true or absent.
	Withdraw bool `dynamodbav:"withdraw,omitempty"`
}

type claimRow struct {
	key
	ID        string `dynamodbav:"claim_id"`
	Campaign  string `dynamodbav:"campaign"`
	Item      string `dynamodbav:"item"`
	ItemHash  string `dynamodbav:"item_hash"`
	ClaimedAt int64  `dynamodbav:"claimed_at"`
	EndsAt    int64  `dynamodbav:"ends_at,omitempty"`
	Due       string `dynamodbav:"due,omitempty"` // the partition of the index, where the claim has an end
}

type loadRow struct {
	key
	Digest   string `dynamodbav:"digest"`
	Number   int    `dynamodbav:"number"`
	Finished bool   `dynamodbav:"finished"`
	Rows     int64  `dynamodbav:"rows_done"`
	Added    int64  `dynamodbav:"added"`
	Known    int64  `dynamodbav:"known"`
	Repeated int64  `dynamodbav:"repeated"`
}

func newCampaignRow(c engine.Campaign) campaignRow {
	return campaignRow{
		key: campaignKey(c.Name), Name: c.Name, State: string(c.Mode),
		OpensAt: millis(c.OpensAt), ClosesAt: millis(c.ClosesAt), Scope: c.Scope, Shards: c.Shards, PageSize: c.PageSize,
		ItemLife: c.ItemLife.Milliseconds(), ClaimLife: c.ClaimLife.Milliseconds(),
		Hold: c.Hold.Milliseconds(), OnEnd: string(c.OnEnd), CreatedAt: millis(c.CreatedAt), Layout: layout,
		Version: c.Version, Empty: c.EmptyVersion,
	}
}

// ErrLayout says that the tables hold campaigns that another version of oncebox made, with
// other keys. The engine changed nothing.
var ErrLayout = errors.New("the tables have another layout")

func (r campaignRow) campaign() (*engine.Campaign, error) {
	if r.Layout != layout {
		return nil, fmt.Errorf("dynamodb: %w: campaign %q has layout %d, and this version of oncebox reads layout %d; "+
			"use the version that made it, or load the items into new tables", ErrLayout, r.Name, max(r.Layout, 1), layout)
	}
	return &engine.Campaign{
		Name: r.Name, Mode: engine.Mode(r.State),
		OpensAt: fromMillis(r.OpensAt), ClosesAt: fromMillis(r.ClosesAt), Scope: r.Scope, Shards: r.Shards,
		PageSize: r.PageSize, ItemLife: time.Duration(r.ItemLife) * time.Millisecond,
		ClaimLife: time.Duration(r.ClaimLife) * time.Millisecond,
		Hold:      time.Duration(r.Hold) * time.Millisecond, OnEnd: engine.OnEnd(r.OnEnd), CreatedAt: fromMillis(r.CreatedAt),
		Version: r.Version, EmptyVersion: r.Empty,
	}, nil
}

func bankKey(i engine.FreeItem) key { return key{bankPartition(i.Shard), i.Hash.String()} }

func newBankRow(i engine.FreeItem) bankRow {
	return bankRow{bankKey(i), i.Value, millis(i.EndsAt)}
}

func (r bankRow) freeItem(s engine.Shard) (engine.FreeItem, error) {
	h, err := engine.ParseHash(r.SK)
	if err != nil {
		return engine.FreeItem{}, fmt.Errorf("row %s: %w", r.PK, err)
	}
	return engine.FreeItem{Shard: s, Hash: h, Value: r.Item, EndsAt: fromMillis(r.EndsAt)}, nil
}

func newItemRow(r engine.AddRequest) itemRow {
	return itemRow{
		key: itemKey(r.Item.Shard.Campaign, r.Item.Hash), LoadID: r.LoadID, Row: r.Row,
		EndsAt: millis(r.Item.EndsAt),
	}
}

func (r itemRow) itemRow() engine.ItemRow {
	return engine.ItemRow{
		LoadID: r.LoadID, Row: r.Row, EndsAt: fromMillis(r.EndsAt),
		State: engine.ItemState(r.State), Returns: r.Returns, Withdraw: r.Withdraw,
	}
}

// newClaimRow returns the row of a claim of an item from a shard.
func newClaimRow(c engine.Claim, s engine.Shard) claimRow {
	row := claimRow{
		key: claimKey(c.Scope, c.Claimant), ID: c.ID, Campaign: c.Campaign, Item: c.Item,
		ItemHash: c.ItemHash.String(), ClaimedAt: millis(c.ClaimedAt), EndsAt: millis(c.EndsAt),
	}
	if !c.EndsAt.IsZero() {
		row.Due = duePartition(s)
	}
	return row
}

func (r claimRow) claim(scope, claimant string) (*engine.Claim, error) {
	h, err := engine.ParseHash(r.ItemHash)
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", r.PK, err)
	}
	return &engine.Claim{
		ID: r.ID, Campaign: r.Campaign, Scope: scope, Claimant: claimant, Item: r.Item, ItemHash: h,
		ClaimedAt: fromMillis(r.ClaimedAt), EndsAt: fromMillis(r.EndsAt),
	}, nil
}

func newLoadRow(l engine.Load) loadRow {
	return loadRow{
		key: key{loadPartition(l.Campaign), l.ID()}, Digest: l.Digest, Number: l.Number,
		Finished: l.Finished, Rows: l.Tally.Rows, Added: l.Tally.Added, Known: l.Tally.Known, Repeated: l.Tally.Repeated,
	}
}

func (r loadRow) load(campaign string) *engine.Load {
	return &engine.Load{
		Campaign: campaign, Digest: r.Digest, Number: r.Number, Finished: r.Finished,
		Tally: engine.Tally{Rows: r.Rows, Added: r.Added, Known: r.Known, Repeated: r.Repeated},
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// putIfAbsent puts a row if its key is absent. Otherwise the old row comes back.
func putIfAbsent(table string, row any) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: aws.String(table), Item: dynamo.Encode(row), ConditionExpression: aws.String(ifAbsent),
		ReturnValuesOnConditionCheckFailure: allOld,
	}}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
