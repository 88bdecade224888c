package dedupe

import "github.com/oncebox/oncebox/pkg/format"

// Table is what EnterInOrder needs of a ledger that is in memory: the entries of one scope. It never fails.
type Table interface {
	// Find returns the entry of a key, or nil. The entry may be changed until the next call of Add.
	Find(key Key) *Existing
	// Add adds the entry of a key that has none.
	Add(key Key, e Existing)
}

// EnterInOrder is Ledger.Enter for a ledger in memory. It enters one record after the other, by the rule of EnterByKey.
func EnterInOrder(t Table, q Question) []Answer {
	answers := make([]Answer, len(q.Records))
	e := byKey{Question: q}
	for i := range q.Records {
		c := &q.Records[i]
		if c.Poison {
			continue
		}
		p := pending{Candidate: c, index: i, id: c.ID, key: format.KeyOf(c.ID), answer: &answers[i]}
		e.enterInto(t, &p)
	}
	return answers
}

// enterInto answers a record, under its own id or a derived one. The entries that hold the ids before are raised for
// the reason that deriveAll names.
func (e byKey) enterInto(t Table, p *pending) {
	for {
		holder := t.Find(p.key)
		switch {
		case holder == nil:
			t.Add(p.key, e.entryOf(p).Existing())
			p.found(Put)
			return
		case purgedAt(holder.PurgeAt, p.Arrival):
			*holder = e.entryOf(p).Existing()
			p.found(Put)
			return
		case !e.compare(*holder, p):
			return
		}
		holder.PurgeAt = later(holder.PurgeAt, e.Retention.PurgeAt(p.Arrival))
		p.derive()
	}
}

// later returns the later one of two purge times.
func later(a, b int64) int64 {
	if a == Never || b == Never {
		return Never
	}
	return max(a, b)
}
