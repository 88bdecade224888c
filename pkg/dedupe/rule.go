package dedupe

// Seen says which entries a ledger has seen under the key of a record, among those that count for it.
type Seen struct {
	Mine  bool // one of this record
	Same  bool // one of another record with the same fingerprint
	Other bool // one with another fingerprint
}

// Found is the rule of all ledgers. The owner comes first: a record is never a duplicate of itself, even if its
// fingerprint has changed. Put says that the record gets an entry. Other says that the record needs an entry of its own
// under a derived id, unless it keeps its id.
func (s Seen) Found() Found {
	switch {
	case s.Mine:
		return Mine
	case s.Same:
		return Same
	case s.Other:
		return Other
	}
	return Put
}
