package main

// grammar is the grammar of the command line.
type grammar struct {
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
