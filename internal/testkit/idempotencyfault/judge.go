package idempotencyfault

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// judge checks the guarantees with what no process knows: the time, and all that happens in the store.
type judge struct {
	*world
	violation   error
	holders     map[string]*execution // by token
	numbers     map[string]int64      // the largest number of an execution that began, by key
	completions map[string][]completion
	contents    map[string]engine.Completion    // of transactions, by token
	counted     map[string]map[string]time.Time // until when rows counted, by key and hash of the payload
}

// completion is a completion that took effect.
type completion struct {
	at      time.Time
	by      *execution
	record  engine.Record
	evicted time.Time // zero: never
}

func newJudge(w *world) *judge {
	return &judge{
		world: w, holders: map[string]*execution{}, numbers: map[string]int64{},
		completions: map[string][]completion{}, contents: map[string]engine.Completion{},
		counted: map[string]map[string]time.Time{},
	}
}

// violated notes the first violation.
func (j *judge) violated(format string, args ...any) {
	if j.violation == nil {
		j.violation = fmt.Errorf(format, args...)
		j.log("VIOLATION: %v", j.violation)
	}
}

// sent sees a request that a process sends.
func (j *judge) sent(r *request) {
	switch {
	case r.x.evicts != nil:
	case r.name == "put" || r.name == "replace":
		r.x.lease = r.lease
	case r.name == "complete":
		if r.x.completes++; r.x.completes == 1 {
			r.x.completing = j.now
		}
	case r.name == "release":
		r.x.releases++
		if r.x.running {
			j.violated("I2: call %d releases the key while its function runs", r.x.id)
		}
		if r.x.refusals > 0 { // the release stops the tries of its transaction
			return
		}
		if r.x.decided {
			j.violated("I5: call %d releases the key after its function has returned a result", r.x.id)
		}
	}
}

// transacts sees a completion with effects that a process sends. All tries say the same.
func (j *judge) transacts(x *execution, token string, c engine.Completion) {
	if first, found := j.contents[token]; found && !reflect.DeepEqual(first, c) {
		j.violated("I7: call %d changes the content of its transaction", x.id)
		return
	}
	j.contents[token] = c
}

// replied sees a reply that a process gets.
func (j *judge) replied(r *request, re reply) {
	if _, isRefused := errors.AsType[*engine.RefusedError](re.err); isRefused {
		r.x.refusals++
	}
	if r.name == "release" && re.err == nil {
		r.x.released++
	}
	if row := re.answer.Row; row != nil && row.Status == engine.Completed && j.holders[row.CompletedBy] == r.x {
		r.x.shown = true
	}
}

// wrote sees what a request did to the row of its key.
func (j *judge) wrote(r *request, before, after *engine.Record) {
	isChanged := !reflect.DeepEqual(before, after)
	j.effects(r, isChanged)
	if !isChanged {
		return
	}
	if r.x.evicts != nil {
		j.evicted(r, before, after)
		return
	}
	if before != nil {
		j.changed(r, before, after)
	} else if r.name != "put" && r.name != "replace" {
		j.violated("I3: %s made a row", r.name)
	}
	switch r.name {
	case "put", "replace":
		j.holders[after.Token], r.x.evicted = r.x, false
		j.number(r, before, after)
	case "complete":
		r.x.expiry = after.Expiry
		j.completions[r.key.Name] = append(j.completions[r.key.Name], completion{at: j.now, by: r.x, record: *after})
		begin := r.sent
		if r.x.commits() { // all tries of a transaction say what the first one said
			begin = r.x.completing
		}
		if after.Expiry.Before(begin.Add(j.settings.Window)) {
			j.violated("I1: the window of the record is too short")
		}
	}
	j.ends(r, after)
	j.count(r.key.Name, before, after)
}

// effects checks that the effects of a call happen together with its completion, and only then.
func (j *judge) effects(r *request, isChanged bool) {
	if r.name == "complete" && isChanged && r.x.commits() {
		r.x.committed++
		if r.x.told {
			j.violated("I7: call %d completes after its caller was told that its effects are refused", r.x.id)
		}
	}
	if r.x.effected != r.x.committed {
		j.violated("I7: effects of call %d happen %d times with %d completions", r.x.id, r.x.effected, r.x.committed)
	}
}

