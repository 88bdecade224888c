package history

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// ErrStopped says that an import ended early. The same import continues from there.
var ErrStopped = errors.New("stopped")

// Record is a record of the past.
type Record struct {
	// Fields are the record's id, its fingerprint with the fingerprint's version, and its time. A record without a
	// time counts from the beginning of the import.
	format.Fields
	Owner dedupe.Owner // the owner that the source names; otherwise it is made from id and fingerprint
	Place string       // the place of the record, for people
	Bad   string       // the reason why it cannot be entered; "" if it can
}

// Source yields the records of the past.
type Source interface {
	// Digest identifies the records and their order. It may be nil: then an import always reads all records.
	Digest(ctx context.Context) ([]byte, error)
	// Records returns the records. With a Digest their order is always the same.
	Records(ctx context.Context) iter.Seq2[Record, error]
}

// Store holds the methods that an import needs from an engine.
type Store interface {
	dedupe.Ledger
	dedupe.Runs
}

// Import enters the records of a source in a ledger. Scope, Retention and Derive must be those of the function or the
// runs that will process the copies.
type Import struct {
	Source    Source
	Settings  string // all options of the source that change its records: part of what identifies the import
	Store     Store
	Scope     string
	Retention dedupe.Retention
	Derive    bool // every record gets a derived id

	// Wait is called before this many records are entered, for example to limit the writes a second. It may be nil.
	Wait     func(ctx context.Context, records int) error
	Batch    int // the number of records that are entered at a time; 0 means 1,000
	Now      func() time.Time
	Clock    dedupe.Clock        // for tests
	Progress func(records int64) // may be nil
}

// Report counts the records of an import, including those that were entered before it was run again: Read = Entered +
// Known + Late + TooOld + Bad.
type Report struct {
	Resumed  int64 // records that an earlier process has done
	Finished bool  // the same import had finished before: nothing was done
	Read     int64
	Entered  int64
	Known    int64 // entered before, by this import or another one
	Late     int64 // the ledger had an entry of a copy from elsewhere, such as a function that already runs
	TooOld   int64 // the entry would be purged already
	Bad      int64
	FirstBad string // the place and the reason of the first bad record that this process has read
	// OtherSettings is an entry of the ledger that was made with other settings, if this process has found one.
	OtherSettings *offline.OtherSettings
}

const (
	defaultBatch = 1000
	recordEvery  = time.Second
	saveTimeout  = 10 * time.Second
)

// Run runs the import. It is safe to repeat at any time. The report is valid with ErrStopped, too. Any other error
// comes before the first entry.
func (i *Import) Run(ctx context.Context) (Report, error) {
	r := &running{Import: *i, decider: dedupe.Decider{
		Ledger: i.Store, Scope: i.Scope, Retention: i.Retention, Clock: i.Clock,
	}}
	if r.Batch == 0 {
		r.Batch = defaultBatch
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if err := r.begin(ctx); err != nil || r.report.Finished {
		return r.report, err
	}
	if err := r.work(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), r.saveLate(ctx))
		}
		return r.report, fmt.Errorf("%w after %d records: %w. Run the same command to go on", ErrStopped, r.report.Read, err)
	}
	return r.report, nil
}

// running is an import while it runs.
type running struct {
	Import
	decider dedupe.Decider
	row     dedupe.Run
	start   time.Time
	saved   time.Time
	report  Report // the counts of the finished batches
	open    []Record
	batch   Report // the counts of the records in open, as far as they are known
}

// startTime is the layout of a row's id. The id is the time of records without their own time.
const startTime = "20060102T150405.000Z"

// begin finds out whether the import continues an earlier one.
func (r *running) begin(ctx context.Context) error {
	content, err := r.Source.Digest(ctx)
	if err != nil {
		return err
	}
	r.start = r.Now().UTC().Truncate(time.Millisecond)
	r.row.ID = r.start.Format(startTime)
	if content == nil {
		return nil
	}
	settings := fmt.Sprintf("oncebox import 1 %x %+q %d %d %t %t",
		content, r.Settings, r.Retention.Window, r.Retention.Horizon, r.Retention.ForGood, r.Derive)
	sum := sha256.Sum256([]byte(settings))
	r.row.Digest = hex.EncodeToString(sum[:])
	row, err := r.Store.ReadRun(ctx, r.Scope, r.row.Digest)
	if err != nil {
		return err
	}
	if row == nil {
		return r.save(ctx) // before the first entry, so that all entries count from the same time
	}
	if r.start, err = time.Parse(startTime, row.ID); err != nil {
		return fmt.Errorf("import %q: its id is not a time: %w", row.ID, err)
	}
	r.row = *row
	t := row.Tally
	r.report = Report{
		Resumed: row.Lines, Finished: row.Finished, Read: t.In, Entered: t.New, Known: t.Retry, Late: t.Natural,
		TooOld: t.Skipped, Bad: t.DeadLettered,
	}
	return nil
}

