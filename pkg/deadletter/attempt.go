package deadletter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// begunFolder has the attempts at the letters of a folder.
const begunFolder = doneFolder + "begun/"

// Attempt says that a run has begun a letter. It is stored before the sink gets the letter.
type Attempt struct {
	Format int       `json:"format"` // MarkerFormat
	Name   string    `json:"name"`   // of the letter
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

// Begun is the result of Begin. Exactly one of its members is set.
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
func (a *Archive) Begin(ctx context.Context, name string, r Runner, now time.Time) (Begun, error) {
	mine := &Attempt{MarkerFormat, name, r.Run, r.By, now.UTC(), rand.Text()}
	for number := 1; ; number++ {
		last, err := a.attempt(ctx, number, mine)
		if err != nil {
			// The object may exist all the same. Ended, it does not keep other runs from the letter.
			return Begun{}, errors.Join(err, a.End(context.WithoutCancel(ctx), mine))
		}
		if last.Token == mine.Token {
			return Begun{Mine: mine}, nil
		}
		if ended, err := a.exists(ctx, endName(last)); err != nil {
			return Begun{}, err
		} else if ended {
			continue
		}
		if done, err := a.Done(ctx, name); err != nil || done != nil {
			return Begun{Done: done != nil}, err
		}
		if !slices.Contains(r.TakesOver, last.Run) {
			return Begun{Other: last}, nil
		}
	}
}

// attempt creates an attempt of a letter, and returns the attempt that has its number. Only the stored attempt says
// who created it: the reply to the first request may have been lost.
func (a *Archive) attempt(ctx context.Context, number int, mine *Attempt) (*Attempt, error) {
	name := fmt.Sprintf("%s.%d", begunName(mine.Name), number)
	content, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("dead-letter store: attempt at %s: %w", mine.Name, err)
	}
	if _, err := a.objects.Create(ctx, name, append(content, '\n')); err != nil {
		return nil, err
	}
	if content, err = a.objects.Read(ctx, name); err != nil {
		return nil, err
	}
	stored := &Attempt{}
	if err := json.Unmarshal(content, stored); err != nil {
		return nil, fmt.Errorf("dead-letter store: %s is damaged: %w", name, err)
	}
	return stored, nil
}

// End says that an attempt has failed: other runs may send the letter. Do not call it after the sink has confirmed the
// letter.
func (a *Archive) End(ctx context.Context, of *Attempt) error {
	_, err := a.objects.Create(ctx, endName(of), []byte("{}\n"))
	return err
}

func begunName(letter string) string { return besideName(letter, begunFolder) }

// endName has the token, so that nobody can end the attempt of another run.
func endName(of *Attempt) string { return begunName(of.Name) + ".ended-" + of.Token }

func (a *Archive) exists(ctx context.Context, name string) (bool, error) {
	_, err := a.objects.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
