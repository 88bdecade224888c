package logfault

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// history describes a play: its records, batches and processes. Seed decides the rest: the order in which the calls
// of the processes take effect, and which calls fail.
type history struct {
	Seed    uint64
	Lanes   int
	Page    int  // the number of items that fit into one answer; 0: all items
	KeepIDs bool `json:",omitempty"`
	// These are probabilities. Trouble is for the failure of a call, Stale for a read that misses items, and Eager
	// for a process that goes on before the next batch comes. Purge is the share of the items past their purge time
	// that are deleted at a time.
	Trouble, Stale, Eager, Purge float64
	Settings                     []setting // the options of each process
	Records                      []record
	Batches                      []batch
}

// setting holds the options of one simulated process.
type setting struct {
	Window, Horizon time.Duration
	Lanes           int `json:",omitempty"` // not the scope's number, so it must be refused; 0: the scope's
	Memory          int64
}

// record is a record of a source.
type record struct {
	Key, Content, Source int
	Sequence             int
	Sub                  int
	Arrival              time.Duration
	Poison               bool `json:",omitempty"`
}

// batch is one call of a ledger.
type batch struct {
	At      time.Duration
	Process int
	Records []int
	Cold    bool `json:",omitempty"` // the process is new, with an empty memory
	Warm    bool `json:",omitempty"` // the process is warmed up first
	Beside  bool `json:",omitempty"` // other running calls of the process go on during this one
	Cut     int  `json:",omitempty"` // the number of the effect at which the context ends; 0: it never ends
	// Changed says that the process computes fingerprints under changed settings.
	Changed bool `json:",omitempty"`
}

const (
	mostRecords = 8
	contents    = 3
	scope       = "s"
	memoryUnit  = 50_000 // enough memory for some entries of a lane
	ahead       = time.Hour
)

// A crowd is a large number of records with one id and many contents.
const (
	crowd         = 21
	crowdContents = 40
	crowdTogether = 7
)

// begin is the time at which all histories begin.
var begin = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

// ids are three ids. Two of them are in one lane, the third is in the other.
var ids = idsInLanes(0, 0, 1)

func laneOf(id string, lanes int) int {
	key := format.KeyOf(id)
	return int(binary.BigEndian.Uint32(key[12:]) % uint32(lanes))
}

func idsInLanes(lanes ...int) (all []string) {
	for n := 0; len(all) < len(lanes); n++ {
		id := fmt.Sprint("id-", n)
		if laneOf(id, 2) == lanes[len(all)] {
			all = append(all, id)
		}
	}
	return all
}

// queue is the number of a source whose sequences are not numbers.
const queue = 2

func (r record) owner() dedupe.Owner {
	if r.Source == queue {
		return dedupe.Owner{Source: "queue", Sequence: fmt.Sprint("message-", r.Sequence), Sub: r.Sub}
	}
	return dedupe.Owner{Source: fmt.Sprint("shard-", r.Source), Sequence: fmt.Sprint(1000 + r.Sequence), Sub: r.Sub}
}

