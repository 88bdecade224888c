package eventsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// TestTimeout: a function that misses its deadline has failed (Discarded: splitting is also for
// "avoiding timeouts") and is ended, so that it has no effects after that.
func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0", "1")
	w.mapping.Retries, w.mapping.Bisect, w.mapping.Timeout = new(0), true, time.Minute
	late := 0
	w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		answer, err := w.handle(ctx, event)
		if len(w.calls) == 1 {
			eventsource.Wait(ctx, time.Hour)
			late++
		}
		return answer, err
	}
	w.start()
	w.drain()
	w.batches("0 1, 0, 1")
	w.discarded("")
	equal(t, "late effects", late, 0)
	equal(t, "second try", w.calls[1].at, time.Minute+eventsource.DefaultRetryPause)
}

// TestZombie plays an invocation that continues after its time-out. Its effects come between the effects of its
// successors, and its answer is ignored.
func TestZombie(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.Retries, w.mapping.OnFailure = new(1), nil
	var effects []string
	w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		_, err := w.handle(ctx, event)
		n := len(w.calls)
		if n == 1 {
			eventsource.Wait(ctx, 5*time.Second)
		}
		effects = append(effects, fmt.Sprint(n))
		if n == 1 {
			return nil, errBroken
		}
		eventsource.Wait(ctx, 2*time.Second)
		effects = append(effects, fmt.Sprint(n))
		return nil, err
	}
	w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate { return eventsource.Fate{Zombie: true} }
	w.send("0")
	p := w.start()
	w.drain() // the time-out is after 3 s, the second attempt a second later
	equal(t, "effects", strings.Join(effects, " "), "2 1 2")
	equal(t, "dropped", p.Tally().Dropped, 0)
}

// TestFates lists what can happen to an invocation from outside.
func TestFates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fate   eventsource.Fate
		effect bool // whether the code of the function runs in the first invocation
	}{
		"throttled":            {eventsource.Fate{Throttle: true}, false},
		"never runs":           {eventsource.Fate{Skip: true, Err: errBroken}, false},
		"fails after its work": {eventsource.Fate{Err: errBroken}, true},
		"answers anything":     {eventsource.Fate{Answer: json.RawMessage(`{"batchItemFailures":[{}]}`)}, true},
		"begins too late":      {eventsource.Fate{Delay: time.Hour}, false},
		"answers too late":     {eventsource.Fate{Takes: time.Hour}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.send("0")
			invocations := 0
			w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate {
				invocations = inv.Number
				if inv.Number == 1 {
					return c.fate
				}
				return eventsource.Fate{}
			}
			w.start()
			w.drain()
			equal(t, "invocations", invocations, 2)
			if c.effect {
				w.batches("0, 0")
			} else {
				w.batches("0")
			}
		})
	}
}

// TestCrash: a goroutine that ends inside the function is a crash.
func TestCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0")
	w.mapping.Retries = new(1)
	w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		_, _ = w.handle(ctx, event)
		runtime.Goexit()
		return nil, nil
	}
	w.start()
	w.drain()
	w.batches("0, 0")
	w.discarded("0")
	equal(t, "error", w.given[0].Err, eventsource.ErrCrashed)
}

// TestOneSeedIsOneHistory: other seeds give other histories.
func TestOneSeedIsOneHistory(t *testing.T) {
	t.Parallel()
	history := func(seed uint64) string {
		w := newWorld(t, 3)
		w.sim = eventsource.NewSim(start, seed)
		t.Cleanup(w.sim.Close)
		w.mapping.Parallelization, w.mapping.BatchSize = 3, 2
		var log []string
		w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
			_, err := w.handle(ctx, event)
			n := len(w.calls)
			log = append(log, fmt.Sprint(n, w.calls[n-1].data))
			for range 3 {
				eventsource.Wait(ctx, 0)
				log = append(log, fmt.Sprint(n))
			}
			return nil, err
		}
		w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate {
			log = append(log, inv.RequestID)
			return eventsource.Fate{Throttle: w.sim.Rand.IntN(3) == 0}
		}
		w.send(numbers(20)...)
		w.start()
		w.mapping.Checkpoint = w.mapping.Checkpoint.Clone()
		w.start()
		w.drain()
		return strings.Join(log, " ")
	}
	first := history(7)
	equal(t, "the same seed", history(7), first)
	if history(8) == first {
		t.Error("another seed gives the same history")
	}
}