// work enters the remaining records.
func (r *running) work(ctx context.Context) error {
	var at int64
	for record, err := range r.Source.Records(ctx) {
		if err != nil {
			return err
		}
		if at++; at <= r.report.Resumed {
			continue
		}
		r.add(record)
		if r.batch.Read < int64(r.Batch) {
			continue
		}
		if err := r.enter(ctx); err != nil {
			return err
		}
		if r.Now().Sub(r.saved) >= recordEvery {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	r.row.Finished = true
	return r.save(ctx)
}

// add adds a record to the batch, unless it needs no entry.
func (r *running) add(record Record) {
	if r.batch.Read++; record.Bad != "" {
		r.bad(record, record.Bad)
		return
	}
	if record.Time.IsZero() {
		record.Time = r.start
	}
	// Only an engine that deletes by the clock has a horizon.
	if keep := r.Retention; !keep.ForGood && keep.Horizon > 0 && keep.PurgeAt(record.Time) < r.Now().Unix() {
		r.batch.TooOld++
		return
	}
	r.open = append(r.open, record)
}

func (r *running) bad(record Record, why string) {
	if r.batch.Bad++; r.report.FirstBad == "" {
		r.report.FirstBad = record.Place + ": " + why
	}
}

// whyNotEntered has the outcomes of records that have no entry.
var whyNotEntered = map[dedupe.Outcome]string{
	dedupe.NoID:   "all ids that can be derived for it are taken",
	dedupe.TooOld: "it is older than the horizon of the ledger, so it may be a copy whose entry was deleted by ledger compact",
}

// enter enters the records of the batch.
func (r *running) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.Wait != nil && len(r.open) > 0 {
		if err := r.Wait(ctx, len(r.open)); err != nil {
			return err
		}
	}
	candidates := make([]dedupe.Candidate, len(r.open))
	for n, record := range r.open {
		candidates[n] = dedupe.Candidate{
			ID: record.ID, Fingerprint: record.Fingerprint, Version: record.Version, Arrival: record.Time,
			Owner: ownerOf(record), Derive: r.Derive,
		}
	}
	done := r.batch
	decisions := r.decider.Decide(ctx, candidates)
	if r.report.OtherSettings == nil {
		r.report.OtherSettings = offline.FindOtherSettings(ctx, r.Store, r.Scope, candidates, decisions)
	}
	for n, decision := range decisions {
		switch decision.Outcome {
		case dedupe.New, dedupe.Synthetic:
			done.Entered++
		case dedupe.Retry:
			done.Known++
		case dedupe.Natural:
			done.Late++
		case dedupe.NoID, dedupe.TooOld:
			r.batch.Bad = done.Bad
			r.bad(r.open[n], whyNotEntered[decision.Outcome])
			done.Bad = r.batch.Bad
		default:
			return decision.Err
		}
	}
	r.report.Read += done.Read
	r.report.Entered += done.Entered
	r.report.Known += done.Known
	r.report.Late += done.Late
	r.report.TooOld += done.TooOld
	r.report.Bad += done.Bad
	r.open, r.batch = r.open[:0], Report{}
	if r.Progress != nil {
		r.Progress(r.report.Read)
	}
	return nil
}

// ownerSource is the source of the owners. No stream has this name.
const ownerSource = "import"

// ownerOf returns the owner of a record. It does not depend on the record's file or line.
func ownerOf(record Record) dedupe.Owner {
	if record.Owner != (dedupe.Owner{}) {
		return record.Owner
	}
	h := sha256.New()
	for _, part := range []string{record.ID, record.Fingerprint} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return dedupe.Owner{Source: ownerSource, Sequence: hex.EncodeToString(h.Sum(nil)[:16]), Sub: dedupe.Plain}
}

// save saves the progress of the import.
func (r *running) save(ctx context.Context) error {
	if r.saved = r.Now(); r.row.Digest == "" {
		return nil
	}
	r.row.Lines = r.report.Read
	r.row.Tally = dedupe.Tally{
		In: r.report.Read, New: r.report.Entered, Retry: r.report.Known, Natural: r.report.Late,
		Skipped: r.report.TooOld, DeadLettered: r.report.Bad,
	}
	return r.Store.SaveRun(ctx, r.Scope, r.row)
}

// saveLate saves the progress after an interrupt.
func (r *running) saveLate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	return r.save(ctx)
}

// placeOf names a record by its number in a file.
func placeOf(file string, number int64) string { return file + ":" + strconv.FormatInt(number, 10) }
