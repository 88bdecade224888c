// Package scratch names the campaigns that `oncebox doctor --deployed` makes, plays with and deletes.
package scratch

import "strings"

// Prefix begins the name of every scratch campaign, and of its items and claimants. A suffix and a kind follow.
const Prefix = "oncebox-doctor-"

// The kinds of scratch campaigns.
const (
	Holds = "holds" // its claims are holds, whose items return
	Ended = "ended" // its items have ended
)

const suffixDigits = 12

// Campaign returns the name of the campaign of a kind in a run, whose suffix has 12 hexadecimal digits.
func Campaign(suffix, kind string) string { return Prefix + suffix + "-" + kind }

// IsCampaign reports whether a campaign has the name of a scratch campaign.
func IsCampaign(campaign string) bool {
	rest, ok := strings.CutPrefix(campaign, Prefix)
	suffix, kind, _ := strings.Cut(rest, "-")
	isSuffix := len(suffix) == suffixDigits && strings.Trim(suffix, "0123456789abcdef") == ""
	return ok && isSuffix && (kind == Holds || kind == Ended)
}
