package bench

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/bench/simulated"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// simulations is the number of small banks that are handed out. The figure is their mean.
const simulations = 20

// Goals of simulated claims.
const (
	maxCold        = 1.2 // requests of a container's first claims
	maxColdWrites  = 3.2
	maxUnanswered  = 0.1 // percent of answers, at 5,000 claims a second
	maxMost        = 150 // milliseconds, for 95 % of the answers
	maxSoldOut     = 1.1 // requests, of a warm container
	maxSoldOutTime = 300 // milliseconds
	maxSweep       = 50  // seconds, the time of the sweep function, for the holds of a minute at 1,700 a second
	maxCloseUnits  = 7   // write units of a close, with the index
)

// TestFiguresOfSimulatedClaims records the figures of simulated claims. It is a test, because a bubble of synctest
// needs one, and it runs only with benchmarks: `make bench SUBJECT=Claims`.
func TestFiguresOfSimulatedClaims(t *testing.T) {
	if flag.Lookup("test.bench").Value.String() == "" {
		t.Skip("make bench measures")
	}
	simulatedBanks(t)
	coldContainers(t)
	heavyLoad(t)
	soldOut(t)
	sweeps(t)
}

func simulatedBanks(t *testing.T) {
	t.Helper()
	for _, c := range crowds {
		if c.where != "" { // a simulated container has one worker
			continue
		}
		requests, _ := handOutSimulated(t, smallBank, c.workers, simulations)
		name := fmt.Sprintf("requests a claim, bank of %d, %d workers: simulated", smallBank, c.workers)
		note(name, requests, c.goal, fmt.Sprintf("mean of %d", simulations))
	}
	requests, lost := handOutSimulated(t, largeBank, 32, 1)
	name := fmt.Sprintf("a claim, bank of %d, 32 workers: simulated", largeBank)
	note("requests "+name, requests, maxOfLarge, "once")
	note("lost races "+name, lost, maxLost, "")
}

// handOutSimulated hands out banks to their last item, and returns the cost of a claim.
func handOutSimulated(t *testing.T, items, workers, times int) (requests, lost float64) {
	t.Helper()
	for seed := range times {
		cost := play(t, uint64(seed), items, simulated.Customers(items), workers)
		requests += float64(cost.Requests)
		lost += float64(cost.Lost)
	}
	claims := float64(items * times)
	return requests / claims, lost / claims
}

// coldContainers simulates a few customers who send many requests to cold containers.
func coldContainers(t *testing.T) {
	t.Helper()
	const customers, times, containers = 20, 5, 8
	var requests, writes float64
	for seed := range uint64(simulations) {
		visits := simulated.Repeated(seed, simulated.Customers(customers), times)
		cost := play(t, seed, largeBank, visits, containers)
		requests += float64(cost.Requests)
		writes += cost.WriteUnits
	}
	each := float64(customers * times * simulations)
	name := fmt.Sprintf("first %d answers of %d containers, %d customers", customers*times, containers, customers)
	note(name+": requests: simulated", requests/each, maxCold, fmt.Sprintf("mean of %d", simulations))
	note(name+": write units: simulated", writes/each, maxColdWrites, "")
}

func play(t *testing.T, seed uint64, items int, customers []string, workers int) (cost simulated.Cost) {
	t.Helper()
	inBubble(t, func() error {
		played, err := simulated.Play(simulated.Model{
			Seed: seed, Items: items, Shards: 16, Latency: simulated.InRegion,
		}, customers, workers, nil)
		if err == nil {
			cost = played.Cost()
		}
		return err
	})
	return cost
}

