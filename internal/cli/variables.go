package cli

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/shared/suggest"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// VariablePrefix is the beginning of the names of all variables of oncebox.
const VariablePrefix = "ONCEBOX_"

// variables are the flags that have a variable, by the names of the variables: --x-y is ONCEBOX_X_Y. They are the
// global flags. Other flags have no variable, so that an old variable cannot destroy data or decide about a setting
// that cannot be changed.
type variables map[string]*kong.Flag

// neverVariables are global flags without a variable.
var neverVariables = []string{"help", "version"}

// sameWork are the commands that do the work of the dedupe function over files. Most of their flags are called like the
// settings of the function, and mean the same. The variable of --ledger does not.
var sameWork = []string{"dedupe", "ledger import"}

// varLedger is a setting of the dedupe function. It looks like the variable of --ledger.
const varLedger = "ONCEBOX_LEDGER"

// attach connects the flags with their variables. A variable that is empty is not set, as in the Lambda functions.
func (p *Program) attach(k *kong.Kong) error {
	for _, flag := range k.Model.Flags {
		if flag.Hidden || slices.Contains(neverVariables, flag.Name) {
			continue
		}
		name := variableOf(flag)
		p.variables[name] = flag
		if p.process.Getenv(name) != "" {
			flag.Tag.Envs = []string{name}
		}
	}
	return nil
}

func variableOf(flag *kong.Flag) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// Variable returns the name of a flag's variable; "": the flag has none.
func (p *Program) Variable(flag *kong.Flag) string {
	if name := variableOf(flag); p.variables[name] == flag {
		return name
	}
	return ""
}

// describe returns the help of a flag with its variable.
func (p *Program) describe(value *kong.Value) string {
	if value.Flag == nil || p.Variable(value.Flag) == "" {
		return value.Help
	}
	return strings.TrimSuffix(value.Help, ".") + " (" + p.Variable(value.Flag) + ")."
}

// explaining are the commands that work in any environment. The doctor reports the problems in it.
var explaining = []string{"help", "version", "completion", "doctor"}

// checkEnvironment refuses variables that look like settings and have no effect: names that are close to a setting's, and
// flags of the command without a variable. It ignores settings of the Lambda functions, because they may share the
// environment. It also ignores other names, which may belong to another program.
func (p *Program) checkEnvironment(command *kong.Context) error {
	if slices.Contains(explaining, command.Selected().Name) {
		return nil
	}
	if slices.Contains(sameWork, strings.TrimPrefix(command.Selected().FullPath(), "oncebox ")) {
		if err := p.checkSettings(command); err != nil {
			return err
		}
	}
	return p.variables.check(p.process.Environ, command.Flags())
}

// checkSettings refuses settings of the dedupe function that a user may take for those of the command.
func (p *Program) checkSettings(command *kong.Context) error {
	for _, flag := range command.Flags() {
		name := variableOf(flag)
		given := slices.ContainsFunc(command.Path, func(part *kong.Path) bool { return part.Flag == flag })
		if p.variables[name] != nil || given || name == varLedger || !slices.Contains(recordhandler.Variables(), name) {
			continue
		}
		isSet := func(v string) bool {
			value, ok := strings.CutPrefix(v, name+"=")
			return ok && value != "" && !isOfTheFunction(value)
		}
		if slices.ContainsFunc(p.process.Environ, isSet) {
			return notFromTheEnvironment(name, flag)
		}
	}
	return nil
}

// isOfTheFunction reports whether a value is the address of a store or a sink that only the function has, so that nobody
// takes it for the command's.
func isOfTheFunction(value string) bool {
	sink, err := recordhandler.ParseSink(value)
	return IsDeadLetterStore(value) || err == nil && sink.File == ""
}

func notFromTheEnvironment(name string, flag *kong.Flag) error {
	err := fmt.Errorf("%s is set, and --%s is not taken from the environment", name, flag.Name)
	return BadUsage(err, "Give the flag on the command line, or unset the variable.")
}

// check is checkEnvironment for a command with these flags.
func (v variables) check(environ []string, flags []*kong.Flag) error {
	known := slices.Concat(slices.Sorted(maps.Keys(v)), claimapi.Variables(), recordhandler.Variables())
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if name == varLedger && value != "" && !recordhandler.IsLedger(value) {
			err := errors.New(varLedger + " selects the ledger of the dedupe function. It must be keys, log or " +
				"valkey://HOST:PORT")
			return BadUsage(err, "Give the file of a ledger as --ledger FILE, or as ONCEBOX_STORE=sqlite:FILE.")
		}
		if !strings.HasPrefix(name, VariablePrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		for _, flag := range flags {
			if variableOf(flag) == name {
				return notFromTheEnvironment(name, flag)
			}
		}
		if meant := suggest.Closest(name, known); meant != "" {
			err := fmt.Errorf("%s is not a setting; did you mean %s?", name, meant)
			return BadUsage(err, "Unset the variable if it is not for oncebox.")
		}
	}
	return nil
}

// explain puts an error of the parser into the user's words: if a value comes from a variable, it names the variable.
func (p *Program) explain(err error, args []string) error {
	const hint = "`oncebox --help` lists the commands, `oncebox help COMMAND` explains one."
	if errors.As(err, new(*UsageError)) { // made by checkEnvironment
		return err
	}
	if len(args) == 0 {
		return BadUsage(errors.New("no command was given"), hint)
	}
	for name, flag := range p.variables {
		typed := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--"+flag.Name) })
		if !typed && p.process.Getenv(name) != "" && strings.HasPrefix(err.Error(), "--"+flag.Name) {
			text, _, _ := strings.Cut(err.Error(), " (from envar ")
			return BadUsage(fmt.Errorf("%s (from the variable %s)", text, name), hint)
		}
	}
	if match := likeAFlag.FindStringSubmatch(err.Error()); match != nil {
		flag, value := match[1], match[2]
		err := fmt.Errorf("%s has no value: %s begins like a flag", flag, value)
		return BadUsage(err, fmt.Sprintf("If it is the value, write %s=%s.", flag, value))
	}
	// An empty value is for a flag that was not given.
	return BadUsage(errors.New(strings.Replace(err.Error(), `,"" but got`, " but got", 1)), usageHint(err, args, hint))
}

// likeAFlag is kong's error about a value that begins with a hyphen, such as -1.
var likeAFlag = regexp.MustCompile(`^(--[\w-]+): expected .* but got "(-[^"]*)" \((?:short|long) flag\)`)

// UsageHinter is a command with advice about errors of its command line. words are the arguments of the command that
// are no flags.
type UsageHinter interface{ UsageHint(words []string) string }

// usageHint returns the advice of the command, or another one.
func usageHint(err error, args []string, other string) string {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || parse.Context == nil || parse.Context.Selected() == nil {
		return other
	}
	node := parse.Context.Selected()
	command, ok := node.Target.Interface().(UsageHinter)
	if !ok {
		return other
	}
	words := args[slices.Index(args, node.Name)+1:]
	return command.UsageHint(slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.HasPrefix(word, "-") }))
}

// IsDeadLetterStore reports whether a path has the form of the function's store of dead letters.
func IsDeadLetterStore(path string) bool {
	return strings.HasPrefix(path, "dir:") || strings.HasPrefix(path, "s3://")
}
