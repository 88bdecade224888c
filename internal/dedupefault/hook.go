package dedupefault

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

// Method is a call that the dedupe function, or an offline run, makes.
type Method string

// The methods.
const (
	PutIfAbsent       Method = "PutIfAbsent"
	RaisePurge        Method = "RaisePurge"
	ReadCheckpoint    Method = "ReadCheckpoint"
	AdvanceCheckpoint Method = "AdvanceCheckpoint"
	ReadRun           Method = "ReadRun"
	SaveRun           Method = "SaveRun"
	Send              Method = "Send"           // of the sink
	PutDeadLetters    Method = "PutDeadLetters" // of the dead-letter store
	Notify            Method = "Notify"         // of its notifier
)

// Call is one call in the hands of a Hook. Only the fields of its method are set.
type Call struct {
	Method Method

	Entries []dedupe.Entry // PutIfAbsent
	Puts    []dedupe.PutResult

	Raises []dedupe.RaiseRequest // RaisePurge
	Raised []dedupe.RaiseResult

	Key        dedupe.CheckpointKey // ReadCheckpoint, AdvanceCheckpoint
	Checkpoint *dedupe.Checkpoint   // read, or to be written

	Scope, Digest string      // ReadRun, SaveRun
	Run           *dedupe.Run // read, or to be written

	Outputs []dedupe.Output     // Send
	Letters []dedupe.DeadLetter // PutDeadLetters
	Done    int                 // the answer of Send and PutDeadLetters

	do func(context.Context, *Call) error
}

// Do makes the call and sets its answer. A hook may change the question before it and the answer after it, call Do
// several times, or not at all.
func (c *Call) Do(ctx context.Context) error { return c.do(ctx, c) }

// Hook is called in place of each call. The call's answer is what the hook leaves in c, and the error that it returns.
// It is the one way in which tests of records watch calls, make them fail, and break rules.
type Hook func(ctx context.Context, c *Call) error

// HookStore makes all calls of a store through a hook.
func HookStore(s enginetest.Store, h Hook) enginetest.Store { return hookedStore{s, h} }

type hookedStore struct {
	inner enginetest.Store
	hook  Hook
}

func (s hookedStore) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	c := &Call{Method: PutIfAbsent, Entries: entries, do: func(ctx context.Context, c *Call) (err error) {
		c.Puts, err = s.inner.PutIfAbsent(ctx, c.Entries)
		return err
	}}
	if err := s.hook(ctx, c); err != nil {
		return nil, err
	}
	return c.Puts, nil
}

func (s hookedStore) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	c := &Call{Method: RaisePurge, Raises: raises, do: func(ctx context.Context, c *Call) (err error) {
		c.Raised, err = s.inner.RaisePurge(ctx, c.Raises)
		return err
	}}
	if err := s.hook(ctx, c); err != nil {
		return nil, err
	}
	return c.Raised, nil
}

func (s hookedStore) ReadCheckpoint(ctx context.Context, key dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	c := &Call{Method: ReadCheckpoint, Key: key, do: func(ctx context.Context, c *Call) (err error) {
		c.Checkpoint, err = s.inner.ReadCheckpoint(ctx, c.Key)
		return err
	}}
	if err := s.hook(ctx, c); err != nil {
		return nil, err
	}
	return c.Checkpoint, nil
}

func (s hookedStore) AdvanceCheckpoint(ctx context.Context, key dedupe.CheckpointKey, to dedupe.Checkpoint) error {
	do := func(ctx context.Context, c *Call) error { return s.inner.AdvanceCheckpoint(ctx, c.Key, *c.Checkpoint) }
	return s.hook(ctx, &Call{Method: AdvanceCheckpoint, Key: key, Checkpoint: &to, do: do})
}

func (s hookedStore) ReadRun(ctx context.Context, scope, digest string) (*dedupe.Run, error) {
	c := &Call{Method: ReadRun, Scope: scope, Digest: digest, do: func(ctx context.Context, c *Call) (err error) {
		c.Run, err = s.inner.ReadRun(ctx, c.Scope, c.Digest)
		return err
	}}
	if err := s.hook(ctx, c); err != nil {
		return nil, err
	}
	return c.Run, nil
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

func (s hookedSink) Send(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	c := &Call{Method: Send, Outputs: outputs, do: func(ctx context.Context, c *Call) (err error) {
		c.Done, err = s.Sink.Send(ctx, c.Outputs)
		return err
	}}
	err = s.hook(ctx, c)
	return c.Done, err
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

// Purge deletes the entry of a key as far as a test can tell, if its purge time is before now: as TTL deletion does
// some day, on every engine. It puts an entry that is over for every arrival of a test. A store answers about that as
// about none.
func Purge(ctx context.Context, ledger dedupe.Ledger, scope string, key dedupe.Key, now time.Time) error {
	over := dedupe.Entry{Scope: scope, Key: key, Owner: "purged", Arrival: now, PurgeAt: 1}
	results, err := ledger.PutIfAbsent(ctx, []dedupe.Entry{over})
	if err != nil {
		return err
	}
	return results[0].Err
}

// PurgeNow is Purge for an entry whose time has not come. It does not purge entries that are kept for ever.
func PurgeNow(ctx context.Context, ledger dedupe.Ledger, scope string, key dedupe.Key) error {
	return Purge(ctx, ledger, scope, key, epoch.AddDate(1000, 0, 0))
}
