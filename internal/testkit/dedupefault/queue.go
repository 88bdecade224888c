package dedupefault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

const queueARN = "arn:aws:sqs:eu-central-1:123456789012:orders"

// queueHistory is a random history of an SQS queue and the function that reads it. The calls of the function get their
// faults, pauses and other invocations in turn.
type queueHistory struct {
	FIFO     bool
	NoAcks   bool // entries do not say what is done; then nothing fails but the sink
	Chunk    int
	Messages []User
	Batches  []queueBatch

	Ways   []Way
	Pauses []time.Duration  // before and after calls
	Within []bool           // whether the next batch comes before and after a call, while the process stands still
	Skews  [2]time.Duration // how wrong the clocks of two processes are
	Wakes  bool             // a process can wake after its deadline
}

// queueBatch is one receive. The numbers are indexes in what is left of the queue.
type queueBatch struct {
	From, Size int
	Repeats    [][2]int // a message of the batch that is in it again, and how far behind
	Fails      []int    // the sink does not take these messages now
	Stays      []int    // SQS does not delete these messages when they are done, and delivers them again once
	Moved      []int    // somebody moves these messages through a dead-letter queue after the batch: they get new ids
	After      time.Duration
}

// These are the times of a queue. Its messages come again at any time, also before their lease is over.
const (
	queueTimeout = time.Minute
	queueLate    = 10 * time.Minute // after this, nobody holds a message
	mostWithin   = 3                // invocations, each while the one before stands still
	mostFaults   = 60               // after so many calls, nothing fails
)

// queued is a message in the queue.
type queued struct {
	n     int // in queueHistory.Messages
	moves int // how often it got a new id
	again bool
}

func (m queued) id() string { return fmt.Sprintf("m-%d-%d", m.n, m.moves) }

// content is what is the same in all copies of a message.
func (q *queueRun) content(n int) User { return User{ID: q.Messages[n].ID, FP: q.Messages[n].FP} }

// queueRun plays a queueHistory.
type queueRun struct {
	queueHistory
	ctx       context.Context
	engine    dedupe.Store
	scope     string
	processes [2]handleFunc
	now       time.Time
	left      []queued
	next      int // the next batch
	calls     int
	runs      int
	depth     int
	calm      bool
	late      []func() // requests that are on their way
	violation error
	trace     []string

	delivered []int
	ids       map[User]string // under which messages were delivered
	done      map[User]bool   // whose entry has said that they are done
	letters   []dedupe.DeadLetter
}

// queueInvocation is one invocation of the function.
type queueInvocation struct {
	number   int
	fails    []int
	deadline time.Time
	tokens   map[dedupe.Token]bool
}

type queueInvocationKey struct{}

func queueInvocationOf(ctx context.Context) *queueInvocation {
	return ctx.Value(queueInvocationKey{}).(*queueInvocation)
}

func (q *queueRun) violate(format string, args ...any) {
	if q.violation == nil {
		q.violation = fmt.Errorf(format, args...)
	}
}

func (q *queueRun) note(format string, args ...any) {
	q.trace = append(q.trace, fmt.Sprintf("%s "+format, append([]any{q.now.Sub(epoch)}, args...)...))
}

// play returns the first violation of a guarantee.
func (h queueHistory) play(ctx context.Context, engine dedupe.Store, m *Mutant) error {
	if _, onLog := engine.(LogStore); onLog {
		h.NoAcks = true
	}
	q := &queueRun{
		queueHistory: h, ctx: ctx, engine: engine, scope: freshScope(), now: epoch, calm: h.NoAcks,
		ids: map[User]string{}, done: map[User]bool{},
	}
	for i := range q.processes {
		if err := q.deploy(i, m); err != nil {
			return err
		}
	}
	for n := range h.Messages {
		q.left = append(q.left, queued{n: n})
	}
	err := q.playAll()
	if err != nil && (len(h.Ways) > 0 || len(h.Within) > 0) {
		err = fmt.Errorf("%w\nall that happened:\n  %s", err, strings.Join(q.trace, "\n  "))
	}
	return err
}

