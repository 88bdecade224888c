package redrive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// player is one of several processes at the same time, which run a redrive, or erase its letter. A schedule decides which of them makes the next call.
type player struct {
	*world
	job     *redrive.Job
	act     func()        // what it does; nil: it runs the job
	calls   chan struct{} // a call waits for its turn, or the run has ended
	turn    chan struct{}
	dead    bool // its process was killed: no further call has an effect
	ended   bool
	report  redrive.Report
	failing string // the first call with this name fails, without an effect
	objects deadletter.Listed
}

// within is a part of a store: the objects whose names begin with a prefix.
type within struct {
	deadletter.Listed
	prefix string
}

func (w within) Create(ctx context.Context, name string, content []byte) (bool, error) {
	return w.Listed.Create(ctx, w.prefix+name, content)
}

func (w within) Read(ctx context.Context, name string) ([]byte, error) {
	return w.Listed.Read(ctx, w.prefix+name)
}

func (w within) List(ctx context.Context, prefix, after string) (names []string, err error) {
	if after != "" {
		after = w.prefix + after
	}
	names, err = w.Listed.List(ctx, w.prefix+prefix, after)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], w.prefix)
	}
	return names, err
}

// player returns a run of the only letter of the world. The first run is over the prefix of a function, and the others
// are over the whole store.
func (w *world) player() *player {
	v := newWorld(w, w.level, w.ledger, w.dead)
	v.delivered, v.chain, v.letters, v.runs = w.delivered, w.chain, w.letters, w.runs
	w.runs++
	l := letter(1, "a") // named, since a listing would make many more schedules
	prefix, name := "poison/"+scope+"/", deadletter.Name(l.Scope, l.Owner, l.Data)
	p := &player{world: v, job: v.job(), calls: make(chan struct{}), turn: make(chan struct{}), objects: v}
	if w.runs == 1 {
		p.objects = within{v, prefix}
	} else {
		name = prefix + name
	}
	archive := deadletter.NewArchive(p.objects)
	p.job.Markers, p.job.Items = archive, redrive.Named(archive, []string{name})
	v.step = func(what string, do func() error) error {
		p.calls <- struct{}{}
		<-p.turn
		switch {
		case p.dead:
			return errCrash
		case p.failing == what:
			p.failing = ""
			return errCrash
		}
		return do()
	}
	return p
}

func (p *player) start() {
	p.ended = false
	go func() {
		if p.act != nil {
			p.act()
		} else {
			_ = p.job.Run(p.Context(), func(r redrive.Report) error { p.report = r; return nil }) // may be dead
		}
		p.ended = true
		p.calls <- struct{}{}
	}()
	<-p.calls
}

// next makes the run's next call.
func (p *player) next() {
	p.turn <- struct{}{}
	<-p.calls
}

func (p *player) finish() redrive.Status {
	for !p.ended {
		p.next()
	}
	return p.report.Status
}

// alone makes a run that no other run disturbs.
func (w *world) alone(takesOver ...string) redrive.Status {
	p := w.player()
	p.job.Runner.TakesOver = takesOver
	p.start()
	return p.finish()
}

func (w *world) sent() int { return len(w.delivered["a"]) }

// choices are the decisions of one schedule. After the last one that was given, the first possibility is chosen.
type choices struct {
	all, limits []int
	at          int
}

func (c *choices) choose(n int) (choice int) {
	if c.at == len(c.all) {
		c.all, c.limits = append(c.all, 0), append(c.limits, n)
	}
	choice = c.all[c.at]
	c.at++
	return choice
}

// advance moves to the next schedule, in the order of a search into depth. It returns false after the last one.
func (c *choices) advance() bool {
	c.at = 0
	for last := len(c.all) - 1; last >= 0; last-- {
		if c.all[last]++; c.all[last] < c.limits[last] {
			return true
		}
		c.all, c.limits = c.all[:last], c.limits[:last]
	}
	return false
}

