package idempotencyfault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// scene is a world in which nothing runs. A test reports the events to its judge. Calls a and b have the payload x, and
// call o has the payload y.
type scene struct {
	*world
	t       *testing.T
	a, b, o *execution
}

const (
	sceneLease  = 30 * time.Second
	sceneWindow = time.Minute
)

func newScene(t *testing.T) *scene {
	w := &world{now: noon}
	w.lossy, w.settings = 0.5, idempotency.Settings{Lease: sceneLease, Window: sceneWindow}
	w.store = memstore.NewCalls(func() time.Time { return w.now })
	w.judge = newJudge(w)
	s := &scene{world: w, t: t}
	for n, payload := range []string{"x", "x", "y"} {
		p := plan{process: n, key: "a", payload: payload}
		w.calls = append(w.calls, p)
		*[]**execution{&s.a, &s.b, &s.o}[n] = &execution{
			plan: p, id: n + 1, process: &process{world: w, dead: make(chan struct{})}, begun: w.now, lease: sceneLease,
		}
	}
	return s
}

func (s *scene) row() engine.Record {
	if row := s.store.Row(s.key(0)); row != nil {
		return *row
	}
	return engine.Record{}
}

func (s *scene) wait(d time.Duration) { s.now = s.now.Add(d) }

// writes reports a request that makes this row.
func (s *scene) writes(x *execution, name string, row engine.Record) {
	s.sent(x, name)
	s.arrives(x, name, s.now, row)
}

func (s *scene) sent(x *execution, name string) {
	s.judge.sent(s.request(x, name, s.now))
}

// request is a request that was sent at a time.
func (s *scene) request(x *execution, name string, sent time.Time) *request {
	return &request{x: x, name: name, key: s.key(0), sent: sent, lease: s.leaseOf(x, sent)}
}

// arrives reports that a request takes effect that was sent at a time.
func (s *scene) arrives(x *execution, name string, sent time.Time, row engine.Record) {
	before := s.store.Row(s.key(0))
	if _, err := s.store.Replace(s.t.Context(), s.key(0), s.row().Version(), row); err != nil {
		s.t.Fatal(err)
	}
	s.judge.wrote(s.request(x, name, sent), before, &row)
}

// progress is a row that a call puts.
func (s *scene) progress(x *execution) engine.Record {
	end := s.now.Add(sceneLease)
	expiry := end.Add(sceneWindow)
	return engine.Record{
		Status: engine.InProgress, Token: fmt.Sprint("token of ", x.id), Payload: hash(x.payload),
		Number:   max(s.now.UnixMilli(), s.row().Number+1),
		LeaseEnd: end, Expiry: expiry, PurgeAt: expiry.Add(15 * time.Minute),
	}
}

// endsIn gives a call a deadline, on a wall clock that is wrong.
func (s *scene) endsIn(x *execution, d time.Duration) {
	x.process.wall = time.Hour
	x.deadline = s.now.Add(time.Hour + d)
}

// putsUntil reports a put whose lease ends at a time.
func (s *scene) putsUntil(x *execution, end time.Time) {
	s.writes(x, "put", changed(s.progress(x), func(r *engine.Record) { r.LeaseEnd = end }))
}

func (s *scene) puts(x *execution) { s.writes(x, "put", s.progress(x)) }

// starts reports that the function begins.
func (s *scene) starts(x *execution) { s.startsAs(x, s.row().Number) }

func (s *scene) startsAs(x *execution, number int64) {
	ctx, end := context.WithCancelCause(s.t.Context())
	s.t.Cleanup(func() { end(nil) })
	s.judge.started(x, ctx, started(number))
}

func started(number int64) idempotency.Execution { return idempotency.Execution{Number: number} }

// begins reports a put and the begin of the function.
func (s *scene) begins(x *execution) {
	s.puts(x)
	s.starts(x)
}

// loses reports that the context of the function ends with the lease.
func (s *scene) loses(x *execution) {
	ctx, end := context.WithCancelCause(s.t.Context())
	end(idempotency.ErrLeaseLost)
	x.ctx = ctx
}

// ends reports that the function ends.
func (*scene) ends(x *execution, decided bool) { x.running, x.decided = false, decided }

// completed is the row after a completion that was sent now.
func (s *scene) completed(x *execution, kind engine.Kind) engine.Record {
	row := s.row()
	row.Status, row.CompletedBy, row.Expiry = engine.Completed, row.Token, s.now.Add(sceneWindow)
	row.PurgeAt, row.Result = row.Expiry.Add(15*time.Minute), engine.Result{Kind: kind, Body: body(x)}
	return row
}

func body(x *execution) []byte { return fmt.Append(nil, "result of ", x.id) }

func (s *scene) completes(x *execution) {
	s.ends(x, true)
	s.writes(x, "complete", s.completed(x, engine.Value))
}

// runs reports an execution from its put to its completion.
func (s *scene) runs(x *execution) {
	s.begins(x)
	s.completes(x)
}

