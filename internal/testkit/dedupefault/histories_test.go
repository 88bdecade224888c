package dedupefault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// history is a random scenario with a list of faults that its calls and invocations get in turn.
type history struct {
	Scenario
	Ways  []Way
	Waits []time.Duration // the waits before and after calls; noWait means no wait
	Fates []int           // the fates of invocations, as indexes of fates
}

// noWait keeps other invocations from running before or after a call.
const noWait = time.Duration(-1)

// After this many calls, no more fail. An object sink makes many calls for a record.
const (
	mostCalls       = 100
	mostObjectCalls = 400
)

// plan gives calls their faults in turn, each in a way that its method can fail.
func (h history) plan(n int, method Method) (f Fault) {
	if n >= mostCalls && (h.Objects == ObjectOptions{} || n >= mostObjectCalls) {
		return Fault{}
	}
	if way := h.Ways[n%len(h.Ways)]; slices.Contains(waysOf(method), way) {
		f.Way = way
	}
	wait := func(i int) *time.Duration {
		if d := h.Waits[i%len(h.Waits)]; d >= 0 {
			return &d
		}
		return nil
	}
	f.Before, f.After = wait(2*n), wait(2*n+1)
	return f
}

func (h history) fate(inv *eventsource.Invocation) eventsource.Fate {
	return fates[h.Fates[inv.Number%len(h.Fates)]]
}

// stepWaits are the possible waits between steps: short waits, and the edges of the window and the horizon.
var stepWaits = []time.Duration{
	0, time.Second, 10 * time.Second, timeout + 5*time.Second, window - time.Second, window, window + time.Second,
	recordAge, window + horizon - 90*time.Second, window + horizon - time.Second, window + horizon + time.Second,
}

var histories = rapid.Custom(func(t *rapid.T) (h history) {
	oneOf := func(name string, values ...int) int { return rapid.SampledFrom(values).Draw(t, name) }
	h.Scenario = Scenario{
		Shards: oneOf("shards", 1, 1, 2, 3), BatchSize: oneOf("batch size", 1, 2, 3, 5, 10), Chunk: oneOf("chunk", 1, 2, 3, 500),
		Parallel: oneOf("parallel", 1, 1, 1, 3), GiveUp: oneOf("give up", 0, 0, 0, 1, 3), NoBisect: rapid.Bool().Draw(t, "no bisect"),
		Instances: oneOf("instances", 1, 1, 2, 3),
		Sink:      rapid.SampledFrom([]Level{AtLeastOnce, AtLeastOnce, Transactional, Objects}).Draw(t, "sink"),
		NoAcks:    oneOf("no acks", 0, 0, 0, 1) == 1, Seed: rapid.Uint64().Draw(t, "seed"), Loses: true,
		Reading: rapid.SampledFrom([]eventsource.Reading{eventsource.RetryBatch, eventsource.BisectBatch}).Draw(t, "reading"),
	}
	if h.Sink == Objects {
		h.Parallel = 1
	}
	h.Steps = rapid.SliceOfN(steps, 3, 16).Draw(t, "steps")
	seldom := func(ways ...Way) []Way { return append(slices.Repeat([]Way{None}, 2*len(ways)), ways...) }
	way := rapid.SampledFrom(seldom(FailBefore, LoseReply, Throttle, CancelBefore, CancelAfter, CrashBefore, CrashAfter, LateBefore, LateAfter, PartBefore, PartLost, Scattered,
		ScatterLost, Stale, StaleGaps))
	h.Ways = rapid.SliceOfN(way, 1, 23).Draw(t, "ways")
	h.Waits = rapid.SliceOfN(rapid.SampledFrom([]time.Duration{noWait, noWait, noWait, 0, time.Second, 20 * time.Second, timeout}), 1, 13).Draw(t, "waits")
	h.Fates = rapid.SliceOfN(rapid.IntRange(0, len(fates)-1), 1, 11).Draw(t, "fates")
	return h
})

// objectHistories are histories of object sinks only. An object holds many records, and writers collide only in the
// chain of one shard. So these histories have more records and redrives, and fewer shards, copies, waits and faults.
var objectHistories = rapid.Custom(func(t *rapid.T) (h history) {
	oneOf := func(name string, values ...int) int { return rapid.SampledFrom(values).Draw(t, name) }
	h.Scenario = Scenario{
		Sink: Objects, Shards: oneOf("shards", 1, 1, 1, 2), BatchSize: oneOf("batch size", 2, 3, 5, 8, 20),
		Chunk: oneOf("chunk", 1, 2, 3, 500), GiveUp: oneOf("give up", -1, 1, 3, 10), Instances: oneOf("instances", 3, 2, 5, 1),
		Seed: rapid.Uint64().Draw(t, "seed"), Loses: true,
		Reading: rapid.SampledFrom([]eventsource.Reading{eventsource.RetryBatch, eventsource.BisectBatch}).Draw(t, "reading"),
		Objects: ObjectOptions{
			Size: int64(oneOf("object size", 1, 80, 200, 0)), HintEvery: oneOf("hint every", 1, 2, 5, 50),
			ListPage: oneOf("page", 1, 3, 0),
		},
	}
	h.Steps = append(rapid.SliceOfN(objectSteps, 14, 40).Draw(t, "steps"), Step{Do: Redrive})
	seldom := oneOf("seldom", 3, 3, 8, 40)
	ways := []Way{
		FailBefore, Throttle, LoseReply, EffectLater, CancelBefore, CancelAfter, CrashBefore, CrashAfter, LateBefore, LateAfter,
	}
	ways = append(slices.Repeat([]Way{None}, seldom*len(ways)), ways...)
	h.Ways = rapid.SliceOfN(rapid.SampledFrom(ways), 7, 61).Draw(t, "ways")
	waits := []time.Duration{noWait, noWait, noWait, 0, 0, time.Second}
	h.Waits = rapid.SliceOfN(rapid.SampledFrom(waits), 3, 23).Draw(t, "waits")
	fate := rapid.Custom(func(t *rapid.T) int {
		if rapid.IntRange(0, seldom).Draw(t, "usual") > 0 {
			return 0
		}
		return rapid.IntRange(0, len(fates)-1).Draw(t, "fate")
	})
	h.Fates = rapid.SliceOfN(fate, 3, 23).Draw(t, "fates")
	return h
})

