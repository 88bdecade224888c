package deadletter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// begunFolder has the attempts at the letters of a folder.
const begunFolder = doneFolder + "begun/"

// Attempt says that a run has begun a letter. It is stored before the sink gets the letter.
type Attempt struct {
	Format int       `json:"format"` // MarkerFormat
	Name   string    `json:"name"`   // of the letter in the archive of the run, for people
	Run    string    `json:"run"`    // the id of the run
	By     string    `json:"by"`     // where the run is, for people
	At     time.Time `json:"at"`
	Token  string    `json:"token"` // the id of the attempt
}

// Runner is a run that begins letters.
type Runner struct {
	Run, By string
	// TakesOver are the ids of runs that have ended, as an operator says. Their attempts count as ended.
	TakesOver []string
}

// Begun is the result of Begin and Look. At most one of its members is set.
type Begun struct {
	Mine  *Attempt // the caller may send the letter
	Other *Attempt // another attempt is not finished; it is unknown whether it has sent the letter
	Done  bool     // the letter has a marker
}

// Begin begins a letter, before a sink that would send it again if it came again. Of all callers at the same time, one
// gets an attempt of its own. That attempt ends in one of three ways:
//   - MarkDone: the sink has confirmed the letter.
//   - End: the attempt has failed, and the next Begin of any run gets an attempt.
//   - Its process dies: Begin returns the attempt as Other to all runs, except those that take over its run.
//
// The attempts of a letter are numbered objects that are never changed: the first one to create the next number has it.
// Only the last one counts: it was created because the one before was ended or taken over.
func (a *Archive) Begin(ctx context.Context, name string, r Runner, now time.Time) (Begun, error) {
	mine := &Attempt{MarkerFormat, name, r.Run, r.By, now.UTC(), rand.Text()}
	for number := 1; ; {
		stored, err := a.attempt(ctx, number, name, mine)
		if err != nil {
			// The object may exist all the same. Ended, it does not keep other runs from the letter.
			return Begun{}, errors.Join(err, a.End(context.WithoutCancel(ctx), name, mine))
		}
		if stored.Token == mine.Token {
			return Begun{Mine: mine}, nil
		}
		last, begun, err := a.last(ctx, name, r.TakesOver)
		if err != nil || begun != (Begun{}) {
			return begun, err
		}
		number = last + 1
	}
}

// Look returns what keeps a run from a letter, without storing anything: Begin would return it, too. It returns an
// empty Begun if Begin would return an attempt.
func (a *Archive) Look(ctx context.Context, name string, takesOver []string) (Begun, error) {
	if begun, err := a.exists(ctx, attemptName(name, 1)); err != nil || !begun { // most letters have no attempt
		return Begun{}, err
	}
	_, begun, err := a.last(ctx, name, takesOver)
	return begun, err
}

// last returns the number of the last attempt at a letter, and what keeps a run from making the next one.
func (a *Archive) last(ctx context.Context, name string, takesOver []string) (number int, begun Begun, err error) {
	ended := map[string]bool{} // tokens
	prefix := begunName(name) + "."
	names := a.cursor(ctx, prefix, "")
	for object, ok := names.next(); ok; object, ok = names.next() {
		rest := strings.TrimPrefix(object, prefix)
		if token, ok := strings.CutPrefix(rest, endMark); ok {
			ended[token] = true
		} else if n, err := strconv.Atoi(rest); err == nil {
			number = max(number, n)
		}
	}
	if names.err != nil {
		return 0, Begun{}, names.err
	}
	last, err := a.readAttempt(ctx, attemptName(name, number))
	if err != nil || ended[last.Token] {
		return number, Begun{}, err
	}
	done, err := a.Done(ctx, name)
	switch {
	case err != nil || done != nil:
		return 0, Begun{Done: done != nil}, err
	case !slices.Contains(takesOver, last.Run):
		return 0, Begun{Other: last}, nil
	}
	return number, Begun{}, nil
}

// attempt creates an attempt of a letter, and returns the attempt that has its number. Only the stored attempt says
// who created it: the reply to the first request may have been lost.
func (a *Archive) attempt(ctx context.Context, number int, letter string, mine *Attempt) (*Attempt, error) {
	name := attemptName(letter, number)
	content, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("dead-letter store: attempt at %s: %w", letter, err)
	}
	if _, err := a.objects.Create(ctx, name, append(content, '\n')); err != nil {
		return nil, err
	}
	return a.readAttempt(ctx, name)
}

func (a *Archive) readAttempt(ctx context.Context, name string) (*Attempt, error) {
	content, err := a.objects.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	stored := &Attempt{}
	if err := json.Unmarshal(content, stored); err != nil {
		return nil, fmt.Errorf("dead-letter store: %s is damaged: %w", name, err)
	}
	return stored, nil
}

// End says that an attempt at a letter has failed: other runs may send the letter. Do not call it after the sink has
// confirmed the letter.
func (a *Archive) End(ctx context.Context, name string, of *Attempt) error {
	_, err := a.objects.Create(ctx, endName(name, of), []byte("{}\n"))
	return err
}

// The names of attempts are made of the name of the letter in this archive. The name in an attempt may be the name in
// an archive with another prefix.
func begunName(letter string) string { return besideName(letter, begunFolder) }

func attemptName(letter string, number int) string {
	return fmt.Sprintf("%s.%d", begunName(letter), number)
}

const endMark = "ended-"

// endName has the token, so that nobody can end the attempt of another run.
func endName(letter string, of *Attempt) string { return begunName(letter) + "." + endMark + of.Token }

func (a *Archive) exists(ctx context.Context, name string) (bool, error) {
	_, err := a.objects.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