func (s *scene) prolongs(x *execution, by time.Duration) {
	row := s.row()
	row.LeaseEnd, row.Expiry, row.PurgeAt = row.LeaseEnd.Add(by), row.Expiry.Add(by), row.PurgeAt.Add(by)
	s.writes(x, "prolong", row)
}

// released is the row after a release.
func (s *scene) released() engine.Record {
	row := s.row()
	row.LeaseEnd, row.Token = time.UnixMilli(0).UTC(), "next"
	return row
}

// releases reports a release with its confirmation.
func (s *scene) releases(x *execution) {
	s.writes(x, "release", s.released())
	s.judge.replied(&request{x: x, name: "release"}, reply{})
}

// fails reports a function that fails.
func (s *scene) fails(x *execution) {
	s.begins(x)
	s.ends(x, false)
}

// gets reports that a call returns the result of an execution.
func (s *scene) gets(x, of *execution, number int64) {
	s.judge.returned(x, idempotency.Outcome[idempotency.Result]{
		Value: idempotency.Result{Body: body(of)}, Number: number, Replayed: x != of,
	}, nil)
}

func (s *scene) replays(x, of *execution) { s.gets(x, of, s.row().Number) }

// errs reports that a call returns an error.
func (s *scene) errs(x *execution, err error) { s.errsOf(x, s.row().Number, err) }

func (s *scene) errsOf(x *execution, number int64, err error) {
	s.judge.returned(x, idempotency.Outcome[idempotency.Result]{Number: number}, err)
}

// decides reports a function with effects that returns a result.
func (s *scene) decides(x *execution) {
	x.effects = true
	s.begins(x)
	s.ends(x, true)
}

// commits reports a transaction that takes effect, with effects that happen so often.
func (s *scene) commits(x *execution, times int) {
	x.effected += times
	s.writes(x, "complete", s.completed(x, engine.Value))
}

// refuses reports a transaction whose effects are refused.
func (s *scene) refuses(x *execution) {
	s.sent(x, "complete")
	s.judge.replied(&request{x: x, name: "complete"}, reply{err: &engine.RefusedError{Reason: errRefused}})
}

// evicts reports that an operator frees the row of an execution, and how that row differs from a released one.
func (s *scene) evicts(of *execution, running bool, changes ...func(*engine.Record)) *execution {
	e := &eviction{Eviction: idempotency.Eviction{Number: s.row().Number, Running: running}, holder: of}
	x := &execution{plan: plan{key: "a"}, id: 4, begun: s.now, evicts: e}
	row := s.released()
	row.Status, row.CompletedBy, row.Result = engine.InProgress, "", engine.Result{}
	for _, change := range changes {
		change(&row)
	}
	s.writes(x, "replace", row)
	return x
}

// changed is a row with one change.
func changed(row engine.Record, change func(*engine.Record)) engine.Record {
	change(&row)
	return row
}

