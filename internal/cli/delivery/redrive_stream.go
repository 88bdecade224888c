package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// streamTimeout limits one request: an answer has up to 10 MiB (API reference, GetRecords).
const streamTimeout = 30 * time.Second

// streamReader reads batches from their streams. It makes its client when it needs one: most letters have a payload.
func streamReader() func(context.Context, *deadletter.GivenUp) ([]dedupe.Record, error) {
	client := sync.OnceValues(func() (*kinesis.Client, error) {
		cfg, err := awsconfig.Load(context.Background(), sdkconfig.Load, streamTimeout, nil)
		if err != nil {
			return nil, err
		}
		return kinesis.NewFromConfig(cfg), nil
	})
	return func(ctx context.Context, b *deadletter.GivenUp) ([]dedupe.Record, error) {
		k, err := client()
		if err != nil {
			return nil, err
		}
		return redrive.ReadStream(ctx, k, b)
	}
}