// deploy starts a process of the function.
func (q *queueRun) deploy(i int, m *Mutant) error {
	hook := m.HookIn(Env{Engine: q.engine, Store: q.engine, Retention: retention})
	store := HookStore(HookStore(q.engine, q.called), hook)
	clock := dedupe.Clock{
		Now: func() time.Time { return q.now.Add(q.Skews[i]) },
		Pause: func(_ context.Context, limit time.Duration) error {
			q.now = q.now.Add(limit)
			return nil
		},
		Both: func(f, g func()) { f(); g() },
	}
	parts := dedupe.Parts{
		Ledger: store, Acks: store, Format: newFormat(), Sink: HookSink(HookSink(q, q.called), hook),
		DeadLetters: HookDeadLetters(q, q.called),
	}
	o := recordhandler.Options{
		Scope: q.scope, Retention: retention, Chunk: q.Chunk, NoAcks: q.NoAcks, Clock: clock,
		Sink: recordhandler.SinkSetting{Own: "memory"},
	}
	product, err := recordhandler.New(parts, o, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if q.processes[i] = product.Handle; m != nil && m.around != nil {
		q.processes[i] = m.around(nil, function{}, product.Handle)
	}
	return nil
}

func (q *queueRun) playAll() error {
	for q.next < len(q.Batches) && len(q.left) > 0 && q.violation == nil {
		q.receiveNext()
	}
	q.calm = true
	for range len(q.Messages) + 2 { // at the end nothing fails, and each batch has all that is left, twice
		for _, arrive := range q.late {
			arrive()
		}
		q.late = nil
		switch {
		case q.violation != nil:
			return q.violation
		case len(q.left) == 0:
			return q.atRest()
		}
		q.now = q.now.Add(queueLate)
		q.receive(queueBatch{Size: len(q.left), Repeats: [][2]int{{0, len(q.left)}}})
	}
	if q.violation != nil {
		return q.violation
	}
	return fmt.Errorf("G10: messages %v are never done", q.left)
}

func (q *queueRun) receiveNext() {
	b := q.Batches[q.next]
	q.next++
	q.now = q.now.Add(b.After)
	q.receive(b)
	for _, i := range b.Moved {
		if !q.NoAcks && len(q.left) > 0 {
			q.left[i%len(q.left)].moves++
		}
	}
}

// receive gives a batch to the function, and deletes the messages that the answer does not name.
func (q *queueRun) receive(b queueBatch) {
	batch := q.batch(b)
	q.runs++
	inv := &queueInvocation{
		number: q.runs, fails: b.Fails, deadline: q.now.Add(queueTimeout), tokens: map[dedupe.Token]bool{},
	}
	process := inv.number % len(q.processes)
	ctx := context.WithValue(q.ctx, queueInvocationKey{}, inv)
	ctx, cancel := context.WithDeadline(ctx, inv.deadline.Add(q.Skews[process]))
	defer cancel()
	q.note("#%d gets %v, the sink fails for %v", inv.number, batch, b.Fails)
	var answer events.KinesisEventResponse
	err := errThrown // of a process that ends
	ended := make(chan struct{})
	q.depth++
	go func() {
		defer close(ended)
		answer, err = q.processes[process](ctx, q.event(batch))
	}()
	<-ended
	q.depth--
	q.note("#%d answers %v, %v", inv.number, answer.BatchItemFailures, err)
	switch {
	case q.violation != nil, errors.Is(err, errThrown) && !q.calm:
		return
	case err != nil:
		q.violate("G10: the function fails for %v, so that all of it comes again: %w", batch, err)
		return
	}
	q.checkAnswer(batch, answer, b.Stays)
}

// checkAnswer checks that what is not named is done, and deletes it.
func (q *queueRun) checkAnswer(batch []queued, answer events.KinesisEventResponse, stays []int) {
	var named []string
	for _, f := range answer.BatchItemFailures {
		if slices.Contains(named, f.ItemIdentifier) {
			q.violate("answer: %s is named twice for %v", f.ItemIdentifier, batch)
		}
		named = append(named, f.ItemIdentifier)
	}
	for _, m := range batch {
		switch isNamed := slices.Contains(named, m.id()); {
		case isNamed && q.calm && slices.Contains(q.delivered, m.n):
			q.violate("answer: message %d of %v is done, and named", m.n, batch)
		case !isNamed && !q.NoAcks && !q.handledCopy(m.n):
			q.violate("G6: message %d is deleted, and neither it nor a copy is done", m.n)
		case !isNamed && !q.NoAcks && q.Messages[m.n].Kind != Broken && !q.isMarked(m.n):
			q.violate("G7: message %d is deleted, and no entry says that it is done", m.n)
		}
	}
	kept := q.left[:0:0]
	for i, m := range q.left {
		done := slices.ContainsFunc(batch, func(o queued) bool { return o.id() == m.id() }) && !slices.Contains(named, m.id())
		if done && (m.again || q.NoAcks || q.calm || !slices.Contains(stays, i)) {
			continue
		}
		m.again = m.again || done
		kept = append(kept, m)
	}
	q.left = kept
}

// batch returns the messages of a receive, in order. A FIFO queue begins with the first one that is left.
func (q *queueRun) batch(b queueBatch) (batch []queued) {
	from := b.From % len(q.left)
	if q.FIFO {
		from = 0
	}
	batch = slices.Clone(q.left[from:min(len(q.left), from+b.Size)])
	for _, r := range b.Repeats {
		at := r[0] % len(batch)
		batch = slices.Insert(batch, min(len(batch), at+1+r[1]), batch[at])
	}
	return batch
}

func numberOfID(id string) (n int) {
	if _, err := fmt.Sscanf(id, "m-%d-", &n); err != nil {
		panic(err) // cannot happen: queued made it
	}
	return n
}

func (q *queueRun) event(batch []queued) json.RawMessage {
	arn := queueARN
	if q.FIFO {
		arn += ".fifo"
	}
	var e events.SQSEvent
	for _, m := range batch {
		u := q.Messages[m.n]
		body := fmt.Sprintf(`{"id":%q,"fp":%q,"n":%d}`, u.ID, u.FP, m.n)
		if u.Kind == Broken {
			body = body[1:]
		}
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: m.id(), EventSource: "aws:sqs", EventSourceARN: arn, Body: body,
			Attributes: map[string]string{"SentTimestamp": fmt.Sprint(epoch.UnixMilli()), "MessageGroupId": "g"},
		})
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot happen: the event has only texts
	}
	return raw
}

