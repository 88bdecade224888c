package offline

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// DefaultBatchSize is the largest number of lines that are decided and written at a time.
const DefaultBatchSize = 50_000

// Store holds the methods that a job needs from an engine.
type Store interface {
	dedupe.Ledger
	dedupe.Runs
}

// Job says what to deduplicate, and with which options.
type Job struct {
	Inputs        []Input
	Format        Format
	Scope         string
	Retention     dedupe.Retention // see the package documentation on the horizon
	PassNatural   bool             // natural duplicates pass unchanged
	PassSynthetic bool             // synthetic duplicates pass unchanged; only with FirstKeeps
	IDs           IDs              // "" means FirstKeeps

	Store      Store
	LedgerName string // the absolute path of the ledger, or its table: not that of a copy. With Forgets it is InMemory
	// Forgets says that the store ends with the process. The run's progress is not recorded then, and the inputs are
	// read only once, except with RenameAll. The job uses nothing but the ledger of the store.
	Forgets bool

	Out         string      // the output file; "": the output goes to Stream
	Stream      io.Writer   // such as stdout
	DeadLetters string      // the file for poison records, created for the first one
	Compression Compression // the compression of Out or Stream

	// Listing is the CSV file that gets a line for each duplicate, renamed record and dead letter. It may be empty.
	Listing string
	// Preview makes the job write only the Listing. The report says what a run would do. The store must forget all
	// entries afterwards.
	Preview bool

	// Upload brings the output to its place, if the place is not a file. Until then Out holds the output, and it is
	// removed afterwards. Upload is called with the id of the run when the file is complete. It must be safe to
	// repeat, because it is called again after a crash. It may be nil.
	Upload func(ctx context.Context, run string) error
	Place  string // the place to which Upload brings the output, for the history of the ledger

	// Publish is a path that replaces Out and DeadLetters. The output is PUBLISH.RUN.ndjson, or .tsv by the Format. It
	// counts for readers when the Manifest PUBLISH.json names it. If the path ends with .ndjson, .jsonl or .tsv,
	// outputs get that extension.
	Publish string
	// Replaces is the id of a finished run of this ledger and scope. That run and all later runs are undone first. So
	// the inputs must be the corrected inputs of that run and the inputs of all later runs.
	Replaces string

	// PoisonLimit says when the first lines count as another format or as a wrong path: see NotRecordsError. It does
	// not change the result.
	PoisonLimit dedupe.PoisonLimit

	BatchSize int              // does not change the result; 0 means DefaultBatchSize
	Now       func() time.Time // nil means time.Now
	Progress  func(Progress)   // gets the progress of the run from time to time; may be nil

	// Tests set these.
	open      openFunc // opens files for writing
	rename    func(from, to string) error
	maxLine   int
	clock     dedupe.Clock
	host      string
	machine   string
	beatEvery time.Duration // below 0: never
}

// Report holds the results of a run. The Tally does not depend on crashes. With an owner path it does: records that were
// decided before a crash, and were not recorded as done, count as retries then.
type Report struct {
	Run         string // the id of the run
	Output      string // Job.Out, or the output of Job.Publish
	DeadLetters string // likewise
	Resumed     int64  // lines that were done before the run continued
	dedupe.Tally

	// Closed lists the stopped runs that were closed meanwhile.
	Closed []ClosedRun

	// Differences are the differences among the records that this process has compared.
	Differences []Difference
	// ComparedIDs is the number of ids whose records were compared. It is 0 if all were compared.
	ComparedIDs int

	// OtherSettings is an entry of this ledger that was made with other settings, if this process has found one.
	OtherSettings *OtherSettings

	// Replaced lists the runs that Job.Replaces has undone. Their outputs no longer count.
	Replaced []ReplacedRun
	// NewerRun is the run that the Manifest names, if it is later than this run. In that case this run's output is
	// not published.
	NewerRun string
}

// Run runs the job to its end. It is safe to repeat at any time. The package documentation says what a repeated run
// does.
//
// It returns ErrRefused or ErrStopped. Any other error comes from an input, from the output, or from the store before
// the run began. The report covers the finished part of the run, even with ErrStopped.
func (j *Job) Run(ctx context.Context) (Report, error) {
	r, err := newRun(*j)
	if err != nil {
		return Report{}, err
	}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return Report{Closed: r.closed}, r.refusedAfterClosing(refuseBroken(err))
	}
	err = r.work(ctx)
	r.noteClosed(ctx)
	return r.report(), err
}

func (r *run) report() Report {
	report := Report{
		Run: r.done.ID, Output: r.Out, DeadLetters: r.DeadLetters, Resumed: r.resumed, Tally: r.done.Tally,
		Differences: r.differences.list(), Closed: r.closed, Replaced: r.undone, NewerRun: r.newerRun,
		OtherSettings: r.otherSettings,
	}
	if r.differences.partial {
		report.ComparedIDs = mostCompared
	}
	return report
}

