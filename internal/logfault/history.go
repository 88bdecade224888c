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

// history is what happens in a play. Seed decides the rest: in which order the calls of the processes have their
// effects, and which fail.
type history struct {
	Seed    uint64
	Lanes   int
	Page    int  // items that fit into one answer; 0: all
	KeepIDs bool `json:",omitempty"`
	// Trouble is how often a call fails, Stale how often a read misses something, Eager how often a process goes on before
	// the next batch comes, and Purge how many of the items past their purge time are deleted at a time.
	Trouble, Stale, Eager, Purge float64
	Settings                     []setting // of the processes
	Records                      []record
	Batches                      []batch
}

// setting is that of a process.
type setting struct {
	Window, Horizon time.Duration
	Lanes           int `json:",omitempty"` // another number than that of the scope, which must be refused; 0: the same
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

// batch is a call of a ledger.
type batch struct {
	At      time.Duration
	Process int
	Records []int
	Cold    bool `json:",omitempty"` // the process is a new one, with nothing in memory
	Warm    bool `json:",omitempty"` // it is warmed up first
	Beside  bool `json:",omitempty"` // the calls of the process that are running go on meanwhile
	Cut     int  `json:",omitempty"` // at which of its effects the context ends; 0: never
	// Changed says that the fingerprints are those of other settings.
	Changed bool `json:",omitempty"`
}

const (
	mostRecords = 8
	contents    = 3
	scope       = "s"
	memoryUnit  = 50_000 // suffices for some entries of a lane
	ahead       = time.Hour
)

// A crowd is many records of one id, with many contents.
const (
	crowd         = 21
	crowdContents = 40
	crowdTogether = 7
)

// begin is the beginning of all histories.
var begin = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

// ids are three ids, of which two are in one of two lanes.
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

// queue is a source whose sequences are no numbers.
const queue = 2

func (r record) owner() dedupe.Owner {
	if r.Source == queue {
		return dedupe.Owner{Source: "queue", Sequence: fmt.Sprint("message-", r.Sequence), Sub: r.Sub}
	}
	return dedupe.Owner{Source: fmt.Sprint("shard-", r.Source), Sequence: fmt.Sprint(1000 + r.Sequence), Sub: r.Sub}
}

// fingerprint is that of a record, under the first settings or under changed ones.
func (r record) fingerprint(changed bool) string {
	if changed {
		return fmt.Sprint("f", (r.Content+1)%contents)
	}
	return fmt.Sprint("f", r.Content)
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// maker makes a history at random.
type maker struct {
	history
	*rand.Rand
	now    time.Duration
	window time.Duration // of most processes
	crowd  bool
	next   []int // sequence numbers of the sources
}

func newHistory(seed uint64) history {
	r := rand.New(rand.NewPCG(seed, 1))
	m := maker{
		Rand: r, window: oneOf[time.Duration](r, 2, 4, 16, 64) * time.Minute, next: make([]int, oneOf(r, 1, 2, 2, 3)),
		history: history{
			Seed: seed, Lanes: oneOf(r, 1, 2, 2), Page: oneOf(r, 1, 2, 0), KeepIDs: chance(r, 0.08),
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

// put puts a record, or several in an aggregate.
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

// pause is how long nothing comes.
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
	if len(m.Records) > 0 && chance(m.Rand, 0.7) { // just before the end of a record's horizon
		if end := oneOf(m.Rand, m.Records...).Arrival + horizon - oneOf(m.Rand, 0, time.Second); end > m.now {
			return end - m.now
		}
	}
	return oneOf(m.Rand, horizon/2, horizon+m.window+2*time.Minute, horizon+2*m.window+5*time.Minute)
}

// horizon is the least one: no record is processed after it.
func (h history) horizon() time.Duration {
	return slices.MinFunc(h.Settings, func(a, b setting) int { return int(a.Horizon - b.Horizon) }).Horizon
}

// window is the least one: entries count for it, whichever process has put them.
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

// redrive delivers a record, or a few with others between them, also of several sources.
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

// live are the records of a source that may be processed now.
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