// attempted is a world with one letter. mutant breaks each run.
func attempted(t testing.TB, level string, mutant func(*player)) (w *world, begin func() *player) {
	w = newWorld(t, level, dedupefault.Memory.Open(t), newMemory())
	w.put(letter(1, "a"))
	return w, func() *player {
		p := w.player()
		if mutant != nil {
			mutant(p)
		}
		p.start()
		return p
	}
}

// twoAtOnce plays two runs in the order of a schedule, and returns a violation. The schedule kills the first one, or a
// call of it fails, or neither.
func twoAtOnce(t testing.TB, level string, c *choices, mutant func(*player), failing string) (problem string) {
	w, begin := attempted(t, level, mutant)
	one := begin()
	one.failing = failing
	other := begin()
	possible := 3
	if failing != "" {
		possible = 2
	}
	for !one.ended && !other.ended && !one.dead {
		switch c.choose(possible) {
		case 0:
			one.next()
		case 1:
			other.next()
		default:
			one.dead = true
		}
	}
	first, second := one.finish(), other.finish()
	said := fmt.Sprintf("sent %d times; the runs said %s and %s", w.sent(), first, second)
	switch {
	case one.dead:
		return w.afterKill(one, second, said)
	case failing != "" && first == redrive.Failed:
		if last := w.alone(); w.sent() != 1 || last != redrive.Done && last != redrive.AlreadyDone {
			return "a failed attempt was not ended: " + said + ", the next " + string(last)
		}
	case w.sent() != 1 || (first == redrive.Done) == (second == redrive.Done):
		return said
	}
	return ""
}

// afterKill checks that a letter whose run was killed is sent again only when that run is taken over, and is not lost.
func (w *world) afterKill(killed *player, other redrive.Status, said string) string {
	sent := w.sent()
	next := w.alone()
	switch {
	case sent > 1 || w.sent() != sent && next != redrive.Done || w.level != "stream" && (w.sent() != 1 || next == redrive.Begun):
		return said + fmt.Sprintf(", the next %s; sent %d times", next, w.sent())
	case next == redrive.Begun && other != redrive.Begun:
		return said + ", and the next run does not know it"
	}
	last := w.alone(killed.job.Runner.Run)
	if last != redrive.Done && last != redrive.AlreadyDone || w.sent() == 0 || w.sent() > 2 {
		return said + fmt.Sprintf(", the run that took over %s; sent %d times", last, w.sent())
	}
	return ""
}

// TestTwoRuns plays two runs of one letter in every order of their calls, and kills the first one at every point. One
// run sends the letter and the other one says that it did not. No letter is lost. Sinks with transactions or objects do
// nothing the second time, and need no run to be taken over.
func TestTwoRuns(t *testing.T) {
	t.Parallel()
	for _, play := range []struct{ level, failing string }{
		{"stream", ""}, {"stream", "send"}, {"transactions", ""}, {"objects", ""},
	} {
		plays := 0
		for c, more := new(choices), true; more; more = c.advance() {
			if problem := twoAtOnce(t, play.level, c, nil, play.failing); problem != "" {
				t.Fatalf("%+v, schedule %v: %s", play, c.all, problem)
			}
			plays++
		}
		t.Logf("%+v: %d schedules", play, plays)
	}
}

// TestTwoTakeOvers kills a run after it has begun a letter, and then plays two runs that take it over.
func TestTwoTakeOvers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w, begin := attempted(t, "stream", nil)
		killed := begin()
		for range 4 { // up to its stored attempt
			killed.next()
		}
		killed.dead = true
		killed.finish()
		takeOver := func(p *player) { p.job.Runner.TakesOver = []string{killed.job.Runner.Run} }
		var runs []*player
		for range 2 {
			p := w.player()
			takeOver(p)
			p.start()
			runs = append(runs, p)
		}
		for !runs[0].ended && !runs[1].ended {
			runs[random.IntN(2)].next()
		}
		a, b := runs[0].finish(), runs[1].finish()
		if w.sent() != 1 || (a == redrive.Done) == (b == redrive.Done) {
			t.Fatalf("sent %d times; the runs said %s and %s", w.sent(), a, b)
		}
	}
}

