package sweephandler

import (
	"log/slog"
	"slices"

	"github.com/oncebox/oncebox/internal/settings"
)

// The variables of the sweep function.
const (
	varBankTable   = "ONCEBOX_BANK_TABLE"
	varDedupeTable = "ONCEBOX_DEDUPE_TABLE"
	varLogLevel    = "ONCEBOX_LOG_LEVEL"
)

var known = []string{varBankTable, varDedupeTable, settings.VarMetrics, varLogLevel}

// Variables returns the names of all variables of the function.
func Variables() []string { return slices.Clone(known) }

// Description begins the description of the function in a stack. `oncebox doctor` finds the sweep function by it, to
// invoke it, and distinguishes it from other functions with the same variables.
const Description = "oncebox sweep"

// Settings are the settings of the function in functions/sweep.
type Settings struct {
	BankTable   string
	DedupeTable string
	Metrics     string // the namespace of the metrics: see WithMetrics
	LogLevel    slog.Level
}

// ParseSettings reads the settings of the function from an environment in the form of os.Environ:
//
//	ONCEBOX_BANK_TABLE    required: the table of campaigns and items
//	ONCEBOX_DEDUPE_TABLE  required: the table of claims
//	ONCEBOX_METRICS       on or off: whether free items are counted, as metrics for CloudWatch; default off
//	ONCEBOX_LOG_LEVEL     debug, info, warn or error; default info
//
// An empty variable counts as not set. Any other ONCEBOX_ variable is an error, because it is misspelt or belongs to
// another function. The error lists everything that is wrong, with the values that are allowed. It does not repeat
// the values.
func ParseSettings(environ []string) (Settings, error) {
	p := settings.NewParser(environ)
	p.RefuseOthers(known)
	s := Settings{p.Table(varBankTable), p.Table(varDedupeTable), p.Metrics(environ), p.LogLevel(varLogLevel)}
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		p.Wrong(varDedupeTable, "is the table of "+varBankTable, "another table")
	}
	return s, p.Err()
}
