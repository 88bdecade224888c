// Command oncebox runs both jobs of oncebox, claims and record dedup, from the command line: on a SQLite file, or on
// the DynamoDB tables of a deployment.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:]))
}

// run parses the command line, runs the command and returns the exit code.
func run(ctx context.Context, args []string) int {
	c := &cli{}
	parser, err := newParser(c)
	if err != nil {
		panic(err) // cannot happen: the grammar is constant, and the tests parse all of it
	}
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	a.Output = requestedOutput(args, os.Getenv("ONCEBOX_OUTPUT"))
	command, err := parser.Parse(args)
	if err == nil {
		err = parser.checkEnvironment(os.Environ(), command)
	}
	if err != nil {
		return a.fail(ctx, parser.explain(err, args))
	}
	a.globals = c.globals
	setLogger(a.stderr, c.LogLevel)
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