// called makes a call with its fault. The mutants, whose hooks come before it, change what it gets.
func (q *queueRun) called(ctx context.Context, c *Call) error {
	inv := queueInvocationOf(ctx)
	n := q.calls
	q.calls++
	var way Way
	if len(q.Ways) > 0 && !q.calm && n < mostFaults {
		way = q.Ways[n%len(q.Ways)]
	}
	if !slices.Contains(append(waysOf(c.Method), EffectLater), way) {
		way = None
	}
	if c.Method == Send {
		q.checkSend(inv, c.Outputs)
	}
	q.wait(inv, 2*n)
	q.note("#%d %s %s %s", inv.number, c.Method, about{c}, way)
	switch way {
	case CrashBefore:
		runtime.Goexit()
	case FailBefore, Throttle:
		return fmt.Errorf("%w: %s", dedupe.ErrTryAgain, way)
	case EffectLater:
		if slices.Contains([]Method{PutIfAbsent, TakeOver, Finish}, c.Method) {
			late := *c
			q.late = append(q.late, func() { _ = q.do(context.WithoutCancel(ctx), &late) })
		}
		return fmt.Errorf("%w: %s", dedupe.ErrTryAgain, way)
	}
	if err := q.do(ctx, c); err != nil {
		return err
	}
	q.wait(inv, 2*n+1)
	switch way {
	case CrashAfter:
		runtime.Goexit()
	case LoseReply:
		c.Sent, c.Done = dedupe.Sent{}, 0
		return fmt.Errorf("%w: %s", dedupe.ErrTryAgain, way)
	}
	return nil
}

