// Package firehoseaddress reads the address of a Firehose stream without the client of Firehose, which package
// firehosesink links. So a program can check the address without the client.
package firehoseaddress

import (
	"regexp"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Config is firehosesink.Config.
type Config struct {
	Stream    string
	Delimited bool // see firehosesink.WithDelimiter
}

// Parse is firehosesink.Parse.
func Parse(text string) (Config, error) {
	a := address.Parse(text)
	if a.Scheme != "firehose" || !IsStream(a.Name) {
		a.WrongPlace("does not name a Firehose stream", "firehose:NAME, where NAME is 1 to 64 of a-z, A-Z, 0-9, _, . and -")
	}
	c := Config{a.Name, settings.Choice(a.Parser, "delimiter", "newline", "none") == "newline"}
	return c, a.Done("delimiter")
}

// The rules for names (API reference, CreateDeliveryStream). The length is not in the pattern, which would take
// memory at every start.
const maxName = 64

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// IsStream reports whether a Firehose stream may have the name.
func IsStream(name string) bool { return len(name) <= maxName && namePattern.MatchString(name) }
