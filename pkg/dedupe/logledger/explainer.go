package logledger

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// Explainer implements dedupe.Explainer on a log. It needs no memory for entries, because it reads the log, except the
// part that is past its purge time.
type Explainer struct {
	Storage Storage
	Now     func() time.Time
}

var _ dedupe.Explainer = Explainer{}

// Explain finds the rows under the key of the record's id, including the rows of synthetic records. A row has no
// arrival, but its item has the earliest and the latest one.
func (x Explainer) Explain(ctx context.Context, scope string, c dedupe.Candidate) (dedupe.Explanation, error) {
	key := format.KeyOf(c.ID)
	rows, err := Explain(ctx, x.Storage, scope, key, x.Now())
	if err != nil {
		return dedupe.Explanation{}, err
	}
	var e dedupe.Explanation
	var seen dedupe.Seen
	for _, r := range rows {
		entry := r.explained(key, c)
		e.Entries = append(e.Entries, entry)
		if !entry.Counts {
			continue
		}
		seen.Same = seen.Same || entry.Same
		seen.Other = seen.Other || !entry.Same
		seen.Mine = seen.Mine || entry.Mine
		if entry.Mine && r.Derived {
			e.Answer.Derived = 1
		}
	}
	if e.Answer.Found = seen.Found(); e.Answer.Found == dedupe.Other {
		e.Answer = dedupe.Answer{Found: dedupe.Put, Derived: 1}
	}
	if c.Fingerprint == "" {
		e.Answer = dedupe.Answer{}
	}
	return e, nil
}

// explained returns the row in the form for people.
func (e Entry) explained(key dedupe.Key, c dedupe.Candidate) dedupe.ExplainedEntry {
	since, until := e.First.Add(-e.Window), e.Last.Add(e.Window)
	x := dedupe.ExplainedEntry{
		ID: c.ID, Owner: "tag " + hex.EncodeToString(e.Tag[:]), Content: hex.EncodeToString(e.Content[:]),
		PurgeAt: e.PurgeAt, Since: since, Until: until,
		Place: fmt.Sprintf("lane %d, epoch %d, item %d", e.Lane, e.Epoch, e.Index),
		Mine:  e.HasOwner(c.Owner), Same: e.HasContent(key, c.Fingerprint),
		Counts: !c.Arrival.Before(since) && !c.Arrival.After(until),
	}
	if e.First.Equal(e.Last) {
		x.Arrival = e.First
	}
	if !e.Derived {
		return x
	}
	if x.ID = ""; x.Same {
		x.ID = format.DerivedID(c.ID, c.Fingerprint)
	}
	return x
}
