package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// fewLines is the number of lines below which the share of bad lines says little.
const fewLines = 10

// mostOfFirstLines limits the bytes that are read of the first lines.
const mostOfFirstLines = 8 << 20

// NotRecordsError says that nearly all of the first lines cannot be processed for the same reason. So an option or
// the input is wrong, and not the records. It is of the kind ErrRefused.
type NotRecordsError struct {
	Input      string   // the name of the input with the first such line
	Bad, Lines int      // Bad of the first Lines lines; blank lines do not count
	Reason     string   // as in dead letters
	LooksLike  string   // the guess of format.LooksLike about the first such line
	Members    []string // the members of the first such line: see Format
}

func (e *NotRecordsError) Error() string {
	input := e.Input
	if input == "-" {
		input = "stdin"
	}
	lines := fmt.Sprintf("%d of the first %d lines", e.Bad, e.Lines)
	if e.Lines == 1 {
		lines = "the first line"
	}
	if e.LooksLike == object {
		return fmt.Sprintf("%s cannot be processed: %s. The first one is in %s (%v)", lines, e.Reason, input, ErrRefused)
	}
	return fmt.Sprintf("%s cannot be processed: %s. %s looks like %s (%v)", lines, e.Reason, input, e.LooksLike, ErrRefused)
}

func (e *NotRecordsError) Unwrap() error { return ErrRefused }

// CheckFirstLines refuses inputs whose first lines show that an option is wrong, as Run does. It reads the beginning
// of the inputs, so inputs of Unknown size cannot be read after it.
func (j *Job) CheckFirstLines(ctx context.Context) error {
	r, err := newRun(*j)
	if err != nil {
		return err
	}
	defer r.close()
	return refuseBroken(r.checkFirstLines(ctx))
}

// CheckNew refuses what Run would refuse with a new ledger, so that the ledger need not be made first. It does not find
// what only a reading of whole inputs shows. Inputs of Unknown size cannot be read after it.
func (j *Job) CheckNew(ctx context.Context) error {
	r, err := newRun(*j)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.listing.check(); err != nil {
		return err
	}
	if err := r.checkNewFiles(); err != nil {
		return err
	}
	return refuseBroken(r.checkFirstLines(ctx))
}

func (r *run) checkNewFiles() error {
	if r.Publish != "" {
		return r.checkName(nil)
	}
	if err := checkFolders(r.Out, r.DeadLetters); err != nil || r.Out == "" {
		return err
	}
	return checkEmpty(r.Out, r.DeadLetters)
}

// checkFirstLines reads the first lines. If the inputs have fewer lines than that, it checks them if they have ten,
// or if they have another format. It reads nothing after a line that is too long.
func (r *run) checkFirstLines(ctx context.Context) error {
	if r.checked || r.PoisonLimit.Off {
		return nil
	}
	r.checked, r.start = true, r.Now()
	lines := newLineReader(peeked(r.Inputs), r.maxLine)
	defer lines.close()
	var first firstLines
	for first.lines < r.PoisonLimit.Records && lines.done < mostOfFirstLines {
		rec := &record{}
		var err error
		rec.line, r.buffer, err = lines.next(ctx, r.buffer[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := r.identify(ctx, rec); err != nil {
			return err
		}
		r.checkAge(rec)
		if !rec.blank {
			first.add(rec, r.Inputs[rec.file-1].Name, r.Format)
		}
		if rec.tooLong {
			break
		}
	}
	return first.judge(r.PoisonLimit, r.Format)
}

// firstLines holds the first lines of a run, without blank lines.
type firstLines struct {
	lines, bad int
	reasons    []*NotRecordsError // one error for each reason, in the order of the lines
	begin      string             // the guess about the first line, if it is bad
}

func (f *firstLines) add(rec *record, input string, expected Format) {
	f.lines++
	if rec.poison == nil {
		return
	}
	f.bad++
	at := slices.IndexFunc(f.reasons, func(e *NotRecordsError) bool { return e.Reason == rec.poison.Reason })
	if at < 0 {
		at = len(f.reasons)
		f.reasons = append(f.reasons, &NotRecordsError{
			Input: input, Reason: rec.poison.Reason,
			LooksLike: format.LooksLike(rec.text), Members: expected.Members(rec.text),
		})
	}
	if f.lines == 1 {
		f.begin = f.reasons[at].LooksLike
	}
	f.reasons[at].Bad++
}

// judge returns an error if nearly all lines are bad for the same reason. If the first line shows that the input has
// another format, that is the reason for all lines.
func (f *firstLines) judge(limit dedupe.PoisonLimit, expected Format) error {
	other := expected.IsOther(f.begin)
	if f.lines < min(fewLines, limit.Records) && !other {
		return nil
	}
	for _, e := range f.reasons {
		if other || f.begin == objectBegins {
			e.Bad = f.bad
		}
		if float64(e.Bad) >= limit.Share*float64(f.lines) || f.begin == arrayBegins {
			e.Lines = f.lines
			return e
		}
	}
	return nil
}

// These are texts of format.LooksLike.
const (
	object       = "a JSON object"
	arrayBegins  = "the beginning of a JSON array"
	objectBegins = "the beginning of a JSON object"
)
