package dedupe_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
)

// A batch of a stream goes through a Processor. Then the stream delivers it a second time.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dead")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	letters, err := deadletter.NewFolder(dir)
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := sqlitestore.OpenMemory(ctx) // in production dynamostore.New
	if err != nil {
		log.Fatal(err)
	}
	reader, err := format.NewJSON(format.Options{IDPath: "id", Volatile: []string{"sent_at"}})
	if err != nil {
		log.Fatal(err)
	}
	send := func(_ context.Context, o dedupe.Output) error {
		fmt.Printf("%s\n", o.Data)
		return nil
	}
	p, err := dedupe.NewProcessor(
		dedupe.Parts{
			Ledger: ledger, Acks: ledger, Format: reader, Sink: dedupe.SinkFunc(send), DeadLetters: deadletter.New(letters),
		},
		dedupe.Settings{
			Scope:     "orders",
			Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour},
			Sink:      "output",
		})
	if err != nil {
		log.Fatal(err)
	}

	arrival := time.Now()
	batch := dedupe.Batch{
		Stream: dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"}, Shard: "shard-1",
		Records: []dedupe.Record{
			{Sequence: "1", Arrival: arrival, Data: []byte(`{"id":"order-1","amount":"5.00","sent_at":1}`)},
			{Sequence: "2", Arrival: arrival, Data: []byte(`{"id":"order-1","amount":"5.00","sent_at":2}`)},
			{Sequence: "3", Arrival: arrival, Data: []byte(`{"amount":"7.00"}`)},
		},
	}
	for range 2 {
		result := p.Process(ctx, batch)
		if result.Err != nil {
			log.Fatalf("deliver again from %s on: %v", result.Failed, result.Err)
		}
		t := result.Tally
		fmt.Printf("new %d, natural %d, dead-lettered %d, skipped %d\n", t.New, t.Natural, t.DeadLettered, t.Skipped)
	}
	// Output:
	// {"id":"order-1","amount":"5.00","sent_at":1}
	// new 1, natural 1, dead-lettered 1, skipped 0
	// new 0, natural 0, dead-lettered 0, skipped 3
}

// message is a message of a topic partition, as a Kafka client returns it.
type message struct {
	offset int
	time   time.Time
	value  string
}

// A consumer of a Kafka topic goes through the decisions in order, stops at the first error, and commits the offset of
// the first message that is not done.
func ExampleDecider() {
	ctx := context.Background()
	ledger, err := sqlitestore.OpenMemory(ctx)
	if err != nil {
		log.Fatal(err)
	}
	orders, err := format.NewJSON(format.Options{IDPath: "id"})
	if err != nil {
		log.Fatal(err)
	}
	bankIsUp := false
	c := consumer{
		decider: dedupe.Decider{
			Ledger: ledger, Scope: "orders",
			Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour},
		},
		delivery: dedupe.Delivery{Format: orders},
		effect: func(_ context.Context, o dedupe.Output) error {
			if o.ID == "order-2" && !bankIsUp {
				return errors.New("the bank is down")
			}
			fmt.Println("charge", o.ID)
			return nil
		},
		deadLetter: func(_ context.Context, m message, reason string) error {
			fmt.Printf("dead letter %d: %s\n", m.offset, reason)
			return nil
		},
	}
	now := time.Now()
	topic := []message{
		{0, now, `{"id":"order-1","amount":"5.00"}`},
		{1, now, `{"id":"order-1","amount":"5.00"}`},
		{2, now, `{"amount":"3.00"}`},
		{3, now, `{"id":"order-2","amount":"9.00"}`},
		{4, now, `{"id":"order-3","amount":"7.00"}`},
	}
	for committed := 0; committed < len(topic); {
		done, err := c.process(ctx, topic[committed:])
		committed += done
		fmt.Println("commit offset", committed)
		if err != nil {
			fmt.Println("again after a pause:", err)
			bankIsUp = true
		}
	}
	// Output:
	// charge order-1
	// dead letter 2: the id is missing, null or empty
	// commit offset 3
	// again after a pause: the bank is down
	// charge order-2
	// charge order-3
	// commit offset 5
}

type consumer struct {
	decider    dedupe.Decider
	delivery   dedupe.Delivery
	effect     func(context.Context, dedupe.Output) error
	deadLetter func(ctx context.Context, m message, reason string) error
}

// process takes messages of one partition, in order. It returns how many are done, counted from the first one.
func (c *consumer) process(ctx context.Context, messages []message) (done int, err error) {
	fields := make([]format.Fields, len(messages))
	unread := make([]error, len(messages))
	candidates := make([]dedupe.Candidate, len(messages))
	for i, m := range messages {
		fields[i], unread[i] = c.delivery.Read(ctx, dedupe.Output{Data: []byte(m.value)})
		candidates[i] = dedupe.Candidate{
			ID: fields[i].ID, Fingerprint: fields[i].Fingerprint, Version: fields[i].Version, Arrival: m.time,
			Owner:  dedupe.Owner{Source: "cluster-1/orders/0", Sequence: strconv.Itoa(m.offset), Sub: dedupe.Plain},
			Poison: unread[i] != nil, // not decided
		}
	}
	for i, decision := range c.decider.Decide(ctx, candidates) {
		err := cmp.Or(unread[i], decision.Err)
		if err == nil {
			err = c.processOne(ctx, messages[i], fields[i], decision)
		}
		if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
			err = c.deadLetter(ctx, messages[i], poison.Reason)
		}
		if err != nil {
			return i, err
		}
	}
	return len(messages), nil
}

func (c *consumer) processOne(ctx context.Context, m message, fields format.Fields, decision dedupe.Decision) error {
	output, deliver, err := c.delivery.Prepare(ctx, dedupe.Output{Data: []byte(m.value)}, fields, decision)
	if err != nil || !deliver { // a natural duplicate
		return err
	}
	return c.effect(ctx, output) // New, Retry or Synthetic
}
