package dedupe

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// Explainer is a Ledger that tells people what it knows of a record, as for `oncebox ledger explain`.
type Explainer interface {
	// Explain changes nothing. It reads consistently. Of the record it needs the ID and the Arrival. An Owner, if there
	// is one, finds the entries that are its own. Without a Fingerprint it finds the entries of the ID alone, and there
	// is no Answer. An engine that is busy, throttled or out of reach returns an error of the family ErrTryAgain.
	Explain(ctx context.Context, scope string, c Candidate) (Explanation, error)
}

// Explanation is what a ledger knows of a record.
type Explanation struct {
	Entries []ExplainedEntry // of the record's id, then of the ids that may be derived for it
	Answer  Answer           // that of Enter, if the record was entered now
}

// ExplainedEntry is an entry for people. What the engine does not store is empty.
type ExplainedEntry struct {
	ID      string    // that the entry is for; empty for an id that was derived for a content that is not known
	Owner   string    // of the record that holds the entry, perhaps shortened
	Content string    // digest of its fingerprint, in hexadecimal digits
	Version string    // of the settings that made the fingerprint
	Arrival time.Time // of the record that holds the entry
	PurgeAt int64     // epoch seconds, or Never
	// Since and Until are the first and the last arrival for which it counts. Zero: it counts until PurgeAt.
	Since, Until time.Time
	Done         bool   // as in Entry
	Place        string // where the engine stores it
	Mine         bool   // the record holds the entry itself
	Same         bool   // the fingerprint is that of the record
	Counts       bool   // for a record of this arrival
}

// StoredEntry is an entry as an engine with one row a key reads it for ExplainByKey.
type StoredEntry struct {
	Existing
	Owner   string // as people read it
	Version string
	Arrival time.Time
	Place   string
}

// ExplainByKey is Explainer.Explain for an engine that stores one row a key. read returns the entries of keys, in their
// order, and nil for a key without an entry.
func ExplainByKey(ctx context.Context, c Candidate, read func(context.Context, []Key) ([]*StoredEntry, error)) (
	Explanation, error,
) {
	ids := []string{c.ID}
	if c.Fingerprint != "" {
		for i := range MaxDerivations {
			ids = append(ids, format.DerivedID(ids[i], c.Fingerprint))
		}
	}
	keys := make([]Key, len(ids))
	for i, id := range ids {
		keys[i] = format.KeyOf(id)
	}
	stored, err := read(ctx, keys)
	if err := checkNumber(len(stored), len(keys), err); err != nil {
		return Explanation{}, err
	}
	var e Explanation
	known := unchanged{}
	for i, s := range stored {
		if s == nil {
			continue
		}
		known[keys[i]] = s.Existing
		e.Entries = append(e.Entries, ExplainedEntry{
			ID: ids[i], Owner: s.Owner, Content: hex.EncodeToString(s.Content[:]), Version: s.Version, Arrival: s.Arrival,
			PurgeAt: s.PurgeAt, Done: s.Done, Place: s.Place,
			Mine: s.Existing.Owner == c.Owner.Digest(), Same: s.Content == ContentDigest(c.Fingerprint),
			Counts: !purgedAt(s.PurgeAt, c.Arrival),
		})
	}
	if c.Fingerprint != "" {
		e.Answer = EnterInOrder(known, Question{Retention: Retention{ForGood: true}, Records: []Candidate{c}})[0]
	}
	return e, nil
}

// unchanged is a Table that nothing is entered in.
type unchanged map[Key]Existing

func (u unchanged) Find(key Key) (Existing, bool) {
	e, found := u[key]
	return e, found
}

func (unchanged) Set(Key, Existing) {}
