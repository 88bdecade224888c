package main

// linkCommands work on personal links.
type linkCommands struct {
	Links linksCommand `cmd:"" help:"Make personal links, with which customers claim."`
}
