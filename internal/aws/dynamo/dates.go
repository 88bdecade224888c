package dynamo

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
)

// Dates returns an option for requests: it tells the clock the Date of each reply. A reply with an error counts, and so
// does the reply to each attempt of the SDK.
func Dates(clock *serverclock.Clock) func(*dynamodb.Options) {
	return onReply(func() func(time.Time) {
		sent := clock.Moment()
		return func(date time.Time) { clock.Observe(date, sent) }
	})
}

// LastDate returns an option for one request: it stores the Date of the reply, also of a reply with an error. If the
// SDK makes several attempts, the last reply counts.
func LastDate(last *time.Time) func(*dynamodb.Options) {
	return onReply(func() func(time.Time) {
		return func(date time.Time) { *last = date.UTC() }
	})
}

// onReply returns an option for requests. It calls send before each attempt, and what send returns with the Date of the
// reply.
func onReply(send func() (received func(date time.Time))) func(*dynamodb.Options) {
	observe := middleware.DeserializeMiddlewareFunc("oncebox/Dates", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		received := send()
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if reply, ok := out.RawResponse.(*smithyhttp.Response); ok && reply.Response != nil {
			if date, err := http.ParseTime(reply.Header.Get("Date")); err == nil {
				received(date)
			}
		}
		return out, metadata, err
	})
	return func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Deserialize.Add(observe, middleware.After)
		})
	}
}
