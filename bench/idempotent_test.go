package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Goals of idempotent calls.
const (
	maxCallTime       = 1.1 // times two bare requests
	maxCallProcessor  = 1.3
	maxCallRequests   = 2
	maxCallWrites     = 2
	maxReplayRequests = 1
	maxReplayReads    = 0.5
	maxTwinRequests   = 2
	maxCacheRequests  = 0
)

const (
	idempotentCalls = 200 // a round
	twinCalls       = 100
)

// BenchmarkIdempotent measures idempotent calls, one after the other, whose function costs no time. It compares new
// calls with the two requests that each of them needs, and replays with a read of the same row. Then it counts the
// requests and units of both, and the requests of calls that have one key at the same time.
func BenchmarkIdempotent(b *testing.B) {
	s := newShop(b, testengine.Dynoxide(b))
	usual := s.unmetered(0)
	all := []*compared{
		{name: "a new call", call: s.caller(usual), floor: s.bareCaller(usual), maxTime: maxCallTime, maxProcessor: maxCallProcessor},
		{name: "a replay", call: s.caller(usual), floor: s.bareReader(usual)},
	}
	for round := 0; b.Loop(); round++ {
		keys, bare := newKeys(), newKeys()
		for _, c := range all { // the replays come second
			c.round(s, round, keys, bare)
		}
	}
	for _, c := range all {
		c.report()
	}
	s.countCalls()
	s.countCached()
	s.countTwins()
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
}

// caller is an idempotent call, or a floor of one.
type caller func(key string) error

// compared is a kind of calls beside its floor.
type compared struct {
	name                  string
	call, floor           caller
	maxTime, maxProcessor float64

	took, used          pairs
	allocs, floorAllocs []float64 // a call
}

// round makes the calls with keys, and those of the floor with bare.
func (c *compared) round(s *shop, round int, keys, bare []string) {
	s.Helper()
	var took, used, floorTook, floorUsed time.Duration
	both := []func(){
		func() { took, used, c.allocs = s.callEach(c.call, keys, c.allocs) },
		func() { floorTook, floorUsed, c.floorAllocs = s.callEach(c.floor, bare, c.floorAllocs) },
	}
	both[round%2]() // the processors may be busier in the first or in the second half of a round
	both[1-round%2]()
	c.took.add(took/idempotentCalls, floorTook/idempotentCalls)
	c.used.add(used/idempotentCalls, floorUsed/idempotentCalls)
}

func (c *compared) report() {
	c.took.report("time of "+c.name, c.maxTime)
	c.used.report("client's processor time of "+c.name, c.maxProcessor)
	note("allocations of "+c.name, median(c.allocs), 0, fmt.Sprintf("%.0f of the bare requests", median(c.floorAllocs)))
}

// callEach makes a call for each key, and adds the allocations a call to those of earlier rounds.
func (s *shop) callEach(call caller, keys []string, allocs []float64) (took, used time.Duration, all []float64) {
	s.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took, used = s.used(func() {
		for _, key := range keys {
			s.must(call(key))
		}
	})
	runtime.ReadMemStats(&after)
	return took, used, append(allocs, float64(after.Mallocs-before.Mallocs)/float64(len(keys)))
}

func newKeys() []string {
	keys := make([]string, idempotentCalls)
	for i := range keys {
		keys[i] = uuid.NewString()
	}
	return keys
}

const idempotentNamespace = "payments"

type order struct {
	Account string `json:"account"`
	Cents   int    `json:"cents"`
}

type receipt struct {
	Charge string `json:"charge"`
	Number int64  `json:"number"`
}

// caller returns the calls of one process that has made a call before.
func (s *shop) caller(client *dynamodb.Client) caller {
	return s.callerWith(client, idempotency.Settings{})
}

func (s *shop) callerWith(client *dynamodb.Client, settings idempotency.Settings) caller {
	s.Helper()
	runner, err := idempotency.New(dynamostore.New(client, s.dedupe), idempotentNamespace, settings)
	s.must(err)
	call := func(key string) error {
		_, err := idempotency.Do(s.Context(), runner, key, order{"customer-17@example.com", 1990}, charge)
		return err
	}
	s.must(call(uuid.NewString())) // reads the engine's time
	return call
}

func charge(_ context.Context, e idempotency.Execution, _ order) (receipt, error) {
	return receipt{e.KeyFor("charge"), e.Number}, nil
}

// These are texts as long as those that the project writes.
const (
	bareToken = "9bd2c3f4a1e04e7f8c6b5a4d3e2f1a0b"
	bareBody  = `{"charge":"` + bareToken + bareToken + `","number":1795176000123}`
)

