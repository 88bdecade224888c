package offline

import (
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
)

// events is the format of lines that are enriched events of Snowplow.
type events struct {
	*format.Snowplow
	options format.SnowplowOptions
}

// Snowplow returns the format of lines that are enriched events of Snowplow. Its error is a *format.OptionError.
func Snowplow(o format.SnowplowOptions) (Format, error) {
	f, err := format.NewSnowplow(o)
	if err != nil {
		return nil, err
	}
	return events{f, o}, nil
}

// Settings implements Format. Its text is quoted ASCII, which is the same in every version of Go.
func (f events) Settings() string {
	return fmt.Sprintf("snowplow %+q %+q", f.options.TimeColumn, slices.Sorted(slices.Values(f.options.Volatile)))
}

func (events) Extension() string { return ".tsv" }

func (f events) HasTimes() bool { return f.options.TimeColumn != "" }

func (f events) Digest() func([]byte) format.Digest { return f.Snowplow.Digest }

func (events) IsOther(looksLike string) bool {
	switch looksLike {
	case "", format.LooksLikeEvent, "TSV", "plain text", "an empty record", "binary data, or text that is not UTF-8":
		return false
	}
	return true
}

// Members returns nil, because no option names a member that an event may lack.
func (events) Members([]byte) []string { return nil }