// evicted checks what an eviction did to a row. A process that was frozen may send it after the row is purged.
func (j *judge) evicted(r *request, before, after *engine.Record) {
	e := r.x.evicts
	e.done = true
	if after.Status != engine.InProgress || after.LeaseEnd.After(j.now) {
		j.violated("I8: eviction %d leaves the key blocked", r.x.id)
	}
	if before == nil {
		return
	}
	if after.Number != before.Number {
		j.violated("I2: eviction %d changes the number", r.x.id)
	}
	holder := j.holders[before.Token]
	switch {
	case holder == nil || holder != e.holder:
		j.violated("I3: eviction %d frees the row of another execution", r.x.id)
		return
	case before.Status == engine.InProgress && !e.Running:
		j.violated("I2: eviction %d frees the key of an execution within its lease", r.x.id)
	case after.Token == before.Token:
		j.violated("I3: eviction %d leaves the row to the execution that had it", r.x.id)
	case after.PurgeAt.Before(before.PurgeAt):
		j.violated("I3: eviction %d lets the row be purged while late requests can come", r.x.id)
	}
	holder.evicted, holder.expiry = true, time.Time{}
	all := j.completions[r.key.Name]
	if last := len(all) - 1; before.Status == engine.Completed {
		all[last].evicted = j.now
	}
	j.count(r.key.Name, before, after)
}

// changed checks a change of a row.
func (j *judge) changed(r *request, before, after *engine.Record) {
	holder := j.holders[before.Token]
	switch {
	case before.Status == engine.Completed && j.now.Before(before.Expiry):
		j.violated("I3: %s of call %d changes a completed record within its window", r.name, r.x.id)
	case r.name == "replace" || r.name == "put":
		j.taken(r, holder, before, after)
	case before.Status == engine.Completed:
		j.violated("I3: %s of call %d changes a completed record", r.name, r.x.id)
	case holder != r.x:
		j.violated("I3: %s of call %d changes the row of another execution", r.name, r.x.id)
	case after.Number != before.Number:
		j.violated("I2: %s changes the number", r.name)
	case r.name == "prolong" && !after.LeaseEnd.After(before.LeaseEnd):
		j.violated("I2: a heartbeat shortens the lease")
	case r.name == "release" && after.LeaseEnd.After(j.now):
		j.violated("I8: a release leaves the key blocked")
	}
}

// taken checks a row that is put over another.
func (j *judge) taken(r *request, holder *execution, before, after *engine.Record) {
	if after.Number <= before.Number {
		j.violated("I2: the number does not grow: %d after %d", after.Number, before.Number)
	}
	if before.Token == after.Token && r.x.ctx != nil {
		j.violated("I2: call %d puts a row over its own after its function has begun", r.x.id)
	}
	if before.Status == engine.Completed || before.Token == after.Token {
		return
	}
	if holder == r.x {
		j.violated("I4: call %d takes the key over from itself", r.x.id)
	}
	if j.now.Before(before.LeaseEnd) {
		j.violated("I2: call %d takes the key over within the lease of another execution", r.x.id)
	}
	if holder == nil || !holder.running {
		return
	}
	// The holder looks at its lease each second, unless its process is frozen.
	p := holder.process
	awake := !p.crashed() && !p.frozen && p.thawed.Before(j.now.Add(-2*time.Second))
	if awake && holder.ctx.Err() == nil {
		j.violated("I2: call %d takes the key over, and the context of call %d has not ended", r.x.id, holder.id)
	}
}

// number checks that a new number is not ahead of the time. If the row is purged, the next number begins with the time.
func (j *judge) number(r *request, before, after *engine.Record) {
	most := r.sent.UnixMilli()
	if before != nil {
		most = max(most, before.Number+1)
	}
	if after.Number > most {
		j.violated("I2: number %d is ahead of the time, or of the number before", after.Number)
	}
}

// ends checks the times of a new row.
func (j *judge) ends(r *request, row *engine.Record) {
	if row.PurgeAt.Before(row.Expiry.Add(15*time.Minute)) && r.name != "release" {
		j.violated("I3: %s: the row may be purged while late requests can come", r.name)
	}
	if row.Status == engine.InProgress && row.Expiry.Before(row.LeaseEnd) {
		j.violated("I2: %s: the record expires before its lease ends", r.name)
	}
	if (r.name == "put" || r.name == "replace") && !row.LeaseEnd.After(r.sent.Add(-time.Hour*2)) {
		j.violated("I2: %s: the row has no lease", r.name)
	}
	if row.Status == engine.InProgress && row.LeaseEnd.After(r.sent.Add(r.lease+2*time.Second)) {
		j.violated("I2: %s: the lease is too long: a crash blocks the key", r.name)
	}
}

// count notes until when rows of a payload count.
func (j *judge) count(key string, before, after *engine.Record) {
	until := j.counted[key]
	if until == nil {
		until = map[string]time.Time{}
		j.counted[key] = until
	}
	if before != nil && until[before.Payload].After(j.now) {
		until[before.Payload] = j.now
	}
	until[after.Payload] = after.LeaseEnd
	if after.Status == engine.Completed {
		until[after.Payload] = after.Expiry
	}
	if until[after.Payload].Before(j.now) {
		until[after.Payload] = j.now
	}
}

