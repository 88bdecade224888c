package main

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// globals are the flags of every command. They are variables too: see variables.go.
type globals struct {
	Store       string `help:"Where campaigns, claims and record entries are stored: sqlite:PATH, or dynamodb: for the two tables below. Default: ${default}." default:"sqlite:oncebox.db" placeholder:"URL"`
	BankTable   string `help:"DynamoDB table of campaigns and items. Default: ${default}." default:"oncebox-bank" placeholder:"NAME"`
	DedupeTable string `help:"DynamoDB table of claims and record entries. Default: ${default}." default:"oncebox-dedupe" placeholder:"NAME"`
	Output      string `help:"Format of results on stdout, and of errors on stderr: text or json. Default: ${default}." enum:"text,json" default:"text" placeholder:"text|json"`
	Quiet       bool   `short:"q" help:"Print no progress and no remarks on stderr. Errors are still printed."`
	LogLevel    string `help:"Lowest level of log lines on stderr: debug, info, warn or error. Default: ${default}." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
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

// app is what commands work with besides their own flags.
type app struct {
	globals
	Process
	variables variables
}

// checkVariables refuses variables with names that are close to a setting's.
func (a *app) checkVariables() error { return a.variables.check(a.Environ, nil) }
