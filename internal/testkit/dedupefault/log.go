package dedupefault

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// These are the calls of a log ledger to its storage.
const (
	ReadEpochs Method = "Epochs"
	PutEpoch   Method = "PutEpoch"
	Append     Method = "Append"
	ReadLog    Method = "Read"
)

// LogStore is a store whose ledger is a log. Each process of the function makes its own ledger on the log. LogStore
// uses its Store for the rest, but not the Store's entries.
type LogStore struct {
	dedupe.Store
	Log logledger.Storage
}

// logLanes is the number of lanes of a scope. With two lanes, some records share a lane, and a batch has records in
// both.
const logLanes = 2

// newLedger returns the ledger of a process.
func newLedger(log logledger.Storage, clock dedupe.Clock) *logledger.Ledger {
	l, err := logledger.New(log, logledger.Options{Lanes: logLanes, Clock: clock})
	if err != nil {
		panic(err) // cannot happen: the options are fixed
	}
	return l
}

// LogCall is one call of a log ledger to its storage. Only the fields of its method are set.
type LogCall struct {
	Lane         logledger.LaneID // Epochs, PutEpoch
	Below, Limit int              // Epochs; Limit: Read
	Chain        []logledger.Epoch

	Epoch      logledger.Epoch // PutEpoch
	EpochThere *logledger.Epoch

	Place     logledger.Place // Append, Read
	Data      []byte          // Append
	PurgeAt   int64
	DataThere []byte

	Consistent bool // Read
	Items      []logledger.Item
	More       bool
}

// HookLog makes all calls of a log ledger to its storage through a hook.
func HookLog(s logledger.Storage, h Hook) logledger.Storage { return hookedLog{s, h} }

type hookedLog struct {
	inner logledger.Storage
	hook  Hook
}

func (l hookedLog) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	c := &Call{Method: ReadEpochs, Log: LogCall{Lane: lane, Below: below, Limit: limit}}
	c.do = func(ctx context.Context, c *Call) (err error) {
		c.Log.Chain, err = l.inner.Epochs(ctx, c.Log.Lane, c.Log.Below, c.Log.Limit)
		return err
	}
	return answer(ctx, l.hook, c, &c.Log.Chain)
}

func (l hookedLog) PutEpoch(ctx context.Context, lane logledger.LaneID, e logledger.Epoch) (*logledger.Epoch, error) {
	c := &Call{Method: PutEpoch, Log: LogCall{Lane: lane, Epoch: e}}
	c.do = func(ctx context.Context, c *Call) (err error) {
		c.Log.EpochThere, err = l.inner.PutEpoch(ctx, c.Log.Lane, c.Log.Epoch)
		return err
	}
	return answer(ctx, l.hook, c, &c.Log.EpochThere)
}

func (l hookedLog) Append(ctx context.Context, at logledger.Place, data []byte, purgeAt int64) ([]byte, error) {
	c := &Call{Method: Append, Log: LogCall{Place: at, Data: data, PurgeAt: purgeAt}}
	c.do = func(ctx context.Context, c *Call) (err error) {
		c.Log.DataThere, err = l.inner.Append(ctx, c.Log.Place, c.Log.Data, c.Log.PurgeAt)
		return err
	}
	return answer(ctx, l.hook, c, &c.Log.DataThere)
}

func (l hookedLog) Read(ctx context.Context, from logledger.Place, limit int, consistent bool) (
	items []logledger.Item, more bool, err error,
) {
	c := &Call{Method: ReadLog, Log: LogCall{Place: from, Limit: limit, Consistent: consistent}}
	c.do = func(ctx context.Context, c *Call) (err error) {
		c.Log.Items, c.Log.More, err = l.inner.Read(ctx, c.Log.Place, c.Log.Limit, c.Log.Consistent)
		return err
	}
	if err := l.hook(ctx, c); err != nil {
		return nil, false, err
	}
	return c.Log.Items, c.Log.More, nil
}

// String prints the call for the trace.
func (c LogCall) String() string {
	switch {
	case c.Data != nil:
		return fmt.Sprintf("%s, %d bytes", placeText(c.Place), len(c.Data))
	case c.Epoch.Layout > 0:
		return fmt.Sprintf("lane %d, %d", c.Lane.Lane, c.Epoch.Number)
	case c.Below > 0:
		return fmt.Sprintf("lane %d, below %d", c.Lane.Lane, c.Below)
	}
	return fmt.Sprintf("%s, consistent %t", placeText(c.Place), c.Consistent)
}

func placeText(at logledger.Place) string {
	return fmt.Sprintf("%d.%d.%d", at.Lane, at.Epoch, at.Index)
}

// logged appends to the log, or reads it, and tells the judge which rows are in it.
func (b *brokenCall) logged(c *Call) error {
	if err := c.Do(b.ctx); err != nil {
		return err
	}
	switch {
	case c.Method == ReadLog:
		for _, i := range c.Log.Items {
			b.noteItem(i.Data)
		}
		if !c.Log.Consistent {
			c.Log.Items = b.fault.Way.stale(c.Log.Items)
		}
	case c.Log.DataThere != nil:
		b.noteItem(c.Log.DataThere)
	default:
		b.noteItem(c.Log.Data)
	}
	return nil
}

// stale leaves out items, as an eventually consistent read may do.
func (w Way) stale(items []logledger.Item) []logledger.Item {
	switch w {
	case Stale:
		return items[:len(items)/2]
	case StaleGaps:
		return everySecond(items)
	}
	return items
}

// noteItem records whose rows are in an item. The rows are at the end of an item, and the owner's tag is at the end
// of a row.
func (w *World) noteItem(data []byte) {
	type tag [logledger.TagSize]byte
	tags := map[tag]bool{}
	for end := len(data); end >= logledger.RowSize; end -= logledger.RowSize {
		tags[tag(data[end-logledger.TagSize:end])] = true
	}
	for _, in := range w.inputs {
		if owner := in.position.Owner().Digest(); tags[tag(owner[:])] && w.held[owner] == 0 {
			w.held[owner] = w.tick()
		}
	}
}

// checkLog checks the log row by row, if the ledger is a log.
func (w *World) checkLog() error {
	s, onLog := w.engine.(LogStore)
	if !onLog {
		return nil
	}
	_, err := logledger.Verify(w.ctx, s.Log, w.scope, w.sim.Now, func(p logledger.Problem) {
		w.violate("log: %s: %s", placeText(p.Place), p.What)
	})
	return err
}

// purgeLog deletes the items past their purge time, as TTL deletion does. Only the log in memory can do so.
func (w *World) purgeLog(log logledger.Storage) {
	if memory, ok := log.(*memlog.Log); ok {
		memory.Purge(w.scope, w.sim.Now().Unix(), func(logledger.Place) bool { return true })
	}
}
