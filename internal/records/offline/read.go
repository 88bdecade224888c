package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// maxBatch limits the bytes of a batch's lines, whatever their number is.
const maxBatch = 16 << 20

// These errors make a record poison here, but not in package dedupe.
var (
	errTooLong = &dedupe.PoisonError{Reason: fmt.Sprintf("longer than %d bytes", maxLine)}
	errTooOld  = &dedupe.PoisonError{Reason: "past the horizon: the record of which it is a copy may be forgotten"}
)

// batch holds lines that are decided and written together.
type batch struct {
	records []*record
	bytes   int
	last    bool // no line follows the batch
	// earliest is the earliest arrival for each key under which a record may be entered, in seconds rounded up. See
	// mayReplaceEntry.
	earliest map[format.Key]int64
}

// endsTooLong reports whether the last line of the batch is too long. The rest of that line has not been read yet.
func (b *batch) endsTooLong() bool {
	return len(b.records) > 0 && b.records[len(b.records)-1].tooLong
}

// record is a line with the values that are read from it.
type record struct {
	line
	size     int64 // the number of bytes of the input up to the line's end
	blank    bool
	poison   *dedupe.PoisonError // nil unless the record can never be processed
	entered  bool                // it is of a dead letter, and has an entry of an earlier run
	fields   format.Fields
	owner    dedupe.Owner
	arrival  time.Time
	decision dedupe.Decision
}

// isRecord reports whether the line is a record that needs a decision.
func (r *record) isRecord() bool { return !r.blank && r.poison == nil }

// read reads a batch. A batch ends with a line that is too long. If the store forgets, it also ends with a piece:
// large batches bring nothing then, and a stream may pause.
func (r *run) read(ctx context.Context) (*batch, error) {
	b := &r.batch
	b.reset()
	for len(b.records) < r.BatchSize && b.bytes < maxBatch && !b.endsTooLong() {
		rec, err := r.nextRecord(ctx)
		if b.last = errors.Is(err, io.EOF); b.last {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if r.mayReplaceEntry(b, rec) {
			return b, nil
		}
		r.piece.taken++
		b.records = append(b.records, rec)
		b.bytes += len(rec.text)
		if r.Forgets && r.piece.allTaken() {
			break
		}
	}
	return b, nil
}

// reset makes the batch empty. It keeps the memory.
func (b *batch) reset() {
	clear(b.earliest)
	*b = batch{records: b.records[:0], earliest: b.earliest}
}

// nextRecord returns the next record. It returns the same record until the caller takes it.
func (r *run) nextRecord(ctx context.Context) (*record, error) {
	for r.piece.allTaken() {
		if r.piece.last {
			return nil, io.EOF
		}
		p, err := r.feed.next(ctx)
		if err != nil {
			return nil, err
		}
		r.used, r.piece = append(r.used, r.piece), p
	}
	rec := &r.piece.records[r.piece.taken]
	r.checkAge(rec)
	return rec, nil
}

// reusePieces gives the memory of finished lines back to the feed.
func (r *run) reusePieces() {
	for _, p := range r.used {
		r.feed.reuse(p)
	}
	r.used = r.used[:0]
}

// decode reads the values that identify a record. It runs for several records at once.
func (r *run) decode(ctx context.Context, rec *record) error {
	err := r.identify(ctx, rec)
	if err == nil && rec.isRecord() {
		rec.owner = r.ownerOf(rec)
	}
	return err
}

// identify reads the values that identify a record, except for its owner.
func (r *run) identify(ctx context.Context, rec *record) error {
	err := r.readFields(ctx, rec)
	if rec.arrival = rec.fields.Time; rec.arrival.IsZero() {
		rec.arrival = r.start
	}
	return err
}

// checkAge makes a record poison if it is past the horizon.
func (r *run) checkAge(rec *record) {
	keep := r.Retention
	if rec.isRecord() && !keep.ForGood && keep.Horizon > 0 && r.Now().Sub(rec.arrival) > keep.Horizon {
		rec.poison = errTooOld
	}
}

// readFields reads the fields of a line, if it is a record.
func (r *run) readFields(ctx context.Context, rec *record) error {
	switch {
	case rec.tooLong:
		rec.poison = errTooLong
	case rec.line.blank():
		rec.blank = true
	case r.Inputs[rec.file-1].Records == DeadLetters:
		rec.poison = rec.open(r.maxLine)
	}
	if !rec.isRecord() {
		return nil
	}
	fields, err := r.delivery.Read(ctx, dedupe.Output{Data: rec.text})
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		rec.poison = poison
		return nil
	}
	rec.fields = fields
	return err
}

// OwnerNamed returns the owner for a text at the owner path.
func OwnerNamed(text string) dedupe.Owner { return dedupe.Owner{Sequence: text, Sub: dedupe.Plain} }

// isNamed reports whether the record names its owner. Other owners have the run as their source.
func isNamed(owner dedupe.Owner) bool { return owner.Source == "" }

// ownerOf returns the identity of a record: the text at the owner path, or its run and its place in the inputs. The
// batch is not part of the identity. With an owner path, too, the entry says which line of which run has put it.
func (r *run) ownerOf(rec *record) dedupe.Owner {
	source, line := r.sources[rec.file-1], strconv.FormatInt(rec.number, 10)
	if rec.fields.Owner != "" {
		owner := OwnerNamed(rec.fields.Owner)
		owner.Place = source + "/" + line
		return owner
	}
	return dedupe.Owner{Source: source, Sequence: line, Sub: dedupe.Plain}
}

// mayReplaceEntry reports whether a record may replace an entry that decides an earlier record of the batch. If so,
// the batch must end before the record. Otherwise, if a crash repeated the batch, the earlier record would find the
// entry of the later one.
//
// An entry that decides a record is not purged before the record's arrival, and purge times are whole seconds. So
// only a record of a later second can replace the entry, under its own id or a derived id.
func (r *run) mayReplaceEntry(b *batch, rec *record) bool {
	if !r.entriesMayBeReplaced() || !rec.isRecord() {
		return false
	}
	second := rec.arrival.Add(time.Second - time.Nanosecond).Unix() // rounded up
	late := false
	for _, key := range r.possibleKeys(rec.fields) {
		earliest, seen := b.earliest[key]
		late = late || seen && earliest < second
		if !seen || second < earliest {
			b.earliest[key] = second
		}
	}
	return late
}

// entriesMayBeReplaced reports whether records of one run may replace each other's entries. If so, each batch is
// recorded.
func (r *run) entriesMayBeReplaced() bool { return !r.Retention.ForGood && r.Format.HasTimes() }
