package idempotencyfault

import (
	"math/rand/v2"
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
	slow      bool    // the slowest requests take more than half of a lease
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

// fault happens to a process.
type fault struct {
	at      time.Duration
	process int
	crash   bool
	freeze  time.Duration // with history.freezes
	wall    time.Duration // the wall clock is set forward or back by this
}

// newHistory makes the history of a seed.
func newHistory(seed uint64) history {
	random := rand.New(rand.NewPCG(seed, 1))
	h := history{seed: seed, processes: 1 + random.IntN(3), freezes: random.IntN(2) == 0, slow: random.IntN(3) == 0}
	h.lossy = []float64{0, 0.1, 0.3, 0.6}[random.IntN(4)]
	h.settings.Lease = []time.Duration{5, 10, 30}[random.IntN(3)] * time.Second
	h.settings.Window = []time.Duration{2 * time.Second, 20 * time.Second, 5 * time.Minute, time.Hour}[random.IntN(4)]
	h.settings.DoNotWait = random.IntN(3) == 0
	horizon := []time.Duration{time.Second, 5 * time.Second, time.Minute, 40 * time.Minute}[random.IntN(4)]
	keys, payloads := 1+random.IntN(2), 1
	if random.IntN(3) == 0 {
		payloads = 2
	}
	for range 2 + random.IntN(7) {
		h.calls = append(h.calls, plan{
			at: upTo(random, horizon), process: random.IntN(h.processes),
			key: string(rune('a' + random.IntN(keys))), payload: string(rune('x' + random.IntN(payloads))),
			takes: h.duration(random), ends: randomEnding(random), obeys: random.IntN(2) == 0,
		})
	}
	for range random.IntN(5) {
		f := fault{at: upTo(random, horizon+h.settings.Lease), process: random.IntN(h.processes)}
		switch {
		case random.IntN(4) == 0:
			f.crash = true
		case h.freezes:
			f.freeze = upTo(random, []time.Duration{h.settings.Lease / 2, 3 * h.settings.Lease, time.Hour}[random.IntN(3)])
		default:
			f.wall = upTo(random, 40*time.Minute) - 20*time.Minute
		}
		h.faults = append(h.faults, f)
	}
	return h
}

// duration returns how long a function takes: nothing, a part of the lease, or several leases.
func (h history) duration(random *rand.Rand) time.Duration {
	return upTo(random, []time.Duration{1, h.settings.Lease, 3 * h.settings.Lease}[random.IntN(3)])
}

func randomEnding(random *rand.Rand) ending {
	if random.IntN(2) == 0 {
		return succeeds
	}
	return ending(random.IntN(int(tooLarge) + 1))
}

// upTo returns a random duration below a limit.
func upTo(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}
