package dedupefault

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

const queueARN = "arn:aws:sqs:eu-central-1:123456789012:orders"

// queueHistory is a random history of an SQS queue and the function that reads it.
type queueHistory struct {
	FIFO     bool
	Chunk    int
	Messages []User
	Batches  []queueBatch
}

// queueBatch is one receive. The numbers are indexes in what is left of the queue.
type queueBatch struct {
	From, Size int
	Repeats    [][2]int // a message of the batch that is in it again, and how far behind
	Fails      []int    // the sink does not take these messages now
}

// queueRun plays a queueHistory.
type queueRun struct {
	queueHistory
	handle    handleFunc
	left      []int // the messages that SQS has not deleted
	fails     []int
	delivered []int
	letters   []dedupe.DeadLetter
}

// play returns the first violation of a guarantee.
func (h queueHistory) play(ctx context.Context, engine dedupe.Store, m *Mutant) error {
	q := &queueRun{queueHistory: h}
	parts := dedupe.Parts{Ledger: engine, Format: newFormat(), DeadLetters: q}
	parts.Sink = HookSink(q, m.HookIn(Env{Engine: engine, Store: engine, Retention: retention}))
	o := recordhandler.Options{Scope: freshScope(), Retention: retention, Chunk: h.Chunk}
	product, err := recordhandler.New(parts, o, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if q.handle = product.Handle; m != nil && m.around != nil {
		q.handle = m.around(nil, function{}, product.Handle)
	}
	for n := range h.Messages {
		q.left = append(q.left, n)
	}
	for _, b := range h.Batches {
		if len(q.left) > 0 {
			if err := q.receive(ctx, b); err != nil {
				return err
			}
		}
	}
	for range len(h.Messages) + 1 { // at the end nothing fails, and each batch has all that is left, twice
		if len(q.left) == 0 {
			return q.atRest()
		}
		last := queueBatch{Size: len(q.left), Repeats: [][2]int{{0, len(q.left)}}}
		if err := q.receive(ctx, last); err != nil {
			return err
		}
	}
	return fmt.Errorf("G10: messages %v are never done", q.left)
}

// receive gives a batch to the function, and deletes the messages that the answer does not name.
func (q *queueRun) receive(ctx context.Context, b queueBatch) error {
	batch := q.batch(b)
	q.fails = b.Fails
	answer, err := q.handle(ctx, q.event(batch))
	if err != nil {
		return fmt.Errorf("G10: the function fails for %v, so that all of it comes again: %w", batch, err)
	}
	var named []string
	for _, f := range answer.BatchItemFailures {
		if slices.Contains(named, f.ItemIdentifier) {
			return fmt.Errorf("answer: %s is named twice for %v", f.ItemIdentifier, batch)
		}
		named = append(named, f.ItemIdentifier)
	}
	for _, n := range batch {
		if slices.Contains(q.delivered, n) && slices.Contains(named, messageID(n)) {
			return fmt.Errorf("answer: message %d of %v is done, and named", n, batch)
		}
	}
	q.left = slices.DeleteFunc(q.left, func(n int) bool {
		return slices.Contains(batch, n) && !slices.Contains(named, messageID(n))
	})
	return nil
}

// batch returns the messages of a receive, in order. A FIFO queue begins with the first one that is left.
func (q *queueRun) batch(b queueBatch) (batch []int) {
	from := b.From % len(q.left)
	if q.FIFO {
		from = 0
	}
	batch = slices.Clone(q.left[from:min(len(q.left), from+b.Size)])
	for _, r := range b.Repeats {
		at := r[0] % len(batch)
		batch = slices.Insert(batch, min(len(batch), at+1+r[1]), batch[at])
	}
	return batch
}

func messageID(n int) string { return fmt.Sprint("m-", n) }

func numberOfID(id string) (n int) {
	if _, err := fmt.Sscanf(id, "m-%d", &n); err != nil {
		panic(err) // cannot happen: messageID made it
	}
	return n
}

func (q *queueRun) event(batch []int) json.RawMessage {
	arn := queueARN
	if q.FIFO {
		arn += ".fifo"
	}
	var e events.SQSEvent
	for _, n := range batch {
		u := q.Messages[n]
		body := fmt.Sprintf(`{"id":%q,"fp":%q,"n":%d}`, u.ID, u.FP, n)
		if u.Kind == Broken {
			body = body[1:]
		}
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: messageID(n), EventSource: "aws:sqs", EventSourceARN: arn, Body: body,
			Attributes: map[string]string{"SentTimestamp": fmt.Sprint(epoch.UnixMilli()), "MessageGroupId": "g"},
		})
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot happen: the event has only texts
	}
	return raw
}

