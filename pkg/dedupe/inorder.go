package dedupe

import "github.com/oncebox/oncebox/pkg/format"

// Table is the entries of one scope, as EnterInOrder uses them in a ledger in memory. It never fails.
type Table interface {
	// Find returns the entry of a key, if there is one. Its Done is never set.
	Find(key Key) (e Existing, found bool)
	// Set adds an entry, or replaces the entry of the same key.
	Set(key Key, e Existing)
}

// EnterInOrder implements Ledger.Enter for a ledger in memory. It enters one record after the other, by the rule of
// ByKey.
func EnterInOrder(t Table, q Question) []Answer {
	answers := make([]Answer, len(q.Records))
	e := entering{Question: q}
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

// enterInto answers a record, under its own id or a derived one. It raises the purge times of the entries under the
// earlier ids, for the reason in the comment of deriveAll.
func (e entering) enterInto(t Table, p *pending) {
	for {
		holder, found := t.Find(p.key)
		switch {
		case !found || holder.PurgedAt(p.Arrival):
			t.Set(p.key, e.entryOf(p).Existing())
			p.found(Put, nil)
			return
		case e.compare(holder, p) == answered:
			return
		}
		holder.PurgeAt = later(holder.PurgeAt, e.Retention.PurgeAt(p.Arrival))
		t.Set(p.key, holder)
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
