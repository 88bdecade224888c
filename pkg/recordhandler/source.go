package recordhandler

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// source is a batch with properties of its source.
type source struct {
	batch dedupe.Batch
	// identifiers name the records in an answer. nil: their sequence numbers do.
	identifiers []string
	// shared says that any number of functions may read the source, because it gives each record to one of them at a
	// time.
	shared bool
	// logs says that the batch is a message of CloudWatch Logs. No answer is possible.
	logs bool
}

// scope returns the default scope. It is the name of the stream, or sqs:QUEUE, dynamodb:TABLE or logs:GROUP: unlike
// sources of one name are unrelated, and never share a scope. A name of a Kinesis stream contains no colon. A broken
// message of CloudWatch Logs has no log group.
func (s source) scope() string { return s.batch.Stream.Name }

// checkScope refuses a scope that is or has the folder of the markers of dead letters, as logs:/aws/done has: if the
// letters have their scope as a folder, as in the stack, they would count as markers.
func checkScope(scope string) error {
	if !slices.Contains(strings.Split(scope, "/"), scopeOfMarkers) {
		return nil
	}
	return fmt.Errorf("recordhandler: the scope %q has %q, the name of the folder in which done dead letters are marked; "+
		"set ONCEBOX_SCOPE to another name", scope, scopeOfMarkers)
}

// decodeEvent makes batches from an event. It makes one batch, except for messages of a dead-letter queue, which may
// have been in several queues before. For an event without records it makes none.
func decodeEvent(raw json.RawMessage, allowConsumers bool) ([]source, error) {
	batch, err := decode(raw, allowConsumers)
	if err == nil && len(batch.Records) == 0 {
		return nil, nil
	}
	if err == nil {
		return []source{{batch: batch}}, nil
	}
	// Events of Kinesis need no time for the other sources.
	var event struct {
		Records []struct {
			EventSource string `json:"eventSource"`
		} `json:"Records"`
		AWSLogs *struct {
			Data []byte `json:"data"`
		} `json:"awslogs"`
	}
	if json.Unmarshal(raw, &event) != nil {
		return nil, err
	}
	switch {
	case event.AWSLogs != nil && len(event.AWSLogs.Data) > 0:
		return []source{decodeLogs(event.AWSLogs.Data)}, nil
	case len(event.Records) > 0 && event.Records[0].EventSource == "aws:sqs":
		return decodeMessages(raw)
	case len(event.Records) > 0 && event.Records[0].EventSource == "aws:dynamodb":
		return decodeChanges(raw)
	}
	return nil, err
}

// bad returns an error that refuses an event because of one of its records.
func bad(record int, why string) error { return fmt.Errorf("%w (record %d)", notKinesis(why), record) }

// endOfTime is later than every arrival, in milliseconds: RFC 3339 cannot write the year 10000.
const endOfTime = 253_402_300_800_000

// timeOf converts milliseconds since 1970 to a time. If they are not a valid time, the time is zero.
func timeOf(milliseconds float64) (time.Time, bool) {
	if ms := math.Round(milliseconds); ms >= 1 && ms < endOfTime {
		return time.UnixMilli(int64(ms)).UTC(), true
	}
	return time.Time{}, false
}
