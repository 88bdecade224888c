// Command oncebox runs both jobs of oncebox, claims and record dedup, from the command line: on a SQLite file, or on
// the DynamoDB tables of a deployment.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the time zones of flags, also on machines that have none

	"github.com/oncebox/oncebox/internal/cli"
)

// version is set by the linker in releases.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	process := cli.Process{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version}
	os.Exit(run(ctx, process, os.Args[1:]))
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, process cli.Process, args []string) int {
	c := &grammar{}
	p, err := cli.New(process, c, &c.Globals)
	if err != nil {
		panic(err) // cannot happen: the grammar is constant, and the tests parse all of it
	}
	return p.Run(ctx, args)
}
