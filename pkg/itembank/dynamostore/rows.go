package dynamostore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// rowShards is the number of partition keys of a campaign's item rows, and of a scope's claim
// rows. It is a constant, since campaigns that share a scope must find each other's claims. Tests have fewer, since
// their campaigns are small and lists read each partition.
// DynamoDB places keys on partitions by a hash: of 64 keys on 16 partitions the fullest
// partition has 7 to 10, so 64 keys would limit a scope to about 4,000 claims a second.
const rowShards = 256

// layout is the version of the rows and their keys. It is in every campaign row and every scope row. Rows with the number
// 2 are the same: 3 was only the number of campaigns with choice or columns, and of scopes with other claimants than
// exact ones or with a sole campaign. Another number is refused with ErrLayout.
const (
	oldestLayout = 2
	layout       = 3
)

func isReadable(theirs int) bool { return oldestLayout <= theirs && theirs <= layout }

// oldFence is a name in the list of campaigns that is not a campaign. Tables that have rows with the number 2 may have it.
const oldFence = "!"

// bankGeneration is a part of the keys of bank rows. There is one generation.
const bankGeneration = 1

const (
	metaKey      = "meta"      // the sort key of a campaign row
	campaignsKey = "campaigns" // the partition with the names of all campaigns
)

type key struct {
	PK string `dynamodbav:"pk"`
	SK string `dynamodbav:"sk"`
}

func scopeKey(name string) key { return key{"scope#" + name, metaKey} }

func campaignKey(name string) key { return key{"campaign#" + name, metaKey} }

func bankPartition(s engine.Shard) string {
	return fmt.Sprintf("bank#%s#%d#%02d", s.Campaign, bankGeneration, s.Number)
}

func itemPartition(campaign string, shard int) string {
	return fmt.Sprintf("item#%s#%03d", campaign, shard)
}

func (s *Store) itemKey(campaign string, h engine.Hash) key {
	return key{itemPartition(campaign, h.ShardOf(s.rowShards)), h.String()}
}

func claimPartition(scope string, shard int) string {
	return fmt.Sprintf("claim#%s#%03d", scope, shard)
}

// claimKey is the key of a claim row. The slots of a claimant are in one partition.
func (s *Store) claimKey(k engine.ClaimKey) key {
	shard := engine.HashItem(k.Claimant).ShardOf(s.rowShards)
	return key{claimPartition(k.Scope, shard), fmt.Sprintf("%d#%s", k.Slot, k.Claimant)}
}

// claimKeyOf reads slot and claimant from the sort key of a claim row in a scope.
func (k key) claimKeyOf(scope string) (engine.ClaimKey, error) {
	number, claimant, ok := strings.Cut(k.SK, "#")
	slot, err := strconv.Atoi(number)
	if !ok || err != nil { // the sort key may hold a claimant, which must not reach a log
		return engine.ClaimKey{}, fmt.Errorf("%w: a row of partition %q is no claim", engine.ErrInconsistent, k.PK)
	}
	return engine.ClaimKey{Scope: scope, Claimant: claimant, Slot: slot}, nil
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
	Moved     bool   `dynamodbav:"moved,omitempty"`
	Restored  bool   `dynamodbav:"restored,omitempty"`
	OpensAt   int64  `dynamodbav:"opens_at,omitempty"`
	ClosesAt  int64  `dynamodbav:"closes_at,omitempty"`
	Scope     string `dynamodbav:"scope"`
	Claimants string `dynamodbav:"claimants,omitempty"`

	PerClaimant int  `dynamodbav:"per_claimant,omitempty"`
	Choice      bool `dynamodbav:"choice,omitempty"`
	MaxItems    int  `dynamodbav:"max_items,omitempty"`
	Publish     bool `dynamodbav:"publish,omitempty"`
	Columns     bool `dynamodbav:"columns,omitempty"`

	Shards    int    `dynamodbav:"shards"`
	PageSize  int    `dynamodbav:"page_size"`
	ItemLife  int64  `dynamodbav:"item_life,omitempty"`  // milliseconds
	ClaimLife int64  `dynamodbav:"claim_life,omitempty"` // milliseconds
	Hold      int64  `dynamodbav:"hold,omitempty"`       // milliseconds
	MaxHold   int64  `dynamodbav:"max_hold,omitempty"`   // milliseconds
	OnEnd     string `dynamodbav:"on_end"`
	Layout    int    `dynamodbav:"layout"`
	Version   int64  `dynamodbav:"version"`
	Empty     int64  `dynamodbav:"empty_version,omitempty"`
	CreatedAt int64  `dynamodbav:"created_at"`
}

type scopeRow struct {
	key
	Claimants string `dynamodbav:"claimants,omitempty"`
	Sole      string `dynamodbav:"sole,omitempty"`
	Layout    int    `dynamodbav:"layout"`
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
	Withdraw bool   `dynamodbav:"withdraw,omitempty"`
	Columns  string `dynamodbav:"columns,omitempty"` // engine.ItemRow.Columns
}

type claimRow struct {
	key
	ID       string `dynamodbav:"claim_id"`
	Campaign string `dynamodbav:"campaign"`
	Item     string `dynamodbav:"item"`
	ItemHash string `dynamodbav:"item_hash"`

	More []string `dynamodbav:"more,omitempty"` // the other items

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

	// GivenUp is true or absent.
	GivenUp   bool  `dynamodbav:"given_up,omitempty"`
	StartedAt int64 `dynamodbav:"started_at,omitempty"` // milliseconds; absent in rows of older versions
}

