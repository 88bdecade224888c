package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Program parses and runs command lines.
type Program struct {
	*kong.Kong
	process   Process
	globals   *Globals // of the grammar
	variables variables
}

// New makes a program. grammar is a pointer to a struct of commands, which embeds the global flags.
func New(process Process, grammar any, global *Globals) (*Program, error) {
	p := &Program{process: process, globals: global, variables: variables{}}
	var err error
	p.Kong, err = kong.New(grammar,
		kong.Name("oncebox"),
		kong.Description("Hands out the items of a campaign (voucher codes, seats, places) so that no two claimants hold one item, "+
			"and gives every claimant the same item however often they ask. Removes duplicates from streams of records."),
		kong.Vars{"version": "oncebox " + process.CurrentVersion(), "times": timeForms},
		kong.Writers(process.Stdout, process.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Help(printHelp),
		kong.ValueFormatter(p.describe),
		kong.PostBuild(p.attach),
		valueMappers,
	)
	return p, err
}

// Run parses a command line, runs its command and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	a := &App{Process: p.process, variables: p.variables}
	a.Output = requestedOutput(args, a.Getenv("ONCEBOX_OUTPUT"))
	command, err := p.Parse(args)
	if err == nil {
		err = cmp.Or(refuseEmpty(command), p.checkEnvironment(command))
	}
	if err != nil {
		return a.fail(ctx, p.explain(err, args))
	}
	a.Globals = *p.globals
	for _, flag := range command.Selected().Flags {
		a.flags = append(a.flags, flag.Name)
	}
	setLogger(a.Stderr, a.LogLevel)
	command.BindTo(ctx, (*context.Context)(nil))
	if err := command.Run(a); err != nil {
		return a.fail(ctx, err)
	}
	return ExitDone
}

// refuseEmpty refuses an empty value of a flag that has one of some values. The parser takes it for the default.
func refuseEmpty(command *kong.Context) error {
	for _, part := range command.Path {
		if flag := part.Flag; flag != nil && flag.Enum != "" && flag.Target.String() == "" {
			values := strings.TrimSuffix(flag.Enum, ",")
			return fmt.Errorf("--%s is empty; it must be one of %s", flag.Name, strings.ReplaceAll(values, ",", ", "))
		}
	}
	return nil
}

// setLogger makes the logger of this program and of the AWS SDK. It must be called before an AWS client is made.
func setLogger(to io.Writer, level string) {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // the grammar allows only levels
	slog.SetDefault(slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: least})))
}

// requestedOutput returns the --output of a command line that may have other errors, because these errors have that
// form, too.
func requestedOutput(args []string, variable string) string {
	output := variable
	for i, arg := range args {
		if arg == "--output=json" || arg == "json" && i > 0 && args[i-1] == "--output" {
			output = OutputJSON
		}
	}
	if !slices.Contains([]string{OutputText, OutputJSON}, output) {
		return OutputText
	}
	return output
}
