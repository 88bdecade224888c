package logfault

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// world is a storage and some processes, while they play a history.
type world struct {
	history
	log       *memlog.Log
	mutant    *mutant
	judges    judges
	random    *rand.Rand
	now       time.Duration
	processes []*process
	running   []*call
	current   *call // the call of running that goes on now
	delayed   []delayed
	verdicts  []verdict

	tracing bool
	trace   []string
}

// process is a Ledger. Several calls may use it at the same time.
type process struct {
	setting
	name   string
	port   *port
	ledger *logledger.Ledger // nil: the process has not begun
	cold   int               // the number of processes that have replaced it
}

// call is a call of a ledger. It stops before each effect.
type call struct {
	batch
	process  *process
	port     *port
	context  context.Context
	cancel   context.CancelFunc
	deadline time.Duration // the latest time for an effect, because the records are past their horizon then
	next     func() (struct{}, bool)
	stop     func()
	yield    func(struct{}) bool
	killed   bool
	left     bool // no caller waits for the answers
	begun    int  // the number of verdicts when the call began
	effects  int  // the number of its effects so far
	shared   bool // another call has used the Ledger at the same time
}

// delayed is an effect that comes later than its call.
type delayed struct {
	deadline time.Duration
	name     string
	effect   func()
}

// verdict is an answer for a record that a caller got.
type verdict struct {
	dedupe.Answer
	record  int
	changed bool // the process used changed fingerprints
	cut     bool // the context of the call has an end
	fits    bool // the entries that count fit into the memory of the process
	appends int  // the number of items that had been appended
	begun   int  // the number of verdicts when the call began
	window  time.Duration
}

// play plays a history. It returns the violation as an error.
func play(h history, m *mutant, j judges) error { return newWorld(h, m, j).run() }

// traced plays a history again. It returns all events and the violation.
func traced(h history, m *mutant, j judges) (string, error) {
	w := newWorld(h, m, j)
	w.tracing = true
	err := w.run()
	return strings.Join(w.trace, "\n"), err
}

func newWorld(h history, m *mutant, j judges) *world {
	w := &world{history: h, mutant: m, judges: j, log: memlog.New(), random: rand.New(rand.NewPCG(h.Seed, 2))}
	w.log.Page = h.Page
	for n, s := range h.Settings {
		w.processes = append(w.processes, &process{setting: s, name: fmt.Sprint("process ", n)})
	}
	return w
}

func (w *world) chance(p float64) bool { return p > 0 && chance(w.random, p) }

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, w.now.String()+" "+fmt.Sprintf(format, args...))
	}
}

func since(arrival int64) time.Duration { return time.UnixMilli(arrival).Sub(begin) }

func (w *world) run() (err error) {
	defer w.end()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	for _, b := range w.Batches {
		for len(w.running) > 0 && w.chance(w.Eager) {
			if err := w.step(); err != nil {
				return err
			}
		}
		w.advance(b.At)
		if err := w.begin(b); err != nil {
			return err
		}
	}
	for len(w.running) > 0 || len(w.delayed) > 0 {
		if err := w.step(); err != nil {
			return err
		}
	}
	if err := w.settle(); err != nil {
		return err
	}
	return w.judge()
}

// end ends all running calls.
func (w *world) end() {
	for _, c := range w.running {
		w.kill(c)
	}
}

// kill ends a call before its next effect.
func (w *world) kill(c *call) {
	c.killed = true
	c.cancel()
	w.current = c
	c.stop()
	w.current = nil
}

// callsOf lists the running calls of a process.
func (w *world) callsOf(p *port) (all []*call) {
	for _, c := range w.running {
		if c.port == p {
			all = append(all, c)
		}
	}
	return all
}

// killProcess ends all calls of a process.
func (w *world) killProcess(p *port) {
	for _, c := range w.callsOf(p) {
		w.kill(c)
	}
	w.running = slices.DeleteFunc(w.running, func(c *call) bool { return c.killed })
}

// step lets one delayed effect come, or one call go on.
func (w *world) step() error {
	if n := len(w.delayed); n > 0 && (len(w.running) == 0 || w.chance(0.2)) {
		n = w.random.IntN(n)
		w.note("%s: a late effect", w.delayed[n].name)
		w.delayed[n].effect()
		w.delayed = slices.Delete(w.delayed, n, n+1)
		return w.checkNoRefill()
	}
	return w.resume(oneOf(w.random, w.running...))
}

