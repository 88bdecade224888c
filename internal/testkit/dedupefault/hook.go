package dedupefault

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Method is a call that the dedupe function, or an offline run, makes.
type Method string

// These are the methods.
const (
	PutIfAbsent    Method = "PutIfAbsent"
	RaisePurge     Method = "RaisePurge"
	ServerTime     Method = "ServerTime"
	TakeOver       Method = "TakeOver"
	Finish         Method = "Finish"
	ReadAcks       Method = "ReadAcks"
	WriteAck       Method = "WriteAck"
	ClaimConsumer  Method = "ClaimConsumer"
	ReadRun        Method = "ReadRun"
	RunByID        Method = "RunByID"
	OpenRuns       Method = "OpenRuns"
	SaveRun        Method = "SaveRun"
	CloseRun       Method = "CloseRun"
	Send           Method = "Send"           // a call of the sink
	Transact       Method = "Transact"       // a call of a TxSink
	PutDeadLetters Method = "PutDeadLetters" // a call of the dead-letter store
	Notify         Method = "Notify"         // a call of the notifier of dead letters
)

// Call is one call, as a Hook gets it. Only the fields of its method are set.
type Call struct {
	Method Method

	Entries []dedupe.Entry // PutIfAbsent
	Puts    []dedupe.PutResult

	Raises []dedupe.RaiseRequest // RaisePurge
	Raised []dedupe.RaiseResult

	Date      time.Time                // ServerTime
	TakeOvers []dedupe.TakeOverRequest // TakeOver
	Taken     []dedupe.TakeOverResult
	Finishes  []dedupe.FinishRequest // Finish
	Finished  []dedupe.FinishResult

	Key         dedupe.AckKey // ReadAcks, WriteAck
	First, Last string        // ReadAcks
	Acks        []dedupe.Ack  // the acks that were read, or the one ack to write

	Consumer string // ClaimConsumer: the function that claims; after Do: the consumer

	Scope, Digest string       // the calls of runs; the Digest of RunByID is the id
	Run           *dedupe.Run  // the run that was read, or the run to write
	Runs          []dedupe.Run // OpenRuns
	Closed        bool         // CloseRun

	Outputs []dedupe.Output // Send
	Sent    dedupe.Sent

	Tx       dedupe.Transaction // Transact
	TxResult dedupe.TxResult

	Letters []dedupe.DeadLetter // PutDeadLetters
	Done    int                 // the number of stored dead letters

	Log LogCall // the methods of a log

	do func(context.Context, *Call) error
}

// Do makes the call and sets its answer. A hook may change the call's arguments before Do and its answer after Do. It
// may call Do several times, or not at all.
func (c *Call) Do(ctx context.Context) error { return c.do(ctx, c) }

// Hook runs in place of each call. The fields of c and the returned error are the call's answer. Tests of records use
// only hooks to watch calls, to make them fail and to break rules.
type Hook func(ctx context.Context, c *Call) error

// answer makes a call through a hook, and returns the field of the call that has its answer. A call that fails has none.
func answer[A any](ctx context.Context, h Hook, c *Call, field *A) (none A, err error) {
	if err := h(ctx, c); err != nil {
		return none, err
	}
	return *field, nil
}

// HookStore makes all calls of a store through a hook.
func HookStore(s dedupe.Store, h Hook) dedupe.Store {
	entries := hookedStore{inner: s, hook: h}
	return hookedStore{dedupe.ByKey(entries), s, h}
}

type hookedStore struct {
	dedupe.Ledger
	inner dedupe.Store
	hook  Hook
}

func (s hookedStore) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	c := &Call{Method: PutIfAbsent, Entries: entries, do: func(ctx context.Context, c *Call) (err error) {
		c.Puts, err = s.inner.PutIfAbsent(ctx, c.Entries)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Puts)
}

func (s hookedStore) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return hookRaise(ctx, s.hook, raises, s.inner.RaisePurge)
}