// inBubble runs a simulation.
func inBubble(t *testing.T, run func() error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// The recommended settings at 5,000 claims a second.
const (
	heavyRate  = 5000
	partitions = 16
	shards     = 4 * partitions
	claimKeys  = 256
	placements = 5      // that have room, whose figures are noted
	soonEmpty  = 20_000 // items, which are claimed after 4 s
)

// heavyLoad simulates seeds until some random placements have room for the load.
func heavyLoad(t *testing.T) {
	t.Helper()
	noteRoom()
	for _, containers := range []int{500, 5_000} {
		for _, warm := range []bool{true, false} {
			name := fmt.Sprintf("%d claims a second, %d containers", heavyRate, containers)
			if !warm {
				name += " that begin cold"
			}
			noteLoad(name, runLoads(t, heavy(300_000, containers, warm)))
		}
	}
	for _, containers := range []int{500, 5_000} {
		name := fmt.Sprintf("%d customers a second of a sold-out campaign, %d containers that begin cold", heavyRate, containers)
		noteLoad(name, runLoads(t, heavy(0, containers, false)))
		name = fmt.Sprintf("%d claims a second, %d containers, a bank of %d that sells out", heavyRate, containers, soonEmpty)
		noteLoad(name, runLoads(t, heavy(soonEmpty, containers, true)))
	}
}

// heavy is 20 seconds at the heavy rate, with the recommended settings.
func heavy(items, containers int, warm bool) simulated.Load {
	return simulated.Load{
		Rate: heavyRate, Containers: containers, Warm: warm, Duration: 20 * time.Second,
		Model: simulated.Model{
			Items: items, Shards: shards, Latency: simulated.InRegion,
			Limits: simulated.DynamoDB(partitions, claimKeys),
		},
	}
}

// noteRoom records how often the places of the partition keys alone make a load impossible.
func noteRoom() {
	const tries = 1000
	for _, keys := range []int{64, claimKeys} {
		for _, shards := range []int{partitions, shards} {
			none := 0
			for seed := range uint64(tries) {
				model := simulated.Model{Seed: seed, Shards: shards, Limits: simulated.DynamoDB(partitions, keys)}
				if !model.Placement(heavyRate).Possible() {
					none++
				}
			}
			name := fmt.Sprintf("random placements without room for %d claims a second, %d shards, %d claim keys",
				heavyRate, shards, keys)
			note(name, float64(none)/tries, 0, fmt.Sprintf("of %d on %d partitions", tries, partitions))
		}
	}
}

// runLoads runs a load on placements that have room.
func runLoads(t *testing.T, load simulated.Load) (reports []simulated.Report) {
	t.Helper()
	for seed := uint64(0); len(reports) < placements; seed++ {
		load.Seed = seed
		if !load.Placement(load.Rate).Possible() {
			continue
		}
		inBubble(t, func() error {
			report, err := load.Run()
			reports = append(reports, report)
			return err
		})
	}
	return reports
}

// noteLoad records the placement with the most answers 503, and the placement with the longest times.
func noteLoad(name string, reports []simulated.Report) {
	worst := slices.MaxFunc(reports, func(a, b simulated.Report) int {
		return cmp.Compare(a.Unanswered(), b.Unanswered())
	})
	cost := worst.Cost
	note(name+": 503, % of answers", 100*worst.Unanswered(), maxUnanswered, fmt.Sprintf(
		"worst of %d placements; an answer: %.2f requests, %.3f lost races, %.2f throttled",
		len(reports), worst.PerAnswer(cost.Requests), worst.PerAnswer(cost.Lost),
		worst.PerAnswer(cost.ItemThrottled+cost.ClaimThrottled+cost.ReadsThrottled)))
	slowest := slices.MaxFunc(reports, func(a, b simulated.Report) int {
		return cmp.Compare(a.Time(0.95), b.Time(0.95))
	})
	note(name+": ms for 95 % of answers", milliseconds(slowest.Time(0.95)), maxMost, fmt.Sprintf(
		"worst of %d placements; 50 %% %.0f, 99 %% %.0f; the fullest partition is used %.2f",
		len(reports), milliseconds(slowest.Time(0.5)), milliseconds(slowest.Time(0.99)),
		max(slowest.BankUse, slowest.ClaimsUse)))
}

// soldOut sends requests to a warm container of a campaign without items. If items return, no row says that the bank
// is empty. A proof that it is empty lasts a second. If claims are holds, a proof also looks for due claims.
func soldOut(t *testing.T) {
	t.Helper()
	soldOutWhere(t, "sold out", simulated.Model{OnEnd: engine.Burn})
	soldOutWhere(t, "sold out, items return", simulated.Model{OnEnd: engine.Return})
	soldOutWhere(t, "sold out, holds", simulated.Model{OnEnd: engine.Return, Hold: 15 * time.Minute})
}

func soldOutWhere(t *testing.T, name string, model simulated.Model) {
	t.Helper()
	for _, shards := range []int{16, 64, 256} {
		for _, read := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond} {
			for _, rate := range []float64{20, 1} {
				model.Shards, model.Latency = shards, simulated.Latency{Least: read}
				noteSoldOut(t, name, simulated.SoldOut{
					Model: model, Rate: rate, Timeout: 10 * time.Second, Duration: 5 * time.Minute,
				})
			}
		}
	}
}

