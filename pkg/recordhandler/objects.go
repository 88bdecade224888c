package recordhandler

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// objectFormat chooses the format of objects by the format of the records, and refuses a contradiction.
func (p parser) objectFormat(o Options) {
	at := o.Sink.Objects
	if at == nil {
		return
	}
	at.Format = cmp.Or(at.Format, objectFormat(o.Format))
	if neverNDJSON(o.Format, at.Format) {
		p.Refuse(&p.s.Sink, "has format=ndjson, but with "+p.Variable(&p.s.Format)+"=snowplow records are lines of text, and "+
			"each would be a dead letter", "format=raw, which is the default then")
	}
}

// objectFormat returns the format of objects if none is set. It follows the format of the records.
func objectFormat(records dedupe.Format) objectsink.Format {
	switch records.(type) {
	case *format.Snowplow, format.Raw:
		return objectsink.Raw
	}
	return objectsink.NDJSON
}

// neverNDJSON reports whether no record of a format can be in an object of its format.
func neverNDJSON(records dedupe.Format, objects objectsink.Format) bool {
	_, snowplow := records.(*format.Snowplow)
	return snowplow && objects == objectsink.NDJSON
}

var errNeverNDJSON = errors.New("recordhandler: Sink.Objects.Format is ndjson, but enriched events of Snowplow are lines " +
	"of text, and each would be a dead letter; leave it empty, or choose raw")

// checkObjects refuses settings that do not fit a bucket sink.
func (p parser) checkObjects(o Options) {
	at := o.Sink.Objects
	if at == nil {
		return
	}
	if o.NoAcks {
		p.Refuse(&p.s.Acks, "is off, but objects say which records are done, which cannot be switched off", "on")
	}
	letters, err := deadletter.ParseSetting(o.DeadLetterStore)
	if err == nil && letters.Bucket == at.Bucket &&
		(strings.HasPrefix(letters.Prefix, at.Prefix) || strings.HasPrefix(at.Prefix, letters.Prefix)) {
		p.Refuse(&p.s.DeadLetters, "is inside of "+p.Variable(&p.s.Sink)+", or the other way round: readers would mix the two",
			"prefixes of which neither begins with the other")
	}
}

func openObjects(
	ctx context.Context, load func(context.Context) (aws.Config, error), o Options,
) (dedupe.ObjectSink, error) {
	at := *o.Sink.Objects
	at.Format = cmp.Or(at.Format, objectFormat(o.Format))
	if neverNDJSON(o.Format, at.Format) {
		return nil, errNeverNDJSON
	}
	return at.Open(ctx, load)
}
