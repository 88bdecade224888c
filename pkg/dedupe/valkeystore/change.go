package valkeystore

import "github.com/oncebox/oncebox/pkg/dedupe"

// enterIn enters records in a list of servers and sets the answer of each.
type enterIn func(records []record, answers []dedupe.Answer)

// change is a change of the servers, or of their buckets. Only a record's arrival decides which it is entered in. If
// two calls could use another order, each of two copies could find the other one, in the servers that it asks second:
// both would be dropped.
type change struct {
	since, until      int64 // the first and the last arrival that is entered in both, in milliseconds
	previous, current enterIn
}

// enter enters the records up to until in the previous servers: there are the rows that they may be copies of. What is
// entered there from since on is also entered in the current servers, for the records after until. It keeps the id that
// it has on the previous ones. Then the answer of the current servers counts: a record that they know as a copy was
// dropped, or will be, and may have an entry in the previous ones, too.
//
// The result is that of one record at a time, because no answer of the previous servers depends on the current ones.
func (c change) enter(records []record, answers []dedupe.Answer) {
	var old, next []record
	var mine []int // indexes of what is mine on the previous servers
	for _, r := range records {
		if r.arrival <= c.until {
			old = append(old, r)
		}
	}
	c.previous(old, answers)
	for _, r := range records {
		a := answers[r.index]
		switch {
		case r.arrival > c.until:
			next = append(next, r)
		case r.arrival >= c.since && (a.Found == dedupe.Put || a.Found == dedupe.Mine):
			if r.has = ownID; a.Derived > 0 {
				r.has = derivedID
			}
			if a.Found == dedupe.Mine {
				mine = append(mine, r.index)
			}
			next = append(next, r)
		}
	}
	c.current(next, answers)
	for _, index := range mine {
		if answers[index].Found == dedupe.Put {
			answers[index].Found = dedupe.Mine // the call that entered it before ended in between
		}
	}
}