// TestJudge checks that the judge accepts what may happen, and that it names the guarantee that something beside it
// breaks.
func TestJudge(t *testing.T) {
	t.Parallel()
	wholeLease := func(s *scene) {
		s.begins(s.a)
		s.loses(s.a)
		s.wait(sceneLease)
	}
	for _, test := range []struct {
		name string
		do   func(*scene)
		want string // the begin of the violation; "": none
	}{
		// I1.
		{"a result and its replay", func(s *scene) { s.runs(s.a); s.gets(s.a, s.a, s.row().Number); s.replays(s.b, s.a) }, ""},
		{"a result that nobody stored", func(s *scene) { s.runs(s.a); s.replays(s.b, s.o) }, "I1: call 2"},
		{"a result before it is stored", func(s *scene) { s.begins(s.a); s.ends(s.a, true); s.replays(s.b, s.a) }, "I1: call 2"},
		{"a replay with another number", func(s *scene) { s.runs(s.a); s.gets(s.b, s.a, s.row().Number+1) }, "I1: call 2"},
		{"the own result with another number", func(s *scene) { s.runs(s.a); s.gets(s.a, s.a, s.row().Number+1) }, "I1: call 1"},
		{"the own result that is not stored", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.sent(s.a, "complete")
			s.gets(s.a, s.a, s.row().Number)
		}, "I1: call 1"},
		{"another result of the own execution", func(s *scene) {
			s.runs(s.a)
			s.judge.returned(s.a, idempotency.Outcome[idempotency.Result]{
				Value: idempotency.Result{Body: []byte("other")}, Number: s.row().Number,
			}, nil)
		}, "I1: call 1"},
		{"a replay by a call that began in the window", func(s *scene) {
			s.runs(s.a)
			s.wait(sceneWindow + slack)
			s.b.begun = s.now
			s.wait(time.Hour)
			s.replays(s.b, s.a)
		}, ""},
		{"a replay by a call that began after the window", func(s *scene) {
			s.runs(s.a)
			s.wait(sceneWindow + slack + 1)
			s.b.begun = s.now
			s.replays(s.b, s.a)
		}, "I1: call 2"},
		{"a replay of an older record, whose call began before the later one", func(s *scene) {
			s.runs(s.a)
			old := s.row().Number
			s.wait(sceneWindow)
			s.b.begun = s.now
			s.runs(s.o)
			s.gets(s.b, s.a, old)
		}, ""},
		{"a replay of an older record", func(s *scene) {
			s.runs(s.a)
			old := s.row().Number
			s.wait(sceneWindow)
			s.runs(s.o)
			s.wait(1)
			s.b.begun = s.now
			s.gets(s.b, s.a, old)
		}, "I1: call 2"},
		{"a window that is too short", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.writes(s.a, "complete", changed(s.completed(s.a, engine.Value), func(r *engine.Record) {
				r.Expiry = r.Expiry.Add(-1)
				r.PurgeAt = r.Expiry.Add(15 * time.Minute)
			}))
		}, "I1: the window"},

		// I2.
		{"an execution after the lease of another", func(s *scene) { wholeLease(s); s.begins(s.b) }, ""},
		{"a put within the lease of another", func(s *scene) {
			s.begins(s.a)
			s.loses(s.a)
			s.wait(sceneLease - 1)
			s.puts(s.b)
		}, "I2: call 2 takes the key over within the lease"},
		{"a put while the holder still works", func(s *scene) { s.begins(s.a); s.wait(sceneLease); s.puts(s.b) }, "I2: call 2 takes"},
		{"a put while the holder is frozen", func(s *scene) {
			s.begins(s.a)
			s.a.process.frozen = true
			s.wait(sceneLease)
			s.puts(s.b)
		}, ""},
		{"a put just after the holder was frozen", func(s *scene) {
			s.begins(s.a)
			s.wait(sceneLease)
			s.a.process.thawed = s.now.Add(-2 * time.Second)
			s.puts(s.b)
		}, ""},
		{"a put long after the holder was frozen", func(s *scene) {
			s.begins(s.a)
			s.wait(sceneLease)
			s.a.process.thawed = s.now.Add(-2*time.Second - 1)
			s.puts(s.b)
		}, "I2: call 2 takes"},
		{"an execution after a failure", func(s *scene) { s.fails(s.a); s.releases(s.a); s.begins(s.b) }, ""},
		{"an execution without a row", func(s *scene) { s.startsAs(s.a, 1) }, "I2: the function of call 1 begins"},
		{"an execution on the row of another", func(s *scene) { s.puts(s.a); s.starts(s.b) }, "I2: the function of call 2 begins"},
		{"an execution on a completed row", func(s *scene) { s.runs(s.a); s.starts(s.a) }, "I2: the function of call 1 begins"},
		{"an execution with another number", func(s *scene) { s.puts(s.a); s.startsAs(s.a, s.row().Number-1) }, "I2: execution"},
		{"an execution with half of its lease", func(s *scene) { s.puts(s.a); s.wait(sceneLease / 2); s.starts(s.a) }, ""},
		{"an execution with less", func(s *scene) { s.puts(s.a); s.wait(sceneLease/2 + 1); s.starts(s.a) }, "I2: the function"},
		{"an execution that is not the first and has its number", func(s *scene) {
			s.begins(s.a)
			s.a.running = false
			s.starts(s.a)
		}, "I2: execution"},
		{"a number that does not grow", func(s *scene) {
			wholeLease(s)
			s.writes(s.b, "replace", changed(s.progress(s.b), func(r *engine.Record) { r.Number = s.row().Number }))
		}, "I2: the number does not grow"},
		{"a number that is ahead of the time", func(s *scene) {
			s.writes(s.a, "put", changed(s.progress(s.a), func(r *engine.Record) { r.Number++ }))
		}, "I2: number"},
		{"a number that is ahead of the number before", func(s *scene) {
			s.fails(s.a)
			s.releases(s.a)
			s.writes(s.b, "replace", changed(s.progress(s.b), func(r *engine.Record) { r.Number++ }))
		}, "I2: number"},
		{"a put over the own row", func(s *scene) { s.puts(s.a); s.wait(1); s.puts(s.a); s.starts(s.a) }, ""},
		{"a put over the own row that comes late", func(s *scene) { s.begins(s.a); s.puts(s.a) }, "I2: call 1 puts a row over its own"},
		{"a lease of the store's time", func(s *scene) {
			s.writes(s.a, "put", changed(s.progress(s.a), func(r *engine.Record) {
				r.LeaseEnd = r.LeaseEnd.Add(2 * time.Second)
			}))
		}, ""},
		{"a lease that is too long", func(s *scene) {
			s.writes(s.a, "put", changed(s.progress(s.a), func(r *engine.Record) {
				r.LeaseEnd = r.LeaseEnd.Add(2*time.Second + 1)
			}))
		}, "I2: put: the lease is too long"},
		{"a lease until a deadline", func(s *scene) {
			s.endsIn(s.a, 10*time.Second)
			s.putsUntil(s.a, s.now.Add(12*time.Second))
		}, ""},
		{"a lease past its deadline", func(s *scene) {
			s.endsIn(s.a, 10*time.Second)
			s.putsUntil(s.a, s.now.Add(12*time.Second+1))
		}, "I2: put: the lease is too long"},
		{"a lease whose deadline has passed", func(s *scene) {
			s.endsIn(s.a, -time.Second)
			s.putsUntil(s.a, s.now.Add(2*time.Second))
		}, ""},
		{"a lease of a put that was sent before another", func(s *scene) {
			s.endsIn(s.a, 10*time.Second)
			s.sent(s.a, "put")
			sent, row := s.now, changed(s.progress(s.a), func(r *engine.Record) { r.LeaseEnd = s.now.Add(12 * time.Second) })
			s.wait(5 * time.Second)
			s.sent(s.a, "put")
			s.arrives(s.a, "put", sent, row)
		}, ""},
		{"an execution with half of the time to its deadline", func(s *scene) {
			s.endsIn(s.a, 10*time.Second)
			s.putsUntil(s.a, s.now.Add(10*time.Second))
			s.wait(5 * time.Second)
			s.starts(s.a)
		}, ""},
		{"an execution with less time to its deadline", func(s *scene) {
			s.endsIn(s.a, 10*time.Second)
			s.putsUntil(s.a, s.now.Add(10*time.Second))
			s.wait(5*time.Second + 1)
			s.starts(s.a)
		}, "I2: the function"},
		{"an execution that has put again before its deadline", func(s *scene) {
			s.endsIn(s.a, 10*time.Second)
			s.putsUntil(s.a, s.now.Add(10*time.Second))
			s.wait(6 * time.Second)
			s.putsUntil(s.a, s.now.Add(4*time.Second))
			s.wait(2 * time.Second)
			s.starts(s.a)
		}, ""},
		{"no lease", func(s *scene) {
			s.writes(s.a, "put", changed(s.progress(s.a), func(r *engine.Record) { r.LeaseEnd = time.UnixMilli(0) }))
		}, "I2: put: the row has no lease"},
		{"a heartbeat", func(s *scene) { s.begins(s.a); s.wait(2); s.prolongs(s.a, 1) }, ""},
		{"a heartbeat that shortens the lease", func(s *scene) { s.begins(s.a); s.prolongs(s.a, -1) }, "I2: a heartbeat"},
		{"a lease that is longer than its record", func(s *scene) {
			s.begins(s.a)
			s.wait(sceneLease)
			s.writes(s.a, "prolong", changed(s.row(), func(r *engine.Record) { r.LeaseEnd = r.Expiry.Add(1) }))
		}, "I2: prolong: the record expires"},
		{"a heartbeat that changes the number", func(s *scene) {
			s.begins(s.a)
			s.writes(s.a, "prolong", changed(s.row(), func(r *engine.Record) { r.Number++ }))
		}, "I2: prolong changes the number"},
		{"a release that removes the row", func(s *scene) {
			s.fails(s.a)
			row := s.row()
			s.judge.wrote(&request{x: s.a, name: "release", key: s.key(0)}, &row, nil)
		}, "I2: release deleted the row"},
		{"a release while the function runs", func(s *scene) { s.begins(s.a); s.sent(s.a, "release") }, "I2: call 1 releases"},
		{"a purge within the lease", func(s *scene) {
			s.puts(s.a)
			s.wait(sceneLease - 1)
			row := s.row()
			s.judge.purged(&row)
		}, "I2: a record in progress is purged"},
		{"a purge after the lease", func(s *scene) { s.puts(s.a); s.wait(sceneLease); row := s.row(); s.judge.purged(&row) }, ""},

		// I3.
		{"an execution after the window", func(s *scene) { s.runs(s.a); s.wait(sceneWindow); s.begins(s.b) }, ""},
		{"an execution within the window", func(s *scene) { s.runs(s.a); s.wait(sceneWindow - 1); s.puts(s.b) }, "I3: put of call 2"},
		{"a second completion", func(s *scene) { s.runs(s.a); s.wait(1); s.completes(s.a) }, "I3: complete of call 1"},
		{"a second completion after the window", func(s *scene) {
			s.runs(s.a)
			s.wait(sceneWindow)
			s.completes(s.a)
		}, "I3: complete of call 1"},
		{"a completion of the row of another", func(s *scene) {
			wholeLease(s)
			s.begins(s.b)
			s.completes(s.a)
		}, "I3: complete of call 1"},
		{"a heartbeat of another", func(s *scene) { s.begins(s.a); s.prolongs(s.b, 1) }, "I3: prolong of call 2"},
		{"a release of another", func(s *scene) { s.begins(s.a); s.releases(s.b) }, "I3: release of call 2"},
		{"a completion that makes a row", func(s *scene) {
			s.ends(s.a, true)
			s.writes(s.a, "complete", s.completed(s.a, engine.Value))
		}, "I3: complete made a row"},
		{"a release after a completion was sent", func(s *scene) {
			s.fails(s.a)
			s.sent(s.a, "complete")
			s.sent(s.a, "release")
		}, "I3: call 1 releases"},
		{"a row that is purged too early", func(s *scene) {
			s.writes(s.a, "put", changed(s.progress(s.a), func(r *engine.Record) { r.PurgeAt = r.PurgeAt.Add(-1) }))
		}, "I3: put: the row may be purged"},
		{"a purge after the window", func(s *scene) { s.runs(s.a); s.wait(sceneWindow); row := s.row(); s.judge.purged(&row) }, ""},
		{"a purge within the window", func(s *scene) {
			s.runs(s.a)
			s.wait(sceneWindow - 1)
			row := s.row()
			s.judge.purged(&row)
		}, "I3: a completed record is purged"},

		// I4.
		{"a lease that was lost", func(s *scene) {
			wholeLease(s)
			s.puts(s.b)
			s.ends(s.a, true)
			s.sent(s.a, "complete")
			s.errs(s.a, idempotency.ErrLeaseLost)
		}, ""},
		{"a lease that was not lost", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.sent(s.a, "complete")
			s.errs(s.a, idempotency.ErrLeaseLost)
		}, "I4: call 1 holds the key"},
		{"a lease that was lost, and nothing went wrong", func(s *scene) {
			s.lossy = 0
			wholeLease(s)
			s.errs(s.a, idempotency.ErrLeaseLost)
		}, "I4: call 1 loses its lease"},
		{"a lease that was lost without an execution", func(s *scene) { s.errs(s.a, idempotency.ErrLeaseLost) }, "I4: call 1"},
		{"a lease that was lost after the completion", func(s *scene) { s.runs(s.a); s.errs(s.a, idempotency.ErrLeaseLost) }, "I4: call 1"},
		{"the own row that is taken over", func(s *scene) {
			s.puts(s.a)
			s.wait(sceneLease)
			s.writes(s.a, "replace", changed(s.progress(s.a), func(r *engine.Record) { r.Token = "new" }))
		}, "I4: call 1 takes the key over from itself"},
		{"the own result as a replay", func(s *scene) {
			s.runs(s.a)
			s.judge.returned(s.a, idempotency.Outcome[idempotency.Result]{
				Value: idempotency.Result{Body: body(s.a)}, Number: s.row().Number, Replayed: true,
			}, nil)
		}, "I4: call 1 has completed"},
		{"a twin", func(s *scene) { s.settings.DoNotWait = true; s.puts(s.a); s.errs(s.b, idempotency.ErrInProgress) }, ""},
		{"a twin of itself", func(s *scene) {
			s.settings.DoNotWait = true
			s.puts(s.a)
			s.errs(s.a, idempotency.ErrInProgress)
		}, "I4: call 1 is told that another"},
		{"a twin that does not wait", func(s *scene) { s.puts(s.a); s.errs(s.b, idempotency.ErrInProgress) }, "call 2 does not wait"},
		{"an outcome that nobody knows", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.sent(s.a, "complete")
			s.errs(s.a, idempotency.ErrOutcomeUnknown)
		}, ""},
		{"an unknown outcome without a completion", func(s *scene) {
			s.fails(s.a)
			s.errs(s.a, idempotency.ErrOutcomeUnknown)
		}, "I4: call 1 does not know"},
		{"a store that is busy", func(s *scene) { s.errs(s.a, idempotency.ErrTryAgain) }, ""},
		{"a store that is busy after the function", func(s *scene) { s.fails(s.a); s.errs(s.a, idempotency.ErrTryAgain) }, "I4: the function"},
		{"a store that is busy without a fault", func(s *scene) {
			s.lossy = 0
			s.errs(s.a, idempotency.ErrTryAgain)
		}, "I4: no request has a fault"},

		{"a call that begins just before its deadline", func(s *scene) {
			s.lossy = 0
			s.endsIn(s.a, leastToBegin-1)
			s.putsUntil(s.a, s.now.Add(leastToBegin))
			s.errs(s.a, idempotency.ErrTryAgain)
		}, ""},
		{"a call that begins long before its deadline", func(s *scene) {
			s.lossy = 0
			s.endsIn(s.a, leastToBegin)
			s.putsUntil(s.a, s.now.Add(leastToBegin))
			s.errs(s.a, idempotency.ErrTryAgain)
		}, "I4: no request has a fault"},
		{"slow replies and a short lease", func(s *scene) {
			s.lossy, s.slow = 0, true
			s.endsIn(s.a, leastToBeginSlow-1)
			s.putsUntil(s.a, s.now.Add(leastToBeginSlow))
			s.errs(s.a, idempotency.ErrTryAgain)
		}, ""},
		{"slow replies and a long lease", func(s *scene) {
			s.lossy, s.slow = 0, true
			s.endsIn(s.a, leastToBeginSlow)
			s.putsUntil(s.a, s.now.Add(leastToBeginSlow))
			s.errs(s.a, idempotency.ErrTryAgain)
		}, "I4: no request has a fault"},
		{"a caller that goes away", func(s *scene) { s.a.patience = 1; s.puts(s.a); s.errs(s.a, context.Canceled) }, ""},
		{"a caller that goes away after the function", func(s *scene) {
			s.a.patience = 1
			s.fails(s.a)
			s.errs(s.a, context.Canceled)
		}, "I4: the function of call 1"},
		{"a caller that stays", func(s *scene) { s.errs(s.a, context.Canceled) }, "call 1 gets an unknown error"},

		// I5.
		{"a result that is not stored", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.writes(s.a, "complete", s.completed(s.a, engine.Missing))
			number := s.row().Number
			s.judge.returned(s.a, idempotency.Outcome[idempotency.Result]{Number: number, NotStored: true}, nil)
			s.errs(s.b, idempotency.ErrResultNotStored)
		}, ""},
		{"a result that is called not stored", func(s *scene) { s.runs(s.a); s.errs(s.b, idempotency.ErrResultNotStored) }, "I1: call 2"},
		{"the own result that is called not stored", func(s *scene) {
			s.runs(s.a)
			s.judge.returned(s.a, idempotency.Outcome[idempotency.Result]{Number: s.row().Number, NotStored: true}, nil)
		}, "I1: call 1"},
		{"a release after a result", func(s *scene) { s.begins(s.a); s.ends(s.a, true); s.sent(s.a, "release") }, "I5: call 1"},
		{"a result without a completion", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.errs(s.a, idempotency.ErrTryAgain)
		}, "I5: the function of call 1"},

		// I6.
		{"another payload", func(s *scene) { s.puts(s.a); s.errs(s.o, idempotency.ErrOtherPayload) }, ""},
		{"no other payload", func(s *scene) { s.puts(s.a); s.errs(s.b, idempotency.ErrOtherPayload) }, "I6: call 2"},
		{"another payload that counted when the call began", func(s *scene) {
			s.fails(s.a)
			s.wait(time.Second)
			s.releases(s.a)
			s.wait(slack - 1)
			s.o.begun = s.now
			s.errs(s.o, idempotency.ErrOtherPayload)
		}, ""},
		{"another payload that counted before", func(s *scene) {
			s.fails(s.a)
			s.wait(time.Second)
			s.releases(s.a)
			s.wait(slack)
			s.o.begun = s.now
			s.errs(s.o, idempotency.ErrOtherPayload)
		}, "I6: call 3"},
		{"another payload whose window is over", func(s *scene) {
			s.runs(s.a)
			s.wait(sceneWindow + slack)
			s.o.begun = s.now
			s.errs(s.o, idempotency.ErrOtherPayload)
		}, "I6: call 3"},
		{"a refusal after the function", func(s *scene) {
			s.fails(s.a)
			s.releases(s.a)
			s.puts(s.o)
			s.errs(s.a, idempotency.ErrOtherPayload)
		}, "I6: the function of call 1"},
		{"the result of another payload", func(s *scene) { s.runs(s.a); s.replays(s.o, s.a) }, "I6: call 3"},
		{"the missing result of another payload", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.writes(s.a, "complete", s.completed(s.a, engine.Missing))
			s.errs(s.o, idempotency.ErrResultNotStored)
		}, "I6: call 3"},

		// I7.
		{"effects", func(s *scene) { s.decides(s.a); s.commits(s.a, 1); s.replays(s.b, s.a) }, ""},
		{"a completion without its effects", func(s *scene) { s.decides(s.a); s.commits(s.a, 0) }, "I7: effects of call 1"},
		{"effects that happen twice", func(s *scene) { s.decides(s.a); s.commits(s.a, 2) }, "I7: effects of call 1"},
		{"effects without a completion", func(s *scene) {
			s.decides(s.a)
			s.a.effected = 1
			row := s.row()
			s.judge.wrote(&request{x: s.a, name: "complete", key: s.key(0)}, &row, &row)
		}, "I7: effects of call 1"},
		{"a final failure without effects", func(s *scene) { s.a.ends = failsFinally; s.decides(s.a); s.commits(s.a, 0) }, ""},
		{"effects of a final failure", func(s *scene) {
			s.a.ends = failsFinally
			s.decides(s.a)
			s.commits(s.a, 1)
		}, "I7: effects of call 1"},
		{"a transaction that is sent again", func(s *scene) {
			for range 2 {
				s.judge.transacts(s.a, "token", engine.Completion{Expiry: noon})
			}
		}, ""},
		{"a transaction that is sent again with another content", func(s *scene) {
			for n := range 2 {
				s.judge.transacts(s.a, "token", engine.Completion{Expiry: noon.Add(time.Duration(n))})
			}
		}, "I7: call 1 changes"},
		{"two transactions", func(s *scene) {
			for n := range 2 {
				s.judge.transacts(s.a, fmt.Sprint(n), engine.Completion{Expiry: noon.Add(time.Duration(n))})
			}
		}, ""},
		{"a transaction whose first try was sent earlier", func(s *scene) {
			s.decides(s.a)
			s.sent(s.a, "complete")
			row := s.completed(s.a, engine.Value)
			s.wait(time.Second)
			s.a.effected = 1
			s.writes(s.a, "complete", row)
		}, ""},
		{"a transaction with a shorter window", func(s *scene) {
			s.decides(s.a)
			s.sent(s.a, "complete")
			row := changed(s.completed(s.a, engine.Value), func(r *engine.Record) { r.Expiry = r.Expiry.Add(-1) })
			s.wait(time.Second)
			s.a.effected = 1
			s.writes(s.a, "complete", row)
		}, "I1: the window"},
		{"a completion without effects whose first try was sent earlier", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.sent(s.a, "complete")
			row := s.completed(s.a, engine.Value)
			s.wait(time.Second)
			s.writes(s.a, "complete", row)
		}, "I1: the window"},
		{"refused effects", func(s *scene) { s.decides(s.a); s.refuses(s.a); s.releases(s.a); s.errs(s.a, errRefused) }, ""},
		{"refused effects without a release", func(s *scene) {
			s.decides(s.a)
			s.refuses(s.a)
			s.errs(s.a, errRefused)
		}, "I8: call 1 failed and did not release"},
		{"a release before the refusal is known", func(s *scene) {
			s.decides(s.a)
			s.sent(s.a, "complete")
			s.sent(s.a, "release")
		}, "I5: call 1 releases"},
		{"a release after a refusal while the function runs", func(s *scene) {
			s.begins(s.a)
			s.refuses(s.a)
			s.sent(s.a, "release")
		}, "I2: call 1 releases"},
		{"refused effects that have happened", func(s *scene) {
			s.decides(s.a)
			s.refuses(s.a)
			s.commits(s.a, 1)
			s.sent(s.a, "release")
			s.errs(s.a, errRefused)
		}, "I7: call 1 is told"},
		{"refused effects that happen later", func(s *scene) {
			s.decides(s.a)
			s.refuses(s.a)
			s.sent(s.a, "release")
			s.errs(s.a, errRefused)
			s.commits(s.a, 1)
		}, "I7: call 1 completes after"},
		{"an unknown outcome after a refusal", func(s *scene) {
			s.lossy = 0
			s.decides(s.a)
			s.refuses(s.a)
			s.errs(s.a, idempotency.ErrOutcomeUnknown)
		}, ""},
		{"an unknown outcome without a refusal or a fault", func(s *scene) {
			s.lossy = 0
			s.decides(s.a)
			s.sent(s.a, "complete")
			s.errs(s.a, idempotency.ErrOutcomeUnknown)
		}, "I4: no request has a fault"},
		{"an unknown outcome after a reply with the record", func(s *scene) {
			s.decides(s.a)
			s.refuses(s.a)
			s.commits(s.a, 1)
			row := s.row()
			s.judge.replied(&request{x: s.a, name: "release"}, reply{answer: engine.Answer{Row: &row}})
			s.errs(s.a, idempotency.ErrOutcomeUnknown)
		}, "I4: call 1 has seen"},
		{"an unknown outcome after a reply with the record of another", func(s *scene) {
			s.decides(s.a)
			s.refuses(s.a)
			s.loses(s.a)
			s.wait(sceneLease)
			s.runs(s.b)
			row := s.row()
			s.judge.replied(&request{x: s.a, name: "release"}, reply{answer: engine.Answer{Row: &row}})
			s.errs(s.a, idempotency.ErrOutcomeUnknown)
		}, ""},

		// Evictions.
		{"an execution after an eviction within the window", func(s *scene) { s.runs(s.a); s.evicts(s.a, false); s.begins(s.b) }, ""},
		{"an eviction of a running execution", func(s *scene) { s.begins(s.a); s.evicts(s.a, true); s.begins(s.b) }, ""},
		{"an eviction of a running execution that was not asked for", func(s *scene) {
			s.begins(s.a)
			s.evicts(s.a, false)
		}, "I2: eviction 4 frees the key"},
		{"an eviction of another execution", func(s *scene) { s.runs(s.a); s.evicts(s.b, true) }, "I3: eviction 4 frees the row"},
		{"an eviction of a row that is free", func(s *scene) {
			s.fails(s.a)
			s.releases(s.a)
			s.evicts(nil, true, func(r *engine.Record) { r.Token = "other" })
		}, "I3: eviction 4 frees the row"},
		{"an eviction that keeps the token", func(s *scene) {
			s.runs(s.a)
			token := s.row().Token
			s.evicts(s.a, false, func(r *engine.Record) { r.Token = token })
		}, "I3: eviction 4 leaves the row"},
		{"an eviction that changes the number", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false, func(r *engine.Record) { r.Number++ })
		}, "I2: eviction 4 changes"},
		{"an eviction that leaves a lease", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false, func(r *engine.Record) { r.LeaseEnd = s.now.Add(1) })
		}, "I8: eviction 4"},
		{"an eviction that leaves the result", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false, func(r *engine.Record) { r.Status = engine.Completed })
		}, "I8: eviction 4"},
		{"an eviction with an earlier purge", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false, func(r *engine.Record) { r.PurgeAt = r.PurgeAt.Add(-1) })
		}, "I3: eviction 4 lets"},
		{"an eviction after the row is purged", func(s *scene) {
			row := changed(s.progress(s.a), func(r *engine.Record) { r.LeaseEnd = time.UnixMilli(0) })
			x := &execution{id: 4, evicts: &eviction{}}
			s.judge.wrote(&request{x: x, name: "replace", key: s.key(0)}, nil, &row)
		}, ""},
		{"an execution that begins after its eviction", func(s *scene) { s.puts(s.a); s.evicts(s.a, true); s.starts(s.a) }, ""},
		{"an execution that puts again after its eviction", func(s *scene) {
			s.puts(s.a)
			s.evicts(s.a, true)
			s.puts(s.a)
			s.startsAs(s.a, s.row().Number-1)
		}, "I2: execution"},
		{"a completion after the eviction", func(s *scene) {
			s.begins(s.a)
			s.evicts(s.a, true)
			s.completes(s.a)
		}, "I3: complete of call 1"},
		{"a lease that is lost by an eviction", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false)
			s.errs(s.a, idempotency.ErrLeaseLost)
		}, ""},
		{"a replay of an evicted record", func(s *scene) {
			s.runs(s.a)
			old := s.row().Number
			s.evicts(s.a, false)
			s.runs(s.o)
			s.wait(1)
			s.b.begun = s.now
			s.gets(s.b, s.a, old)
		}, ""},
		{"a replay of an evicted record after its window", func(s *scene) {
			s.runs(s.a)
			old := s.row().Number
			s.evicts(s.a, false)
			s.wait(sceneWindow + slack + 1)
			s.b.begun = s.now
			s.gets(s.b, s.a, old)
		}, "I1: call 2"},
		{"another payload whose record was evicted just before", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false)
			s.wait(stale + slack - 1)
			s.o.begun = s.now
			s.errs(s.o, idempotency.ErrOtherPayload)
		}, ""},
		{"another payload whose record was evicted before", func(s *scene) {
			s.runs(s.a)
			s.evicts(s.a, false)
			s.wait(stale + slack)
			s.o.begun = s.now
			s.errs(s.o, idempotency.ErrOtherPayload)
		}, "I6: call 3"},
		{"another payload whose execution was evicted before", func(s *scene) {
			s.begins(s.a)
			s.wait(time.Second)
			s.evicts(s.a, true)
			s.wait(slack)
			s.o.begun = s.now
			s.errs(s.o, idempotency.ErrOtherPayload)
		}, "I6: call 3"},
		{"an eviction that is confirmed", func(s *scene) {
			s.runs(s.a)
			x := s.evicts(s.a, false)
			x.evicts.freed = true
			s.errs(x, nil)
		}, ""},
		{"an eviction that is confirmed and did nothing", func(s *scene) {
			s.errs(&execution{id: 4, evicts: &eviction{freed: true}}, nil)
		}, "I4: eviction 4"},
		{"an eviction that is refused", func(s *scene) {
			s.errs(&execution{id: 4, evicts: &eviction{}}, idempotency.ErrOtherExecution)
		}, ""},
		{"an eviction with an error that nobody knows", func(s *scene) {
			s.errs(&execution{id: 4, evicts: &eviction{}}, errors.New("odd"))
		}, "eviction 4 gets an unknown error"},

		// I8.
		{"a failure", func(s *scene) { s.fails(s.a); s.releases(s.a); s.errs(s.a, errFunction) }, ""},
		{"a failure whose release is not confirmed", func(s *scene) { s.fails(s.a); s.sent(s.a, "release"); s.errs(s.a, errFunction) }, ""},
		{"a failure without a release", func(s *scene) { s.fails(s.a); s.errs(s.a, errFunction) }, "I8: call 1"},
		{"a panic without a release", func(s *scene) { s.fails(s.a); s.errs(s.a, errPanicked) }, "I8: call 1"},
		{"a failure after the lease without a release", func(s *scene) {
			wholeLease(s)
			s.ends(s.a, false)
			s.errs(s.a, fmt.Errorf("%w: %w", idempotency.ErrLeaseLost, errFunction))
		}, "I8: call 1"},
		{"a release that does nothing", func(s *scene) {
			s.fails(s.a)
			s.sent(s.a, "release")
			s.judge.replied(&request{x: s.a, name: "release"}, reply{})
			s.errs(s.a, errFunction)
		}, "I8: call 1 failed, and still holds"},
		{"a release that keeps the lease", func(s *scene) {
			s.fails(s.a)
			s.writes(s.a, "release", changed(s.released(), func(r *engine.Record) { r.LeaseEnd = s.row().LeaseEnd }))
		}, "I8: a release leaves"},
		{"a final failure", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.writes(s.a, "complete", s.completed(s.a, engine.Failure))
			s.errs(s.a, &idempotency.FailedError{Text: string(body(s.a))})
			s.errs(s.b, &idempotency.FailedError{Text: string(body(s.a))})
		}, ""},
		{"a final failure with another text", func(s *scene) {
			s.begins(s.a)
			s.ends(s.a, true)
			s.writes(s.a, "complete", s.completed(s.a, engine.Failure))
			s.errs(s.b, &idempotency.FailedError{Text: "other"})
		}, "I1: call 2"},
		{"a final failure that nobody stored", func(s *scene) {
			s.runs(s.a)
			s.errs(s.b, &idempotency.FailedError{Text: string(body(s.a))})
		}, "I1: call 2"},
		{"an error that nobody knows", func(s *scene) { s.errs(s.a, errors.New("odd")) }, "call 1 gets an unknown error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			test.do(s)
			got := s.judge.violation
			if (got == nil) != (test.want == "") || got != nil && !strings.HasPrefix(got.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, got)
			}
		})
	}
}
