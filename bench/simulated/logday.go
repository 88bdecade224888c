package simulated

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// LogDay is a model of a LogLoad that is fast enough to play a day: it makes the requests of the ledgers, but has no
// records. A test compares it with the ledgers.
type LogDay struct {
	Seed    uint64
	Rate    func(at time.Duration) float64 // records a second, of all shards
	Shards  int
	Lanes   int
	Batch   int
	Longest time.Duration // how long a shard waits for a full batch; 0: until it is full
	Rest    time.Duration // the time of an invocation without the ledger
	Times   LogTimes
	Length  time.Duration

	Window time.Duration // of which a cold environment reads the log
	Life   time.Duration // of an environment, in the mean; 0: they never end
	Deploy time.Duration // when all environments begin anew; 0: never
	// Load is the number of bytes a second that a starting environment reads of the log. LoadAll is the number for
	// all environments together.
	Load, LoadAll float64

	Each    func(s LogStretch) // is called for each Stretch
	Stretch time.Duration
}

// LogStretch is what happened in a part of a LogDay.
type LogStretch struct {
	From, To  time.Duration
	Records   int
	Cost      LogCost
	Cold      int           // environments that began
	ColdReads float64       // read units that they took
	Loading   time.Duration // the longest of them
	Late      time.Duration // the longest time from the last record of a batch to its answer
}

// Add adds another stretch.
func (s *LogStretch) Add(o LogStretch) {
	s.Records += o.Records
	s.Cost.add(o.Cost)
	s.Cold += o.Cold
	s.ColdReads += o.ColdReads
	s.Loading, s.Late = max(s.Loading, o.Loading), max(s.Late, o.Late)
}

// dayRun is a LogDay that is played.
type dayRun struct {
	LogDay
	random  *rand.Rand
	events  events
	lanes   []dayLane
	shards  []dayShard
	loading []time.Duration // until when environments load
	log     dayHistory
	stretch LogStretch

	deployed bool
}

// dayLane is the log of a lane.
type dayLane struct {
	bytes, rows []float64       // of the items before each index
	late        []time.Duration // when the last replica has an item
}

// between returns the size of the items from an index up to another one.
func (l *dayLane) between(from, to int) (bytes, rows float64) {
	return l.bytes[to] - l.bytes[from], l.rows[to] - l.rows[from]
}

func (l *dayLane) add(bytes, rows float64, late time.Duration) {
	end := len(l.late)
	l.bytes, l.rows = append(l.bytes, l.bytes[end]+bytes), append(l.rows, l.rows[end]+rows)
	l.late = append(l.late, late)
}

// dayShard is a shard with its environment.
type dayShard struct {
	arrived, taken float64       // records
	counted        time.Duration // up to when arrived is known
	ends           time.Duration // of the environment; 0: none has begun
	batch          float64       // records of the batch that is in the works
	full           time.Duration // when its last record had arrived
	working        int           // lanes
	freed          time.Duration
	lanes          []dayView
}

// dayView is an environment's knowledge of a lane, and its next action there.
type dayView struct {
	next                  int
	alone, raced, reading bool
	consistent            bool
	total, attempt        int
	rows, bytes           float64 // of the item
}

// dayHistory holds the number of appended bytes in each minute, for cold starts.
type dayHistory struct{ minutes []float64 }

func (h *dayHistory) add(at time.Duration, bytes float64) {
	minute := int(at / time.Minute)
	for len(h.minutes) <= minute {
		h.minutes = append(h.minutes, 0)
	}
	h.minutes[minute] += bytes
}

// since returns the bytes of a window up to now. For the time before the day, it uses the bytes of the day's first
// minute.
func (h *dayHistory) since(at, window time.Duration, before float64) (bytes float64) {
	now := int(at / time.Minute)
	for m := now - int(window/time.Minute); m <= now; m++ {
		switch {
		case m < 0:
			bytes += before
		case m < len(h.minutes):
			bytes += h.minutes[m]
		}
	}
	return bytes
}

