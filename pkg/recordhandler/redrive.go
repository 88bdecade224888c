package recordhandler

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// LetterProcessor returns the Processor of a stream or another source, and the scope of its records. Use it only for
// dead letters that come back; everything else goes through Handle. It claims no row of consumers: the stream stays the
// function's, wherever this runs. Do not use one Handler for both. The error is ErrLoop, or a fault of the parts.
func (h *Handler) LetterProcessor(
	ctx context.Context, stream dedupe.Stream,
) (p *dedupe.Processor, scope string, err error) {
	of := source{batch: dedupe.Batch{Stream: stream}, shared: true, logs: strings.HasPrefix(stream.Name, "logs:")}
	p, err = h.processorOf(ctx, of)
	return p, h.settings(of.scope()).Scope, err
}

// Decode makes a batch from an event of Kinesis, for example from the invocation record of a batch that Lambda gave
// up. With allowConsumers it accepts events of enhanced fan-out. The errors are ErrNotKinesis, ErrManyShards and
// ErrConsumer.
func Decode(event json.RawMessage, allowConsumers bool) (dedupe.Batch, error) {
	return decode(event, allowConsumers)
}