// TestTakeOverOfTakeOver kills a run, and then the run that takes it over, after each of its calls. To take over the
// run that the next one names sends the letter.
func TestTakeOverOfTakeOver(t *testing.T) {
	t.Parallel()
	for calls := range 20 {
		w, begin := attempted(t, "stream", nil)
		first := begin()
		for range 4 { // up to its stored attempt
			first.next()
		}
		first.dead = true
		first.finish()
		second := w.player()
		second.job.Runner.TakesOver = []string{first.job.Runner.Run}
		second.start()
		for range calls {
			if !second.ended {
				second.next()
			}
		}
		second.dead = true
		second.finish()
		next := w.player()
		next.start()
		if next.finish() == redrive.Begun {
			_, named, _ := strings.Cut(next.report.Why, "--take-over ")
			named, _, _ = strings.Cut(named, " ")
			if last := w.alone(named); last != redrive.Done {
				t.Errorf("killed after %d calls: %s; then %s", calls, next.report.Why, last)
			}
		}
		if w.sent() == 0 {
			t.Errorf("killed after %d calls: the letter is not sent", calls)
		}
	}
}

// believer believes the replies to its puts: if the first reply was lost, the second one does not say who has put the
// attempt.
type believer struct{ *deadletter.Archive }

func (b believer) Begin(ctx context.Context, name string, r deadletter.Runner, now time.Time) (deadletter.Begun, error) {
	begun, err := b.Archive.Begin(ctx, name, r, now)
	if begun.Other != nil {
		begun = deadletter.Begun{Mine: begun.Other}
	}
	return begun, err
}

// optimist takes the attempt of another run for its marker.
type optimist struct{ *deadletter.Archive }

func (o optimist) Begin(ctx context.Context, name string, r deadletter.Runner, now time.Time) (deadletter.Begun, error) {
	begun, err := o.Archive.Begin(ctx, name, r, now)
	if begun.Other != nil {
		begun = deadletter.Begun{Done: true}
	}
	return begun, err
}

// ender ends its attempt before it stores the marker.
type ender struct {
	*deadletter.Archive
	mine *deadletter.Attempt
}

func (e *ender) Begin(ctx context.Context, name string, r deadletter.Runner, now time.Time) (deadletter.Begun, error) {
	begun, err := e.Archive.Begin(ctx, name, r, now)
	e.mine = begun.Mine
	return begun, err
}

func (e *ender) MarkDone(ctx context.Context, name string, m deadletter.Marker) (bool, error) {
	if err := e.End(ctx, name, e.mine); err != nil {
		return false, err
	}
	return e.Archive.MarkDone(ctx, name, m)
}

// TestMutantsOfAttempts checks that TestTwoRuns finds each broken rule.
func TestMutantsOfAttempts(t *testing.T) {
	t.Parallel()
	for name, mutant := range map[string]func(*player){
		"no attempt": func(p *player) { p.job.Runner = deadletter.Runner{} },
		"an attempt that is not finished counts as ended": func(p *player) {
			p.job.Runner.TakesOver = []string{"run-1", "run-2"}
		},
		"the reply says who began": func(p *player) { p.job.Markers = believer{deadletter.NewArchive(p.objects)} },
		"an attempt is a marker":   func(p *player) { p.job.Markers = optimist{deadletter.NewArchive(p.objects)} },
		"ended before the marker":  func(p *player) { p.job.Markers = &ender{Archive: deadletter.NewArchive(p.objects)} },
	} {
		found := ""
		for c, more := new(choices), true; more && found == ""; more = c.advance() {
			found = twoAtOnce(t, "stream", c, mutant, "")
		}
		if found == "" {
			t.Errorf("%s: not found", name)
		}
		t.Logf("%s: %s", name, found)
	}
}
