package cost

import (
	"fmt"
	"math"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// These are sizes in the log, in bytes.
const (
	logRow  = float64(logledger.RowSize)
	logItem = float64(logledger.BesidesData + logledger.HeaderSize) // an item without rows

	rereadAbove = 16 << 10 // logledger reads again if a read returns more than this
)

// Sizes holds the sizes and times of a log ledger.
type Sizes struct {
	Entries       float64 `json:"entries"`        // the largest number of entries in the memory of an environment
	EntryBytes    float64 `json:"entry_bytes"`    // the memory of these entries
	LongestWindow string  `json:"longest_window"` // the longest window that fits into the memory
	Appends       float64 `json:"appends_per_second_and_lane"`
	Attempts      float64 `json:"attempts_per_append"`
	LaneWrites    float64 `json:"write_units_per_second_of_a_lane"`
	LaneReads     float64 `json:"read_units_per_second_of_a_lane"`
	ColdBytes     float64 `json:"bytes_of_a_cold_start"`
	ColdSeconds   float64 `json:"seconds_of_a_cold_start"` // if one environment begins alone
	DeploySeconds float64 `json:"seconds_of_a_deployment"` // when all environments begin at once
	ColdUSD       float64 `json:"usd_of_a_cold_start"`

	longest time.Duration
}

// These are the limits of a partition of DynamoDB, in units a second (Developer Guide, "Best practices for designing
// and using partition keys effectively").
const (
	MostWrites = 1000
	MostReads  = 3000
)

// These are the speeds at which a starting environment reads a log, in bytes a second.
const (
	// LoadOfOne is an assumption: the network of one environment is about that fast. AWS documents no number.
	LoadOfOne = 75e6
	// LoadOfAll is 40,000 read units a second, the default quota of an on-demand table. An eventually consistent read
	// unit reads 8 KB (Developer Guide, "Service, account, and table quotas in Amazon DynamoDB").
	LoadOfAll = 40_000 * 8192
	// longestRun is the longest time of an invocation (Lambda Developer Guide, "Lambda quotas").
	longestRun = 15 * 60 // seconds
)

// attempts are measured values. bench/simulated runs the real ledgers at 33,000 records/s, 40 shards and 8 lanes,
// with batches of 250 to 5,000 records. Its requests take 10 ms in the mean.
var attempts = []struct{ others, attempts, enter float64 }{ // batches of others a second; milliseconds of a batch
	{0, 1, 30}, {6.4, 1.06, 61}, {12.9, 1.12, 54}, {19.5, 1.24, 55}, {32.2, 1.54, 71}, {46, 2.06, 101},
	{64.4, 2.55, 129}, {128.7, 3.06, 201},
}

// contention returns the number of attempts until an item is appended, and the time that a batch takes. known is
// false if the load is beyond the measured values.
func (l Load) contention() (times float64, enter time.Duration, known bool) {
	others := l.batchLanes() / float64(l.Lanes) * l.batches() * float64(l.Environments()-1) / float64(l.Environments())
	before := attempts[0]
	for _, a := range attempts[1:] {
		if others <= a.others {
			part := (others - before.others) / (a.others - before.others)
			milliseconds := before.enter + part*(a.enter-before.enter)
			return before.attempts + part*(a.attempts-before.attempts), time.Duration(milliseconds * 1e6), true
		}
		before = a
	}
	return before.attempts * others / before.others, time.Duration(before.enter * others / before.others * 1e6), false
}

// batchLanes returns the number of lanes in which a batch has new records.
func (l Load) batchLanes() float64 {
	n, lanes := float64(l.Batch)*(1-l.Copies), float64(l.Lanes)
	return lanes * (1 - math.Pow(1-1/lanes, n))
}

// item returns the mean size of an item, and its write units. The records of a batch are spread over the lanes at
// random. The new records of a batch in one lane always fit into one item.
func (l Load) item() (size, units float64) {
	n, p := float64(l.Batch)*(1-l.Copies), 1/float64(l.Lanes)
	mean, deviation := n*p, math.Sqrt(n*p*(1-p))
	sum := 0.0
	for k := max(1, math.Floor(mean-6*deviation)); k <= min(n, math.Ceil(mean+6*deviation)); k++ {
		chance := binomial(n, k, p)
		bytes := k*logRow + logItem
		sum, size, units = sum+chance, size+chance*bytes, units+chance*wholeUnits(bytes, kB)
	}
	if sum == 0 {
		return logItem + logRow, 1
	}
	return size / sum, units / sum
}

// binomial returns the probability of k successes among n.
func binomial(n, k, p float64) float64 {
	if p == 1 {
		if k == math.Floor(n) {
			return 1
		}
		return 0
	}
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	return math.Exp(lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) + k*math.Log(p) + (n-k)*math.Log(1-p))
}

