package offline

import (
	"context"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Scratch is the ledger that a Preview writes to. It must be empty, and no other run may use it.
type Scratch interface {
	dedupe.Entries
	dedupe.Finder
}

// Preview is the store of a job that changes nothing. It gives the same answers as the ledger would: it reads the
// ledger's entries, and enters records in a scratch ledger. An entry of the scratch ledger hides the ledger's entry
// of the same key.
type Preview struct {
	dedupe.Ledger // of both
	dedupe.Runs   // is nil: a preview reads and saves no run
	ledger        dedupe.Finder
	scratch       Scratch

	// raised are the purge times to which it would have raised entries of Ledger, as for synthetic duplicates in a
	// window.
	raised map[dedupe.Key]int64
}

// NewPreview returns the store of a job that changes nothing in a ledger.
func NewPreview(ledger dedupe.Finder, scratch Scratch) *Preview {
	p := &Preview{ledger: ledger, scratch: scratch}
	p.Ledger = dedupe.ByKey(p)
	return p
}

// Explain shows entries of the ledger, if it can show them.
func (p *Preview) Explain(ctx context.Context, scope string, c dedupe.Candidate) (dedupe.Explanation, error) {
	if x, ok := p.ledger.(dedupe.Explainer); ok {
		return x.Explain(ctx, scope, c)
	}
	return dedupe.Explanation{}, nil
}

// SaveRun saves nothing.
func (p *Preview) SaveRun(context.Context, string, dedupe.Run) error { return nil }

// PutIfAbsent puts entries into the scratch ledger, unless the ledger has an entry with the key.
func (p *Preview) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	keys := make([]dedupe.Key, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	below, err := p.below(ctx, entries[0].Scope, keys)
	if err != nil {
		return nil, err
	}
	results := make([]dedupe.PutResult, len(entries))
	var put []dedupe.Entry
	var at []int // the indexes of these keys
	for i, e := range entries {
		if old := below[i]; old != nil && !old.PurgedAt(e.Arrival) {
			results[i].Existing = old
			continue
		}
		put, at = append(put, e), append(at, i)
	}
	puts, err := p.scratch.PutIfAbsent(ctx, put)
	if err != nil {
		return nil, err
	}
	for i, result := range puts {
		results[at[i]] = result
	}
	return results, nil
}

// below returns the entries of the ledger that the scratch ledger does not hide.
func (p *Preview) below(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.Existing, error) {
	above, err := p.scratch.Find(ctx, scope, keys)
	if err != nil {
		return nil, err
	}
	below, err := p.ledger.Find(ctx, scope, keys)
	if err != nil {
		return nil, err
	}
	for i, old := range below {
		if above[i] != nil {
			below[i] = nil
		} else if purgeAt, raised := p.raised[keys[i]]; old != nil && raised {
			old.PurgeAt = purgeAt
		}
	}
	return below, nil
}

// RaisePurge raises purge times in the scratch ledger. It remembers the purge times of the ledger's own entries.
func (p *Preview) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results, err := p.scratch.RaisePurge(ctx, raises)
	if err != nil || len(raises) == 0 {
		return results, err
	}
	keys := make([]dedupe.Key, len(raises))
	for i := range raises {
		keys[i] = raises[i].Key
	}
	below, err := p.below(ctx, raises[0].Scope, keys)
	if err != nil {
		return nil, err
	}
	for i, old := range below {
		if old == nil || old.Owner != raises[i].Owner {
			continue
		}
		results[i].Raised = true
		if to := raises[i].PurgeAt; old.PurgeAt != dedupe.Never && (to == dedupe.Never || to > old.PurgeAt) {
			if p.raised == nil {
				p.raised = map[dedupe.Key]int64{}
			}
			p.raised[keys[i]] = to
		}
	}
	return results, nil
}
