package offline

import (
	"context"
	"slices"

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

// ask asks the ledger about candidates by the policy of ids. It may return the decisions of the first candidates only,
// if one of these is Undecided.
func (r *run) ask(ctx context.Context, candidates []dedupe.Candidate) (decisions []dedupe.Decision, err error) {
	switch r.IDs {
	case Derived:
		for i := range candidates {
			candidates[i].Derive = true
		}
	case RenameAll:
		if err := r.shared.mark(ctx, candidates); err != nil {
			return nil, err
		}
		for len(candidates) > 0 && !slices.ContainsFunc(decisions, isUndecided) {
			n := askedTogether(candidates)
			decisions = append(decisions, r.askToRename(ctx, candidates[:n])...)
			candidates = candidates[n:]
		}
		return decisions, nil
	}
	return r.decideOwn(ctx, candidates), nil
}

// decideOwn decides candidates. A record that this run has decided before gets its first outcome again, so that the
// counts of a run do not depend on stops. Only an owner that the record names can be that of an earlier record: then a
// retry stays a retry.
func (r *run) decideOwn(ctx context.Context, candidates []dedupe.Candidate) []dedupe.Decision {
	decisions := r.decider.Decide(ctx, candidates)
	for i, c := range candidates {
		if decisions[i].Outcome != dedupe.Retry || isNamed(c.Owner) {
			continue
		}
		if c.Derive {
			c.ID = format.DerivedID(c.ID, c.Fingerprint)
		}
		if decisions[i].Outcome = dedupe.New; decisions[i].ID != c.ID {
			decisions[i].Outcome = dedupe.Synthetic
		}
	}
	return decisions
}

func isUndecided(d dedupe.Decision) bool { return d.Outcome == dedupe.Undecided }

// askToRename decides candidates for RenameAll. Each is decided under its own id, as with FirstKeeps: so it is a copy of
// a record of another run, whether that run has renamed it or not. A record that would keep its id and must not is
// then entered under its derived id, too. So no other record gets that id.
func (r *run) askToRename(ctx context.Context, candidates []dedupe.Candidate) []dedupe.Decision {
	own := slices.Clone(candidates)
	for i := range own {
		own[i].Derive = false
	}
	decisions := r.decideOwn(ctx, own)
	if slices.ContainsFunc(decisions, isUndecided) {
		return decisions
	}
	var keep []dedupe.Candidate
	var at []int // the indexes of these candidates
	for i, d := range decisions {
		if c := candidates[i]; c.Derive && d.ID == c.ID && (d.Outcome == dedupe.New || d.Outcome == dedupe.Retry) {
			keep, at = append(keep, c), append(at, i)
		}
	}
	if len(keep) > 0 {
		for i, d := range r.decideOwn(ctx, keep) {
			decisions[at[i]] = d
		}
	}
	return decisions
}

// askedTogether returns the number of candidates that can be asked about together, so that the result is as if they
// were asked about one by one. It ends before a candidate whose own id may be derived for an earlier one. If records name
// their owners, an earlier record may have the same id and fingerprint and be a retry: so it ends before that, too.
func askedTogether(candidates []dedupe.Candidate) int {
	derived := map[format.Key]bool{}
	for i, c := range candidates {
		if derived[format.KeyOf(c.ID)] {
			return i
		}
		if !c.Derive {
			continue
		}
		keys := derivedKeys(c.ID, c.Fingerprint)
		if isNamed(c.Owner) && derived[keys[0]] {
			return i
		}
		for _, key := range keys {
			derived[key] = true
		}
	}
	return len(candidates)
}

// derivedKeys returns the keys under which a record with a derived id may be entered.
func derivedKeys(id, fingerprint string) [1 + dedupe.MaxDerivations]format.Key {
	return dedupe.PossibleKeys(format.DerivedID(id, fingerprint), fingerprint)
}

// possibleKeys returns all keys under which a record may be entered in the ledger.
func (r *run) possibleKeys(fields format.Fields) []format.Key {
	keys := dedupe.PossibleKeys(fields.ID, fields.Fingerprint)
	if r.IDs == FirstKeeps {
		return keys[:]
	}
	derived := derivedKeys(fields.ID, fields.Fingerprint)
	return append(keys[:], derived[len(derived)-1])
}
