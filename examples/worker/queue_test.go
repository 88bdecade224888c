package main

import (
	"fmt"
	"slices"

	"github.com/aws/aws-lambda-go/events"
)

// queue is a standard queue of SQS with its dead-letter queue.
type queue struct {
	waiting, dead []*delivery
	ids           int
}

// delivery is a message.
type delivery struct {
	id, body string
	received int
}

// maxReceives is maxReceiveCount of the redrive policy.
const maxReceives = 3

func (q *queue) send(body string) {
	q.ids++
	q.waiting = append(q.waiting, &delivery{id: fmt.Sprint("message-", q.ids), body: body})
}

// receive takes up to n messages. They are received once more.
func (q *queue) receive(n int) []*delivery {
	n = min(n, len(q.waiting))
	taken := slices.Clone(q.waiting[:n])
	q.waiting = q.waiting[n:]
	for _, m := range taken {
		m.received++
	}
	return taken
}

// settle deletes a message that is done. Another one is visible again, or moves to the dead-letter queue.
func (q *queue) settle(m *delivery, done bool) {
	switch {
	case done:
	case m.received == maxReceives:
		q.dead = append(q.dead, m)
	default:
		q.waiting = append(q.waiting, m)
	}
}

// redrive is what "Start DLQ redrive" of the console does: each message is sent again, with its body and a new id.
func (q *queue) redrive() {
	for _, m := range q.dead {
		q.send(m.body)
	}
	q.dead = nil
}

func eventOf(batch []*delivery) (e events.SQSEvent) {
	for _, m := range batch {
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: m.id, Body: m.body, EventSource: "aws:sqs",
			EventSourceARN: "arn:aws:sqs:eu-west-1:123456789012:orders",
		})
	}
	return e
}

// isDone reports whether an answer counts a message as done.
func (m *delivery) isDone(answer events.SQSEventResponse) bool {
	return !slices.Contains(answer.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.id})
}