// do makes a call, and notes its effect. The engine has the time of the history.
func (q *queueRun) do(ctx context.Context, c *Call) error {
	inv, date := queueInvocationOf(ctx), q.now.Truncate(time.Second)
	for _, e := range c.Entries {
		inv.tokens[e.Hold.Token] = true
	}
	err := c.Do(ctx)
	for n := range q.Messages {
		if c.Method == Finish && q.isMarked(n) {
			q.done[q.content(n)] = true
		}
	}
	c.Date = date
	for i := range c.Puts {
		c.Puts[i].Date = date
	}
	return err
}

// isMarked reports whether an entry says that a message or a copy of it is done.
func (q *queueRun) isMarked(n int) bool {
	u := q.Messages[n]
	return slices.ContainsFunc(possibleKeys(u), func(key dedupe.Key) bool {
		e := q.entry(key)
		return e != nil && e.Done && e.Content == dedupe.ContentDigest(u.FP)
	})
}

// entry returns what is stored under a key, or nil.
func (q *queueRun) entry(key dedupe.Key) *dedupe.Existing {
	found, err := q.engine.(dedupe.Finder).Find(q.ctx, q.scope, []dedupe.Key{key})
	if err != nil {
		q.violate("harness: %w", err)
		return nil
	}
	return found[0]
}

// wait lets time pass at a call, and lets the next batch come. It ends a process that does not wake after its deadline.
func (q *queueRun) wait(inv *queueInvocation, n int) {
	if q.calm || n >= 2*mostFaults {
		return
	}
	for i := 0; i < len(q.late); i++ {
		if (n+i)%5 == 0 {
			arrive := q.late[i]
			q.late = slices.Delete(q.late, i, i+1)
			arrive()
		}
	}
	more := q.depth < mostWithin && q.next < len(q.Batches) && len(q.left) > 0
	if more && len(q.Within) > 0 && q.Within[n%len(q.Within)] {
		q.receiveNext()
	}
	if len(q.Pauses) > 0 {
		q.now = q.now.Add(q.Pauses[n%len(q.Pauses)])
	}
	if q.violation != nil || !q.Wakes && q.now.After(inv.deadline) {
		runtime.Goexit()
	}
}

// checkSend checks that an invocation sends only messages that it holds, and within its lease.
func (q *queueRun) checkSend(inv *queueInvocation, outputs []dedupe.Output) {
	if q.NoAcks {
		return
	}
	for _, o := range outputs {
		e := q.entry(format.KeyOf(o.ID))
		switch {
		case e == nil || !inv.tokens[e.Hold.Token]:
			q.violate("G11: #%d sends %s, whose entry it does not hold: %+v", inv.number, o.Data, e)
		case e.Done, q.done[q.content(numberOf(o.Data))]:
			q.violate("G11: #%d sends %s again, which is done", inv.number, o.Data)
		case !q.now.Before(time.UnixMilli(e.Hold.Ends)):
			q.violate("G11: #%d sends %s after its lease", inv.number, o.Data)
		}
	}
}

// Check accepts every record.
func (*queueRun) Check(context.Context, dedupe.Output) error { return nil }

// Send takes records up to the first one that fails. From a queue without an order it takes those behind it, too.
func (q *queueRun) Send(ctx context.Context, outputs []dedupe.Output) (sent dedupe.Sent, err error) {
	take := dedupe.SinkFunc(func(_ context.Context, o dedupe.Output) error { return q.take(queueInvocationOf(ctx), o) })
	var sink dedupe.Sink = take
	if !q.FIFO {
		sink = take.AtOnce(1)
	}
	return sink.Send(ctx, outputs)
}

func (q *queueRun) take(inv *queueInvocation, o dedupe.Output) error {
	n := numberOf(o.Data)
	switch {
	case slices.Contains(inv.fails, n):
		return errThrown
	case q.Messages[n].Kind == Refused:
		return &dedupe.PoisonError{Reason: "refused"}
	}
	q.delivered = append(q.delivered, n)
	if id, before := q.ids[q.content(n)]; before && id != o.ID {
		q.violate("G9: message %d went out as %s and as %s", n, id, o.ID)
	}
	q.ids[q.content(n)] = o.ID
	return nil
}

