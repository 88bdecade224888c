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
// What the previous servers drop is only looked up in the current ones. If it has a row there, it was not dropped before:
// the previous servers have lost its row since, and have that of a copy, which was dropped for it.
//
// The result is that of one record at a time, because no answer of the previous servers depends on the current ones.
func (c change) enter(records []record, answers []dedupe.Answer) {
	var old, next []record
	for _, r := range records {
		if r.arrival <= c.until {
			old = append(old, r)
		}
	}
	c.previous(old, answers)
	before := map[int]dedupe.Answer{} // by index, of the records that are looked for in both
	for _, r := range records {
		a := answers[r.index]
		if r.arrival < c.since || r.arrival <= c.until && a.Err != nil {
			continue
		}
		if r.arrival <= c.until {
			before[r.index] = a
			r.has = held(a)
		}
		next = append(next, r)
	}
	c.current(next, answers)
	for index, a := range before {
		answers[index] = both(a, answers[index])
	}
}

// held says which id a record has by an answer of the previous servers.
func held(a dedupe.Answer) heldID {
	switch {
	case a.Found != dedupe.Put && a.Found != dedupe.Mine:
		return dropped
	case a.Derived > 0:
		return derivedID
	}
	return ownID
}

// both is the answer that follows from those of the previous and of the current servers.
func both(previous, current dedupe.Answer) dedupe.Answer {
	switch {
	case current.Err != nil || current.Found == dedupe.Mine:
	case held(previous) == dropped:
		return previous
	case previous.Found == dedupe.Mine && current.Found == dedupe.Put:
		current.Found = dedupe.Mine // the call that entered it before ended in between
	}
	return current
}