// TestTwoPollersAtOnce: both deliver all records. Each has a checkpoint of its own.
func TestTwoPollersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0", "1")
	first := w.start()
	w.mapping.Checkpoint = w.mapping.Checkpoint.Clone()
	w.start()
	w.drain()
	w.batches("0 1, 0 1")
	first.Stop()
	w.send("2")
	w.drain()
	w.batches("0 1, 0 1, 2")
}

// TestStopLeavesInvocations: the invocations of a stopped mapping continue, but their answers are
// ignored. The next mapping delivers the records again.
func TestStopLeavesInvocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0")
	w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate { return eventsource.Fate{Takes: time.Second} }
	p := w.start()
	w.advance(500 * time.Millisecond)
	p.Stop()
	w.advance(time.Minute)
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard), "")
	w.start()
	w.drain()
	w.batches("0, 0")
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard), w.put["0"])
}

// failingStream is a stream with a shard that cannot be read.
type failingStream struct {
	*eventsource.Stream
	shard string
}

func (f failingStream) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	if *in.ShardId == f.shard {
		return nil, errBroken
	}
	return f.Stream.GetShardIterator(ctx, in)
}

// TestCloseEndsWaitingInvocations checks that no function runs after Close, and that nothing has failed.
func TestCloseEndsWaitingInvocations(t *testing.T) {
	t.Parallel()
	waiting := 0
	for seed := range uint64(40) {
		w := newWorld(t, 2)
		w.sim = eventsource.NewSim(start, seed)
		begun := 0
		w.sim.Fate = func(*eventsource.Invocation) eventsource.Fate {
			begun++
			return eventsource.Fate{}
		}
		w.mapping.Client, w.mapping.Retries = failingStream{w.stream, w.stream.Open()[1]}, new(0)
		w.send(numbers(20)...)
		w.start()
		if err := w.sim.Advance(time.Minute); !errors.Is(err, errBroken) {
			t.Fatalf("want the stream's failure, got %v", err)
		}
		ran := len(w.calls)
		waiting += begun - ran
		w.sim.Close()
		equal(t, "calls after the end", len(w.calls), ran)
		w.discarded("")
	}
	if waiting == 0 {
		t.Error("every invocation had begun: the test shows nothing")
	}
}

// TestDrainReportsWhatIsLeft uses a function that never succeeds. Drain must return an error.
func TestDrainReportsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0")
	w.answer = throwing("0")
	w.start()
	if err := w.sim.Drain(time.Hour); err == nil {
		t.Error("drained")
	}
}

// TestDeadlineInABubble: in a bubble the timers of the function use virtual time, and its context
// ends at its deadline.
func TestDeadlineInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim := eventsource.NewSimInBubble(1)
		defer sim.Close()
		stream := eventsource.NewStream(1, sim.Now)
		stream.Put("0", []byte("0"))
		var ended []time.Duration
		begun := sim.Now()
		_, err := sim.Start(eventsource.Mapping{
			Client: stream, StreamARN: arn, Retries: new(1), Timeout: 15 * time.Second,
			Function: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				deadline, _ := ctx.Deadline()
				equal(t, "time left", time.Until(deadline), 15*time.Second)
				<-ctx.Done()
				if len(ended) == 0 {
					time.Sleep(time.Second) // after that any answer is too late
				}
				ended = append(ended, sim.Now().Sub(begun))
				return nil, nil
			},
		})
		must(t, err)
		must(t, sim.Drain(time.Hour))
		equal(t, "ends", fmt.Sprint(ended), "[16s 32s]")
	})
}

// TestProgram: a program beside the mapping takes its turns with the invocations.
func TestProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	var turns []string
	w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		turns = append(turns, "function")
		eventsource.Wait(ctx, time.Second)
		turns = append(turns, "function")
		return w.handle(ctx, event)
	}
	w.send("0")
	w.start()
	w.sim.Go(func(ctx context.Context, program *eventsource.Invocation) {
		equal(t, "records of the program", len(program.Records), 0)
		eventsource.Wait(ctx, 500*time.Millisecond)
		turns = append(turns, "program")
		eventsource.Wait(ctx, time.Hour)
		turns = append(turns, "program")
	})
	w.drain()
	equal(t, "turns", strings.Join(turns, " "), "function program function program")
}
