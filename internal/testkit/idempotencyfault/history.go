package idempotencyfault

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// history is what a seed decides before the first event. The seed also decides the delays and faults of requests.
type history struct {
	seed      uint64
	settings  idempotency.Settings
	processes int
	freezes   bool // processes freeze; otherwise their wall clocks are set
	calls     []plan
	faults    []fault
	lossy     float64 // the share of requests that have a fault
	refuses   float64 // the share of transactions whose effects the store refuses
	slow      bool    // some messages take up to half of a lease
	deaf      bool    // no heartbeat arrives
	rounds    bool    // the store rounds its Dates to the nearest second; otherwise it cuts them off
	coarse    bool    // all times are multiples of half a second, so that many times are equal
	ticks     bool    // processes wake up at multiples of half a second, too
	theirs    []theirs
	punctual  bool // theirs have the right time, and end within their leases
}

// plan is a call of a client.
type plan struct {
	at      time.Duration // since the begin
	process int
	key     string
	payload string
	takes   time.Duration // how long the function runs
	ends    ending
	obeys   bool // the function fails when its context ends
	effects bool // the function has effects in the transaction of its completion
	// patience is when the context of the caller ends, after the begin of the call; zero: never. With
	// Settings.LeaseUntilDeadline, the context has this deadline by the wall clock of the process.
	patience time.Duration
}

// ending is how a function ends.
type ending int

const (
	succeeds ending = iota
	fails
	failsFinally
	panics
	tooLarge
)

// commits reports whether a completion of the call has effects. Effects of a failure do not happen.
func (p plan) commits() bool { return p.effects && p.ends != failsFinally }

// fault happens to a process.
type fault struct {
	at      time.Duration
	process int
	crash   bool
	freeze  time.Duration // with history.freezes
	wall    time.Duration // the wall clock is set forward or back by this
	evicts  string        // the key that the process evicts
	running bool          // it evicts an execution whose lease is not over, too
}

// newHistory makes the history of a seed. Some are of a kind in which rare things happen.
func newHistory(seed uint64) history {
	random := rand.New(rand.NewPCG(seed, 1))
	h := history{
		seed: seed, rounds: seed%2 == 1, processes: 1 + random.IntN(3), freezes: random.IntN(2) == 0, slow: random.IntN(3) == 0,
		coarse: random.IntN(2) == 0, lossy: one(random, 0, 0.1, 0.3, 0.6),
	}
	h.settings.Lease = one(random, 5*time.Second, 10*time.Second, 30*time.Second)
	h.settings.Window = one(random, 2*time.Second, 20*time.Second, 5*time.Minute, time.Hour)
	h.settings.DoNotWait = random.IntN(3) == 0
	horizon := one(random, time.Second, 5*time.Second, time.Minute, 40*time.Minute)
	keys, payloads, calls := 1+random.IntN(2), one(random, 1, 1, 2), 2+random.IntN(7)
	takes := func() time.Duration { return h.upTo(random, one(random, 1, h.settings.Lease, 3*h.settings.Lease)) }
	switch random.IntN(7) {
	case 0: // records expire while calls wait for them
		h.settings.Window, h.settings.DoNotWait, h.slow = 2*time.Second, false, true
		horizon, keys, calls = 2*h.settings.Lease, 1, 8+random.IntN(5)
	case 1: // records are purged while calls come
		h.settings.Window, h.freezes = 2*time.Second, false
		horizon, keys, calls = 40*time.Minute, 1, 2+random.IntN(4)
	case 2: // a completion meets the end of its lease, and calls wait for that
		h.settings.DoNotWait, h.deaf, h.coarse = false, true, true
		horizon, keys, calls = time.Second, 1, 2+random.IntN(3)
		takes = func() time.Duration { return h.settings.Lease - 3*time.Second + h.upTo(random, 4*time.Second) }
	}
	for range calls {
		h.calls = append(h.calls, plan{
			at: h.upTo(random, horizon), process: random.IntN(h.processes),
			key: string(rune('a' + random.IntN(keys))), payload: string(rune('x' + random.IntN(payloads))),
			takes: takes(),
			ends:  one(random, succeeds, succeeds, succeeds, fails, fails, failsFinally, panics, tooLarge),
			obeys: random.IntN(2) == 0,
		})
	}
	for range random.IntN(5) {
		f := fault{at: h.upTo(random, horizon+h.settings.Lease), process: random.IntN(h.processes)}
		switch {
		case random.IntN(4) == 0:
			f.crash = true
		case h.freezes:
			f.freeze = h.upTo(random, one(random, h.settings.Lease/2, 3*h.settings.Lease, time.Hour))
		default:
			f.wall = h.upTo(random, 40*time.Minute) - 20*time.Minute
		}
		h.faults = append(h.faults, f)
	}
	h.limitPatience(rand.New(rand.NewPCG(seed, 3)))
	h.commit(rand.New(rand.NewPCG(seed, 4)))
	h.evict(rand.New(rand.NewPCG(seed, 5)), horizon, keys)
	h.leaseUntilDeadline(rand.New(rand.NewPCG(seed, 8)))
	h.cache(rand.New(rand.NewPCG(seed, 9)))
	return h
}

