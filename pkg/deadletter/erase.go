package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OutcomeErased is the outcome in the marker of a letter that was not done when Erase began. The marker is removed last.
const OutcomeErased = "erased"

// eraseRun is the run of the attempts that Erase makes.
const eraseRun = "erase"

var (
	// ErrNotDone says that a letter is not done: Erase would lose its record.
	ErrNotDone = errors.New("dead-letter store: the letter is not done")
	// ErrBegun says that a run has begun a letter and not finished it. It is unknown whether the sink has the letter.
	ErrBegun = errors.New("dead-letter store: another run has begun the letter")
	// ErrNoLetterName says that a name belongs to a marker, an attempt or a folder.
	ErrNoLetterName = errors.New("dead-letter store: this is not the name of a letter")
)

// BegunError is an ErrBegun with the attempt.
type BegunError struct{ Attempt *Attempt }

func (e *BegunError) Error() string {
	return fmt.Sprintf("%v: the run %s (%s)", ErrBegun, e.Attempt.Run, e.Attempt.By)
}

// Unwrap returns ErrBegun.
func (e *BegunError) Unwrap() error { return ErrBegun }

// Erasure says what Erase may remove, besides letters that are done.
type Erasure struct {
	Undelivered bool     // letters that are not done: their records are never delivered
	TakesOver   []string // letters that these runs have begun; the runs have ended, as an operator says
	By          string   // where Erase runs, for people
}

// TakenOver returns the runs whose attempts count as ended: an interrupted Erase is one of them.
func (o Erasure) TakenOver() []string { return append([]string{eraseRun}, o.TakesOver...) }

// Stored counts what is stored about a letter. Each version and each delete marker counts.
type Stored struct {
	Letter, Attempts, Markers int
	Done                      bool // the letter has a marker
}

// None reports whether nothing is stored.
func (s Stored) None() bool { return s.Letter+s.Attempts+s.Markers == 0 }

// Stored returns what is stored about a letter. It changes nothing.
//
// Errors: ErrNoLetterName, or an error of Store.Put.
func (a *Archive) Stored(ctx context.Context, name string) (s Stored, err error) {
	if name == "" || strings.HasSuffix(name, "/") || strings.Contains("/"+name, "/"+doneFolder) {
		return s, fmt.Errorf("%w: %q", ErrNoLetterName, name)
	}
	if s.Done, err = a.exists(ctx, markerName(name)); err != nil {
		return s, err
	}
	for _, k := range s.kinds(name) {
		versions, err := a.versions(ctx, k)
		if err != nil {
			return s, err
		}
		*k.count = len(versions)
	}
	return s, nil
}

// kind is a kind of objects about a letter.
type kind struct {
	count  *int
	prefix string
	isOne  func(rest string) bool // reports whether a name that begins with prefix is one of them
}

// kinds returns what is stored about a letter, in the order in which Erase removes it.
func (s *Stored) kinds(name string) []kind {
	alone := func(rest string) bool { return rest == "" }
	return []kind{
		{&s.Letter, name, alone},
		// The letter NAME.1 has attempts that begin like those of NAME, with another dot.
		{&s.Attempts, begunName(name) + ".", func(rest string) bool { return !strings.Contains(rest, ".") }},
		{&s.Markers, markerName(name), alone},
	}
}

func (a *Archive) versions(ctx context.Context, k kind) (own []Version, err error) {
	all, err := a.objects.Versions(ctx, k.prefix)
	for _, v := range all {
		if k.isOne(strings.TrimPrefix(v.Name, k.prefix)) {
			own = append(own, v)
		}
	}
	return own, err
}

// Erase removes a letter for good, with all versions of its object, its attempts and its marker. It returns what it has
// removed, also after an error. It is safe to repeat, and to interrupt: a repeat does the rest.
//
// The letter goes first, then its attempts, then its marker: as long as a run finds the letter, it finds the marker, too,
// and does not deliver it again. A letter that is not done gets a marker first, under an attempt that keeps runs away.
// Runs whose sink needs no attempts do not look for it: end these before you erase a letter that is not done.
//
// Errors: ErrNoLetterName; ErrNotDone, if the letter is not done and o does not say that it may be lost; *BegunError, if
// a run has begun it that o does not take over; an error of Store.Put.
func (a *Archive) Erase(ctx context.Context, name string, o Erasure, now time.Time) (removed Stored, err error) {
	stored, err := a.Stored(ctx, name)
	removed.Done = stored.Done
	switch {
	case err != nil || stored.None():
		return removed, err
	case stored.Done:
	case stored.Letter > 0 && !o.Undelivered:
		return removed, ErrNotDone
	default:
		if removed.Done, err = a.withhold(ctx, name, o, now); err != nil {
			return removed, err
		}
	}
	for _, k := range removed.kinds(name) {
		versions, err := a.versions(ctx, k)
		if err != nil {
			return removed, err
		}
		for _, v := range versions {
			if err := a.objects.Remove(ctx, v); err != nil {
				return removed, err
			}
			*k.count++
		}
	}
	return removed, nil
}

// withhold keeps all runs from a letter: it begins the letter, and marks it. done is true if a run was faster.
func (a *Archive) withhold(ctx context.Context, name string, o Erasure, now time.Time) (done bool, err error) {
	begun, err := a.Begin(ctx, name, Runner{Run: eraseRun, By: o.By, TakesOver: o.TakenOver()}, now)
	switch {
	case err != nil || begun.Done:
		return begun.Done, err
	case begun.Other != nil:
		return false, &BegunError{begun.Other}
	}
	created, err := a.mark(ctx, name, Marker{At: now, Outcome: OutcomeErased})
	return err == nil && !created, err
}
