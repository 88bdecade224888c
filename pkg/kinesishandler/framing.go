package kinesishandler

import (
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/framing"
)

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
