package offline

import (
	"context"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// IDs says which records get a derived id.
type IDs string

// These are the policies.
const (
	// FirstKeeps lets the first record of an id keep it; synthetic duplicates get a derived id.
	FirstKeeps IDs = "first-keeps"
	// Derived gives every record a derived id, so that the ids do not depend on the order of the records.
	Derived IDs = "derived"
	// RenameAll gives a derived id to every record whose key has two or more fingerprints in the inputs. The other
	// records are decided as with FirstKeeps. To find these keys, the inputs are read once more.
	RenameAll IDs = "rename-all"
)

// setDerive marks the records that always get a derived id.
func (r *run) setDerive(ctx context.Context, candidates []dedupe.Candidate) error {
	switch r.IDs {
	case Derived:
		for i := range candidates {
			candidates[i].Derive = true
		}
	case RenameAll:
		return r.shared.mark(ctx, candidates)
	}
	return nil
}

// possibleKeys returns all keys under which a record may be entered in the ledger.
func (r *run) possibleKeys(fields format.Fields) []format.Key {
	keys := dedupe.PossibleKeys(fields.ID, fields.Fingerprint)
	if r.IDs == FirstKeeps {
		return keys[:]
	}
	derived := dedupe.PossibleKeys(format.DerivedID(fields.ID, fields.Fingerprint), fields.Fingerprint)
	return append(keys[:], derived[len(derived)-1])
}
