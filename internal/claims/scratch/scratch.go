// Package scratch names the campaigns that `oncebox doctor --deployed` makes, uses and deletes.
package scratch

import "strings"

// Prefix is the beginning of the names of all scratch campaigns, and of their items and claimants. A suffix and a
// kind follow.
const Prefix = "oncebox-doctor-"

// These are the kinds of scratch campaigns.
const (
	Holds = "holds" // its claims are holds, whose items return
	Ended = "ended" // its items have ended
)

const suffixDigits = 12

// Campaign returns the name of a campaign for a kind and for the suffix of a run, which has 12 hexadecimal digits.
func Campaign(suffix, kind string) string { return Prefix + suffix + "-" + kind }

// IsCampaign reports whether a campaign has the name of a scratch campaign.
func IsCampaign(campaign string) bool {
	rest, ok := strings.CutPrefix(campaign, Prefix)
	suffix, kind, _ := strings.Cut(rest, "-")
	isSuffix := len(suffix) == suffixDigits && strings.Trim(suffix, "0123456789abcdef") == ""
	return ok && isSuffix && (kind == Holds || kind == Ended)
}
