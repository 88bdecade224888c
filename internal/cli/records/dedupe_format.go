package records

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/format"
)

// snowplow is the --format of enriched events.
const snowplow = "snowplow"

// lines returns the format of the lines.
func (c *dedupeCommand) lines() (offline.Format, error) {
	if c.Format == snowplow {
		return c.events()
	}
	if c.IDPath == "" {
		return nil, cli.BadUsage(errors.New("--id-path is missing: the path of the id, as in event.id"), "")
	}
	lines, err := offline.JSON(format.Options{
		IDPath: c.IDPath, FingerprintPath: c.FingerprintPath, OwnerPath: c.OwnerPath,
		ContextsPath: c.ContextsPath, TimePath: c.TimePath, Volatile: c.Volatile,
	})
	if err != nil {
		return nil, cli.BadUsage(errors.New(flagOf.Replace(err.Error())), "")
	}
	return lines, nil
}

// flagOf names the flags in errors of package format.
var flagOf = strings.NewReplacer(
	"IDPath", "--id-path", "FingerprintPath", "--fingerprint-path", "OwnerPath", "--owner-path",
	"ContextsPath", "--contexts-path", "TimePath", "--time-path", "TimeColumn", "--time-path", "Volatile", "--volatile",
)

// events returns the format of enriched events. The flags of JSON are refused.
func (c *dedupeCommand) events() (offline.Format, error) {
	for _, of := range []struct {
		flag string
		set  bool
	}{
		{"--id-path", c.IDPath != ""}, {"--fingerprint-path", c.FingerprintPath != ""}, {"--owner-path", c.OwnerPath != ""},
		{"--contexts-path", c.ContextsPath != format.DefaultContextsPath},
	} {
		if of.set {
			return nil, cli.BadUsage(
				fmt.Errorf("%s is a path in JSON, and --format is snowplow, whose columns are known", of.flag), "Leave it out.",
			)
		}
	}
	lines, err := offline.Snowplow(format.SnowplowOptions{Volatile: c.Volatile, TimeColumn: c.TimePath})
	if err != nil {
		return nil, cli.BadUsage(errors.New(flagOf.Replace(err.Error())), "")
	}
	return lines, nil
}

// onOff is a switch: on or off, as the Lambda functions read it, or true or false.
type onOff bool

// IsBool makes a flag of it that needs no value.
func (*onOff) IsBool() bool { return true }

// Decode reads the value that follows, if there is one.
func (o *onOff) Decode(ctx *kong.DecodeContext) error {
	*o = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	switch value := fmt.Sprint(ctx.Scan.Pop().Value); strings.ToLower(value) {
	case "on", "true", "yes", "1":
	case "off", "false", "no", "0":
		*o = false
	default:
		return fmt.Errorf("%q is neither on nor off", value)
	}
	return nil
}
