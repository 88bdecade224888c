package dynamo

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
)

// Dates returns an option for requests: it tells the clock the Date of each reply. A reply with an error counts, and so
// does the reply to each attempt of the SDK.
func Dates(clock *serverclock.Clock) func(*dynamodb.Options) {
	observe := middleware.DeserializeMiddlewareFunc("oncebox/Dates", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		sent := clock.Moment()
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if reply, ok := out.RawResponse.(*smithyhttp.Response); ok && reply.Response != nil {
			if date, err := http.ParseTime(reply.Header.Get("Date")); err == nil {
				clock.Observe(date, sent)
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
