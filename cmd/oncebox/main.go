// Command oncebox runs both jobs of oncebox, claims and record dedup, from the
// command line: on a SQLite file, or on the DynamoDB tables of a deployment.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:]))
}

// run parses the command line, runs the command and returns the exit code.
func run(ctx context.Context, args []string) int {
	c := &cli{}
	parser, err := kong.New(c,
		kong.Name("oncebox"),
		kong.Description("Hands every item of a bank (voucher codes, seats, places) to exactly one claimant, "+
			"and every claimant the same item however often they ask; and lets every record through once."),
		kong.DefaultEnvars("ONCEBOX"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
	)
	if err != nil {
		panic(err) // the grammar is fixed; tests parse all of it
	}
	command, err := parser.Parse(args)
	if err != nil {
		err = &usageError{err, "oncebox --help lists the commands, oncebox COMMAND --help explains one."}
		return exitCode(ctx, complain(err))
	}
	a := &app{globals: c.globals, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the grammar allows only levels
	slog.SetDefault(slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level})))
	command.BindTo(ctx, (*context.Context)(nil))
	return exitCode(ctx, complain(command.Run(a)))
}

// complain prints an error and hands it on.
func complain(err error) error {
	if err == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "oncebox:", err)
	var usage *usageError
	if errors.As(err, &usage) && usage.hint != "" {
		fmt.Fprintln(os.Stderr, usage.hint)
	}
	return err
}