// Put stores dead letters.
func (q *queueRun) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	q.letters = append(q.letters, letters...)
	return len(letters), nil
}

func numberOf(data []byte) int {
	var p struct {
		N int `json:"n"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		panic(err) // cannot happen: event made the payloads
	}
	return p.N
}

// faultless reports whether nothing fails but the sink.
func (q *queueRun) faultless() bool {
	fails := slices.ContainsFunc(q.Ways, func(w Way) bool { return w != None })
	return q.NoAcks || !fails && len(q.Pauses)+len(q.Within) == 0
}

// atRest checks each message after the last one was deleted.
func (q *queueRun) atRest() error {
	for n, u := range q.Messages {
		times := 0
		for _, d := range q.delivered {
			if q.content(d) == q.content(n) && q.Messages[d].Kind == Good {
				times++
			}
		}
		dead := slices.ContainsFunc(q.letters, func(l dedupe.DeadLetter) bool { return numberOfID(l.Position.Sequence) == n })
		switch {
		case times > 1 && q.faultless():
			return fmt.Errorf("G11: message %d and its copies were delivered %d times without a crash", n, times)
		case u.Kind == Good && dead:
			return fmt.Errorf("G10: message %d is dead-lettered", n)
		case !dead && (u.Kind == Broken || !q.handledCopy(n)):
			return fmt.Errorf("G6: message %d is lost", n)
		}
	}
	if q.FIFO && q.faultless() && !slices.IsSorted(q.delivered) {
		return fmt.Errorf("order: messages %v were delivered in this order", q.delivered)
	}
	return nil
}

// handledCopy reports whether a message, or one with its id and fingerprint, is delivered or dead-lettered.
func (q *queueRun) handledCopy(n int) bool {
	is := func(o int) bool {
		return o == n || q.Messages[n].Kind.readable() && q.Messages[o].Kind.readable() && q.content(o) == q.content(n)
	}
	return slices.ContainsFunc(q.delivered, is) || slices.ContainsFunc(q.letters, func(l dedupe.DeadLetter) bool {
		return is(numberOfID(l.Position.Sequence))
	})
}

// onQueue changes the answer for a batch of a queue, whose message ids are given.
func onQueue(change func(batch, named []string) ([]string, error)) func(*World, function, handleFunc) handleFunc {
	return func(_ *World, _ function, product handleFunc) handleFunc {
		return func(ctx context.Context, raw json.RawMessage) (answer events.KinesisEventResponse, err error) {
			var event events.SQSEvent
			if err := json.Unmarshal(raw, &event); err != nil {
				return answer, err
			}
			var batch, named []string
			for _, r := range event.Records {
				batch = append(batch, r.MessageId)
			}
			if answer, err = product(ctx, raw); err != nil {
				return answer, err
			}
			for _, f := range answer.BatchItemFailures {
				named = append(named, f.ItemIdentifier)
			}
			named, err = change(batch, named)
			answer.BatchItemFailures = nil
			for _, id := range named {
				answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: id})
			}
			return answer, err
		}
	}
}

// twice reports whether a message is in a batch several times.
func twice(batch []string, id string) bool {
	return slices.Contains(batch[slices.Index(batch, id)+1:], id)
}

// repeatIsDone takes the second one of two equal messages as done, whatever became of the first.
func repeatIsDone(batch, named []string) ([]string, error) {
	return slices.DeleteFunc(named, func(id string) bool { return twice(batch, id) }), nil
}

// repeatFails fails a batch that has a message twice.
func repeatFails(batch, named []string) ([]string, error) {
	if slices.ContainsFunc(batch, func(id string) bool { return twice(batch, id) }) {
		return nil, errThrown
	}
	return named, nil
}

// repeatOfDoneNamed names the messages behind the first one that failed also if they are in the batch before it.
func repeatOfDoneNamed(batch, named []string) ([]string, error) {
	if len(named) == 0 {
		return nil, nil
	}
	failed := slices.Index(batch, named[0])
	for _, id := range batch[failed:] {
		if slices.Contains(batch[:failed], id) && !slices.Contains(named, id) {
			named = append(named, id)
		}
	}
	return named, nil
}