// fingerprint returns the fingerprint of a record, under the first settings or under changed settings.
func (r record) fingerprint(changed bool) string {
	if changed {
		return fmt.Sprint("f", (r.Content+1)%contents)
	}
	return fmt.Sprint("f", r.Content)
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// maker makes a random history.
type maker struct {
	history
	*rand.Rand
	now    time.Duration
	window time.Duration // the window of most processes
	crowd  bool
	next   []int // the next sequence number of each source
}

func newHistory(seed int) history {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	m := maker{
		Rand: r, window: oneOf[time.Duration](r, 2, 4, 16, 64) * time.Minute, next: make([]int, oneOf(r, 1, 2, 2, 3)),
		history: history{
			Seed: uint64(seed), Lanes: oneOf(r, 1, 2, 2), Page: oneOf(r, 1, 2, 0), KeepIDs: chance(r, 0.08),
			Trouble: oneOf[float64](r, 0, 0, 0.05, 0.2), Stale: oneOf(r, 0, 0.2, 0.6), Eager: oneOf(r, 0.3, 0.7, 0.9, 0.97),
			Purge: oneOf(r, 0, 0.4, 1),
		},
	}
	m.settings()
	records := 1 + r.IntN(mostRecords)
	calls := 3 + r.IntN(3*records+3)
	if m.crowd = chance(r, 0.01); m.crowd {
		records += crowd
	}
	for calls > 0 {
		switch n := r.IntN(20); {
		case n < 7 && len(m.Records) < records:
			m.put(records)
		case n < 13:
			calls--
			m.deliver()
		case n < 15:
			calls--
			m.redrive()
		default:
			m.now += m.pause()
		}
	}
	return m.history
}

func (m *maker) settings() {
	horizon := oneOf(m.Rand, m.window/2, m.window, 3*m.window, 10*m.window)
	first := setting{Window: m.window, Horizon: horizon, Memory: memoryUnit * oneOf[int64](m.Rand, 0, 0, 0, 0, 1, 2, 4)}
	for range oneOf(m.Rand, 1, 2, 2, 3, 3) {
		s := first
		if chance(m.Rand, 0.15) {
			s.Window = oneOf(m.Rand, m.window/2, 2*m.window)
		}
		if chance(m.Rand, 0.1) {
			s.Horizon = oneOf(m.Rand, horizon/2, 3*horizon)
		}
		if chance(m.Rand, 0.02) {
			s.Lanes = m.Lanes + 1
		}
		m.Settings = append(m.Settings, s)
	}
}

// put puts one record, or several in an aggregate.
func (m *maker) put(most int) {
	source := m.IntN(len(m.next))
	arrival := m.now
	if chance(m.Rand, 0.2) {
		arrival -= oneOf(m.Rand, time.Second, m.window/16, m.window/3, m.window)
	} else if chance(m.Rand, 0.04) {
		arrival += oneOf(m.Rand, time.Second, m.window/3, min(m.window+time.Second, ahead), ahead)
	}
	m.next[source]++
	n := 1
	if chance(m.Rand, 0.15) {
		n = 2 + m.IntN(2)
	}
	if m.crowd {
		n = crowdTogether
	}
	for sub := range min(n, most-len(m.Records)) {
		r := record{
			Key: m.IntN(len(ids)), Content: m.IntN(1 + m.IntN(contents)), Source: source, Sequence: m.next[source], Sub: sub,
			Arrival: arrival, Poison: chance(m.Rand, 0.05),
		}
		if n == 1 {
			r.Sub = dedupe.Plain
		}
		if m.crowd {
			r.Key, r.Content = 0, m.IntN(crowdContents)
		}
		m.Records = append(m.Records, r)
	}
}

// pause returns the time until the next batch.
func (m *maker) pause() time.Duration {
	horizon := m.horizon()
	switch m.IntN(4) {
	case 0:
		return oneOf(m.Rand, 0, time.Millisecond, time.Second, 20*time.Second, time.Minute)
	case 1:
		return oneOf(m.Rand, m.window/16, m.window/4, m.window/2)
	case 2:
		return oneOf(m.Rand, m.window-time.Second, m.window, m.window+time.Millisecond, m.window+time.Minute)
	}
	if len(m.Records) > 0 && chance(m.Rand, 0.7) { // the time just before the end of a record's horizon
		if end := oneOf(m.Rand, m.Records...).Arrival + horizon - oneOf(m.Rand, 0, time.Second); end > m.now {
			return end - m.now
		}
	}
	return oneOf(m.Rand, horizon/2, horizon+m.window+2*time.Minute, horizon+2*m.window+5*time.Minute)
}

// horizon returns the smallest horizon of the processes. No record is processed after it.
func (h history) horizon() time.Duration {
	return slices.MinFunc(h.Settings, func(a, b setting) int { return int(a.Horizon - b.Horizon) }).Horizon
}

// window returns the smallest window of the processes. Entries count for at least that long, whichever process has
// put them.
func (h history) window() time.Duration {
	return slices.MinFunc(h.Settings, func(a, b setting) int { return int(a.Window - b.Window) }).Window
}

// deliver delivers successive records of a source. Some of them may have been delivered before, in other batches.
func (m *maker) deliver() {
	live := m.live(m.IntN(len(m.next)))
	if len(live) == 0 {
		return
	}
	first := m.IntN(len(live))
	if chance(m.Rand, 0.5) {
		first = max(0, len(live)-1-m.IntN(3))
	}
	m.call(live[first : first+1+m.IntN(len(live)-first)])
}

// redrive delivers one record, or a few records that do not follow one another, from one or several sources.
func (m *maker) redrive() {
	var live []int
	for source := range m.next {
		if chance(m.Rand, 0.7) {
			live = append(live, m.live(source)...)
		}
	}
	live = slices.DeleteFunc(live, func(int) bool { return chance(m.Rand, 0.6) })
	if len(live) > 0 {
		m.call(live)
	}
}

// live lists the records of a source that may be processed now.
func (m *maker) live(source int) (all []int) {
	for n, r := range m.Records {
		if r.Source == source && m.now <= r.Arrival+m.horizon() {
			all = append(all, n)
		}
	}
	return all
}

func (m *maker) call(records []int) {
	cold := chance(m.Rand, 0.15)
	m.Batches = append(m.Batches, batch{
		At: m.now, Process: m.IntN(len(m.Settings)), Records: slices.Clone(records), Cold: cold,
		Warm: chance(m.Rand, 0.1), Changed: chance(m.Rand, 0.04), Beside: chance(m.Rand, 0.2), Cut: m.cut(),
	})
}

func (m *maker) cut() int {
	if chance(m.Rand, 0.94) {
		return 0
	}
	return 1 + m.IntN(12)
}