func newScopeRow(s engine.Scope) scopeRow {
	return scopeRow{key: scopeKey(s.Name), Claimants: s.Claimants, Sole: s.Sole, Layout: layout}
}

func (r scopeRow) scope(name string) (*engine.Scope, error) {
	if !isReadable(r.Layout) {
		return nil, otherLayout("scope", name, r.Layout)
	}
	return &engine.Scope{Name: name, Claimants: r.Claimants, Sole: r.Sole}, nil
}

func newCampaignRow(c engine.Campaign) campaignRow {
	return campaignRow{
		key: campaignKey(c.Name), Name: c.Name, State: string(c.Mode), Moved: c.Moved, Restored: c.Restored,
		OpensAt: millis(c.OpensAt), ClosesAt: millis(c.ClosesAt), Scope: c.Scope,
		Claimants: c.Claimants, PerClaimant: c.PerClaimant, Choice: c.Choice, MaxItems: c.MaxItems, Publish: c.Publish,
		Columns: c.Columns, Shards: c.Shards, PageSize: c.PageSize,
		ItemLife: c.ItemLife.Milliseconds(), ClaimLife: c.ClaimLife.Milliseconds(),
		Hold: c.Hold.Milliseconds(), MaxHold: c.MaxHold.Milliseconds(), OnEnd: string(c.OnEnd), CreatedAt: millis(c.CreatedAt), Layout: layout,
		Version: c.Version, Empty: c.EmptyVersion,
	}
}

// ErrLayout says that another version of oncebox made the tables, with other rows. Nothing was changed.
var ErrLayout = errors.New("the tables have another layout")

func otherLayout(what, name string, theirs int) error {
	return fmt.Errorf("dynamodb: %w: %s %q has layout %d, and this version of oncebox reads layouts %d and %d; "+
		"use the version that made it, or load the items into new tables", ErrLayout, what, name, theirs, oldestLayout, layout)
}

func (r campaignRow) campaign() (*engine.Campaign, error) {
	if !isReadable(r.Layout) {
		return nil, otherLayout("campaign", r.Name, r.Layout)
	}
	return &engine.Campaign{
		Name: r.Name, Mode: engine.Mode(r.State), Moved: r.Moved, Restored: r.Restored,
		OpensAt: fromMillis(r.OpensAt), ClosesAt: fromMillis(r.ClosesAt), Scope: r.Scope,
		Claimants: r.Claimants, PerClaimant: r.PerClaimant, Choice: r.Choice, MaxItems: r.MaxItems, Publish: r.Publish,
		Columns: r.Columns, Shards: r.Shards, PageSize: r.PageSize, ItemLife: time.Duration(r.ItemLife) * time.Millisecond,
		ClaimLife: time.Duration(r.ClaimLife) * time.Millisecond,
		Hold:      time.Duration(r.Hold) * time.Millisecond, MaxHold: time.Duration(r.MaxHold) * time.Millisecond,
		OnEnd: engine.OnEnd(r.OnEnd), CreatedAt: fromMillis(r.CreatedAt),
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

func (s *Store) newItemRow(r engine.AddRequest) itemRow {
	return itemRow{
		key: s.itemKey(r.Item.Shard.Campaign, r.Item.Hash), LoadID: r.LoadID, Row: r.Row,
		EndsAt: millis(r.Item.EndsAt), Columns: r.Columns,
	}
}

func (r itemRow) itemRow() engine.ItemRow {
	return engine.ItemRow{
		LoadID: r.LoadID, Row: r.Row, EndsAt: fromMillis(r.EndsAt),
		State: engine.ItemState(r.State), Returns: r.Returns, Withdraw: r.Withdraw,
		Columns: r.Columns,
	}
}

// newClaimRow returns the row of a claim of an item from a shard.
func (s *Store) newClaimRow(c engine.Claim, shard engine.Shard) claimRow {
	row := claimRow{
		key: s.claimKey(c.Key()), ID: c.ID, Campaign: c.Campaign, Item: c.Item,
		ItemHash: c.ItemHash.String(), More: c.More.Items(), ClaimedAt: millis(c.ClaimedAt), EndsAt: millis(c.EndsAt),
	}
	if !c.EndsAt.IsZero() {
		row.Due = duePartition(shard)
	}
	return row
}

func (r claimRow) claim(k engine.ClaimKey) (*engine.Claim, error) {
	h, err := engine.ParseHash(r.ItemHash)
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", r.PK, err)
	}
	return &engine.Claim{
		ID: r.ID, Campaign: r.Campaign, Scope: k.Scope, Claimant: k.Claimant, Slot: k.Slot, Item: r.Item, ItemHash: h,
		More:      engine.NewItemList(r.More...),
		ClaimedAt: fromMillis(r.ClaimedAt), EndsAt: fromMillis(r.EndsAt),
	}, nil
}

func newLoadRow(l engine.Load) loadRow {
	return loadRow{
		key: key{loadPartition(l.Campaign), l.ID()}, Digest: l.Digest, Number: l.Number,
		Finished: l.Finished, Rows: l.Tally.Rows, Added: l.Tally.Added, Known: l.Tally.Known, Repeated: l.Tally.Repeated,
		GivenUp: l.GivenUp, StartedAt: millis(l.StartedAt),
	}
}

func (r loadRow) load(campaign string) *engine.Load {
	return &engine.Load{
		Campaign: campaign, Digest: r.Digest, Number: r.Number, Finished: r.Finished,
		GivenUp: r.GivenUp, StartedAt: fromMillis(r.StartedAt),
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
