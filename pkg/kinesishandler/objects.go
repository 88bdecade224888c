package kinesishandler

import (
	"strings"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// checkObjects refuses settings that do not fit a bucket sink.
func (p parser) checkObjects(o Options) {
	at := o.Sink.Objects
	if at == nil {
		return
	}
	if o.NoAcks {
		p.Wrong(varAcks, "is off, but objects say which records are done, which cannot be switched off", "on")
	}
	letters, err := deadletter.ParseSetting(o.DeadLetterStore)
	if err == nil && letters.Bucket == at.Bucket &&
		(strings.HasPrefix(letters.Prefix, at.Prefix) || strings.HasPrefix(at.Prefix, letters.Prefix)) {
		p.Wrong(varDeadLetters, "is inside of "+varSink+", or the other way round: readers would mix the two",
			"prefixes of which neither begins with the other")
	}
}