var objectSteps = rapid.Custom(func(t *rapid.T) Step {
	switch n := rapid.IntRange(0, 19).Draw(t, "do"); {
	case n < 12:
		s := Step{Do: Put, Key: rapid.IntRange(0, 3).Draw(t, "key")}
		s.Users = rapid.SliceOfN(objectUsers, 1, rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "users")).Draw(t, "users")
		return s
	case n < 15:
		waits := []time.Duration{time.Second, time.Second, 3 * time.Second, 3 * time.Second, 0, 0, timeout + time.Second, recordAge}
		return wait(rapid.SampledFrom(waits).Draw(t, "for"))
	case n < 17:
		return Step{Do: rapid.SampledFrom([]string{Again, Again, Redrive}).Draw(t, "redrive")}
	case n == 17:
		return Step{Do: rapid.SampledFrom([]string{Split, Merge}).Draw(t, "reshard"), Key: rapid.IntRange(0, 3).Draw(t, "shard")}
	case n == 18:
		return Step{Do: Restart}
	}
	return Step{Do: rapid.SampledFrom([]string{Second, Replay}).Draw(t, "another mapping")}
})

var objectUsers = rapid.Custom(func(t *rapid.T) User {
	kinds := append(slices.Repeat([]Kind{Good}, 16), Correctable, Correctable, Correctable)
	u := User{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	u.ID = rapid.SampledFrom([]string{"a", "b", "c", "own", "own"}).Draw(t, "id")
	if u.ID == "own" {
		u.ID = fmt.Sprint("own-", rapid.IntRange(0, 999).Draw(t, "own"))
	}
	u.FP = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "fp")
	return u
})

var ids4 = []string{"a", "a", "b", "c", format.DerivedID("a", "y"), strings.ToUpper(format.DerivedID("a", "y"))}

var steps = rapid.Custom(func(t *rapid.T) Step {
	switch rapid.SampledFrom([]string{Put, Put, Put, Put, Put, Put, Put, Wait, Wait, Wait, Sweep, Sweep, Split, Merge, Restart, Second, Switch, Redrive}).Draw(t, "do") {
	case Put:
		return Step{Do: Put, Key: rapid.IntRange(0, 3).Draw(t, "key"), Users: rapid.SliceOfN(users, 1, 3).Draw(t, "users")}
	case Wait:
		return wait(rapid.SampledFrom(stepWaits).Draw(t, "for"))
	case Sweep:
		return Step{Do: Sweep}
	case Split:
		return Step{Do: Split, Key: rapid.IntRange(0, 3).Draw(t, "shard")}
	case Merge:
		return Step{Do: Merge, Key: rapid.IntRange(0, 3).Draw(t, "shard")}
	case Restart:
		return Step{Do: Restart}
	case Switch:
		return Step{Do: Switch}
	case Redrive:
		return Step{Do: Redrive}
	}
	return Step{Do: Second}
})

var users = rapid.Custom(func(t *rapid.T) User {
	kind := rapid.SampledFrom(append(slices.Repeat([]Kind{Good}, 20), Broken, NoID, Large, Panics, Kills, Refused, Correctable, Correctable)).Draw(t, "kind")
	if !kind.identified() {
		return User{Kind: kind}
	}
	return User{Kind: kind, ID: rapid.SampledFrom(ids4).Draw(t, "id"), FP: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "fp")}
})

// fates are the possible fates of invocations. Most of them are normal.
var fates = []eventsource.Fate{
	{}, {}, {}, {}, {}, {}, {}, {}, {}, {},
	{Throttle: true},
	{Err: errThrown},
	{Skip: true, Err: errThrown},
	{Answer: []byte(`{"batchItemFailures":[{"itemIdentifier":""}]}`)},
	{Takes: time.Hour},
	{Delay: time.Hour},
	{Takes: 10 * time.Second},
	{Delay: timeout + 5*time.Second, Zombie: true},
	{Delay: 20 * time.Second},
}

// historyOf returns the history of a seed, which is the same each time.
func historyOf(seed int) history { return histories.Example(seed) }

func (h history) play(ctx context.Context, engine dedupe.Store, m *Mutant) error {
	_, err := h.playOn(engine, m).Run(ctx)
	return err
}

func (h history) playOn(engine dedupe.Store, m *Mutant) Play {
	return Play{Scenario: h.Scenario, Engine: engine, Plan: h.plan, Fates: h.fate, Mutant: m}
}
