package idempotencyfault

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
)

// noon is the store's time at the begin of a history.
var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// world plays a history. Only one goroutine runs at a time: an event wakes one, and the next event comes when all wait.
type world struct {
	history
	random    *rand.Rand
	luck      *rand.Rand // of transactions: they draw nothing from random
	now       time.Time  // of the store
	store     *memstore.Calls
	processes []*process
	judge     *judge
	past      map[string][]version // of each row, for stale reads
	committed map[string]bool      // transactions that took effect, by token
	running   int                  // calls that have not returned
	trace     *strings.Builder     // nil: none

	mu       sync.Mutex // guards the following, which several goroutines can change in one event
	events   events
	seq      int
	returned []got
}

// event happens at a time of the store. Events of the same time happen in the order in which they were made.
type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// after lets something happen later.
func (w *world) after(d time.Duration, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	heap.Push(&w.events, event{w.now.Add(d), w.seq, do})
}

// mostEvents ends a history that does not end by itself.
const mostEvents = 100_000

// play plays a history in a bubble of package synctest, and returns the first violation.
func play(h history, trace *strings.Builder) error {
	w := &world{
		history: h, random: rand.New(rand.NewPCG(h.seed, 2)), luck: rand.New(rand.NewPCG(h.seed, 6)),
		now: noon, trace: trace,
	}
	w.store = memstore.NewCalls(func() time.Time { return w.now })
	w.judge, w.past, w.committed = newJudge(w), map[string][]version{}, map[string]bool{}
	for range h.processes {
		w.processes = append(w.processes, w.start())
	}
	for n, p := range h.calls {
		w.after(p.at, func() { w.call(n+1, p) })
	}
	for n, f := range h.faults {
		w.after(f.at, func() { w.strike(len(h.calls)+n+1, f) })
	}
	for n, t := range h.theirs {
		w.after(t.at, func() { w.theirCall(n+1, t) })
	}
	for n := 0; len(w.events) > 0 && w.judge.violation == nil; n++ {
		e := heap.Pop(&w.events).(event)
		if n > mostEvents {
			w.judge.violated("stuck: a call does not end")
			break
		}
		w.now = e.at
		e.do()
		synctest.Wait()
		w.hear()
	}
	if w.running > 0 && w.judge.violation == nil {
		w.judge.violated("stuck: a call waits for nothing")
	}
	for _, p := range w.processes {
		p.crash()
	}
	synctest.Wait()
	return w.judge.violation
}

// log writes a line of the trace.
func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%9.3f %s\n", w.now.Sub(noon).Seconds(), fmt.Sprintf(format, args...))
	}
}

// process is a process with one Runner.
type process struct {
	*world
	runner  *idempotency.Runner
	wall    time.Duration // the error of its wall clock
	lost    time.Duration // the time for which its monotonic clock stood still
	frozen  bool
	since   time.Time // the last freeze
	thawed  time.Time
	backlog []func() // what happens when it thaws
	dead    chan struct{}
}

var errCrashed = errors.New("the process has crashed")

func (w *world) start() *process {
	p := &process{world: w, wall: w.upTo(w.random, 40*time.Minute) - 20*time.Minute, dead: make(chan struct{})}
	runner, err := idempotency.New(&port{p}, namespace, w.settings,
		idempotency.WithMachine(p), idempotency.WithRandom(source{p}))
	if err != nil {
		panic(err)
	}
	p.runner = runner
	return p
}

// source is the source of random bytes of a process. A crash wakes several goroutines at once, so they get zeros.
type source struct{ *process }

func (s source) Read(b []byte) (int, error) {
	for i := range b {
		if b[i] = 0; !s.crashed() {
			b[i] = byte(s.random.Uint32())
		}
	}
	return len(b), nil
}

// strike lets a fault happen. A process that has crashed is started again. An eviction is a call with this id.
func (w *world) strike(id int, f fault) {
	p := w.processes[f.process]
	w.log("process %d: %+v", f.process, f)
	switch {
	case f.evicts != "":
		p.awake(func() { p.evict(id, f) })
	case f.crash:
		p.crash()
		w.processes[f.process] = w.start()
	case f.freeze > 0 && !p.frozen:
		p.frozen, p.since = true, w.now
		w.after(f.freeze, func() { p.thaw() })
	case f.wall != 0:
		p.wall += f.wall
	}
}

