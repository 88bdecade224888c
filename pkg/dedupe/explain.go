package dedupe

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// Explainer is a Ledger that can show people its entries for a record, as `oncebox ledger explain` does.
type Explainer interface {
	// Explain changes nothing, and reads consistently. It needs the ID and the Arrival of the record. If the record
	// has an Owner, Explain marks the entries that this owner holds. If it has no Fingerprint, Explain finds only the
	// entries of the ID, and returns no Answer. An engine that is busy, throttled or out of reach returns an error of
	// the family ErrTryAgain.
	Explain(ctx context.Context, scope string, c Candidate) (Explanation, error)
}

// Explanation has the entries of a ledger for a record.
type Explanation struct {
	Entries []ExplainedEntry // first of the record's id, then of the ids that may be derived for it
	Answer  Answer           // the answer that Enter would give now
}

// ExplainedEntry is an entry for people. A field is empty if the engine does not store it.
type ExplainedEntry struct {
	ID      string    // the id of the entry; empty if it was derived from an unknown content
	Owner   string    // of the record that holds the entry; may be shortened
	Content string    // digest of its fingerprint, in hexadecimal digits
	Version string    // of the settings that made the fingerprint
	Arrival time.Time // of the record that holds the entry
	PurgeAt int64     // epoch seconds, or Never
	// Since and Until are the first and the last arrival for which the entry counts. Zero: it counts until PurgeAt.
	Since, Until time.Time
	Done         bool   // as in Entry
	Hold         Hold   // as in Entry
	Place        string // where the engine stores it
	Mine         bool   // this record holds the entry
	Same         bool   // the entry has the fingerprint of this record
	Counts       bool   // the entry counts for a record of this arrival
	Void         bool   // it does not count, because a run over files has put it and not saved its line
}

// StoredEntry is an entry that an engine with one row for each key reads for FindByKey and ExplainByKey.
type StoredEntry struct {
	Existing
	Owner   string // in the form for people
	Version string
	Arrival time.Time
	Place   string
	Void    bool // not Settled
}

// FindByKey implements Finder.Find for an engine that stores one row for each key. read returns the entries of the
// keys in their order, and nil for a key without an entry. An entry that is Void does not count.
func FindByKey(ctx context.Context, keys []Key, read func(context.Context, []Key) ([]*StoredEntry, error)) ([]*Existing, error) {
	stored, err := read(ctx, keys)
	if err := checkNumber(len(stored), len(keys), err); err != nil {
		return nil, err
	}
	found := make([]*Existing, len(keys))
	for i, e := range stored {
		if e != nil && !e.Void {
			found[i] = &e.Existing
		}
	}
	return found, nil
}

// ExplainByKey implements Explainer.Explain for an engine that stores one row for each key. read is as for
// FindByKey.
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
	known := readOnlyTable{}
	for i, s := range stored {
		if s == nil {
			continue
		}
		if !s.Void {
			known[keys[i]] = s.Existing
		}
		e.Entries = append(e.Entries, ExplainedEntry{
			ID: ids[i], Owner: s.Owner, Content: hex.EncodeToString(s.Content[:]), Version: s.Version, Arrival: s.Arrival,
			PurgeAt: s.PurgeAt, Done: s.Done, Hold: s.Hold, Place: s.Place,
			Mine: s.Existing.Owner == c.Owner.Digest(), Same: s.Content == ContentDigest(c.Fingerprint),
			Void: s.Void, Counts: !s.Void && !s.PurgedAt(c.Arrival),
		})
	}
	if c.Fingerprint != "" {
		e.Answer = EnterInOrder(known, Question{Retention: Retention{ForGood: true}, Records: []Candidate{c}})[0]
	}
	return e, nil
}

// readOnlyTable is a Table that ignores new entries.
type readOnlyTable map[Key]Existing

func (u readOnlyTable) Find(key Key) (Existing, bool) {
	e, found := u[key]
	return e, found
}

func (readOnlyTable) Set(Key, Existing) {}
