package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store keeps its entries in SQLite, and does the two actions of a payment in memory, as DynamoDB would.
type store struct {
	*sqlitestore.Store
	mu       sync.Mutex
	cents    int64
	payments []string // ids
}

var errOverdrawn = errors.New("the condition of the account failed")

func (s *store) Transact(
	ctx context.Context, t dedupe.Transaction, actions []types.TransactWriteItem,
) (dynamostore.TransactResult, error) {
	found, err := s.Store.Transact(ctx, t, func(context.Context, sqlitestore.Tx) error { return s.book(actions) })
	if errors.Is(err, errOverdrawn) {
		return dynamostore.TransactResult{Failed: []dynamostore.FailedCondition{{Action: 0}}}, nil
	}
	return dynamostore.TransactResult{Existing: found}, err
}

func (s *store) book(actions []types.TransactWriteItem) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := actions[0].Update.ExpressionAttributeValues
	var change, least int64
	for value, into := range map[string]*int64{":change": &change, ":least": &least} {
		if _, err := fmt.Sscan(values[value].(*types.AttributeValueMemberN).Value, into); err != nil {
			return err
		}
	}
	if s.cents < least {
		return errOverdrawn
	}
	s.cents += change
	s.payments = append(s.payments, actions[1].Put.Item["id"].(*types.AttributeValueMemberS).Value)
	return nil
}

// TestEachPaymentOnce sends payments with copies, a record that is not a payment, and a payment that would overdraw
// the account. The same event again changes nothing.
func TestEachPaymentOnce(t *testing.T) {
	t.Parallel()
	entries, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, entries.Close()) })
	s := &store{Store: entries, cents: 1000}
	folder := t.TempDir()
	letters, err := deadletter.NewFolder(folder)
	must(t, err)
	handler, err := newHandler(s, deadletter.New(letters), books{"accounts", "payments"})
	must(t, err)

	raw := event(t,
		`{"id":"p-1","account":"a-1","cents":-250}`, `{"id":"p-1","account":"a-1","cents":-250}`,
		`{"id":"p-2","account":"a-1","cents":100}`, `{"id":"p-3"}`, `{"id":"p-4","account":"a-1","cents":-5000}`)
	for range 2 {
		answer, err := handler.Invoke(t.Context(), raw)
		must(t, err)
		if string(answer) != `{"batchItemFailures":[]}` {
			t.Errorf("the answer is %s", answer)
		}
	}
	dead, err := os.ReadDir(folder)
	must(t, err)
	if fmt.Sprint(s.payments) != "[p-1 p-2]" || s.cents != 850 || len(dead) != 2 {
		t.Errorf("payments %v, %d cents, %d dead letters; want p-1 and p-2, 850, and 2", s.payments, s.cents, len(dead))
	}
}

func event(t *testing.T, payloads ...string) json.RawMessage {
	t.Helper()
	var e events.KinesisEvent
	for i, data := range payloads {
		sequence := fmt.Sprint(i + 1)
		e.Records = append(e.Records, events.KinesisEventRecord{
			EventSource: "aws:kinesis", EventSourceArn: "arn:aws:kinesis:us-east-1:123456789012:stream/payments",
			EventID: "shardId-000000000000:" + sequence,
			Kinesis: events.KinesisRecord{
				SequenceNumber: sequence, PartitionKey: "a-1", Data: []byte(data),
				ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: time.Unix(2_000_000_000, 0)},
			},
		})
	}
	raw, err := json.Marshal(e)
	must(t, err)
	return raw
}
