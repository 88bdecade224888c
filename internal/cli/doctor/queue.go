package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/oncebox/oncebox/internal/aws/arn"
)

// These are advised for a queue that Lambda reads (Lambda Developer Guide, "Configuring a queue to use with Lambda").
const (
	visibilityFactor = 6 // of the timeout of the function
	fewestReceives   = 5 // before SQS moves a message
)

// queue holds the attributes of a queue that doctor looks at.
type queue struct {
	name                  string
	visibility, retention time.Duration
	letters               string // the ARN of its dead-letter queue; "": it has none
	receives              int    // before SQS moves a message there
	messages              int    // that can be received
}

// readQueue reads the attributes of the queue of an ARN.
func (c Account) readQueue(ctx context.Context, of string) (q queue, err error) {
	parts, ok := arn.Of("sqs", of)
	if !ok {
		return q, errors.New(of + " is not the ARN of a queue")
	}
	q.name = parts.Resource
	at, err := c.Queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.name, QueueOwnerAWSAccountId: &parts.Account})
	if err != nil {
		return q, err
	}
	out, err := c.Queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: at.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return q, err
	}
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(out.Attributes[string(name)]) // SQS writes whole numbers
		return n
	}
	q.visibility = time.Duration(number(types.QueueAttributeNameVisibilityTimeout)) * time.Second
	q.retention = time.Duration(number(types.QueueAttributeNameMessageRetentionPeriod)) * time.Second
	q.messages = number(types.QueueAttributeNameApproximateNumberOfMessages)
	var policy struct {
		Target   string      `json:"deadLetterTargetArn"`
		Receives json.Number `json:"maxReceiveCount"` // SQS takes a text, too
	}
	if text := out.Attributes[string(types.QueueAttributeNameRedrivePolicy)]; text != "" {
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			return q, errors.New("the redrive policy of " + q.name + " is not understood")
		}
		q.letters = policy.Target
		q.receives, _ = strconv.Atoi(policy.Receives.String())
	}
	return q, nil
}

// checkQueue checks a queue that a mapping reads.
func (c Account) checkQueue(ctx context.Context, a Area, m lambdatypes.EventSourceMappingConfiguration, f Function) {
	source := aws.ToString(m.EventSourceArn)
	q, err := c.readQueue(ctx, source)
	if err != nil {
		a.NotRead(source, c.Explain(err))
		return
	}
	a.checkVisibility(q, f, time.Duration(aws.ToInt32(m.MaximumBatchingWindowInSeconds))*time.Second)
	if letters, known := c.checkLetterQueue(ctx, a, q, f); known {
		a.checkHorizon(q, letters, f)
	}
	c.checkAge(ctx, a, q.name, series{"AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", q.name}, time.Second,
		q.retention, "docs/operations.md, message-age.")
	c.checkTraffic(ctx, f, q.name, traffic{
		"messages that were processed and deleted", series{"AWS/SQS", "NumberOfMessagesDeleted", "QueueName", q.name}, series{},
	})
}

// checkVisibility checks that a message does not come again while the function may still process it.
func (a Area) checkVisibility(q queue, f Function, window time.Duration) {
	name, advised := "visibility timeout of "+q.name, visibilityFactor*f.Timeout+window
	detail := fmt.Sprintf("is %s; six times the timeout of the function and the batching window are %s", q.visibility, advised)
	do := fmt.Sprintf("Set it to %d seconds: docs/records.md, \"SQS\".", int(advised.Seconds()))
	switch {
	case q.visibility < f.Timeout+window:
		a.Fail(name, detail+": a message comes again while the function still has it, and each time counts for the redrive policy", do)
	case q.visibility < advised:
		a.Warn(name, detail+": when Lambda is throttled, messages come again too early, and each time counts for the redrive policy", do)
	default:
		a.OK(name, detail)
	}
}

// checkLetterQueue checks where a queue moves messages at which the function always fails. It returns how long that
// queue keeps them, and whether that is known.
func (c Account) checkLetterQueue(ctx context.Context, a Area, q queue, f Function) (retention time.Duration, known bool) {
	name := "dead-letter queue of " + q.name
	if q.letters == "" {
		a.Fail(name, "there is none: SQS delivers a message that always fails until it deletes the message",
			"Give the queue a redrive policy, with maxReceiveCount 5 or more.")
		return 0, true
	}
	letters, err := c.readQueue(ctx, q.letters)
	of, _ := arn.Parse(q.letters)
	own, _ := arn.Parse(f.Invoked)
	// SQS also says this of a queue in another account that the caller may not look at.
	if _, missing := errors.AsType[*types.QueueDoesNotExist](err); missing && of.Account == own.Account {
		a.Fail(name, q.letters+" does not exist: SQS moves no message there", "Make the queue, or change the redrive policy.")
		return 0, true
	}
	if err != nil {
		a.NotRead(name, c.Explain(err))
		return 0, false
	}
	a.checkRedrive(name, q, letters)
	return letters.retention, true
}

// checkHorizon checks that the ledger keeps an entry for as long as a queue, and its dead-letter queue, can bring its
// message back.
func (a Area) checkHorizon(q queue, letters time.Duration, f Function) {
	name, retention, horizon := "retention of "+q.name, q.retention+letters, f.records().Retention.Horizon
	if horizon < retention {
		a.Fail(name, fmt.Sprintf("is %s with that of its dead-letter queue, and the horizon of the function is %s: a message that "+
			"comes back later than that is delivered again, since its entry may be gone", inHours(retention), inHours(horizon)),
			"Set records.horizon to both retentions at least: docs/operations.md, records-past-horizon.")
		return
	}
	a.OK(name, fmt.Sprintf("%s with that of its dead-letter queue: at most the horizon", inHours(retention)))
}

// checkRedrive checks when a queue moves messages to its dead-letter queue, and whether it did.
func (a Area) checkRedrive(name string, q, letters queue) {
	good := true
	if q.receives < fewestReceives {
		a.Warn(name, fmt.Sprintf("gets a message after %d receives: a short outage, or throttling, moves messages that are not at "+
			"fault", q.receives), "Set maxReceiveCount to 5 or more.")
		good = false
	}
	if letters.retention <= q.retention && !strings.HasSuffix(q.name, ".fifo") { // a FIFO queue begins the age anew
		a.Warn(name, fmt.Sprintf("keeps messages for %s, and the queue for %s: a message of a standard queue keeps its age when it "+
			"is moved, so it may be deleted at once", inHours(letters.retention), inHours(q.retention)),
			"Set the retention of "+letters.name+" above that of the queue.")
		good = false
	}
	if letters.messages > 0 {
		a.Warn(name, fmt.Sprintf("has messages that were not processed, about %d", letters.messages),
			"docs/operations.md, messages-given-up.")
		good = false
	}
	if good {
		a.OK(name, fmt.Sprintf("%s, empty; a message goes there after %d receives", letters.name, q.receives))
	}
}
