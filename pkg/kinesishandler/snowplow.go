package kinesishandler

import (
	"errors"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// snowplow reads the settings of Snowplow's format.
func (p parser) snowplow() dedupe.Format {
	for _, path := range []string{varIDPath, varFingerprintPath, varContextsPath} {
		if p.Text(path) != "" {
			p.Wrong(path, "is a path in JSON, and "+varFormat+" is snowplow, whose columns are known", "leave it empty")
		}
	}
	f, err := format.NewSnowplow(format.SnowplowOptions{Volatile: p.List(varVolatile)})
	if wrong, ok := errors.AsType[*format.OptionError](err); ok {
		p.Wrong(varVolatile, wrong.Detail, "names of columns with commas between, as in page_title,useragent")
	}
	return f
}
