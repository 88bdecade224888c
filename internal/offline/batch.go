package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// maxBatch bounds the bytes of a batch's lines, whatever their number.
const maxBatch = 8 << 20

// The reasons for which this package parks a record.
var (
	reasonTooLong = fmt.Sprintf("longer than %d bytes", maxLine)
	reasonTooOld  = "past the horizon: what it is a copy of may be forgotten"
	reasonNoID    = "its id and all ids derived from it are used by other records"
	reasonPanic   = "reading the record panicked"
)

// batch is lines that are decided, written and recorded together.
type batch struct {
	records []*record
	bytes   int
	last    bool // nothing comes after it
	// seconds has, for each key that a record has or may be given, the earliest
	// arrival, in seconds rounded up. See mayReplace.
	seconds map[format.Key]int64
}

// endsTooLong reports whether the last line of the batch is too long: its rest
// is to be read next.
func (b *batch) endsTooLong() bool {
	return len(b.records) > 0 && b.records[len(b.records)-1].tooLong
}

// record is a line on its way.
type record struct {
	line
	size     int64 // bytes of the inputs, up to the line's end
	blank    bool
	poison   string // why it is deadLetters; empty: it is not
	fields   format.Fields
	arrival  time.Time
	decision dedupe.Decision
}

// read reads a batch. A line that is too long ends it.
func (r *run) read(ctx context.Context) (*batch, error) {
	b := &batch{seconds: map[format.Key]int64{}}
	r.room = r.room[:0]
	for len(b.records) < r.BatchSize && b.bytes < maxBatch && !b.endsTooLong() {
		rec, err := r.next(ctx)
		if errors.Is(err, io.EOF) {
			b.last = true
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if r.mayReplace(b, rec) {
			rec.text = bytes.Clone(rec.text) // room will be the next batch's
			r.ahead = rec
			return b, nil
		}
		b.records = append(b.records, rec)
		b.bytes += len(rec.text)
	}
	return b, nil
}

// next reads the next record, or takes the one that was left.
func (r *run) next(ctx context.Context) (rec *record, err error) {
	if r.ahead != nil {
		rec, r.ahead = r.ahead, nil
		return rec, nil
	}
	rec = &record{}
	before := r.lines.done
	if rec.line, r.room, err = r.lines.next(ctx, r.room); err != nil {
		return nil, err
	}
	rec.size = r.lines.done - before
	switch {
	case rec.tooLong:
		rec.poison = reasonTooLong
	case rec.line.blank():
		rec.blank = true
	default:
		r.parse(rec)
	}
	return rec, nil
}

// parse reads what identifies a record. Whatever is wrong with it, a panic
// included, is that record's alone.
func (r *run) parse(rec *record) {
	defer rec.recover()
	fields, err := r.format.Read(rec.text)
	if err != nil {
		rec.poison = reasonOf(err)
		return
	}
	if fields.Owner == "" {
		fields.Owner = r.owner(rec.line)
	}
	rec.fields, rec.arrival = fields, fields.Time
	if rec.arrival.IsZero() {
		rec.arrival = r.start
	}
	keep := r.Retention
	if !keep.ForGood && keep.Horizon > 0 && r.Now().Sub(rec.arrival) > keep.Horizon {
		rec.poison = reasonTooOld
	}
}

func (rec *record) recover() {
	if recover() != nil {
		rec.poison = reasonPanic
	}
}

// reasonOf makes a reason of an error about a record: a fixed text, without
// anything from the record.
func reasonOf(err error) string {
	if bad, ok := errors.AsType[*format.BadRecord](err); ok {
		return bad.Reason
	}
	return fmt.Sprintf("it cannot be read (%T)", err)
}

// owner is the identity of a line: its run and its place, and never its batch.
func (r *run) owner(l line) string {
	b := append(make([]byte, 0, 64), "run/"...)
	b = append(b, r.at.ID...)
	b = strconv.AppendInt(append(b, '/'), int64(l.file), 10)
	b = strconv.AppendInt(append(b, ':'), l.number, 10)
	return string(b)
}

// mayReplace reports whether a record may replace an entry by which an earlier
// one of the batch is decided. Done again after a crash, the earlier one would
// meet the later one instead of what it is a copy of. So the batch ends here.
//
// An entry by which a record is decided is not purged before the record's
// arrival, and purge times are whole seconds. So only a record of a later second
// can replace it, under its own id or one that is derived from it.
func (r *run) mayReplace(b *batch, rec *record) bool {
	if !r.mustNotReplace() || rec.blank || rec.poison != "" {
		return false
	}
	second := rec.arrival.Add(time.Second - time.Nanosecond).Unix() // rounded up
	id, late := rec.fields.ID, false
	for range 1 + derivations {
		key := format.KeyOf(id)
		earliest, seen := b.seconds[key]
		late = late || seen && earliest < second
		if !seen || second < earliest {
			b.seconds[key] = second
		}
		id = format.DerivedID(id, rec.fields.Fingerprint)
	}
	return late
}

// mustNotReplace reports whether the records that a crash has done again could
// replace each other's entries. Each batch is recorded then.
func (r *run) mustNotReplace() bool { return !r.Retention.ForGood && r.Format.TimePath != "" }

// derivations is how many ids a Decider derives at most from a record's own.
const derivations = 3

// decide asks the ledger about the records that are not poison. The batch is
// decided if all of them are.
func (r *run) decide(ctx context.Context, b *batch) error {
	candidates := make([]dedupe.Candidate, 0, len(b.records))
	asked := make([]*record, 0, len(b.records))
	for _, rec := range b.records {
		if rec.blank || rec.poison != "" {
			continue
		}
		asked = append(asked, rec)
		candidates = append(candidates, dedupe.Candidate{
			ID: rec.fields.ID, Owner: rec.fields.Owner, Fingerprint: rec.fields.Fingerprint,
			Version: rec.fields.Version, Arrival: rec.arrival,
		})
	}
	if len(asked) == 0 {
		return nil
	}
	for i, decision := range r.decider.Decide(ctx, candidates) {
		if decision.Outcome == dedupe.Undecided {
			return decision.Err
		}
		asked[i].decision = decision
	}
	return nil
}