// Check accepts every record.
func (*queueRun) Check(context.Context, dedupe.Output) error { return nil }

// Send takes records up to the first one that fails. From a queue without an order it takes those behind it, too.
func (q *queueRun) Send(ctx context.Context, outputs []dedupe.Output) (sent dedupe.Sent, err error) {
	var sink dedupe.Sink = dedupe.SinkFunc(q.take)
	if !q.FIFO {
		sink = dedupe.SinkFunc(q.take).AtOnce(1)
	}
	return sink.Send(ctx, outputs)
}

func (q *queueRun) take(_ context.Context, o dedupe.Output) error {
	n := numberOf(o.Data)
	switch {
	case slices.Contains(q.fails, n):
		return errThrown
	case q.Messages[n].Kind == Refused:
		return &dedupe.PoisonError{Reason: "refused"}
	}
	q.delivered = append(q.delivered, n)
	return nil
}

// Put stores dead letters.
func (q *queueRun) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	q.letters = append(q.letters, letters...)
	return len(letters), nil
}

func numberOf(data []byte) int {
	var p struct {
		N int `json:"n"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		panic(err) // cannot happen: event made the payloads
	}
	return p.N
}

// atRest checks each message after the last one was deleted.
func (q *queueRun) atRest() error {
	for n, u := range q.Messages {
		times := 0
		for _, d := range q.delivered {
			if d == n {
				times++
			}
		}
		dead := slices.ContainsFunc(q.letters, func(l dedupe.DeadLetter) bool { return l.Position.Sequence == messageID(n) })
		switch {
		case times > 1:
			return fmt.Errorf("G11: message %d was delivered %d times without a crash", n, times)
		case u.Kind == Good && dead:
			return fmt.Errorf("G10: message %d is dead-lettered", n)
		case !dead && (u.Kind == Broken || !q.handledCopy(u)):
			return fmt.Errorf("G6: message %d is lost", n)
		}
	}
	if q.FIFO && !slices.IsSorted(q.delivered) {
		return fmt.Errorf("order: messages %v were delivered in this order", q.delivered)
	}
	return nil
}

// handledCopy reports whether a message with this id and fingerprint, perhaps itself, is delivered or dead-lettered.
func (q *queueRun) handledCopy(u User) bool {
	is := func(n int) bool {
		return q.Messages[n].Kind.readable() && q.Messages[n].ID == u.ID && q.Messages[n].FP == u.FP
	}
	return slices.ContainsFunc(q.delivered, is) || slices.ContainsFunc(q.letters, func(l dedupe.DeadLetter) bool {
		return is(numberOfID(l.Position.Sequence))
	})
}

// onQueue changes the answer for a batch of a queue, whose message ids are given.
func onQueue(change func(batch, named []string) ([]string, error)) func(*World, function, handleFunc) handleFunc {
	return func(_ *World, _ function, product handleFunc) handleFunc {
		return func(ctx context.Context, raw json.RawMessage) (answer events.KinesisEventResponse, err error) {
			var event events.SQSEvent
			if err := json.Unmarshal(raw, &event); err != nil {
				return answer, err
			}
			var batch, named []string
			for _, r := range event.Records {
				batch = append(batch, r.MessageId)
			}
			if answer, err = product(ctx, raw); err != nil {
				return answer, err
			}
			for _, f := range answer.BatchItemFailures {
				named = append(named, f.ItemIdentifier)
			}
			named, err = change(batch, named)
			answer.BatchItemFailures = nil
			for _, id := range named {
				answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: id})
			}
			return answer, err
		}
	}
}

// twice reports whether a message is in a batch several times.
func twice(batch []string, id string) bool {
	return slices.Contains(batch[slices.Index(batch, id)+1:], id)
}

// repeatIsDone takes the second one of two equal messages as done, whatever became of the first.
func repeatIsDone(batch, named []string) ([]string, error) {
	return slices.DeleteFunc(named, func(id string) bool { return twice(batch, id) }), nil
}

// repeatFails fails a batch that has a message twice.
func repeatFails(batch, named []string) ([]string, error) {
	if slices.ContainsFunc(batch, func(id string) bool { return twice(batch, id) }) {
		return nil, errThrown
	}
	return named, nil
}

// repeatOfDoneNamed names the messages behind the first one that failed also if they are in the batch before it.
func repeatOfDoneNamed(batch, named []string) ([]string, error) {
	if len(named) == 0 {
		return nil, nil
	}
	failed := slices.Index(batch, named[0])
	for _, id := range batch[failed:] {
		if slices.Contains(batch[:failed], id) && !slices.Contains(named, id) {
			named = append(named, id)
		}
	}
	return named, nil
}
