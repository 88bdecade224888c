package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// SQS is the part of *sqs.Client that a Queue calls.
type SQS interface {
	SendMessage(
		ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options),
	) (*sqs.SendMessageOutput, error)
}

// Queue is a Notifier that sends each notification as a message to an SQS queue. The body is the Notification as JSON:
// {"bucket","key","owner","reason"}, or "path" instead of bucket and key for a folder.
type Queue struct {
	client SQS
	url    string
}

var _ Notifier = (*Queue)(nil)

// NewQueue makes a Queue for the queue of a URL. It sends no request. It refuses FIFO queues, because they need a
// group for each message.
func NewQueue(client SQS, queueURL string) (*Queue, error) {
	u, err := url.Parse(queueURL)
	if err != nil || u.User != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
		return nil, fmt.Errorf("%q is not the URL of an SQS queue", queueURL)
	}
	if strings.HasSuffix(u.Path, ".fifo") {
		return nil, fmt.Errorf("the SQS queue %s is a FIFO queue; use a standard queue", queueURL)
	}
	return &Queue{client, queueURL}, nil
}

// Notify sends the message. Its errors are like those of Store.Put.
func (q *Queue) Notify(ctx context.Context, n Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String(string(body))})
	return translate(q.url, "send message", err)
}