// log estimates the log ledger.
func (l Load) log() (Estimate, Sizes) {
	times, enter, known := l.contention()
	size, units := l.item()
	lanes, batchLanes := float64(l.Lanes), l.batchLanes()
	perBatch := l.LogUnits().times(float64(l.Batch))
	memory, g := l.memory()
	itemsPerSecond := l.batches() * batchLanes
	g.ColdBytes = itemsPerSecond * size * l.inMemory().Seconds()
	cold := Units{Read: g.ColdBytes/readUnit/2 + 2*lanes}
	g.ColdSeconds = g.ColdBytes / LoadOfOne
	g.DeploySeconds = g.ColdBytes / min(LoadOfOne, LoadOfAll/float64(l.Environments()))
	g.ColdUSD = cold.Read*ReadUnit + g.ColdSeconds*float64(memory)/1024*LambdaGBSecond
	g.Attempts, g.Appends = times, itemsPerSecond/lanes
	g.LaneWrites, g.LaneReads = itemsPerSecond/lanes*units*times, l.batches()/lanes*perBatch.Read
	stored := itemsPerSecond * (l.Window + l.Horizon).Seconds() * (size + addedBytes)
	besides := cold.times(l.coldStarts()).plus(l.epochs())
	e := l.estimate(perBatch, besides, stored, 0, enter, memory)
	e.Day.Lambda += l.coldStarts() * g.ColdSeconds * float64(memory) / 1024 * LambdaGBSecond
	e.Total = e.Day.Sum()
	e.Problem = l.problem(g, known)
	return e, g
}

// LogUnits returns the units of the log ledger for a record. It leaves out acks, cold starts and the beginnings of
// epochs.
func (l Load) LogUnits() Units {
	times, _, _ := l.contention()
	size, units := l.item()
	perBatch := Units{l.batchLanes() * units * times, l.batchLanes() * l.catchUp(size, times)}
	return perBatch.times(1 / float64(l.Batch))
}

// Attempts returns the number of attempts until an item of the log ledger is appended.
func (l Load) Attempts() float64 {
	times, _, _ := l.contention()
	return times
}

// catchUp returns the read units that a batch needs in a lane. The batch reads the items that others have appended
// since the batch before, with eventually consistent reads. After a long read, and after each failed attempt, it
// reads a little with a consistent read.
func (l Load) catchUp(size, times float64) float64 {
	environments := float64(l.Environments())
	if environments == 1 {
		return 0
	}
	failed := times - 1
	items := max(0, (environments-1)*l.batchLanes()/float64(l.Lanes)-failed)
	units := wholeUnits(items*size, readUnit)/2 + failed
	if items*(size-logledger.BesidesData) > rereadAbove {
		units++
	}
	return units
}

// epochs returns the units of beginning epochs for a day. An epoch begins with a seal and a chain row, with races for
// both, and each environment reads the chain. The factors are measured, as attempts are.
func (l Load) epochs() Units {
	begun := day / l.epoch().Seconds() * float64(l.Lanes)
	return Units{10 * begun, 1.6 * float64(l.Environments()) * begun}
}

// epoch returns how long an epoch lasts.
func (l Load) epoch() time.Duration { return l.inMemory() - l.Window }

// inMemory is how long an entry must stay in memory: the window, and the rest of the epoch in which the window
// begins.
func (l Load) inMemory() time.Duration {
	return time.Duration(logledger.NeededEntries(1, l.Window) * float64(time.Second))
}

// memory returns the memory of the function, and the part that entries need.
func (l Load) memory() (megabytes int, g Sizes) {
	perItem := float64(l.Batch) * (1 - l.Copies) / float64(l.Lanes)
	g.Entries = logledger.NeededEntries(l.added(), l.Window)
	g.EntryBytes = logledger.NeededMemory(l.added(), l.Window, perItem)
	if megabytes = l.FunctionMemory; megabytes == 0 {
		needed := math.Ceil(g.EntryBytes / (1 << 20) * 100 / recordhandler.UsualLedgerShare)
		megabytes = int(min(MostMemory, max(plainMemory, needed)))
	}
	forEntries := int64(l.memoryLimit()) << 20 / 100 * recordhandler.UsualLedgerShare
	g.longest = logledger.LongestWindow(l.added(), forEntries, perItem)
	g.LongestWindow = settings.FormatDuration(g.longest)
	return megabytes, g
}

// problem returns the reason why a log ledger cannot be used, or "".
func (l Load) problem(g Sizes, known bool) string {
	switch {
	case l.Window > g.longest:
		return fmt.Sprintf("%.1f million entries need %.1f GiB of each environment's memory, and %d%% of %d MB are for entries: "+
			"the longest window that fits is %s", g.Entries/1e6, g.EntryBytes/(1<<30), recordhandler.UsualLedgerShare,
			l.memoryLimit(), g.LongestWindow)
	case g.DeploySeconds > longestRun:
		return fmt.Sprintf("after a deployment %d environments read %.1f GB each, which takes %.0f minutes with a table's default "+
			"quota, and an invocation may take %d: use a shorter window, fewer shards or a lower parallelization",
			l.Environments(), g.ColdBytes/1e9, g.DeploySeconds/60, longestRun/60)
	case !known:
		return fmt.Sprintf("%.0f batches a second append to a lane, and an item would take %.1f attempts or more: "+
			"use larger batches, with a batch window", g.Appends, g.Attempts)
	case g.LaneWrites > MostWrites:
		return fmt.Sprintf("a lane takes %.0f write units a second, and a partition of DynamoDB %d: use more lanes",
			g.LaneWrites, MostWrites)
	case g.LaneReads > MostReads:
		return fmt.Sprintf("%d environments read %.0f read units a second of a lane, and a partition of DynamoDB takes %d: "+
			"use more lanes, fewer shards or a lower parallelization", l.Environments(), g.LaneReads, MostReads)
	}
	return ""
}

func (l Load) memoryLimit() int {
	if l.FunctionMemory != 0 {
		return l.FunctionMemory
	}
	return MostMemory
}
