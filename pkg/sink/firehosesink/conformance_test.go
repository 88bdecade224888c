package firehosesink_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/firehose"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

// lockedStream is a stream for several Sends at a time.
type lockedStream struct {
	stream
	mu sync.Mutex
}

func (s *lockedStream) PutRecordBatch(
	ctx context.Context, in *firehose.PutRecordBatchInput, options ...func(*firehose.Options),
) (*firehose.PutRecordBatchOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.PutRecordBatch(ctx, in, options...)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.AtLeastOnce(t, func(testing.TB) sinktest.Target {
		s := &lockedStream{}
		sink, err := firehosesink.New(s, "clicks")
		must(t, err)
		return sinktest.Target{
			Sink: sink, Poison: &dedupe.Output{ID: "large", Data: make([]byte, firehosesink.MaxRecord+1)},
			Read: func(testing.TB) [][]byte { return bytes.Split(bytes.TrimSuffix(s.taken, []byte("\n")), []byte("\n")) },
		}
	})
}
