package offline

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/durable"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// listingHeader is the first line of a listing. It distinguishes a listing from other files.
var listingHeader = []string{
	"line", "file", "file_line", "outcome", "action", "id", "new_id", "differs_in", "reason",
}

// These are the outcomes and actions of a listing.
const (
	listedNew          = "new"
	listedRetry        = "retry"
	listedNatural      = "natural"
	listedSynthetic    = "synthetic"
	listedDeadLettered = "dead_lettered"

	actionDropped      = "dropped"
	actionRenamed      = "renamed"
	actionPassed       = "passed"
	actionDeadLettered = "dead_lettered"
)

// listing is a CSV file with a line for each record that is not written unchanged: a duplicate, a record with a new
// id, or a dead letter. It is written during the run, so it takes no memory. It has as many lines as there are such
// records.
//
// Lines have numbers that count over all inputs. A run that continues cuts the listing after the last line that is
// done. The listing is synced before the run is saved, so it is never shorter than the saved progress.
type listing struct {
	path string // "": the job has no listing
	open openFunc
	file file
	csv  *csv.Writer
}

// check refuses a file that is not a listing, before anything is changed.
func (l *listing) check() error {
	if l.path == "" {
		return nil
	}
	_, err := l.endOf(dedupe.Tally{})
	return err
}

// begin makes the listing. If the run continues, it cuts the existing listing.
func (l *listing) begin(done dedupe.Tally) error {
	if l.path == "" {
		return nil
	}
	end, err := l.endOf(done)
	if err != nil {
		return err
	}
	if l.file, err = l.open(l.path, os.O_WRONLY|os.O_CREATE); err != nil {
		return err
	}
	if err := l.file.Truncate(end); err != nil {
		return err
	}
	if _, err := l.file.Seek(end, io.SeekStart); err != nil {
		return err
	}
	l.csv = csv.NewWriter(l.file)
	if end > 0 {
		return nil
	}
	return errors.Join(l.csv.Write(listingHeader), durable.SyncFolder(filepath.Dir(l.path)))
}

// endOf returns the end of the part of the listing for the lines that are done. It refuses a file that is not a
// listing, and a listing that lacks lines. Lines are missing if another program has changed the file, or if the run
// began without it.
func (l *listing) endOf(done dedupe.Tally) (end int64, err error) {
	listed := map[string]int64{}
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, l.checkListed(listed, done)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	header := strings.Join(listingHeader, ",") + "\n"
	begin := make([]byte, len(header))
	n, err := io.ReadFull(file, begin)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return 0, err
	case !strings.HasPrefix(header, string(begin[:n])):
		return 0, refuse("%s is not a listing of oncebox. Choose another folder", l.path)
	case n < len(header): // a crash has cut the header
		return 0, l.checkListed(listed, done)
	}
	r := csv.NewReader(file)
	r.ReuseRecord = true
	for end = int64(n); ; end = int64(n) + r.InputOffset() {
		row, err := r.Read()
		if err != nil || len(row) != len(listingHeader) { // the end, or a line that a crash has cut
			break
		}
		line, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil || line > done.In {
			break
		}
		listed[row[3]]++
	}
	return end, l.checkListed(listed, done)
}

func (l *listing) checkListed(listed map[string]int64, done dedupe.Tally) error {
	if listed[listedNatural] == done.Natural && listed[listedSynthetic] == done.Synthetic &&
		listed[listedDeadLettered] == done.DeadLettered {
		return nil
	}
	return refuse("%s does not list what its run has done so far, so the report would be wrong. "+
		"Go on without the report, or delete the output to start the run over", l.path)
}

// add lists a record, unless it is written unchanged. line is its number among all lines of the inputs.
func (l *listing) add(line int64, input string, rec *record, survives bool, differsIn []string) error {
	if l.csv == nil {
		return nil
	}
	row := []string{
		strconv.FormatInt(line, 10), input, strconv.FormatInt(rec.number, 10), "", actionPassed,
		rec.fields.ID, "", strings.Join(differsIn, " "), "",
	}
	outcome, action := &row[3], &row[4]
	switch rec.decision.Outcome {
	case dedupe.New:
		*outcome = listedNew
	case dedupe.Retry:
		*outcome = listedRetry
	case dedupe.Natural:
		*outcome = listedNatural
	case dedupe.Synthetic:
		*outcome = listedSynthetic
	}
	switch {
	case rec.poison != nil:
		*outcome, *action, row[8] = listedDeadLettered, actionDeadLettered, rec.poison.Reason
	case !survives:
		*action = actionDropped
	case rec.decision.ID != rec.fields.ID && rec.decision.Outcome != dedupe.Natural:
		*action, row[6] = actionRenamed, rec.decision.ID
	case *outcome == listedNew, *outcome == listedRetry:
		return nil
	}
	return l.csv.Write(row)
}

// sync waits until the listing is on the disk.
func (l *listing) sync() error {
	if l.csv == nil {
		return nil
	}
	l.csv.Flush()
	if err := errors.Join(l.csv.Error(), l.file.Sync()); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	return nil
}

// close closes the file and ignores its errors: all lines that matter have been synced.
func (l *listing) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}