// run is a job while it runs.
type run struct {
	Job
	history     History // nil for an engine without a history
	decider     dedupe.Decider
	delivery    dedupe.Delivery
	shared      sharedKeys // with RenameAll
	differences differences
	lines       *lineReader
	feed        *feed       // the lines; nil before the work begins
	lock        *outputLock // the lock of Out; nil without Out
	out         outputFile
	deadLetters outputFile
	listing     listing

	done       dedupe.Run // the progress of the run
	recorded   time.Time  // the time of the last recorded progress
	sources    []string   // the sources of the owners, by input
	start      time.Time  // the arrival of records without a time of their own
	resumed    int64
	closed     []ClosedRun
	left       []dedupe.Run // runs of the scope that were at work when this one began
	beats      beats
	checked    bool // the first lines were checked
	savingDone bool // the store was asked to save the finished run
	undone     []ReplacedRun
	newerRun   string // see Report

	otherSettings *OtherSettings // see Report

	buffer    []byte // holds a line while lines are read before the work begins
	batch     batch
	piece     *piece   // the piece from which records are taken
	used      []*piece // the earlier pieces of the batch
	survivors []byte   // the survivors of a batch, as they are written
	poison    []byte   // the poison records of a batch, as lines of the dead-letter file
}

func newRun(j Job) (*run, error) {
	if j.BatchSize == 0 {
		j.BatchSize = DefaultBatchSize
	}
	if j.IDs == "" {
		j.IDs = FirstKeeps
	}
	if j.PoisonLimit == (dedupe.PoisonLimit{}) {
		j.PoisonLimit = dedupe.DefaultPoisonLimit
	}
	if j.IDs == RenameAll && slices.ContainsFunc(j.Inputs, isStream) {
		return nil, refuse("rename-all reads its inputs twice, and one of them can be read only once: spool it to a file")
	}
	j.Inputs = peekable(j.Inputs)
	if j.Now == nil {
		j.Now = time.Now
	}
	if j.open == nil {
		j.open = osOpen
	}
	if j.Forgets {
		j.LedgerName = InMemory
	}
	if j.rename == nil {
		j.rename = os.Rename
	}
	if j.host == "" {
		j.host, _ = os.Hostname() // without a name no output is known to be on this host
	}
	if j.machine == "" {
		j.machine = machineID()
	}
	if j.beatEvery == 0 {
		j.beatEvery = dedupe.BeatEvery
	}
	if j.maxLine == 0 {
		j.maxLine = maxLine
	}
	r := &run{
		Job: j,
		decider: dedupe.Decider{
			Ledger: j.Store, Scope: j.Scope, Retention: j.Retention, PassSynthetic: j.PassSynthetic,
			Clock: j.clock,
		},
		delivery:    dedupe.Delivery{Format: j.Format, PassNatural: j.PassNatural},
		differences: newDifferences(j.Format),
		lines:       newLineReader(j.Inputs, j.maxLine),
		batch:       batch{earliest: map[format.Key]int64{}},
		piece:       &piece{},
		out:         outputFile{path: j.Out, open: j.open, pack: newPacker(j.Compression)},
		deadLetters: outputFile{path: j.DeadLetters, open: j.open},
		listing:     listing{path: j.Listing, open: j.open},
	}
	if !j.Forgets {
		r.history, _ = j.Store.(History)
	}
	if j.Out == "" && j.Publish == "" {
		r.out.to, r.deadLetters.appends = j.Stream, true
	}
	if j.Preview {
		r.out.to, r.deadLetters.to = io.Discard, io.Discard
	}
	return r, nil
}

func (r *run) close() {
	r.beats.stop()
	r.stopReading()
	r.out.close()
	r.deadLetters.close()
	r.listing.close()
	r.shared.close()
	if r.lock != nil {
		r.lock.release()
	}
}

// stopReading closes the inputs. A stream may be in the middle of a read that never ends.
func (r *run) stopReading() {
	if r.feed == nil {
		r.lines.close()
		return
	}
	r.feed.stop(slices.ContainsFunc(r.Inputs, isStream))
}

func isStream(in Input) bool { return in.Size == Unknown }

// work processes the rest of the inputs, batch by batch.
func (r *run) work(ctx context.Context) (err error) {
	if r.undone, err = r.replaced(ctx); err != nil {
		return r.stopped(ctx, err)
	}
	if err := r.listing.begin(r.done.Tally); err != nil {
		return err
	}
	if r.IDs == RenameAll && !r.done.Finished {
		if err := r.findSharedKeys(ctx); err != nil {
			return r.stopped(ctx, err)
		}
	}
	if !r.done.Finished {
		r.startReading(ctx)
	}
	for !r.done.Finished {
		if err := r.workBatch(ctx); err != nil {
			return r.stopped(ctx, err)
		}
		r.progress(passDeciding, r.done.Input)
	}
	if r.Publish != "" {
		if err := r.publish(ctx); err != nil {
			return r.stopped(ctx, err)
		}
	}
	r.tidy()
	return nil
}

// tidy removes the files of a finished run. If they stay, the next run finds that this run is finished.
func (r *run) tidy() {
	if r.lock == nil {
		return
	}
	if r.Upload != nil {
		r.out.close()
		if err := os.Remove(r.Out); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	_ = r.lock.removeRunFile()
}

func (r *run) startReading(ctx context.Context) {
	for i := range r.Inputs {
		r.sources = append(r.sources, dedupe.RunSource(r.done.ID, i+1))
	}
	r.feed = startFeed(ctx, r.lines, r.BatchSize, r.decode)
}

func (r *run) workBatch(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := r.read(ctx)
	if err != nil {
		return err
	}
	if err := r.decidePatiently(ctx, b); err != nil {
		return err
	}
	if err := r.write(ctx, b); err != nil {
		return err
	}
	r.done.Finished = b.last
	r.reusePieces()
	if b.last || r.entriesMayBeReplaced() || r.Now().Sub(r.recorded) >= recordEvery {
		return r.record(ctx)
	}
	return nil
}
