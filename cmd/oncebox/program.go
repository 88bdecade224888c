package main

import (
	"context"
	"io"
	"log/slog"
	"slices"

	"github.com/alecthomas/kong"
)

// program parses and runs command lines.
type program struct {
	*kong.Kong
	process   Process
	globals   *globals // of the grammar
	variables variables
}

// newProgram makes a program. grammar is a pointer to a struct of commands, which embeds the global flags.
func newProgram(process Process, grammar any, global *globals) (*program, error) {
	p := &program{process: process, globals: global, variables: variables{}}
	var err error
	p.Kong, err = kong.New(grammar,
		kong.Name("oncebox"),
		kong.Description("Hands out the items of a campaign (voucher codes, seats, places) so that no two claimants hold one item, "+
			"and gives every claimant the same item however often they ask. Removes duplicates from streams of records."),
		kong.Vars{"version": "oncebox " + process.currentVersion()},
		kong.Writers(process.Stdout, process.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Help(printHelp),
		kong.ValueFormatter(p.describe),
		kong.PostBuild(p.attach),
		valueMappers,
	)
	return p, err
}

// run parses a command line, runs its command and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	a := &app{Process: p.process, variables: p.variables}
	a.Output = requestedOutput(args, a.Getenv("ONCEBOX_OUTPUT"))
	command, err := p.Parse(args)
	if err == nil {
		err = p.checkEnvironment(command)
	}
	if err != nil {
		return a.fail(ctx, p.explain(err, args))
	}
	a.globals = *p.globals
	setLogger(a.Stderr, a.LogLevel)
	command.BindTo(ctx, (*context.Context)(nil))
	if err := command.Run(a); err != nil {
		return a.fail(ctx, err)
	}
	return exitDone
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
			output = outputJSON
		}
	}
	if !slices.Contains([]string{outputText, outputJSON}, output) {
		return outputText
	}
	return output
}
