// Package claims holds the commands of campaigns, their items and their claims.
package claims

// CampaignCommands work on campaigns, their items and their claims.
type CampaignCommands struct {
	Campaign campaignCommand `cmd:"" help:"Create, show, open, close, change, delete and list campaigns."`
	Generate generateCommand `cmd:"" help:"Make random codes for a campaign, in a file."`
	Load     loadCommand     `cmd:"" help:"Load items from a file into a campaign, each once."`
	Claim    claimCommand    `cmd:"" help:"Claim an item for a claimant and print it. A repeated claim prints the same item."`
	Claims   claimsCommand   `cmd:"" help:"List the claims of a campaign, or export them into a file."`
	Confirm  confirmCommand  `cmd:"" help:"Make a hold permanent, for example when it is paid."`
	Prolong  prolongCommand  `cmd:"" help:"Give a hold more time, for example to a customer who is paying."`
	Release  releaseCommand  `cmd:"" help:"End a claim. Its item goes back to the bank or is burned."`
	Replace  replaceCommand  `cmd:"" help:"Give a claimant another item, for example for a code that does not work."`
	Items    itemsCommand    `cmd:"" help:"List the free items of a campaign."`
	Forget   forgetCommand   `cmd:"" help:"Release all claims of a claimant, and block the claimant."`
	Withdraw withdrawCommand `cmd:"" help:"Take free items out of a campaign for good."`
	Sweep    sweepCommand    `cmd:"" help:"Close holds and claims that have ended, and take out items that have expired."`
}

// SupportCommands say what the store holds, check it, and repair it.
type SupportCommands struct {
	Status    statusCommand    `cmd:"" help:"Count the items of a campaign: loaded, free, claimed, ended."`
	Lookup    lookupCommand    `cmd:"" help:"Say where an item is: free, held by whom and since when, or ended."`
	Audit     auditCommand     `cmd:"" help:"Say what the store knows of a claimant or an item, and what it does not know."`
	Reconcile reconcileCommand `cmd:"" help:"Check that every item is in exactly one place, and repair what is not."`
	Replay    replayCommand    `cmd:"" help:"Put claims back that the store has lost, as after a restore."`
}
