package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// key returns the name of the dead letter in its bucket.
func (r *recordsRun) key() string {
	return r.letters.Prefix + deadletter.Name(r.scope, r.poison.Owner().String(), r.poisonPayload())
}

func (r *recordsRun) readLetter(ctx context.Context) (string, error) {
	key := r.key()
	var content []byte
	err := r.await(ctx, r.maxWait, func() (bool, error) {
		out, err := r.S3.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.letters.Bucket, Key: &key})
		if _, missing := errors.AsType[*s3types.NoSuchKey](err); missing {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		content, err = io.ReadAll(out.Body)
		return err == nil, errors.Join(err, out.Body.Close())
	})
	switch {
	case errors.Is(err, errLate):
		what := fmt.Sprintf("the dead letter was not in the bucket %s within %s", r.letters.Bucket, r.waited())
		return "", r.stuck(ctx, what)
	case err != nil:
		return "", operatorError(err)
	}
	letter, err := deadletter.Decode(content)
	if err != nil || !bytes.Equal(letter.Data, r.poisonPayload()) {
		return "", fmt.Errorf("%w: the dead letter does not have the record", errNotExpected)
	}
	return "whole, with its reason: " + letter.Reason, nil
}

// A received message is hidden from other receivers for a while. Another doctor may hide the message of this run for
// that time, so this run looks for it longer. The messages of other dead letters are received at most twice.
const (
	hidden = 30 * time.Second
	look   = 45 * time.Second

	lastLook = 5 * time.Second // how long the clean-up looks, if no step has looked
)

// takeNotification looks for the message about the dead letter, and deletes it.
func (r *recordsRun) takeNotification(ctx context.Context) (string, error) {
	others, err := r.receive(ctx, min(r.maxWait, look))
	switch {
	case errors.Is(err, errLate):
		return "", &notProvedError{fmt.Sprintf("the dead letter is stored, but its notification was not in the queue; "+
			"%d other messages were. Another program that receives from the queue may have it", others)}
	case err != nil:
		return "", operatorError(err)
	}
	return "received, and deleted from the queue", nil
}

// receive receives messages until it gets the message of the dead letter, and deletes that message. It counts the
// other messages. It returns errLate if the message did not come.
func (r *recordsRun) receive(ctx context.Context, within time.Duration) (others int, err error) {
	key := r.key()
	err = r.await(ctx, within, func() (bool, error) {
		out, err := r.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &r.letters.Notify, MaxNumberOfMessages: 10, VisibilityTimeout: int32(hidden / time.Second),
		})
		if err != nil {
			return false, err
		}
		for _, m := range out.Messages {
			var n deadletter.Notification
			if json.Unmarshal([]byte(aws.ToString(m.Body)), &n) != nil || n.Key != key {
				others++
				continue
			}
			_, err := r.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{
				QueueUrl: &r.letters.Notify, ReceiptHandle: m.ReceiptHandle,
			})
			return true, err
		}
		return false, nil
	})
	if err == nil || errors.Is(err, errLate) {
		r.looked = true
	}
	return others, err
}

// cleanUp deletes the dead letter, and its message if no step has looked for it. It does so even after an
// interruption. It names everything that it cannot delete.
func (r *recordsRun) cleanUp(ctx context.Context) {
	if r.letters.Bucket == "" || r.poison.Sequence == "" && !r.lost {
		return // there is no dead letter
	}
	interrupted, limit := ctx.Err() != nil, cleanUpTime
	if r.lost && !interrupted {
		limit += r.maxWait
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if interrupted {
		_ = pause.For(ctx, between) // shorter than cleanUpTime
	}
	if r.lost {
		if err := r.await(ctx, limit-cleanUpTime, func() (bool, error) { return r.findLetter(ctx) }); err != nil {
			r.Warn("clean-up", fmt.Sprintf("the put of the poison record had no reply, and its dead letter may be stored in s3://%s/%s: %v",
				r.letters.Bucket, r.letters.Prefix, err),
				fmt.Sprintf("Delete the object whose payload has the member %s=%s and its message in the notifier queue, and no other.",
					marker, r.suffix))
			return
		}
	}
	where := fmt.Sprintf("the dead letter s3://%s/%s", r.letters.Bucket, r.key())
	const do = "Delete this object and its message in the notifier queue, and no other."
	err := r.deleteLetter(ctx)
	_, missing := errors.AsType[*s3types.NotFound](err)
	switch {
	case missing:
		r.Warn("clean-up", where+" is not stored; the function may still store it", do)
		return
	case err != nil:
		r.Fail("clean-up", where+" may stay: "+r.Explain(err), do)
		return
	}
	if r.letters.Notify != "" && !r.looked {
		if _, err := r.receive(ctx, lastLook); err != nil {
			r.Warn("clean-up", "the message about "+where+" may be in the notifier queue", "Delete this message, and no other.")
		}
	}
	r.OK("clean-up", "the dead letter is deleted; the records stay in the streams for their retention, "+
		"their entries and acks until they are purged")
}

// clocks is how much the clocks of Kinesis and S3 may differ.
const clocks = time.Minute

// findLetter looks for the dead letter of a poison record whose position is not known. It is among the letters since
// the first record of this run, which has the same shard: the names of a shard's letters are in the order of their
// records. If the name of the stream is so long that their names are cut, more of them are read.
func (r *recordsRun) findLetter(ctx context.Context) (found bool, err error) {
	first := r.letters.Prefix + deadletter.Name(r.scope, r.put[0].Owner().String(), nil)
	pages := s3.NewListObjectsV2Paginator(r.S3, &s3.ListObjectsV2Input{
		Bucket: &r.letters.Bucket, Prefix: &r.letters.Prefix, StartAfter: aws.String(first[:strings.LastIndex(first, "-")]),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, o := range page.Contents {
			if aws.ToTime(o.LastModified).Before(r.begun.Add(-clocks)) {
				continue
			}
			if found, err := r.readPoison(ctx, *o.Key); found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}

// readPoison reads an object, and takes the position of the poison record from it if it is the dead letter of this run.
func (r *recordsRun) readPoison(ctx context.Context, key string) (found bool, err error) {
	out, err := r.S3.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.letters.Bucket, Key: &key})
	if err != nil {
		return false, err
	}
	content, err := io.ReadAll(out.Body)
	if err := errors.Join(err, out.Body.Close()); err != nil {
		return false, err
	}
	letter, notALetter := deadletter.Decode(content) // it may be a marker
	if found = notALetter == nil && bytes.Equal(letter.Data, r.poisonPayload()); found {
		r.poison = letter.Position
	}
	return found, nil
}

// deleteLetter deletes the dead letter. In a bucket with versions it deletes the version.
func (r *recordsRun) deleteLetter(ctx context.Context) error {
	bucket, key := &r.letters.Bucket, aws.String(r.key())
	found, err := r.S3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key})
	if err == nil {
		_, err = r.S3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key, VersionId: found.VersionId})
	}
	return err
}
