package serverclock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
)

// world has a server with the right time, and a machine whose clocks may be wrong.
type world struct {
	*testing.T
	server  time.Time
	machine serverclock.Moment
	clock   *serverclock.Clock
}

// noon is the server's time at the begin of a case.
var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.freeze(d)
	w.machine.Monotonic += d
}

// freeze lets time pass while the monotonic clock stands still.
func (w *world) freeze(d time.Duration) {
	w.server, w.machine.Wall = w.server.Add(d), w.machine.Wall.Add(d)
}

// date returns the Date of a reply that the server sends now.
func (w *world) date() time.Time { return w.server.Truncate(time.Second) }

// ask sends a request and gets its reply at once.
func (w *world) ask() { w.clock.Observe(w.date(), w.machine) }

// bounded checks that the server's time is between the bounds, and that they are less than apart from each other.
func (w *world) bounded(apart time.Duration) {
	w.Helper()
	early, late := w.clock.Early(), w.clock.Late()
	if early.After(w.server) || late.Before(w.server) || late.Sub(early) > apart {
		w.Errorf("want bounds of %s at most %s apart, got %s and %s", w.server, apart, early, late)
	}
}

// usual is how far apart the bounds of a reply without a delay are.
const usual = 2 * time.Second

var cases = []struct {
	name string
	run  func(*world)
}{
	{"no-time-before-a-reply", func(w *world) {
		if early, late := w.clock.Early(), w.clock.Late(); !early.IsZero() || !late.IsZero() {
			w.Errorf("want no times, got %s and %s", early, late)
		}
	}},
	{"dates-have-whole-seconds", func(w *world) {
		for range 40 {
			w.pass(300 * time.Millisecond)
			w.ask()
			w.bounded(usual)
			w.clock.Observe(w.server.Round(time.Second), w.machine) // by a server that rounds
			w.bounded(usual)
		}
	}},
	{"wrong-date-does-not-last", func(w *world) {
		for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			w.clock.Observe(w.date().Add(by), w.machine)
			w.pass(time.Millisecond)
			w.ask()
			w.bounded(usual)
		}
	}},
	{"no-own-clock-caps-the-bounds", func(w *world) {
		for _, by := range []time.Duration{-20 * time.Minute, 40 * time.Minute} {
			w.machine.Wall = w.machine.Wall.Add(by)
			w.ask()
			w.bounded(usual)
			w.pass(10 * time.Second)
			w.bounded(usual)
		}
	}},
	{"wall-clock-set-forward", func(w *world) {
		w.ask()
		w.machine.Wall = w.machine.Wall.Add(time.Hour)
		w.pass(10 * time.Second)
		w.bounded(time.Hour + usual) // only the late bound follows the wall clock
		w.ask()
		w.bounded(usual)
	}},
	{"wall-clock-set-back", func(w *world) {
		w.ask()
		w.machine.Wall = w.machine.Wall.Add(-time.Hour)
		w.pass(10 * time.Second)
		w.bounded(usual)
	}},
	{"frozen-machine", func(w *world) {
		w.ask()
		w.freeze(time.Hour)
		w.bounded(time.Hour + usual)
		w.ask()
		w.bounded(usual)
	}},
	{"frozen-between-request-and-reply", func(w *world) {
		sent, date := w.machine, w.date()
		w.freeze(time.Minute)
		w.clock.Observe(date, sent)
		w.bounded(time.Minute + usual)
	}},
	{"slow-reply", func(w *world) {
		sent, date := w.machine, w.date()
		w.pass(5 * time.Second)
		w.clock.Observe(date, sent)
		w.bounded(5*time.Second + usual)
	}},
	{"reply-that-is-overtaken", func(w *world) {
		sent, wrong := w.machine, w.date().Add(10*time.Minute)
		w.pass(time.Millisecond)
		w.ask()
		w.pass(time.Second)
		w.clock.Observe(wrong, sent) // to the earlier request
		w.bounded(usual)
	}},
	{"random", func(w *world) {
		for seed := range uint64(2_000) {
			random := rand.New(rand.NewPCG(seed, 0))
			w.clock.Observe(w.date(), w.machine)
			for range 20 {
				w.step(random, seed%2 == 0)
				w.bounded(time.Hour)
			}
		}
	}},
}

// step lets a random thing happen. A machine freezes, or somebody sets its wall clock: both at once could not be
// noticed.
func (w *world) step(random *rand.Rand, freezes bool) {
	moment := func() time.Duration { return time.Duration(random.Int64N(int64(3 * time.Second))) }
	switch random.IntN(4) {
	case 0:
		w.pass(moment())
	case 1: // a request, and a later one whose reply arrives first
		sent := w.machine
		w.pass(moment())
		date := w.date()
		w.pass(moment())
		if random.IntN(2) == 0 {
			w.ask()
		}
		w.pass(moment())
		w.clock.Observe(date, sent)
	case 2:
		w.ask()
	case 3:
		if by := moment(); freezes {
			w.freeze(by)
		} else {
			w.machine.Wall = w.machine.Wall.Add(by - 1500*time.Millisecond)
		}
	}
}

// start returns the world of a case. Its machine's wall clock is right.
func start(t *testing.T) *world {
	w := &world{T: t, server: noon.Add(400 * time.Millisecond)}
	w.machine = serverclock.Moment{Wall: w.server, Monotonic: time.Hour}
	w.clock = serverclock.On(func() serverclock.Moment { return w.machine })
	return w
}

func TestClock(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(start(t))
		})
	}
}

// TestOfThisMachine: New measures by the clocks of this machine.
func TestOfThisMachine(t *testing.T) {
	t.Parallel()
	c, date := serverclock.New(), noon
	sent := c.Moment()
	c.Observe(date, sent)
	begin := time.Now()
	early, late := c.Early(), c.Late()
	passed := time.Since(begin) + time.Minute // a machine can be slow
	if early.Before(date.Add(-time.Second)) || late.After(date.Add(2*time.Second+passed)) || !early.Before(late) {
		t.Errorf("want bounds of %s, got %s and %s", date, early, late)
	}
}
