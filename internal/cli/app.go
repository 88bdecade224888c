// Package cli is what the commands of oncebox share: the program and its process, how values and variables are read,
// output, errors and their exit codes, progress, stores and clients of AWS. The packages below it hold the commands, a
// package for each family.
package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Globals are the flags of every command. They are variables too: see variables.go.
type Globals struct {
	Store       string `help:"Where campaigns, claims, record entries and idempotency records are stored: sqlite:PATH, or dynamodb: for the two tables below. Default: ${default}." default:"sqlite:oncebox.db" placeholder:"URL"`
	BankTable   string `help:"DynamoDB table of campaigns and items. Default: ${default}." default:"oncebox-bank" placeholder:"NAME"`
	DedupeTable string `help:"DynamoDB table of claims, record entries and idempotency records. Default: ${default}." default:"oncebox-dedupe" placeholder:"NAME"`
	Output      string `help:"Format of results on stdout, and of errors on stderr: text or json. Default: ${default}." enum:"text,json" default:"text" placeholder:"text|json"`
	Quiet       bool   `short:"q" help:"Print no progress and no remarks on stderr. Errors are still printed."`
	LogLevel    string `help:"Lowest level of log lines on stderr: debug, info, warn or error. Default: ${default}." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

// The values of --output.
const (
	OutputText = "text"
	OutputJSON = "json"
)

// Process is what commands use of their process. kong and the SDK of AWS also read the variables of the process itself,
// and paths are relative to its folder.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string // the variables, as NAME=VALUE
	Version        string   // the version of a release; "" is the version of the module
}

// Getenv returns the value of a variable, or "".
func (p Process) Getenv(name string) string {
	for _, variable := range p.Environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// App is what commands work with besides their own flags.
type App struct {
	Globals
	Process
	variables variables
	flags     []string // the names of the flags of the command
}

// CheckVariables refuses variables with names that are close to a setting's.
func (a *App) CheckVariables() error { return a.variables.check(a.Environ, nil) }