// started sees the begin of the function.
func (j *judge) started(x *execution, ctx context.Context, e idempotency.Execution) {
	x.ctx, x.running = ctx, true
	row := j.store.Row(engine.Key{Namespace: namespace, Name: x.key})
	switch {
	case x.evicted: // another execution may have begun meanwhile
	case row == nil || row.Status != engine.InProgress || j.holders[row.Token] != x:
		j.violated("I2: the function of call %d begins, and the key is not its own: %s", x.id, show(row))
	case row.Number != e.Number:
		j.violated("I2: execution %d of call %d has a row with number %d", e.Number, x.id, row.Number)
	case row.LeaseEnd.Sub(j.now) < x.lease/2:
		j.violated("I2: the function of call %d begins with %s left of its lease", x.id, row.LeaseEnd.Sub(j.now))
	case e.Number <= j.numbers[x.key] && len(j.theirs) == 0:
		j.violated("I2: execution %d begins after execution %d", e.Number, j.numbers[x.key])
	}
	j.numbers[x.key] = max(j.numbers[x.key], e.Number)
}

// slack is how much longer a row counts for a process, whose early clock is late: half a second, and the part of a
// second that a Date has not.
const slack = 1500 * time.Millisecond

// returned sees what a caller gets.
func (j *judge) returned(x *execution, outcome idempotency.Outcome[idempotency.Result], err error) {
	if x.evicts != nil {
		j.evictionReturned(x, err)
		return
	}
	if x.decided && x.completes == 0 {
		j.violated("I5: the function of call %d has returned a result, and the call sent no completion", x.id)
	}
	failed, isFailed := errors.AsType[*idempotency.FailedError](err)
	switch {
	case err == nil && outcome.NotStored:
		j.own(x, outcome.Number, engine.Missing, nil)
	case err == nil && !outcome.Replayed:
		j.own(x, outcome.Number, engine.Value, outcome.Value.Body)
	case err == nil:
		j.result(x, outcome.Number, engine.Value, outcome.Value.Body)
	case isFailed:
		j.result(x, outcome.Number, engine.Failure, []byte(failed.Text))
	case errors.Is(err, idempotency.ErrResultNotStored):
		j.result(x, outcome.Number, engine.Missing, nil)
	case errors.Is(err, idempotency.ErrOtherPayload):
		j.refused(x)
	case errors.Is(err, idempotency.ErrLeaseLost):
		j.lost(x, err)
	case errors.Is(err, errFunction) || errors.Is(err, errPanicked):
		j.freed(x)
	case errors.Is(err, errRefused):
		j.effectsRefused(x)
	case errors.Is(err, idempotency.ErrTryAgain):
		j.tryAgain(x, err)
	case x.patience > 0 && errors.Is(err, context.Canceled):
		if x.ctx != nil {
			j.violated("I4: the function of call %d has run, and the call gets %v", x.id, err)
		}
	default:
		j.violated("call %d gets an unknown error: %v", x.id, err)
	}
}

// evictionReturned sees what the caller of an eviction gets.
func (j *judge) evictionReturned(x *execution, err error) {
	switch {
	case x.evicts.freed && !x.evicts.done:
		j.violated("I4: eviction %d is told that it freed the key, and it has not", x.id)
	case err != nil && !errors.Is(err, idempotency.ErrRefused) && !errors.Is(err, idempotency.ErrTryAgain):
		j.violated("eviction %d gets an unknown error: %v", x.id, err)
	}
}

// effectsRefused checks that effects that are called refused have not happened, and that the key is free.
func (j *judge) effectsRefused(x *execution) {
	x.told = true
	if x.effected > 0 {
		j.violated("I7: call %d is told that its effects are refused, and they have happened", x.id)
	}
	j.freed(x)
}

// lost checks that a call that is told so has lost its lease.
func (j *judge) lost(x *execution, err error) {
	switch {
	case j.calm():
		j.violated("I4: call %d loses its lease, and nothing went wrong", x.id)
	case x.ctx == nil:
		j.violated("I4: call %d loses its lease, and its function has not run", x.id)
	case j.now.Before(x.expiry):
		j.violated("I4: call %d has completed, and is told that its lease was lost", x.id)
	case j.holds(x) && !errors.Is(context.Cause(x.ctx), idempotency.ErrLeaseLost):
		j.violated("I4: call %d holds the key, and is told that its lease was lost", x.id)
	case errors.Is(err, errFunction):
		j.freed(x)
	}
}

