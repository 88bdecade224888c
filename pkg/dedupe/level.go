package dedupe

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// level is how a Processor delivers records: to a stream, into objects, or in transactions. NewProcessor chooses it
// once, by the sink among the parts.
type level interface {
	// Check is as in Sink.
	Check(ctx context.Context, o Output) error
	// chunk is the Settings.Chunk if none is set.
	chunk() int
	// forLetter is the level for a dead letter that comes again alone. name is the name of its object.
	forLetter(name string) level

	// open finds out which records of a batch are done. If it returns an error, the batch fails.
	open(ctx context.Context, r *batchRun) error
	// suspect checks for a wrong setting, when the records of a chunk are read.
	suspect(r *batchRun, users []userRecord) error
	// decide asks the ledger about the records of a chunk, and returns how long that took.
	decide(ctx context.Context, r *batchRun, users []userRecord) (took time.Duration)
	// deliver delivers user records, and dead-letters the poison among them. It returns the error of the first one that
	// is not done.
	deliver(ctx context.Context, r *batchRun, users []userRecord) error
}

// level returns the level of the sink among the parts.
func (p Parts) level() level {
	switch {
	case p.Tx != nil:
		return inTransactions{TxSink: p.Tx}
	case p.Objects != nil:
		return intoObjects{ObjectSink: p.Objects}
	}
	return toStream{Sink: p.Sink}
}

// byAcks is a part of a level whose records count as done by acks.
type byAcks struct{}

func (byAcks) chunk() int { return DefaultChunk }

func (byAcks) open(ctx context.Context, r *batchRun) error { //nolint:unparam // a level of objects may fail here
	r.readAcks(ctx)
	return nil
}

// byLedger is a part of a level whose records the ledger decides before they are delivered.
type byLedger struct{}

func (byLedger) suspect(r *batchRun, users []userRecord) error { return r.suspectSetting(users) }

func (byLedger) decide(ctx context.Context, r *batchRun, users []userRecord) time.Duration {
	begun := r.clock.Now()
	r.askLedger(ctx, users)
	return r.clock.Now().Sub(begun)
}

// askLedger asks the ledger about the records of a chunk. A record that it cannot decide comes again, and a message of a
// queue that is done does not.
func (r *batchRun) askLedger(ctx context.Context, users []userRecord) {
	candidates := make([]Candidate, len(users))
	asked := false
	for i := range users {
		u := &users[i]
		candidates[i] = Candidate{Owner: r.ownerOf(u), Poison: true}
		if u.open() {
			asked = true
			candidates[i] = Candidate{
				ID: u.fields.ID, Owner: r.ownerOf(u), Fingerprint: u.fields.Fingerprint, Version: u.fields.Version,
				Arrival: u.source.Arrival, Derive: r.settings.Derive,
			}
		}
	}
	if !asked {
		return
	}
	r.decider.decide(ctx, candidates, r.hold, func(i int) *Decision { return &users[i].decision })
	for i := range users {
		if u := &users[i]; u.open() {
			r.decided(u)
		}
	}
}

func (r *batchRun) decided(u *userRecord) {
	d := &u.decision
	if d.Outcome == Undecided {
		u.err = cmp.Or(d.Err, errIncomplete)
	}
	if r.hold == nil || d.Outcome != New && d.Outcome != Retry {
		return
	}
	if u.acked = d.state.value().done; !u.acked && !d.state.value().held {
		u.err = fmt.Errorf("%w: the ledger does not hold the entry of a message", errMisfit)
	}
}
