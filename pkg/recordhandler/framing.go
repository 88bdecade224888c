package recordhandler

import (
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/framing"
)

// largestOpened is the largest limit of a record in a Lambda function.
const largestOpened = 128 << 20

// openedBytes returns to how many bytes a record may open: an eighth of the memory of the function, at most 128 MiB. Two
// chunks, a decoder and garbage take several times as much. Outside of Lambda the memory is unknown, and the limit is
// the largest: `oncebox redrive` can then open what a function could not.
func openedBytes(memory int64) int { return int(min(memory/8, largestOpened)) }

// framing reads how many records a payload holds. Only a stream gets the records in their original form.
func (p parser) framing(sink SinkSetting) dedupe.Framing {
	f, err := framing.Named(p.Word(&p.s.SourceRecords))
	switch {
	case err != nil: // it is one, or was refused
		return nil
	case sink.Stream == nil:
		return framing.Single(f)
	}
	return f
}

// framingOfLogs returns the framing of messages that CloudWatch Logs sends to the function directly.
func (o Options) framingOfLogs() dedupe.Framing {
	if o.Sink.Stream == nil {
		return framing.Single(framing.Logs{})
	}
	return framing.Logs{}
}
