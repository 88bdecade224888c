package idempotencyfault

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// theirs is a call of a function with Powertools, on a machine of its own. It begins as their condition says, by the
// clock of its machine, and ends without a condition.
type theirs struct {
	at    time.Duration
	key   string
	lease time.Duration // the remaining time of its invocation
	takes time.Duration
	clock time.Duration // the error of its clock
	fails bool
	dies  bool // it never ends
}

// newMixed makes the history of a seed in a fleet in which functions with Powertools have the same keys. If they are
// punctual, their clocks are right, and they end within their leases.
func newMixed(seed uint64) history {
	h, random := newHistory(seed), rand.New(rand.NewPCG(seed, 10))
	h.settings.Window, h.settings.CacheBytes = one(random, 15*time.Minute, time.Hour), 0
	h.punctual = random.IntN(2) == 0
	last := time.Duration(0)
	for n := range h.calls {
		p := &h.calls[n]
		p.payload, p.effects = "x", false // they compare payloads only if told so
		last = max(last, p.at)
	}
	faults := h.faults
	h.faults = nil
	for _, f := range faults {
		if f.evicts == "" {
			h.faults = append(h.faults, f)
		}
	}
	for range 1 + random.IntN(5) {
		t := theirs{
			at: h.upTo(random, last+2*h.settings.Lease), key: one(random, h.calls...).key,
			lease: 2*time.Second + h.upTo(random, h.settings.Lease),
			fails: random.IntN(4) == 0, dies: random.IntN(6) == 0,
		}
		t.takes = h.upTo(random, t.lease)
		if !h.punctual {
			t.takes *= time.Duration(random.IntN(4))
			t.clock = h.upTo(random, 10*time.Second) - 5*time.Second
		}
		h.theirs = append(h.theirs, t)
	}
	return h
}

// theirCall begins a call of theirs, unless another execution holds the key, or has completed.
func (w *world) theirCall(id int, t theirs) {
	key := w.keyOf(t.key)
	before, now := w.store.Row(key), w.now.Add(t.clock)
	mayBegin := before == nil || before.Expiry.Before(now) ||
		before.Status == engine.InProgress && before.LeaseEnd.Before(now)
	if !mayBegin {
		w.log("theirs %d: another execution holds the key, or has completed", id)
		return
	}
	expiry := now.Add(w.settings.Window).Truncate(time.Second)
	begun := &engine.Record{
		Status: engine.InProgress, Number: expiry.Unix(), Payload: hash("x"), // as the store reads such a row
		LeaseEnd: now.Add(t.lease).Truncate(time.Millisecond), Expiry: expiry, PurgeAt: expiry,
	}
	w.overwrite(fmt.Sprintf("theirs %d begins", id), key, before, begun)
	if !t.dies {
		w.after(t.takes, func() { w.theirEnd(id, t, *begun) })
	}
}

// theirEnd completes or deletes the row of the key, also if another execution has it. Their update makes a row if there is none.
func (w *world) theirEnd(id int, t theirs, begun engine.Record) {
	key := w.keyOf(t.key)
	before := w.store.Row(key)
	if w.punctual && (before == nil || !reflect.DeepEqual(*before, begun)) {
		w.judge.violated("I2: theirs %d ends within its lease, and the row is not its own: %s", id, show(before))
	}
	if t.fails {
		w.overwrite(fmt.Sprintf("theirs %d fails", id), key, before, nil)
		return
	}
	after := begun
	if before != nil {
		after = *before // also with our token
	}
	after.Status, after.Result = engine.Completed, engine.Result{Kind: engine.Value, Body: fmt.Appendf(nil, "theirs %d", id)}
	after.Expiry = w.now.Add(t.clock + w.settings.Window).Truncate(time.Second)
	after.PurgeAt = after.Expiry
	w.overwrite(fmt.Sprintf("theirs %d completes", id), key, before, &after)
	w.judge.theyCompleted(t.key, after)
}

// overwrite changes a row without a condition.
func (w *world) overwrite(what string, key engine.Key, before, after *engine.Record) {
	w.store.Set(key, after)
	w.log("%s: %s", what, show(after))
	w.remember(key, after)
	w.judge.overwritten(key.Name, before)
}

// theyCompleted sees a completion of theirs. Over a record that we have completed it keeps our completed_by, so that a try of
// ours whose reply was lost takes it for its own: its caller gets their result, as later callers do.
func (j *judge) theyCompleted(key string, record engine.Record) {
	by := j.holders[record.CompletedBy]
	if by == nil {
		by = &execution{plan: plan{key: key, payload: "x"}}
	}
	j.completions[key] = append(j.completions[key], completion{at: j.now, by: by, record: record})
}

// sameNumber compares the number that a caller gets with the number in a record. After theirs have deleted a row, a late
// put of an earlier try can make it again, with its own number.
func (j *judge) sameNumber(got int64, record engine.Record) bool {
	return got == record.Number || len(j.theirs) > 0
}

// late reports whether theirs can end after their leases.
func (h history) late() bool { return len(h.theirs) > 0 && !h.punctual }

// overwritten sees a row that theirs overwrites or deletes, so that its number is lost. A function that is not punctual
// can do that to any row, so the execution that had it is promised nothing: but its caller still gets a result that a
// record has, or an error.
func (j *judge) overwritten(key string, before *engine.Record) {
	if !j.late() || before == nil {
		return
	}
	if holder := j.holders[before.Token]; holder != nil {
		holder.evicted, holder.expiry = true, time.Time{}
	}
	if all := j.completions[key]; before.Status == engine.Completed && len(all) > 0 {
		all[len(all)-1].evicted = j.now
	}
}
