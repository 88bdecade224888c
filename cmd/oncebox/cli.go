package main

import (
	"fmt"
	"io"
)

// cli is the command line. Every flag --x-y is also the variable ONCEBOX_X_Y.
type cli struct {
	globals

	Init      initCommand      `cmd:"" help:"Make the store: a SQLite file, or the two DynamoDB tables."`
	Local     localCommand     `cmd:"" help:"Serve the claim API on this machine, through the Lambda handler."`
	Campaign  campaignCommand  `cmd:"" help:"Create, show, open, close and list campaigns."`
	Load      loadCommand      `cmd:"" help:"Load items from a file into a campaign's bank, each once."`
	Claim     claimCommand     `cmd:"" help:"Claim an item for a claimant and print it; again brings the same one."`
	Release   releaseCommand   `cmd:"" help:"End a claim: its item goes back to the bank, or is burned."`
	Withdraw  withdrawCommand  `cmd:"" help:"Take free items out of a campaign's bank, for good."`
	Sweep     sweepCommand     `cmd:"" help:"Close claims that have ended, and take out items that have."`
	Status    statusCommand    `cmd:"" help:"Count a campaign's items: loaded, free, claimed, ended."`
	Reconcile reconcileCommand `cmd:"" help:"Show that every item is in exactly one place, or which is not; repair it."`
	Dedupe    dedupeCommand    `cmd:"" help:"Let every record of NDJSON files through once."`
	Kpl       kplCommand       `cmd:"" help:"Open and make aggregated records of the Kinesis Producer Library."`
	Invoke    invokeCommand    `cmd:"" help:"Send one event through a Lambda handler and print its reply."`
	Demo      demoCommand      `cmd:"" help:"Show what oncebox does, on a store of its own, and check it."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
}

type globals struct {
	Store       string `help:"Where claims, items and record entries are kept: sqlite:PATH, or dynamodb: for the tables below. Default: ${default}." default:"sqlite:oncebox.db" placeholder:"URL"`
	BankTable   string `help:"DynamoDB table of campaigns and items. Default: ${default}." default:"oncebox-bank" placeholder:"NAME"`
	DedupeTable string `help:"DynamoDB table of claims and record entries. Default: ${default}." default:"oncebox-dedupe" placeholder:"NAME"`
	Output      string `help:"Form of the results on stdout: text or json." enum:"text,json" default:"text"`
	Quiet       bool   `short:"q" help:"No progress and no remarks on stderr; errors are still printed."`
	LogLevel    string `help:"Least level of log lines on stderr: debug, info, warn or error. Default: ${default}." enum:"debug,info,warn,error" default:"info" placeholder:"L"`
}

// app is what commands work with besides their own flags.
type app struct {
	globals
	stdin          io.Reader
	stdout, stderr io.Writer
}

// remark prints something about the work, as opposed to its result.
func (a *app) remark(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}
