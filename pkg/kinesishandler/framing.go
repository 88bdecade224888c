package kinesishandler

import (
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/framing"
)

// framing reads how many records a payload holds. Only a stream gets the records in their original form.
func (p parser) framing(sink SinkSetting) dedupe.Framing {
	text := p.Text(varSourceRecords)
	if text == "" || text == "one" {
		return nil
	}
	f, err := framing.Named(text)
	switch {
	case err != nil:
		p.Wrong(varSourceRecords, "is not a known form", "one, lines, array, concatenated, logs or snowplow")
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