// bareCaller returns a loop that puts and updates the rows that the project writes, with the SDK only.
func (s *shop) bareCaller(client *dynamodb.Client) caller {
	return func(key string) error {
		now := time.Now()
		expiry, purge := decimal(now.Add(24*time.Hour).UnixMilli()), decimal(now.Add(25*time.Hour).Unix())
		item := s.bareKey(key)
		for name, value := range map[string]types.AttributeValue{
			"layout": decimal(1), "status": text("in-progress"), "token": text(bareToken), "number": decimal(now.UnixMilli()),
			"lease_end": decimal(now.Add(32 * time.Second).UnixMilli()), "expiry": expiry, "purge_at": purge,
			"payload": text(bareToken + bareToken),
		} {
			item[name] = value
		}
		if _, err := client.PutItem(s.Context(), &dynamodb.PutItemInput{
			TableName: &s.dedupe, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}); err != nil {
			return err
		}
		_, err := client.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{
			TableName: &s.dedupe, Key: s.bareKey(key),
			UpdateExpression: aws.String("SET #status = :completed, completed_by = :token, kind = :kind, content_type = :type, " +
				"body = :body, expiry = :expiry, purge_at = :purge_at"),
			ConditionExpression:      aws.String("#token = :token AND #status = :in_progress"),
			ExpressionAttributeNames: map[string]string{"#status": "status", "#token": "token"},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":completed": text("completed"), ":token": text(bareToken), ":in_progress": text("in-progress"),
				":kind": text("value"), ":type": text("application/json"), ":expiry": expiry, ":purge_at": purge,
				":body": &types.AttributeValueMemberB{Value: []byte(bareBody)},
			},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		return err
	}
}

// bareReader returns a loop that reads rows of the bare caller, with the SDK only.
func (s *shop) bareReader(client *dynamodb.Client) caller {
	return func(key string) error {
		out, err := client.GetItem(s.Context(), &dynamodb.GetItemInput{TableName: &s.dedupe, Key: s.bareKey(key)})
		if err == nil && out.Item["body"] == nil {
			err = fmt.Errorf("no result: %v", out.Item)
		}
		return err
	}
}

func (s *shop) bareKey(key string) map[string]types.AttributeValue {
	digest := engine.Key{Namespace: idempotentNamespace, Name: key}.Digest()
	return map[string]types.AttributeValue{"pk": text("once#" + idempotentNamespace + "#" + digest), "sk": text("record")}
}

// countCalls notes what new calls cost, and what replays cost after the first ones, which are refused puts. Then it
// notes what a new call costs where replays are so frequent that a read goes first.
func (s *shop) countCalls() {
	s.Helper()
	first, later, keys := s.caller(s.client), s.caller(s.client), newKeys()
	count := func(call caller, keys []string) spent {
		before := s.meter.read()
		for _, key := range keys {
			s.must(call(key))
		}
		return s.meter.read().minus(before).each(len(keys))
	}
	created := count(first, keys)
	note("requests a new call", created.requests, maxCallRequests, "")
	note("write units a new call", created.writeUnits, maxCallWrites, fmt.Sprintf("%.3f read units", created.readUnits))
	count(later, keys[:20])
	replayed := count(later, keys)
	note("requests a replay, replays are frequent", replayed.requests, maxReplayRequests, "")
	note("read units a replay, the same", replayed.readUnits, maxReplayReads, fmt.Sprintf("%.3f write units", replayed.writeUnits))
	seldom := count(later, newKeys()[:10])
	note("requests a new call, the same", seldom.requests, 0, fmt.Sprintf(
		"%.3f write units, %.3f read units", seldom.writeUnits, seldom.readUnits))
}

// countCached counts the requests of replays whose records are in the cache.
func (s *shop) countCached() {
	s.Helper()
	call, keys := s.callerWith(s.client, idempotency.Settings{CacheBytes: 1 << 20}), newKeys()
	for _, key := range keys {
		s.must(call(key))
	}
	before := s.meter.read()
	for _, key := range keys {
		s.must(call(key))
	}
	requests := s.meter.read().minus(before).requests
	if requests > maxCacheRequests {
		s.Errorf("%v requests for %d replays from the cache", requests, len(keys))
	}
	note("requests of replays from the cache", requests, 0, fmt.Sprintf("%d replays", len(keys)))
}

// countTwins counts the requests of calls of one process that have one key at the same time.
func (s *shop) countTwins() {
	s.Helper()
	runner, err := idempotency.New(dynamostore.New(s.client, s.dedupe), idempotentNamespace, idempotency.Settings{})
	s.must(err)
	call := func(key string) {
		if _, err := idempotency.Do(s.Context(), runner, key, order{}, slowCharge); err != nil {
			s.Error(err)
		}
	}
	call(uuid.NewString()) // reads the engine's time
	before, key := s.meter.read(), uuid.NewString()
	var done sync.WaitGroup
	for range twinCalls {
		done.Go(func() { call(key) })
	}
	done.Wait()
	note(fmt.Sprintf("requests of %d calls with one key in one process", twinCalls),
		s.meter.read().minus(before).requests, maxTwinRequests, "")
}

func slowCharge(ctx context.Context, e idempotency.Execution, o order) (receipt, error) {
	time.Sleep(100 * time.Millisecond) // so that all calls come before the first one ends
	return charge(ctx, e, o)
}