func (p *process) crash() {
	if !p.crashed() {
		close(p.dead)
	}
}

func (p *process) crashed() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *process) thaw() {
	p.frozen, p.thawed, p.lost = false, p.now, p.lost+p.now.Sub(p.since)
	backlog := p.backlog
	p.backlog = nil
	for _, do := range backlog {
		p.after(0, func() { p.awake(do) })
	}
}

// awake does something in the process, when it is not frozen.
func (p *process) awake(do func()) {
	if p.frozen {
		p.backlog = append(p.backlog, do)
		return
	}
	do()
}

// Moment implements idempotency.Machine.
func (p *process) Moment() idempotency.Moment {
	return idempotency.Moment{Wall: p.now.Add(p.wall), Monotonic: p.monotonic()}
}

func (p *process) monotonic() time.Duration { return p.now.Sub(noon) - p.lost + time.Hour }

// Sleep implements idempotency.Machine. Timers follow the monotonic clock.
func (p *process) Sleep(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	if p.ticks {
		tick := time.Second / 2
		d = p.now.Add(d + tick - 1).Truncate(tick).Sub(p.now)
	}
	p.timer(p.monotonic()+d, func() { close(over) })
	select {
	case <-over:
		return nil
	case <-p.dead:
		return errCrashed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// timer does something at a time of the monotonic clock.
func (p *process) timer(due time.Duration, do func()) {
	p.after(max(0, due-p.monotonic()), func() {
		p.awake(func() {
			if p.monotonic() < due {
				p.timer(due, do)
				return
			}
			do()
		})
	})
}

// execution is a call with what the judge knows about it.
type execution struct {
	plan
	id      int
	process *process
	begun   time.Time
	// deadline is when its context ends, by the wall clock of its process, with Settings.LeaseUntilDeadline.
	deadline time.Time
	lease    time.Duration // of the last row that it sent, or since its begin
	// The function.
	ctx     context.Context // of the function; nil: it has not begun
	running bool
	decided bool // it has returned a result
	// Requests.
	completes, releases, released int       // sent, sent, confirmed
	refusals                      int       // of its effects, that the process has heard of
	completing                    time.Time // its first completion was sent
	expiry                        time.Time // of its record, if its completion has taken effect
	shown                         bool      // a reply had its completed record
	// Effects.
	effected, committed int  // how often they happened, and how often a completion that has them took effect
	told                bool // its caller knows that they are refused
	// Evictions.
	evicts  *eviction // of a call of Evict
	evicted bool      // from its row
}

// eviction is a call of Evict with what the judge knows about it.
type eviction struct {
	idempotency.Eviction
	holder *execution // of the row with the number
	done   bool       // it has taken effect
	freed  bool       // its caller gets a record that it freed
}

type callKey struct{}

// deadlined is a context with a deadline by the wall clock of its process. A timer of the process ends it.
type deadlined struct {
	context.Context
	at time.Time
}

// Deadline implements context.Context.
func (d deadlined) Deadline() (time.Time, bool) { return d.at, true }

// leaseOf returns how long the lease of a row is that a call sends at a time.
func (w *world) leaseOf(x *execution, sent time.Time) time.Duration {
	if x.deadline.IsZero() {
		return w.settings.Lease
	}
	return max(0, x.deadline.Sub(sent.Add(x.process.wall)))
}

// call begins a call. A frozen process begins it when it thaws.
func (w *world) call(id int, p plan) {
	on := w.processes[p.process]
	on.awake(func() {
		if on.crashed() {
			return
		}
		x := &execution{plan: p, id: id, process: on, begun: w.now}
		w.running++
		w.log("call %d: begins, %+v", id, p)
		ctx, leave := context.WithCancel(context.WithValue(context.Background(), callKey{}, x))
		if w.settings.LeaseUntilDeadline {
			x.deadline = on.Moment().Wall.Add(p.patience)
			ctx = deadlined{ctx, x.deadline}
		}
		x.lease = w.leaseOf(x, w.now)
		if p.patience > 0 {
			on.timer(on.monotonic()+p.patience, func() {
				w.log("call %d: its context ends", id)
				leave()
			})
		}
		go func() {
			defer leave()
			outcome, err := x.do(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.returned = append(w.returned, got{x, outcome, err})
		}()
	})
}

// evict begins an eviction of the row that the key has.
func (p *process) evict(id int, f fault) {
	key := p.keyOf(f.evicts)
	row := p.store.Row(key)
	if row == nil || p.crashed() {
		return
	}
	e := &eviction{Eviction: idempotency.Eviction{Number: row.Number, Running: f.running}, holder: p.judge.holders[row.Token]}
	x := &execution{plan: plan{key: f.evicts}, id: id, process: p, begun: p.now, evicts: e}
	p.running++
	p.log("call %d: evicts number %d of key %s", id, e.Number, f.evicts)
	go func() {
		freed, err := p.runner.Evict(context.WithValue(context.Background(), callKey{}, x), key.Name, e.Eviction)
		p.mu.Lock()
		defer p.mu.Unlock()
		e.freed = freed != nil
		p.returned = append(p.returned, got{x: x, err: err})
	}()
}

// got is what a caller gets.
type got struct {
	x       *execution
	outcome idempotency.Outcome[idempotency.Result]
	err     error
}

// hear lets the judge see what callers got in an event. Several calls of a process can return at once.
func (w *world) hear() {
	slices.SortFunc(w.returned, func(a, b got) int { return a.x.id - b.x.id })
	for _, g := range w.returned {
		w.running--
		if !g.x.process.crashed() {
			w.log("call %d: returns %.20s of %d, replayed %t, %v",
				g.x.id, g.outcome.Value.Body, g.outcome.Number, g.outcome.Replayed, g.err)
			w.judge.returned(g.x, g.outcome, g.err)
		}
	}
	w.returned = nil
}

// ended notes that the function has ended. In a crash several end at once.
func (x *execution) ended() {
	if !x.process.crashed() {
		x.process.log("call %d: the function ends", x.id)
		x.running = false
	}
}

var (
	errFunction = errors.New("the function failed")
	errPanicked = errors.New("the function panicked")
	errRefused  = errors.New("the effects are refused")
)

func (x *execution) do(ctx context.Context) (outcome idempotency.Outcome[idempotency.Result], err error) {
	defer func() {
		if reason := recover(); reason != nil {
			if err, _ = reason.(error); !errors.Is(err, errPanicked) {
				panic(reason)
			}
		}
	}()
	return x.process.runner.Do(ctx, x.key, []byte(x.payload), x.function)
}

// function is the function that the call runs. Its result is different in each execution.
func (x *execution) function(ctx context.Context, e idempotency.Execution) (idempotency.Result, error) {
	w := x.process.world
	if !x.process.crashed() {
		w.log("call %d: execution %d begins", x.id, e.Number)
		w.judge.started(x, ctx, e)
		defer x.ended()
	}
	obeyed := context.Background()
	if x.obeys {
		obeyed = ctx
	}
	if x.effects {
		e.Commit(memstore.CallEffects(x.effect))
	}
	if err := x.process.Sleep(obeyed, x.takes); err != nil {
		return idempotency.Result{}, fmt.Errorf("%w: %w", errFunction, err)
	}
	result := idempotency.Result{Body: fmt.Appendf(nil, "result of call %d", x.id)}
	x.decided = x.ends != fails && x.ends != panics
	switch x.ends {
	case fails:
		return result, errFunction
	case failsFinally:
		return result, idempotency.Final(fmt.Errorf("failure of call %d", x.id))
	case panics:
		panic(errPanicked)
	case tooLarge:
		result.Body = append(result.Body, make([]byte, x.process.store.MaxResult())...)
	}
	return result, nil
}

// effect is what the function does in the transaction of its completion.
func (x *execution) effect() error {
	w := x.process.world
	if w.luck.Float64() < w.refuses {
		return errRefused
	}
	x.effected++
	return nil
}