// resume lets a call go on until its next effect.
func (w *world) resume(c *call) error {
	w.current = c
	_, more := c.next()
	w.current = nil
	if !more {
		c.cancel()
		w.running = slices.DeleteFunc(w.running, func(other *call) bool { return other == c })
	}
	return w.checkNoRefill()
}

// checkNoRefill returns an error if an item was appended at the place of a deleted item.
func (w *world) checkNoRefill() error {
	if at := w.log.Refilled(); at != nil && w.judges == all {
		return fmt.Errorf("fence: an item is appended at %s, where another one was deleted", placeOf(*at))
	}
	return nil
}

// advance moves the time forward. Delayed effects that would come too late are dropped.
func (w *world) advance(now time.Duration) {
	if now == w.now {
		return
	}
	w.now = now
	for _, c := range slices.Clone(w.running) {
		if c.deadline < now && !c.killed {
			w.note("%s: killed, since its records are past their horizon", c.process.name)
			w.killProcess(c.port)
			if c.process.port == c.port {
				c.process.restart()
			}
		}
	}
	w.delayed = slices.DeleteFunc(w.delayed, func(d delayed) bool { return d.deadline < now })
	deleted := func() bool { return w.chance(w.Purge) }
	w.log.Purge(scope, begin.Add(now).Unix(), func(logledger.Place) bool { return deleted() })
	if w.mutant != nil && w.mutant.after != nil {
		w.mutant.after(w.log, begin.Add(now), deleted)
	}
}

// restart replaces the process by a new one.
func (p *process) restart() {
	p.ledger, p.port = nil, nil
	p.cold++
}

// begin begins a batch.
func (w *world) begin(b batch) error {
	p := w.processes[b.Process]
	calls := w.callsOf(p.port)
	switch {
	case b.Cold && len(calls) > 0:
		if w.chance(0.5) {
			w.note("%s: killed", p.name)
			w.killProcess(p.port)
		} else {
			w.note("%s: goes on, and no caller waits for it", p.name)
			for _, c := range calls {
				c.left = true
			}
		}
		p.restart()
	case b.Cold:
		p.restart()
	case !b.Beside:
		if err := w.finish(p.port); err != nil {
			return err
		}
	}
	w.start(p, b)
	return nil
}

// finish lets the calls of a process run to their end. They may wait for one another.
func (w *world) finish(p *port) error {
	for calls := w.callsOf(p); len(calls) > 0; calls = w.callsOf(p) {
		c := calls[0]
		if len(calls) > 1 {
			c = oneOf(w.random, calls...)
		}
		if err := w.resume(c); err != nil {
			return err
		}
	}
	return nil
}

// start starts the call of a batch.
func (w *world) start(p *process, b batch) {
	if p.ledger == nil {
		p.port = &port{world: w, name: fmt.Sprintf("%s (number %d)", p.name, p.cold)}
		p.ledger = w.open(p.port, p.setting)
	}
	c := &call{
		batch: b, process: p, port: p.port, deadline: w.Records[b.Records[0]].Arrival, begun: len(w.verdicts),
	}
	c.context, c.cancel = context.WithCancel(context.Background())
	for _, other := range w.callsOf(p.port) {
		c.shared, other.shared = true, true
	}
	for _, n := range b.Records {
		c.deadline = min(c.deadline, w.Records[n].Arrival)
	}
	c.deadline += w.horizon()
	w.noteBatch(p.port.name, b)
	ledger := p.ledger
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		retention := dedupe.Retention{Window: p.Window, Horizon: p.Horizon}
		if b.Warm {
			_ = ledger.Warm(c.context, scope, retention) // a failure is permitted
		}
		answers, err := ledger.Enter(c.context, w.question(b, retention))
		if err != nil {
			panic(err) // cannot happen: the retention is valid
		}
		if !c.left && !c.killed {
			w.answer(c, answers)
		}
	})
	w.running = append(w.running, c)
}

// lanesOfScope returns the number of lanes in the first chain row, or 0 without such a row.
func (w *world) lanesOfScope() int {
	first, _ := w.log.Ever().Epochs(whole, logledger.LaneID{Scope: scope}, 1, 1)
	if len(first) == 0 {
		return 0
	}
	return first[0].Lanes
}

