package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, as in: help campaign create."`
}

func (helpCommand) Help() string {
	return `Without a command it lists all commands.

Examples:
  oncebox help
  oncebox help load
  oncebox help campaign create`
}

func (c helpCommand) Run(kctx *kong.Context) error {
	asked, err := kong.Trace(kctx.Kong, c.Command)
	if err == nil {
		err = asked.Error
	}
	if err != nil {
		return BadUsage(fmt.Errorf("help: %w", err), "`oncebox help` lists the commands.")
	}
	return asked.PrintUsage(false)
}

// printHelp prints the help of the program or of a command. The help of a command has the global flags in one line.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var names []string
	for _, flag := range ctx.Model.Flags {
		flag.Hidden = true
		defer func() { flag.Hidden = false }()
		names = append(names, "--"+flag.Name)
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nGlobal flags: %s\n`oncebox --help` explains them.\n", strings.Join(names, ", "))
	return err
}
