// Package links holds the commands of personal links.
package links

// Commands work on personal links.
type Commands struct {
	Links linksCommand `cmd:"" help:"Make personal links, with which customers claim."`
}
