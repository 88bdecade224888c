package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// eraser erases the only letter of the world, which is not done.
type eraser struct {
	*player
	removed deadletter.Stored
	err     error
}

// letterName is the name of the only letter, in the whole store.
func letterName() string {
	l := letter(1, "a")
	return "poison/" + scope + "/" + deadletter.Name(l.Scope, l.Owner, l.Data)
}

func (w *world) eraser(broken func(deadletter.Listed) deadletter.Listed, takesOver ...string) *eraser {
	e := &eraser{player: w.player()}
	var objects deadletter.Listed = e.world
	if broken != nil {
		objects = broken(objects)
	}
	e.act = func() {
		o := deadletter.Erasure{Undelivered: true, TakesOver: takesOver, By: "the test"}
		e.removed, e.err = deadletter.NewArchive(objects).Erase(e.Context(), letterName(), o, e.now)
	}
	e.start()
	return e
}

// switches is a schedule of a run and an erasure: how many calls each makes in turn, and which one is killed then. The
// other one ends first.
type switches struct {
	eraserFirst bool
	calls       [3]int
	kill        string // "run", "eraser" or ""
}

// erasedMeanwhile plays a run and an erasure in the order of a schedule, and returns a violation.
func erasedMeanwhile(
	t testing.TB, s switches, mutant func(*player), broken func(deadletter.Listed) deadletter.Listed,
) (problem string) {
	w, begin := attempted(t, "stream", mutant)
	run, erase := begin(), w.eraser(broken)
	turn := map[bool]*player{true: erase.player, false: run}
	for i, calls := range s.calls {
		p := turn[s.eraserFirst == (i%2 == 0)]
		for range calls {
			if !p.ended {
				p.next()
			}
		}
	}
	run.dead, erase.dead = s.kill == "run" && !run.ended, s.kill == "eraser" && !erase.ended
	runSays := run.finish()
	erase.finish()
	said := fmt.Sprintf("sent %d times; the run said %q, the erasure %+v, %v", w.sent(), runSays, erase.removed, erase.err)
	switch done := erase.err == nil && !erase.dead; {
	case !run.dead && (w.sent() == 1) != (runSays == redrive.Done):
		return "the run: " + said
	case done && erase.removed.Done != (w.sent() == 1):
		return "the erasure: " + said
	case !erase.dead && erase.err != nil && !errors.Is(erase.err, deadletter.ErrBegun):
		return said
	}
	// A person repeats the erasure when the run has ended. Then nothing is left that a run could send.
	sent := w.sent()
	var takesOver []string
	if run.dead {
		takesOver = []string{run.job.Runner.Run}
	}
	for range 2 {
		last := w.eraser(broken, takesOver...)
		if last.finish(); last.err != nil {
			return said + fmt.Sprint("; the repeat: ", last.err)
		}
	}
	if left, err := w.dead.List(t.Context(), "", ""); err != nil || len(left) > 0 {
		return said + fmt.Sprintf("; left: %v, %v", left, err)
	}
	if w.alone(); w.sent() != sent {
		return said + "; and the next run sent it"
	}
	return ""
}

// schedules calls play with all schedules of up to three turns, until it returns a violation.
func schedules(play func(switches) string) (plays int, problem string) {
	const run, erase = 8, 14 // more calls than each makes
	for _, kill := range []string{"", "run", "eraser"} {
		for _, eraserFirst := range []bool{true, false} {
			most := [3]int{run, erase, run}
			if eraserFirst {
				most = [3]int{erase, run, erase}
			}
			s := switches{eraserFirst: eraserFirst, kill: kill}
			for s.calls[0] = range most[0] {
				for s.calls[1] = range most[1] {
					for s.calls[2] = range most[2] {
						if plays++; problem == "" {
							problem = play(s)
						}
						if problem != "" {
							return plays, fmt.Sprintf("%+v: %s", s, problem)
						}
					}
				}
			}
		}
	}
	return plays, ""
}

// TestEraseMeanwhile plays a run and an erasure of its letter, which is not done, and kills one of them. The letter is
// sent and the run says so, or it is erased and never sent.
func TestEraseMeanwhile(t *testing.T) {
	t.Parallel()
	plays, problem := schedules(func(s switches) string { return erasedMeanwhile(t, s, nil, nil) })
	if problem != "" {
		t.Error(problem)
	}
	t.Logf("%d schedules", plays)
}

// unseen keeps the attempts of an erasure from everybody else.
type unseen struct {
	deadletter.Listed
	own map[string][]byte
}

func (u unseen) Create(ctx context.Context, name string, content []byte) (bool, error) {
	if strings.Contains(name, "/begun/") {
		u.own[name] = content
		return true, nil
	}
	return u.Listed.Create(ctx, name, content)
}

func (u unseen) Read(ctx context.Context, name string) ([]byte, error) {
	if content, ok := u.own[name]; ok {
		return content, nil
	}
	return u.Listed.Read(ctx, name)
}

// letterLast removes the letter after everything else.
type letterLast struct{ deadletter.Listed }

func (l letterLast) Remove(ctx context.Context, v deadletter.Version) error {
	if v.Name != letterName() {
		return l.Listed.Remove(ctx, v)
	}
	all, err := l.Versions(ctx, "poison/"+scope+"/done/")
	for _, other := range append(all, v) {
		err = errors.Join(err, l.Listed.Remove(ctx, other))
	}
	return err
}

// TestMutantsOfErase checks that TestEraseMeanwhile finds each broken rule.
func TestMutantsOfErase(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		run   func(*player)
		erase func(deadletter.Listed) deadletter.Listed
	}{
		"an erasure without an attempt": {nil, func(l deadletter.Listed) deadletter.Listed { return unseen{l, map[string][]byte{}} }},
		"the letter is removed last":    {nil, func(l deadletter.Listed) deadletter.Listed { return letterLast{l} }},
		"the letter is not read again": {func(p *player) {
			items := p.job.Items
			p.job.Items = func(yield func(redrive.Item, error) bool) {
				for item, err := range items {
					read := item.Letter
					var kept *deadletter.Letter
					item.Letter = func(ctx context.Context) (deadletter.Letter, error) {
						if kept != nil {
							return *kept, nil
						}
						l, err := read(ctx)
						kept = &l
						return l, err
					}
					yield(item, err)
				}
			}
		}, nil},
	} {
		_, found := schedules(func(s switches) string { return erasedMeanwhile(t, s, m.run, m.erase) })
		if found == "" {
			t.Errorf("%s: not found", name)
		}
		t.Logf("%s: %s", name, found)
	}
}
