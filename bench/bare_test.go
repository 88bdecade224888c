package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// bare makes only the necessary requests with the SDK: it reads a page at a random place of a random shard, and tries it
// item by item. Several workers may share it.
type bare struct {
	*shop
	campaign string

	mu     sync.Mutex
	shards []int // the shards that may have items
	page   []bareItem
}

type bareItem struct{ pk, sk, item types.AttributeValue }

// bare starts a bare worker.
func (s *shop) bare(campaign string) container {
	w := &bare{shop: s, campaign: campaign}
	for shard := range 16 {
		w.shards = append(w.shards, shard)
	}
	return w.claim
}

func (w *bare) claim(customer int) error {
	for {
		item, err := w.next()
		if err != nil {
			return err
		}
		err = w.take(item, name(customer))
		var cancelled *types.TransactionCanceledException
		if !errors.As(err, &cancelled) {
			return err
		}
		if code := aws.ToString(cancelled.CancellationReasons[0].Code); code != "ConditionalCheckFailed" {
			return fmt.Errorf("cancelled: %s: %w", code, err)
		}
	}
}

// next takes an item from the page, and reads a page if there is none.
func (w *bare) next() (bareItem, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.page) == 0 {
		if err := w.read(); err != nil {
			return bareItem{}, err
		}
	}
	last := len(w.page) - 1
	item := w.page[last]
	w.page = w.page[:last]
	return item, nil
}

// read reads a page from a random place to the shard's end, or else from its beginning. It never reads an empty shard
// again.
func (w *bare) read() error {
	if len(w.shards) == 0 {
		return errors.New("the bare loop found no more items")
	}
	n := rand.N(len(w.shards))
	partition := text(fmt.Sprintf("bank#%s#1#%02d", w.campaign, w.shards[n]))
	place := text(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
	for _, condition := range []string{"sk > :place", "sk <= :place"} {
		out, err := w.client.Query(w.Context(), &dynamodb.QueryInput{
			TableName: aws.String(w.bank), ConsistentRead: aws.Bool(true), Limit: aws.Int32(30),
			KeyConditionExpression:    aws.String("pk = :pk AND " + condition),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": partition, ":place": place},
		})
		if err != nil {
			return err
		}
		for _, row := range out.Items {
			w.page = append(w.page, bareItem{row["pk"], row["sk"], row["item"]})
		}
		if len(w.page) > 0 {
			break
		}
	}
	if len(w.page) == 0 {
		w.shards = slices.Delete(w.shards, n, n+1)
	}
	rand.Shuffle(len(w.page), func(i, j int) { w.page[i], w.page[j] = w.page[j], w.page[i] })
	return nil
}

// take makes the transaction of a claim, with the rows that the project writes.
func (w *bare) take(item bareItem, claimant string) error {
	now := types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().UnixMilli(), 10)}
	_, err := w.client.TransactWriteItems(w.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName: aws.String(w.bank), Key: map[string]types.AttributeValue{"pk": item.pk, "sk": item.sk},
			ConditionExpression:       aws.String("attribute_exists(pk) AND (attribute_not_exists(ends_at) OR ends_at > :now)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":now": &now},
		}},
		{Put: &types.Put{
			TableName: aws.String(w.dedupe), ConditionExpression: aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			Item: map[string]types.AttributeValue{
				"pk": text(fmt.Sprintf("claim#%s#%03d", w.campaign, engine.HashItem(claimant).ShardOf(256))), "sk": text("1#" + claimant),
				"claim_id": text(uuid.NewString()), "campaign": text(w.campaign),
				"item": item.item, "item_hash": item.sk, "claimed_at": &now,
			},
		}},
	}})
	return err
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