const (
	noLane     = -1
	muchToRead = 16 << 10 // bytes: logledger reads again after more

	rowBytes  = float64(logledger.RowSize)
	itemBytes = float64(logledger.BesidesData + logledger.HeaderSize) // without rows
)

// Run plays the day.
func (d LogDay) Run() {
	r := &dayRun{
		LogDay: d, random: draw(d.Seed, "day"), lanes: make([]dayLane, d.Lanes), shards: make([]dayShard, d.Shards),
		stretch: LogStretch{To: d.Stretch}, deployed: d.Deploy == 0,
	}
	for n := range r.lanes {
		r.lanes[n] = dayLane{bytes: []float64{0}, rows: []float64{0}}
	}
	for n := range r.shards {
		s := &r.shards[n]
		s.lanes = make([]dayView, d.Lanes)
		s.taken = -r.random.Float64() * float64(d.Batch) // some records have arrived before
		if s.ends = math.MaxInt64; d.Life > 0 {
			s.ends = time.Duration(r.random.Float64() * float64(2*d.Life))
		}
		r.events.push(event{0, int32(n), noLane})
	}
	for r.stretch.From < d.Length {
		r.happen(r.events.pop())
	}
}

func (r *dayRun) happen(e event) {
	for e.at >= r.stretch.To {
		r.Each(r.stretch)
		r.stretch = LogStretch{From: r.stretch.To, To: r.stretch.To + r.Stretch}
	}
	if !r.deployed && e.at >= r.Deploy {
		r.deployed = true
		for n := range r.shards {
			r.shards[n].ends = e.at
		}
	}
	switch s := &r.shards[e.shard]; {
	case e.lane == noLane:
		r.look(e, s)
	case s.lanes[e.lane].reading:
		r.read(e, &s.lanes[e.lane], &r.lanes[e.lane])
	default:
		r.append(e, s, &s.lanes[e.lane], &r.lanes[e.lane])
	}
}

// look takes a batch of a shard, if there is one.
func (r *dayRun) look(e event, s *dayShard) {
	rate := r.Rate(e.at) / float64(r.Shards)
	mean := rate * (e.at - s.counted).Seconds()
	s.arrived += max(0, mean+r.random.NormFloat64()*math.Sqrt(mean))
	s.counted = e.at
	waiting := s.arrived - s.taken
	if waiting < float64(r.Batch) && (r.Longest == 0 || waiting/rate < r.Longest.Seconds()) {
		wait := (float64(r.Batch) - waiting) / rate
		if r.Longest > 0 {
			wait = min(wait, r.Longest.Seconds()-waiting/rate)
		}
		r.events.push(event{e.at + time.Millisecond + time.Duration(wait*1e9), e.shard, noLane})
		return
	}
	s.batch = math.Floor(min(waiting, float64(r.Batch)))
	s.taken += s.batch
	s.full = e.at - time.Duration((s.arrived-s.taken)/rate*1e9)
	at := e.at
	if s.ends <= at {
		at = r.begin(at, s)
	}
	s.working, s.freed = r.Lanes, at
	mean = s.batch / float64(r.Lanes)
	for n := range s.lanes {
		v := &s.lanes[n]
		v.rows = max(1, math.Round(mean+r.random.NormFloat64()*math.Sqrt(mean*(1-1/float64(r.Lanes)))))
		v.bytes = v.rows*rowBytes + itemBytes
		v.raced, v.total, v.attempt, v.consistent = false, 0, 0, false
		v.reading = !v.alone
		r.send(at, e.shard, n, v)
	}
}