func (w *world) open(p *port, s setting) *logledger.Ledger {
	l, err := logledger.New(p, logledger.Options{Lanes: cmp.Or(s.Lanes, w.Lanes), Memory: s.Memory, Clock: w.clock(p)})
	if err != nil {
		panic(err) // cannot happen: the options are valid
	}
	return l
}

// clock returns a clock of virtual time. If a call may enter several lanes at the same time, the seed decides which
// comes first.
func (w *world) clock(p *port) dedupe.Clock {
	return dedupe.Clock{
		Now: func() time.Time { return begin.Add(w.now) },
		Pause: func(context.Context, time.Duration) error {
			_, err := p.enter()
			return err
		},
		Each: func(n, _ int, f func(int)) {
			for _, i := range w.random.Perm(n) {
				p.enterLane(i, f)
			}
		},
	}
}

func (w *world) question(b batch, retention dedupe.Retention) dedupe.Question {
	q := dedupe.Question{Scope: scope, Retention: retention, KeepIDs: w.KeepIDs}
	for _, n := range b.Records {
		r := w.Records[n]
		c := dedupe.Candidate{Owner: r.owner(), Poison: r.Poison}
		if !r.Poison {
			c.ID, c.Fingerprint, c.Arrival = ids[r.Key], r.fingerprint(b.Changed), begin.Add(r.Arrival)
		}
		q.Records = append(q.Records, c)
	}
	return q
}

func (w *world) noteBatch(name string, b batch) {
	if !w.tracing {
		return
	}
	var text []string
	for _, n := range b.Records {
		r := w.Records[n]
		text = append(text, fmt.Sprintf("record %d (%s, %s, %s, %s)",
			n, r.owner(), ids[r.Key], r.fingerprint(b.Changed), r.Arrival))
	}
	w.note("%s: batch %s", name, strings.Join(text, ", "))
}

// answer records the answers that a caller got.
func (w *world) answer(c *call, answers []dedupe.Answer) {
	fits := !c.shared && w.fits(c)
	for i, n := range c.Records {
		if w.Records[n].Poison {
			continue
		}
		v := verdict{
			Answer: answers[i], record: n, changed: c.Changed, appends: w.log.Appends(), begun: c.begun, window: c.process.Window,
			cut: c.Cut > 0, fits: fits,
		}
		if w.mutant != nil && w.mutant.answer != nil {
			w.mutant.answer(w, &v)
		}
		if w.tracing {
			w.note("%s: record %d: %s", c.port.name, n, describe(v.Answer))
		}
		w.verdicts = append(w.verdicts, v)
	}
}

func describe(a dedupe.Answer) string {
	found := []string{"not known", "put", "mine", "same", "other"}[a.Found]
	if a.Derived > 0 {
		found += ", derived"
	}
	if a.Err != nil {
		found += ": " + a.Err.Error()
	}
	return found
}

// settle enters all records within their horizon again, in each surviving process and in a new one, without faults.
// So it checks whether the log is still usable, and whether a process is stuck.
func (w *world) settle() error {
	b := batch{At: w.now}
	for n, r := range w.Records {
		if r.Arrival <= w.now+ahead && w.now <= r.Arrival+w.horizon() {
			b.Records = append(b.Records, n)
		}
	}
	if len(b.Records) == 0 {
		return nil
	}
	for _, p := range w.processes {
		if lanes := cmp.Or(p.Lanes, w.Lanes); p.ledger != nil && cmp.Or(w.lanesOfScope(), lanes) == lanes {
			if err := w.settleIn(p, b); err != nil {
				return err
			}
		}
	}
	p := &process{setting: w.Settings[0], port: &port{world: w, name: "the last process"}}
	p.Lanes, p.Memory = w.lanesOfScope(), 0
	p.ledger = w.open(p.port, p.setting)
	return w.settleIn(p, b)
}

func (w *world) settleIn(p *process, b batch) error {
	w.noteBatch(p.port.name, b)
	answers, err := p.ledger.Enter(context.Background(),
		w.question(b, dedupe.Retention{Window: p.Window, Horizon: p.Horizon}))
	if err != nil {
		return err
	}
	first := len(w.verdicts)
	w.answer(&call{batch: b, process: p, port: p.port, begun: first}, answers)
	for _, v := range w.verdicts[first:] {
		if w.judges == all && v.Err != nil && !v.memoryIsFull() {
			return fmt.Errorf("refused: %s is stuck: %w", p.port.name, v.Err)
		}
	}
	return w.checkNoRefill()
}