// Half of such a lease is left after a reply, whatever its Date.
const (
	leastToBegin     = 4 * time.Second // if replies are quick
	leastToBeginSlow = 6 * time.Second // if some are slow
)

// mayNotBegin reports whether replies can use up half of the lease of a call in each of its tries.
func (j *judge) mayNotBegin(x *execution) bool {
	return x.lease < leastToBegin || j.slow && x.lease < leastToBeginSlow
}

// tryAgain checks that a call that shall be repeated is told the truth about its function.
func (j *judge) tryAgain(x *execution, err error) {
	switch waits, unknown := errors.Is(err, idempotency.ErrInProgress), errors.Is(err, idempotency.ErrOutcomeUnknown); {
	case unknown && x.shown:
		j.violated("I4: call %d has seen its completed record, and does not know its outcome", x.id)
	case unknown && x.completes == 0:
		j.violated("I4: call %d does not know its outcome, and sent no completion", x.id)
	case !unknown && x.ctx != nil:
		j.violated("I4: the function of call %d has run, and the call gets %v", x.id, err)
	case waits && j.holds(x):
		j.violated("I4: call %d is told that another call holds the key, which it holds", x.id)
	case waits && !j.settings.DoNotWait:
		j.violated("call %d does not wait", x.id)
	case !unknown && j.mayNotBegin(x):
	case !waits && j.lossy == 0 && (!unknown || x.refusals == 0): // a release may find that the lease is over
		j.violated("I4: no request has a fault, and call %d gets %v", x.id, err)
	}
}

// holds reports whether the row of the key belongs to a call.
func (j *judge) holds(x *execution) bool {
	row := j.store.Row(engine.Key{Namespace: namespace, Name: x.key})
	return row != nil && row.Status == engine.InProgress && j.holders[row.Token] == x
}

// own checks that the call itself has completed the record.
func (j *judge) own(x *execution, number int64, kind engine.Kind, body []byte) {
	for _, c := range j.completions[x.key] {
		same := j.sameNumber(number, c.record) && c.record.Result.Kind == kind
		if c.by == x && same && (body == nil || bytes.Equal(body, c.record.Result.Body)) {
			return
		}
	}
	j.violated("I1: call %d gets a result that no record has", x.id)
}

// result checks that the record of an execution for the payload had the result, and that it counted when the call
// began: its window was not over, and no later record existed. A Missing result has no body. Calls of a process share a
// result until the end of its window, also if it is evicted meanwhile.
func (j *judge) result(x *execution, number int64, kind engine.Kind, body []byte) {
	all := j.completions[x.key]
	for n, c := range all {
		switch {
		case !j.sameNumber(number, c.record) || c.record.Result.Kind != kind:
		case body != nil && !bytes.Equal(c.record.Result.Body, body):
		case n+1 < len(all) && all[n+1].at.Before(x.begun) && c.evicted.IsZero(): // a later record had replaced it
		case c.record.Expiry.Before(x.begun.Add(-slack)):
		case c.by.payload == x.payload && c.by == x && kind != engine.Failure:
			j.violated("I4: call %d has completed, and is told that another call has", x.id)
		case c.by.payload == x.payload:
			return
		default:
			j.violated("I6: call %d gets the result of another payload", x.id)
		}
	}
	j.violated("I1: call %d gets a result that no record has, or had when the call began", x.id)
}

// refused checks that another payload had the key during the call.
func (j *judge) refused(x *execution) {
	if x.ctx != nil {
		j.violated("I6: the function of call %d has run, and the call is refused", x.id)
	}
	for _, c := range j.completions[x.key] { // cheap reads show records that were evicted, and caches keep them
		until := c.evicted.Add(stale)
		if j.settings.CacheBytes > 0 && !c.evicted.IsZero() {
			until = c.record.Expiry
		}
		if c.by.payload != x.payload && x.begun.Before(until.Add(slack)) {
			return
		}
	}
	for _, other := range j.calls {
		counted := j.counted[x.key][hash(other.payload)].After(x.begun.Add(-slack))
		if other.payload != x.payload && other.key == x.key && counted {
			return
		}
	}
	j.violated("I6: call %d is refused, and no record of another payload counted", x.id)
}

// freed checks that a failure has given the key back.
func (j *judge) freed(x *execution) {
	switch {
	case x.releases == 0:
		j.violated("I8: call %d failed and did not release the key", x.id)
	case x.released > 0 && j.holds(x):
		j.violated("I8: call %d failed, and still holds the key", x.id)
	}
}

// hash returns the hash that a record has of a payload.
func hash(payload string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(payload))) }