// begin starts an environment, which reads the log of the window. It returns when the reading has ended.
func (r *dayRun) begin(at time.Duration, s *dayShard) time.Duration {
	s.ends = math.MaxInt64
	if r.Life > 0 {
		s.ends = at + time.Duration((0.5+r.random.Float64())*float64(r.Life))
	}
	ofRecord := rowBytes + itemBytes*float64(r.Lanes)/float64(r.Batch)
	inMemory := time.Duration(logledger.NeededEntries(1, r.Window) * float64(time.Second))
	bytes := r.log.since(at, inMemory, 60*r.Rate(0)*ofRecord)
	others := 1.0
	for _, until := range r.loading {
		if until > at {
			others++
		}
	}
	took := time.Duration(bytes / min(r.Load, r.LoadAll/others) * 1e9)
	r.loading = append(r.loading, at+took)
	r.stretch.Cold++
	r.stretch.ColdReads += bytes / 4096 / 2
	r.stretch.Loading = max(r.stretch.Loading, took)
	for n := range s.lanes {
		s.lanes[n] = dayView{next: len(r.lanes[n].late)}
	}
	return at + took
}

// send sends the request of a lane. It takes effect after half of its time.
func (r *dayRun) send(at time.Duration, shard int32, lane int, v *dayView) {
	took := r.Times.Latency.of(r.random) / 2
	if !v.reading {
		took += r.Times.perBytes(int(v.bytes))
	}
	r.events.push(event{at + took, shard, int32(lane)})
}

// answer is when the answer to a request has been taken in.
func (r *dayRun) answer(at time.Duration, bytes, rows float64) time.Duration {
	return at + r.Times.Latency.of(r.random)/2 + r.Times.perBytes(int(bytes)) + time.Duration(rows*float64(r.Times.PerRow))
}

// read is logledger's catchUp.
func (r *dayRun) read(e event, v *dayView, l *dayLane) {
	end := len(l.late)
	if !v.consistent && r.random.IntN(3) == 0 {
		for end > v.next && l.late[end-1] > e.at {
			end--
		}
	}
	bytes, rows := l.between(v.next, end)
	c := &r.stretch.Cost
	c.Reads++
	share := 0.5
	if v.consistent {
		share = 1
	}
	if bytes == 0 {
		c.Empty++
	}
	c.ReadUnits += share * started(4096, int(bytes))
	v.total += end - v.next
	v.next = end
	if v.reading = bytes > muchToRead; v.reading {
		v.consistent = true
	} else {
		v.alone = v.total == 0 && !v.raced
	}
	r.send(r.answer(e.at, bytes, rows), e.shard, int(e.lane), v)
}

// append is logledger's put.
func (r *dayRun) append(e event, s *dayShard, v *dayView, l *dayLane) {
	r.stretch.Cost.Appends++
	if v.next < len(l.late) {
		r.conflict(e, v, l)
		return
	}
	l.add(v.bytes, v.rows, e.at+time.Duration(r.random.ExpFloat64()*float64(r.Times.Lag)))
	v.next++
	r.stretch.Cost.Rows += int(v.rows)
	r.stretch.Cost.WriteUnits += started(1024, int(v.bytes))
	r.log.add(e.at, v.bytes)
	s.freed = max(s.freed, r.answer(e.at, 0, 0))
	if s.working--; s.working == 0 {
		r.stretch.Records += int(s.batch)
		r.stretch.Late = max(r.stretch.Late, s.freed-s.full)
		r.events.push(event{s.freed + r.Rest, e.shard, noLane})
	}
}

// conflict processes the item of another environment, and reads the items after it.
func (r *dayRun) conflict(e event, v *dayView, l *dayLane) {
	const patience, longest = 4, 200 * time.Millisecond // logledger's
	bytes, rows := l.between(v.next, v.next+1)
	r.stretch.Cost.Conflicts++
	r.stretch.Cost.WriteUnits += started(1024, int(max(v.bytes, bytes)))
	v.next++
	v.attempt++
	v.alone, v.raced, v.total, v.consistent, v.reading = false, true, 0, true, true
	at := r.answer(e.at, bytes, rows)
	if v.attempt > patience {
		at += time.Duration(r.random.Float64() * float64(min(time.Millisecond<<v.attempt, longest)))
	}
	r.send(at, e.shard, int(e.lane), v)
}
