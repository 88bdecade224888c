package valkeystore

import "github.com/oncebox/oncebox/pkg/dedupe"

// enterIn enters records in a list of servers and sets their answers.
type enterIn func(records []record, answers []dedupe.Answer)

// change is a change of the servers, or of their buckets. Only a record's arrival decides in which of them it is
// entered. If two calls used different orders, each of two copies could find the other one in the servers that it
// asks second. Both would then be dropped.
type change struct {
	since, until      int64 // the first and the last arrival that is entered in both, in milliseconds since 1970
	previous, current enterIn
}

// enter first enters the records up to until in the previous servers, which have the rows of earlier copies. Of
// these, it enters the records from since on also in the current servers, for the sake of records after until. A
// record keeps the id that it has on the previous servers. The answer of the current servers then counts: if they
// know the record as a copy, it was or will be dropped, even if it has an entry in the previous servers.
//
// A record that the previous servers drop is only looked up in the current ones. If it has a row there, it was not
// dropped before: the previous servers have since lost its row, and have the row of a copy that was dropped for it.
//
// The result is the same as for one record at a time, because no answer of the previous servers depends on the
// current ones.
func (c change) enter(records []record, answers []dedupe.Answer) {
	var old, next []record
	for _, r := range records {
		if r.arrival <= c.until {
			old = append(old, r)
		}
	}
	c.previous(old, answers)
	before := map[int]dedupe.Answer{} // by index: the previous servers' answers for records that are in both
	for _, r := range records {
		a := answers[r.index]
		if r.arrival < c.since || r.arrival <= c.until && a.Err != nil {
			continue
		}
		if r.arrival <= c.until {
			before[r.index] = a
			r.has = heldIDOf(a)
		}
		next = append(next, r)
	}
	c.current(next, answers)
	for index, a := range before {
		answers[index] = combine(a, answers[index])
	}
}

// heldIDOf returns which id a record has, from the answer of the previous servers.
func heldIDOf(a dedupe.Answer) heldID {
	switch {
	case a.Found != dedupe.Put && a.Found != dedupe.Mine:
		return dropped
	case a.Derived > 0:
		return derivedID
	}
	return ownID
}

// combine returns the answer that follows from the answers of the previous and of the current servers.
func combine(previous, current dedupe.Answer) dedupe.Answer {
	switch {
	case current.Err != nil || current.Found == dedupe.Mine:
	case heldIDOf(previous) == dropped:
		return previous
	case previous.Found == dedupe.Mine && current.Found == dedupe.Put:
		current.Found = dedupe.Mine // an earlier call ended between the two parts
	}
	return current
}
