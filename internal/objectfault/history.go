package objectfault

import (
	"math/rand/v2"
	"time"

	"github.com/oncebox/oncebox/internal/eventsource"
)

// history holds the parameters of one play. The seed decides all of them.
type history struct {
	seed                     uint64
	shards, batchSize, chunk int
	objectSize               int64
	retries                  int // the retries before Lambda gives a batch up
	hintEvery                int
	reading                  eventsource.Reading
	records                  int
	trouble                  float64 // the probability of a fault
	cold                     float64 // the probability that a container is new
}

const timeout = 10 * time.Second

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func newHistory(seed uint64) history {
	r := rand.New(rand.NewPCG(seed, 1))
	return history{
		seed: seed, shards: oneOf(r, 1, 1, 1, 2), batchSize: oneOf(r, 2, 3, 5, 8, 20), chunk: oneOf(r, 1, 2, 3, 500),
		objectSize: oneOf[int64](r, 1, 80, 200, 0), retries: oneOf(r, 0, 1, 3, 10),
		hintEvery: oneOf(r, 1, 2, 5, 50),
		reading:   oneOf(r, eventsource.RetryBatch, eventsource.BisectBatch),
		records:   oneOf(r, 5, 10, 20, 30), trouble: oneOf(r, 0.02, 0.1, 0.25), cold: oneOf(r, 0.1, 0.5, 0.9),
	}
}

// fate returns the fate of an invocation.
func (w *world) fate(*eventsource.Invocation) (f eventsource.Fate) {
	f.Zombie = true // a call may take too long; then the process goes on after the time-out
	if !w.chance(w.trouble) {
		return f
	}
	switch w.sim.Rand.IntN(5) {
	case 0:
		f.Throttle = true
	case 1:
		f.Delay = oneOf(w.sim.Rand, time.Second, timeout+time.Second, 3*timeout)
	case 2:
		f.Takes = oneOf(w.sim.Rand, time.Second, timeout+time.Second)
	case 3:
		f.Err = errThrown
	case 4:
		f.Takes, f.Err = time.Second, errThrown
	}
	return f
}

// step plays one event outside the mapping.
func (w *world) step() error {
	open := w.stream.Open()
	switch n := w.sim.Rand.IntN(20); {
	case n < 12:
		w.put()
	case n < 16:
		return w.sim.Advance(oneOf(w.sim.Rand, 0, time.Second, 3*time.Second, timeout+time.Second, 16*time.Minute))
	case n == 16:
		w.note("redrive")
		w.control.Put("k", nil)
	case n == 17 && w.chance(0.5):
		w.note("split")
		return w.stream.Split(oneOf(w.sim.Rand, open...))
	case n == 17 && len(open) > 1:
		w.note("merge")
		return w.stream.Merge(open[0], open[1])
	case n == 18:
		w.note("restart")
		w.poller.Stop()
		return w.start()
	case n == 19 && w.chance(0.5):
		w.note("second poller, from %s", oneOf(w.sim.Rand, "the checkpoint", "the beginning"))
		second := w.mapping()
		second.Checkpoint = nil
		if w.chance(0.5) {
			second.Checkpoint = w.checkpoint.Clone()
		}
		_, err := w.sim.Start(second)
		return err
	}
	return nil
}

func (w *world) chance(p float64) bool { return w.sim.Rand.Float64() < p }
