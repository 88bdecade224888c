// Package lease has what idempotent calls and messages of queues have in common: what the row of an operation means for
// somebody who wants to begin it, and when a lease ends.
//
// A row has the token of the execution that wrote it. It is in progress until its lease ends, and then done.
package lease

import "time"

// boundsApart is how far apart the early and the late clock of a server are after a quick reply. A lease is longer by
// this, so that its holder, who asks the late clock, has all of it.
const boundsApart = 2 * time.Second

// End returns the end of a lease that begins now. early is the early clock: a lease that ends too early is seen by its
// holder, and a lease that ends too late blocks others.
func End(early time.Time, lease time.Duration) time.Time {
	return early.Add(lease + boundsApart).Truncate(time.Millisecond)
}

// Row is a row, as the one who wants to begin sees it.
type Row struct {
	Done bool      // the operation is done; otherwise it is in progress
	Mine bool      // the row has the token of the one who asks
	Same bool      // the row has the payload of the one who asks
	Ends time.Time // of a done row: until when it counts; otherwise the end of its lease
}

// Decision is what a row means.
type Decision int

// The decisions.
const (
	Mine         Decision = iota // in progress, by the one who asks: an earlier try wrote it
	Free                         // the row does not count any more: take it over, on condition of what was read
	OtherPayload                 // the row counts, and belongs to another payload
	Done                         // the operation is done
	Twin                         // another execution has the operation in progress
)

// Counts reports whether the row still counts: its window or its lease is not over.
func (r Row) Counts(early time.Time) bool { return early.Before(r.Ends) }

// Decide says what a row means. early is the early clock of the reply that showed the row, and of no other: what belongs
// to others must not end too early.
func (r Row) Decide(early time.Time) Decision {
	switch {
	case r.Mine && !r.Done:
		return Mine
	case !r.Counts(early):
		return Free
	case !r.Same:
		return OtherPayload
	case r.Done:
		return Done
	}
	return Twin
}