// limitPatience gives some calls of some histories a context that ends.
func (h *history) limitPatience(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	for n := range h.calls {
		if random.IntN(2) == 0 {
			h.calls[n].patience = time.Second/2 + h.upTo(random, one(random, time.Second, 2*h.settings.Lease))
		}
	}
}

// commit gives some calls of some histories effects, which the store may refuse.
func (h *history) commit(random *rand.Rand) {
	if random.IntN(2) == 0 {
		return
	}
	h.refuses = one(random, 0, 0.2, 0.5)
	for n := range h.calls {
		h.calls[n].effects = random.IntN(3) > 0
	}
	if random.IntN(4) > 0 {
		return
	}
	// Late tries of transactions meet the releases of their refusals, and calls wait for that.
	h.settings.Window, h.settings.DoNotWait = 2*time.Second, false
	h.lossy, h.refuses = 0.6, 0.5
	for n := range h.calls {
		p := &h.calls[n]
		p.key, p.payload, p.effects, p.ends = "a", "x", true, succeeds
		p.at, p.takes = h.upTo(random, 5*time.Second), h.upTo(random, time.Second)
	}
}

// evict lets processes of some histories evict keys.
func (h *history) evict(random *rand.Rand, horizon time.Duration, keys int) {
	if random.IntN(3) > 0 {
		return
	}
	for range 1 + random.IntN(4) {
		h.faults = append(h.faults, fault{
			at: h.upTo(random, horizon+h.settings.Lease), process: random.IntN(h.processes),
			evicts: string(rune('a' + random.IntN(keys))), running: random.IntN(2) == 0,
		})
	}
}

// leaseUntilDeadline lets the leases of some histories end at the deadlines of their calls.
func (h *history) leaseUntilDeadline(random *rand.Rand) {
	if random.IntN(6) > 0 {
		return
	}
	h.settings.LeaseUntilDeadline = true
	for n := range h.calls {
		p := &h.calls[n]
		p.patience = time.Second/2 + h.upTo(random, one(random, 5*time.Second, 2*h.settings.Lease))
	}
	if random.IntN(2) > 0 {
		return
	}
	// Late puts over the own row meet others whose leases end at the same millisecond.
	h.settings.Lease = 30 * time.Second
	h.coarse, h.ticks, h.slow, h.lossy = true, true, true, 0.6
	for n := range h.calls {
		p := &h.calls[n]
		p.at, p.takes = h.upTo(random, time.Minute), 10*time.Second+h.upTo(random, 30*time.Second)
		p.patience = 20*time.Second + h.upTo(random, 40*time.Second)
	}
}

// cache gives the processes of some histories a cache, sometimes with room for one or two records.
func (h *history) cache(random *rand.Rand) {
	if random.IntN(4) == 0 {
		h.settings.CacheBytes = one(random, 600, 1<<20)
	}
}

// calm reports whether nothing goes wrong, and replies come soon.
func (h history) calm() bool {
	impatient := func(p plan) bool { return p.patience > 0 }
	return h.lossy == 0 && !h.slow && !h.coarse && !h.deaf && len(h.faults) == 0 && len(h.theirs) == 0 &&
		!slices.ContainsFunc(h.calls, impatient)
}

// one returns one of several values.
func one[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// upTo returns a random duration below a limit.
func (h history) upTo(random *rand.Rand, limit time.Duration) time.Duration {
	d := time.Duration(random.Int64N(int64(limit)))
	if h.coarse {
		return d.Truncate(time.Second / 2)
	}
	return d
}
