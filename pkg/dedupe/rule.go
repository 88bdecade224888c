package dedupe

// Seen says which entries a ledger found under the key of a record. It covers only the entries that count for the
// record.
type Seen struct {
	Mine  bool // an entry of this record
	Same  bool // an entry of another record with the same fingerprint
	Other bool // an entry with another fingerprint
}

// Found is the rule of all ledgers. Mine comes first: a record is never a duplicate of itself, even if its
// fingerprint has changed. Put means that the record gets the entry. Other means that the record needs another entry
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
