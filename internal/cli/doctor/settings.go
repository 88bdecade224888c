package doctor

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// CheckAlias reports whether a function is called by an alias. Without an alias, a deployment changes the called
// function in two steps.
func CheckAlias(f Function, report *Report) {
	a, name := report.Area("alias"), f.title()
	switch {
	case f.Alias == "":
		report.Add(Check{
			Area: a.name, Name: name, Status: Info, Detail: "none: doctor invokes version " + f.Version,
			Do: "If the function has an alias, use --function " + f.Name + ":ALIAS.",
		})
	case len(f.Unlike) > 0 && f.Kind == Dedupe:
		a.Fail(name, fmt.Sprintf("%s is version %s, and also version %s, with another %s: a record that both get is delivered "+
			"twice", f.Alias, f.Version, strings.Join(f.Canary, ", "), strings.Join(f.Unlike, ", ")),
			"Stop the deployment in CodeDeploy, with a rollback. Deploy such a change without canary.")
	case len(f.Canary) > 0:
		a.Warn(name, fmt.Sprintf("%s is version %s, and also version %s: each step meets one of them",
			f.Alias, f.Version, strings.Join(f.Canary, ", ")), "Run doctor again when the deployment has ended.")
	default:
		a.OK(name, fmt.Sprintf("%s is version %s", f.Alias, f.Version))
	}
}

// TellOther reports that a function of a stack is not invoked, because it is unclear whether it is a sweep.
func TellOther(f Function, report *Report) {
	report.Add(Check{
		Area: "settings", Name: f.Name, Status: Info,
		Detail: "has the variables of a sweep function, and not its description, \"" + sweephandler.Description +
			" ...\": doctor does not invoke it",
		Do: "If it is the sweep, name all functions with --function.",
	})
}

// title names the function in a report.
func (f Function) title() string { return fmt.Sprintf("%s function %s", f.Kind, f.Name) }

// CheckSettings reads the settings of a function as the function does at its start. It reports whether they are
// valid.
func CheckSettings(f Function, report *Report) bool {
	a, environ, detail := report.Area("settings"), f.Environ(), "as the function reads them at its start"
	var err error
	switch f.Kind {
	case Claim:
		_, _, err = claimapi.ParseSettings(environ)
	case Sweep:
		_, _, err = sweephandler.ParseSettings(environ)
	case Dedupe:
		var o recordhandler.Options
		if _, o, err = recordhandler.ParseSettings(environ); o.NeedsClients() {
			detail += "; only the function of dist/dedupe-full starts with them"
		}
	}
	if err != nil {
		a.Fail(f.title(), strings.ReplaceAll(err.Error(), "\n", "; "),
			"With these a function of this version of oncebox does not start. Deploy the stack again, or use the oncebox "+
				"of the release that is deployed.")
		return false
	}
	a.OK(f.title(), detail)
	return true
}
