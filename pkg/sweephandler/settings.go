package sweephandler

import (
	"log/slog"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Description begins the description of the function in a stack. `oncebox doctor` finds the sweep function by it, to
// invoke it, and distinguishes it from other functions with the same variables.
const Description = "oncebox sweep"

// Settings are the settings of the function in functions/sweep, in words. The field XY is the variable ONCEBOX_X_Y; its
// zero value means that the setting is not set. docs/configuration.md has the defaults.
type Settings struct {
	// table of campaigns and items
	BankTable string `table:"" required:""`
	// table of claims
	DedupeTable string `table:"" required:""`
	// `on`: free items of open campaigns are counted, as a [metric](operations.md#metrics). The stack sets it.
	Metrics string `default:"off" oneof:"on,off"`
	// `debug`, `info`, `warn` or `error`
	LogLevel string `default:"info" oneof:"debug,info,warn,error" is:"a log level"`
}

// Environ returns the settings in the form of os.Environ, as ParseSettings reads them.
func (s Settings) Environ() []string { return settings.Environ(s) }

// Options are what the settings mean for a handler.
type Options struct {
	Metrics  string // the namespace of the metrics: see WithMetrics
	LogLevel slog.Level
}

// ParseSettings reads the settings of the function from an environment in the form of os.Environ, and returns them and
// what they mean. An empty variable counts as not set. Any other ONCEBOX_ variable is an error, because it is misspelt or
// belongs to another function. The error lists everything that is wrong, with the values that are allowed. It does not
// repeat the values.
func ParseSettings(environ []string) (Settings, Options, error) {
	var s Settings
	r := settings.Read(environ, &s, true)
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		r.Refuse(&s.DedupeTable, "is the table of "+r.Variable(&s.BankTable), "another table")
	}
	o := Options{LogLevel: r.Level(&s.LogLevel)}
	if r.On(&s.Metrics) {
		o.Metrics = settings.Namespace(environ)
	}
	return s, o, r.Err()
}