func noteSoldOut(t *testing.T, name string, asked simulated.SoldOut) {
	t.Helper()
	var report simulated.SoldOutReport
	inBubble(t, func() (err error) {
		report, err = asked.Run()
		return err
	})
	name += fmt.Sprintf(", %d shards, %s a read, %.0f customers a second",
		asked.Shards, asked.Latency.Least, asked.Rate)
	note(name+": requests an answer", report.PerAnswer(), maxSoldOut,
		fmt.Sprintf("%d answers, %d time-outs", report.Answers, report.Timeouts))
	note(name+": ms of the slowest answer", milliseconds(report.Time(1)), maxSoldOutTime,
		fmt.Sprintf("mean %.0f, 95 %% %.0f", milliseconds(report.MeanTime()), milliseconds(report.Time(0.95))))
}

// sweeps sweeps the holds of a minute in which a third of 5,000 claims a second was not paid: alone, and beside as many
// claims, on tables with and without room for both.
func sweeps(t *testing.T) {
	t.Helper()
	const due = 60 * heavyRate / 3
	for _, c := range []struct {
		name       string
		partitions int
		rate       float64
	}{
		{"alone", partitions, 0.001},
		{"beside 5,000 claims a second", 2 * partitions, heavyRate},
		{"beside 5,000 claims a second, without room for both", partitions, heavyRate},
	} {
		sweep := simulated.Sweep{Load: heavy(300_000, 500, true), Due: due, Timeout: 5 * time.Minute}
		sweep.Rate, sweep.Duration, sweep.Limits = c.rate, 40*time.Second, simulated.DynamoDB(c.partitions, claimKeys)
		for !sweep.Placement(heavyRate).Possible() {
			sweep.Seed++
		}
		noteSweep(t, "sweep "+c.name, sweep)
	}
}

func noteSweep(t *testing.T, name string, sweep simulated.Sweep) {
	t.Helper()
	var report simulated.SweepReport
	inBubble(t, func() (err error) {
		if report, err = sweep.Run(); err == nil {
			err = report.Err
		}
		return err
	})
	cost := report.Load.Cost
	note(name+": seconds for 100,000 holds", report.Took.Seconds(), maxSweep, fmt.Sprintf(
		"%.0f a second; %d throttled", report.PerSecond(), cost.ClosesThrottled))
	if report.Load.Answers < 1000 {
		note(name+": write units of a close", cost.WriteUnits/float64(report.Returned), maxCloseUnits, "")
		return
	}
	note(name+": ms for 95 % of answers", milliseconds(report.Load.Time(0.95)), maxMost, fmt.Sprintf(
		"99 %% %.0f; 503 %.3f %%", milliseconds(report.Load.Time(0.99)), 100*report.Load.Unanswered()))
}
