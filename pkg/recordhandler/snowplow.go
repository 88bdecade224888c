package recordhandler

import (
	"errors"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// snowplow reads the settings of Snowplow's format.
func (p parser) snowplow() dedupe.Format {
	p.refusePaths("is a path in JSON, and " + p.Variable(&p.s.Format) + " is snowplow, whose columns are known")
	f, err := format.NewSnowplow(format.SnowplowOptions{Volatile: p.s.Volatile})
	if wrong, ok := errors.AsType[*format.OptionError](err); ok {
		p.Refuse(&p.s.Volatile, wrong.Detail, "names of columns with commas between, as in page_title,useragent")
	}
	return f
}
