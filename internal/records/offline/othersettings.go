package offline

import (
	"context"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// OtherSettings is an entry whose fingerprint was made with other settings than those of a record of the same id. Such
// fingerprints are never equal, so a copy of the record passes under a new id.
type OtherSettings struct {
	ID    string `json:"id"`
	Owner string `json:"owner"` // of the record that holds the entry
}

// FindOtherSettings looks at the first record whose id another record has, and returns the entry of its id if no
// candidate has the version of that entry's fingerprint. It returns nil if that entry is void, or if the store cannot be
// asked: the result is only for a warning.
func FindOtherSettings(
	ctx context.Context, store any, scope string, candidates []dedupe.Candidate, decisions []dedupe.Decision,
) *OtherSettings {
	x, ok := store.(dedupe.Explainer)
	at := slices.IndexFunc(decisions, func(d dedupe.Decision) bool { return d.Outcome == dedupe.Synthetic })
	if !ok || at < 0 {
		return nil
	}
	c := dedupe.Candidate{ID: candidates[at].ID, Arrival: candidates[at].Arrival} // without a fingerprint: only the id's entry
	explained, err := x.Explain(ctx, scope, c)
	if err != nil || len(explained.Entries) == 0 || explained.Entries[0].Void {
		return nil
	}
	e := explained.Entries[0]
	sameVersion := func(c dedupe.Candidate) bool { return c.Version == e.Version }
	if !namesSettings(e.Version) || slices.ContainsFunc(candidates, sameVersion) {
		return nil
	}
	return &OtherSettings{ID: c.ID, Owner: e.Owner}
}

// namesSettings reports whether a version says which settings made the fingerprint: see format.Fields. The versions of
// Parquet columns and of the events manifest of Snowplow do not.
func namesSettings(version string) bool { return strings.Contains(version, "-") }
