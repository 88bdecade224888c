package main

import (
	"io"

	"github.com/alecthomas/kong"
)

// cli is the command line.
type cli struct {
	globals

	Init      initCommand      `cmd:"" help:"Make the store: a SQLite file, or the two DynamoDB tables."`
	Backup    backupCommand    `cmd:"" help:"Copy the SQLite file of the store while others write to it."`
	Local     localCommand     `cmd:"" help:"Serve the claim API on this machine, through the Lambda handler."`
	Campaign  campaignCommand  `cmd:"" help:"Create, show, open, close, change, delete and list campaigns."`
	Load      loadCommand      `cmd:"" help:"Load items from a file into a campaign, each once."`
	Claim     claimCommand     `cmd:"" help:"Claim an item for a claimant and print it. A repeated claim prints the same item."`
	Claims    claimsCommand    `cmd:"" help:"List the claims of a campaign, or export them into a file."`
	Confirm   confirmCommand   `cmd:"" help:"Make a hold permanent, for example when it is paid."`
	Release   releaseCommand   `cmd:"" help:"End a claim. Its item goes back to the bank or is burned."`
	Items     itemsCommand     `cmd:"" help:"List the free items of a campaign."`
	Forget    forgetCommand    `cmd:"" help:"Release all claims of a claimant, and block the claimant."`
	Withdraw  withdrawCommand  `cmd:"" help:"Take free items out of a campaign for good."`
	Sweep     sweepCommand     `cmd:"" help:"Close holds and claims that have ended, and take out items that have expired."`
	Links     linksCommand     `cmd:"" help:"Make personal links, with which customers claim."`
	Status    statusCommand    `cmd:"" help:"Count the items of a campaign: loaded, free, claimed, ended."`
	Lookup    lookupCommand    `cmd:"" help:"Say where an item is: free, held by whom and since when, or ended."`
	Audit     auditCommand     `cmd:"" help:"Say what the store knows of a claimant or an item, and what it does not know."`
	Reconcile reconcileCommand `cmd:"" help:"Check that every item is in exactly one place, and repair what is not."`
	Replay    replayCommand    `cmd:"" help:"Put claims back that the store has lost, as after a restore."`
	Dedupe    dedupeCommand    `cmd:"" help:"Remove duplicates from NDJSON files."`
	Ledger    ledgerCommand    `cmd:"" help:"Work on the entries of records."`
	Cost      costCommand      `cmd:"" help:"Compare what the ledgers of records cost for a stream."`
	Redrive   redriveCommand   `cmd:"" help:"List dead letters, and deliver them."`
	Objects   objectsCommand   `cmd:"" help:"List and verify the objects that the dedupe function writes into a bucket."`
	Kpl       kplCommand       `cmd:"" help:"Decode and encode aggregated records of the Kinesis Producer Library."`
	Invoke    invokeCommand    `cmd:"" help:"Send one event through a Lambda handler and print its reply."`
	Doctor    doctorCommand    `cmd:"" help:"Check the store and the settings, or a deployment and its permissions."`
	Demo      demoCommand      `cmd:"" help:"Show what oncebox does, on a store of its own, and check it."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
	Help      helpCommand      `cmd:"" help:"Explain a command."`

	Completion completionCommand `cmd:"" help:"Print how to turn on completion in bash, zsh or fish."`
}

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

// app is what commands work with besides their own flags.
type app struct {
	globals
	stdin          io.Reader
	stdout, stderr io.Writer
}

// parser is the parser of the command line.
type parser struct {
	*kong.Kong
	variables variables
}

func newParser(c *cli) (*parser, error) {
	p := &parser{variables: variables{}}
	var err error
	p.Kong, err = kong.New(c,
		kong.Name("oncebox"),
		kong.Description("Hands out the items of a campaign (voucher codes, seats, places) so that no two claimants hold one item, "+
			"and gives every claimant the same item however often they ask. Removes duplicates from streams of records."),
		kong.Vars{"version": "oncebox " + currentVersion()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Help(printHelp),
		kong.ValueFormatter(p.variables.describe),
		kong.PostBuild(p.variables.attach),
		valueMappers,
	)
	return p, err
}