func (s hookedStore) ServerTime(ctx context.Context, scope string) (time.Time, error) {
	c := &Call{Method: ServerTime, Scope: scope, do: func(ctx context.Context, c *Call) (err error) {
		c.Date, err = s.inner.ServerTime(ctx, c.Scope)
		return err
	}}
	err := s.hook(ctx, c)
	return c.Date, err
}

func (s hookedStore) TakeOver(
	ctx context.Context, requests []dedupe.TakeOverRequest,
) ([]dedupe.TakeOverResult, error) {
	c := &Call{Method: TakeOver, TakeOvers: requests, do: func(ctx context.Context, c *Call) (err error) {
		c.Taken, err = s.inner.TakeOver(ctx, c.TakeOvers)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Taken)
}

func (s hookedStore) Finish(ctx context.Context, requests []dedupe.FinishRequest) ([]dedupe.FinishResult, error) {
	c := &Call{Method: Finish, Finishes: requests, do: func(ctx context.Context, c *Call) (err error) {
		c.Finished, err = s.inner.Finish(ctx, c.Finishes)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Finished)
}

func hookRaise(
	ctx context.Context, h Hook, raises []dedupe.RaiseRequest,
	raise func(context.Context, []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error),
) ([]dedupe.RaiseResult, error) {
	c := &Call{Method: RaisePurge, Raises: raises, do: func(ctx context.Context, c *Call) (err error) {
		c.Raised, err = raise(ctx, c.Raises)
		return err
	}}
	return answer(ctx, h, c, &c.Raised)
}

func (s hookedStore) ReadAcks(ctx context.Context, key dedupe.AckKey, first, last string) ([]dedupe.Ack, error) {
	c := &Call{Method: ReadAcks, Key: key, First: first, Last: last, do: func(ctx context.Context, c *Call) (err error) {
		c.Acks, err = s.inner.ReadAcks(ctx, c.Key, c.First, c.Last)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Acks)
}

func (s hookedStore) WriteAck(ctx context.Context, key dedupe.AckKey, a dedupe.Ack) error {
	do := func(ctx context.Context, c *Call) error { return s.inner.WriteAck(ctx, c.Key, c.Acks[0]) }
	return s.hook(ctx, &Call{Method: WriteAck, Key: key, Acks: []dedupe.Ack{a}, do: do})
}

func (s hookedStore) ClaimConsumer(
	ctx context.Context, scope string, stream dedupe.Stream, function string,
) (consumer string, err error) {
	c := &Call{Method: ClaimConsumer, Consumer: function, do: func(ctx context.Context, c *Call) (err error) {
		c.Consumer, err = s.inner.ClaimConsumer(ctx, scope, stream, c.Consumer)
		return err
	}}
	err = s.hook(ctx, c)
	return c.Consumer, err
}

func (s hookedStore) ReadRun(ctx context.Context, scope, digest string) (*dedupe.Run, error) {
	c := &Call{Method: ReadRun, Scope: scope, Digest: digest, do: func(ctx context.Context, c *Call) (err error) {
		c.Run, err = s.inner.ReadRun(ctx, c.Scope, c.Digest)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Run)
}

func (s hookedStore) RunByID(ctx context.Context, scope, id string) (*dedupe.Run, error) {
	c := &Call{Method: RunByID, Scope: scope, Digest: id, do: func(ctx context.Context, c *Call) (err error) {
		c.Run, err = s.inner.RunByID(ctx, c.Scope, c.Digest)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Run)
}

func (s hookedStore) OpenRuns(ctx context.Context, scope string) ([]dedupe.Run, error) {
	c := &Call{Method: OpenRuns, Scope: scope, do: func(ctx context.Context, c *Call) (err error) {
		c.Runs, err = s.inner.OpenRuns(ctx, c.Scope)
		return err
	}}
	return answer(ctx, s.hook, c, &c.Runs)
}

func (s hookedStore) CloseRun(ctx context.Context, scope string, r dedupe.Run) (bool, error) {
	c := &Call{Method: CloseRun, Scope: scope, Run: &r, do: func(ctx context.Context, c *Call) (err error) {
		c.Closed, err = s.inner.CloseRun(ctx, c.Scope, *c.Run)
		return err
	}}
	err := s.hook(ctx, c)
	return c.Closed, err
}

func (s hookedStore) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	do := func(ctx context.Context, c *Call) error { return s.inner.SaveRun(ctx, c.Scope, *c.Run) }
	return s.hook(ctx, &Call{Method: SaveRun, Scope: scope, Run: &r, do: do})
}

// HookSink makes all Sends of a sink through a hook.
func HookSink(s dedupe.Sink, h Hook) dedupe.Sink { return hookedSink{s, h} }

type hookedSink struct {
	dedupe.Sink
	hook Hook
}

func (s hookedSink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	c := &Call{Method: Send, Outputs: outputs, do: func(ctx context.Context, c *Call) (err error) {
		c.Sent, err = s.Sink.Send(ctx, c.Outputs)
		return err
	}}
	err := s.hook(ctx, c)
	return c.Sent, err
}

// HookTx makes all calls of a TxSink through a hook, except Check.
func HookTx(s dedupe.TxSink, h Hook) dedupe.TxSink { return hookedTx{s, h} }

type hookedTx struct {
	dedupe.TxSink
	hook Hook
}

func (s hookedTx) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	c := &Call{Method: Transact, Tx: t, do: func(ctx context.Context, c *Call) (err error) {
		c.TxResult, err = s.TxSink.Transact(ctx, c.Tx)
		return err
	}}
	return answer(ctx, s.hook, c, &c.TxResult)
}

func (s hookedTx) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return hookRaise(ctx, s.hook, raises, s.TxSink.RaisePurge)
}

// FirstDelivered is the answer that the first n of the outputs were delivered, where of is the number of all outputs.
func FirstDelivered(n, of int) dedupe.Sent {
	sent := dedupe.Sent{Delivered: make([]bool, of)}
	for i := range n {
		sent.Delivered[i] = true
	}
	return sent
}

// WasDelivered reports whether the sink reported output i as delivered.
func (c *Call) WasDelivered(i int, err error) bool {
	if c.Sent.Delivered == nil {
		return err == nil && c.WasRefused(i) == nil
	}
	return c.Sent.Delivered[i]
}

// WasRefused returns why the sink refused output i, or nil.
func (c *Call) WasRefused(i int) *dedupe.PoisonError {
	if c.Sent.Refused == nil {
		return nil
	}
	return c.Sent.Refused[i]
}

// HookDeadLetters makes all Puts of a dead-letter store through a hook.
func HookDeadLetters(s dedupe.DeadLetterStore, h Hook) dedupe.DeadLetterStore {
	return hookedDeadLetters{s, h}
}

type hookedDeadLetters struct {
	inner dedupe.DeadLetterStore
	hook  Hook
}

func (s hookedDeadLetters) Put(ctx context.Context, letters []dedupe.DeadLetter) (stored int, err error) {
	c := &Call{Method: PutDeadLetters, Letters: letters, do: func(ctx context.Context, c *Call) (err error) {
		c.Done, err = s.inner.Put(ctx, c.Letters)
		return err
	}}
	err = s.hook(ctx, c)
	return c.Done, err
}

// Purge deletes the entry of a key if its purge time is before now, as TTL deletion does at some time. To do so on
// every engine, it replaces the entry with one that has ended for every arrival in a test. A store answers for such
// an entry as it answers for no entry.
func Purge(ctx context.Context, ledger dedupe.Entries, scope string, key dedupe.Key, now time.Time) error {
	over := dedupe.Entry{
		Scope: scope, Key: key, Owner: dedupe.Owner{Source: "purged"}, Arrival: now, PurgeAt: 1,
	}
	results, err := ledger.PutIfAbsent(ctx, []dedupe.Entry{over})
	if err != nil {
		return err
	}
	return results[0].Err
}

// PurgeNow is Purge for an entry before its purge time. It does not purge entries that are kept for ever.
func PurgeNow(ctx context.Context, ledger dedupe.Entries, scope string, key dedupe.Key) error {
	return Purge(ctx, ledger, scope, key, epoch.AddDate(1000, 0, 0))
}
