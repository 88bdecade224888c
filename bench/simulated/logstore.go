package simulated

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// LogTimes are the times of requests to a log on DynamoDB, and of the work on their answers.
type LogTimes struct {
	Latency Latency       // of a request
	PerKB   time.Duration // of the items in a request or an answer
	PerRow  time.Duration // of taking a row into memory
	// Lag is the mean time, exponentially distributed, after which the last of the three replicas has an item. A read
	// that is not consistent asks one of the three.
	Lag time.Duration
}

// LogTimesInRegion are the times that the package comment explains.
var LogTimesInRegion = LogTimes{
	Latency: InRegion, PerKB: 20 * time.Microsecond, PerRow: 500 * time.Nanosecond, Lag: 10 * time.Millisecond,
}

// LogCost is what requests to a log came to.
type LogCost struct {
	Appends   int // requests
	Conflicts int // of these that found another item
	Reads     int // queries of items, those for a tag included
	Empty     int // of these that found none
	Epochs    int // queries of chain rows, and chain rows that were put
	Rows      int // that were appended

	WriteUnits, ReadUnits float64
}

func (c *LogCost) add(o LogCost) {
	c.Appends += o.Appends
	c.Conflicts += o.Conflicts
	c.Reads += o.Reads
	c.Empty += o.Empty
	c.Epochs += o.Epochs
	c.Rows += o.Rows
	c.WriteUnits += o.WriteUnits
	c.ReadUnits += o.ReadUnits
}

// Attempts is the number of requests until an item is appended.
func (c LogCost) Attempts() float64 { return float64(c.Appends) / float64(c.Appends-c.Conflicts) }

// Log is a log in memory, behind a network. It keeps all items.
type Log struct {
	times LogTimes
	rows  *memlog.Log

	mu   sync.Mutex
	late map[logledger.Place][]time.Time // when the last replica has each item, by the place of index 0
	cost map[int]*LogCost                // by lane
}

// NewLog makes an empty log.
func NewLog(times LogTimes) *Log {
	return &Log{times: times, rows: memlog.New(), late: map[logledger.Place][]time.Time{}, cost: map[int]*LogCost{}}
}

// Cost returns the counted costs so far: for all lanes, and for the lane with the most write units.
func (l *Log) Cost() (all, busiest LogCost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.cost {
		all.add(*c)
		if c.WriteUnits > busiest.WriteUnits {
			busiest = *c
		}
	}
	return all, busiest
}

// ForgetCost begins to count anew.
func (l *Log) ForgetCost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cost)
}

// Of returns the storage as an environment meets it.
func (l *Log) Of(environment int, seed uint64) logledger.Storage {
	return &logClient{Log: l, environment: environment, seed: seed, random: map[int]*rand.Rand{}}
}

// logClient is the log as one environment uses it. The requests of a lane come one after the other.
type logClient struct {
	*Log
	environment int
	seed        uint64
	random      map[int]*rand.Rand // by lane
}

// request waits for half of the time of a request, works, and waits for the other half and for the work on the answer.
func (c *logClient) request(lane, bytes int, work func(random *rand.Rand, cost *LogCost) (bytes, rows int)) {
	c.mu.Lock()
	random := c.random[lane]
	if random == nil {
		random = draw(c.seed, fmt.Sprintf("lane %d of environment %d", lane, c.environment))
		c.random[lane] = random
	}
	c.mu.Unlock()
	took := c.times.Latency.of(random)
	c.wait(lane, took/2+c.times.perBytes(bytes))
	c.mu.Lock()
	cost := c.cost[lane]
	if cost == nil {
		cost = &LogCost{}
		c.cost[lane] = cost
	}
	bytes, rows := work(random, cost)
	c.mu.Unlock()
	c.wait(lane, took/2+c.times.perBytes(bytes)+time.Duration(rows)*c.times.PerRow)
}

func (t LogTimes) perBytes(n int) time.Duration { return time.Duration(n) * t.PerKB / 1024 }

// wait waits until the turn of the environment and lane.
func (c *logClient) wait(lane int, d time.Duration) {
	const lanes = 16
	time.Sleep(untilTurn((c.environment*lanes+lane)%turns, d))
}

const chainRow = 150 // bytes, about

func started(size, bytes int) float64 { return float64(max(1, (bytes+size-1)/size)) }

// Epochs implements logledger.Storage.
func (c *logClient) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) (
	page []logledger.Epoch, err error,
) {
	c.request(lane.Lane, 0, func(_ *rand.Rand, cost *LogCost) (int, int) {
		page, err = c.rows.Epochs(ctx, lane, below, limit)
		cost.Epochs++
		cost.ReadUnits += started(4096, len(page)*chainRow)
		return len(page) * chainRow, 0
	})
	return page, err
}

// PutEpoch implements logledger.Storage.
func (c *logClient) PutEpoch(ctx context.Context, lane logledger.LaneID, e logledger.Epoch) (
	existing *logledger.Epoch, err error,
) {
	c.request(lane.Lane, chainRow, func(_ *rand.Rand, cost *LogCost) (int, int) {
		cost.Epochs++
		cost.WriteUnits++
		if existing, err = c.rows.PutEpoch(ctx, lane, e); existing != nil {
			return chainRow, 0
		}
		return 0, 0
	})
	return existing, err
}

// Append implements logledger.Storage. A conditional put that fails takes the units of the larger item
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html).
func (c *logClient) Append(
	ctx context.Context, at logledger.Place, data []byte, purgeAt int64,
) (existing []byte, err error) {
	first := at
	first.Index = 0
	c.request(at.Lane, len(data), func(random *rand.Rand, cost *LogCost) (int, int) {
		cost.Appends++
		if existing, err = c.rows.Append(ctx, at, data, purgeAt); existing != nil {
			cost.Conflicts++
			cost.WriteUnits += started(1024, logledger.BesidesData+max(len(data), len(existing)))
			return len(existing), rowsOf(existing)
		}
		if before := len(c.late[first]); at.Index > before {
			panic(fmt.Sprintf("simulated: an append at %d behind %d items", at.Index, before))
		}
		lag := time.Duration(random.ExpFloat64() * float64(c.times.Lag))
		c.late[first] = append(c.late[first], time.Now().Add(lag))
		cost.Rows += rowsOf(data)
		cost.WriteUnits += started(1024, logledger.BesidesData+len(data))
		return 0, 0
	})
	return existing, err
}

func rowsOf(data []byte) int { return (len(data) - logledger.HeaderSize) / logledger.RowSize }

// Read implements logledger.Storage. DynamoDB ends a page at 1 MB.
func (c *logClient) Read(ctx context.Context, from logledger.Place, limit int, consistent bool) (
	read []logledger.Item, more bool, err error,
) {
	const page = 1 << 20
	first := from
	first.Index = 0
	c.request(from.Lane, 0, func(random *rand.Rand, cost *LogCost) (bytes, rows int) {
		var items []logledger.Item
		items, more, err = c.rows.Read(ctx, from, limit, true)
		stale := !consistent && random.IntN(3) == 0
		for _, i := range items {
			if stale && c.late[first][i.Index].After(time.Now()) {
				more = false
				break
			}
			if bytes > page {
				more = true
				break
			}
			read = append(read, i)
			bytes += logledger.BesidesData + len(i.Data)
			rows += rowsOf(i.Data)
		}
		cost.Reads++
		if len(read) == 0 {
			cost.Empty++
		}
		share := 0.5
		if consistent {
			share = 1
		}
		cost.ReadUnits += share * started(4096, bytes)
		return bytes, rows
	})
	return read, more, err
}
