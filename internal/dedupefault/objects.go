package dedupefault

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"

	"github.com/oncebox/oncebox/internal/memobjects"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// newObjectSink returns the object sink of an instance, on the storage that all instances share. The calls of the
// storage fail as planned.
func (w *World) newObjectSink() dedupe.ObjectSink {
	storage := memobjects.Hooked(w.storage, w.storageHook)
	if w.mutant != nil && w.mutant.storage != nil {
		storage = memobjects.Hooked(storage, w.mutant.storage)
	}
	sink, err := objectsink.New(storage, objectsink.Options{
		Encoding: objectsink.Encoding{Compression: objectsink.Uncompressed}, HintEvery: 3, Clock: w.clock(),
	})
	if err != nil {
		panic(err) // cannot happen: the options are fixed
	}
	return observedObjects{sink, w}
}

// These are the calls of an object sink's storage, and of a Processor to the sink.
const (
	PutObject  Method = "PutObject" // a PUT on the condition that the name is free
	PutHint    Method = "PutHint"
	ReadObject Method = "ReadObject"
	Commit     Method = "Commit"
)

var storageMethods = map[memobjects.Method]Method{
	memobjects.PutIfAbsent: PutObject, memobjects.Put: PutHint,
	memobjects.Head: ReadObject, memobjects.Get: ReadObject, memobjects.List: ReadObject,
}

// storageHook breaks the calls of the storage as planned, and shows each new object to the judge.
func (w *World) storageHook(ctx context.Context, c *memobjects.Call) error {
	b, err := w.begin(ctx, storageMethods[c.Method], shortName(path.Base(c.Key)))
	if err != nil {
		return err
	}
	if err := c.Do(ctx); err != nil {
		return err
	}
	put := c.Method == memobjects.PutIfAbsent && c.Created || c.Method == memobjects.Put
	if put && !strings.HasPrefix(path.Base(c.Key), "_") {
		w.readObject(invocationOf(ctx), c.Content.Body)
	}
	return b.end()
}

// readObject reads the lines of a committed object. The lines do not contain the records' keys.
func (w *World) readObject(inv *invocation, body []byte) {
	for line := range bytes.Lines(body) {
		o := dedupe.Output{Data: bytes.TrimSuffix(line, []byte("\n"))}
		var p sentPayload
		if err := json.Unmarshal(o.Data, &p); err == nil {
			o.ID = p.ID
		}
		w.arrive(inv, o)
	}
}

// observedObjects tells the judge the answers that the function gets from an object sink. It accepts the same records
// as the other sinks.
type observedObjects struct {
	dedupe.ObjectSink
	*World
}

func (s observedObjects) Check(ctx context.Context, o dedupe.Output) error {
	return memorySink{s.World}.Check(ctx, o)
}

func (s observedObjects) Open(
	ctx context.Context, key dedupe.ChainKey, first, last string,
) (dedupe.Chain, error) {
	chain, err := s.ObjectSink.Open(ctx, key, first, last)
	if err != nil {
		return nil, err
	}
	inv := invocationOf(ctx)
	inv.acked = map[dedupe.OwnerMark]bool{}
	for record := range inv.Records {
		for _, in := range s.inputsOf(inv, record) {
			if chain.Done(in.position.Sequence) {
				inv.acked[in.wholeMark()] = true
			}
		}
	}
	return observedChain{chain, s.World}, nil
}

func (s observedObjects) CommitLetter(
	ctx context.Context, key dedupe.ChainKey, letter string, outputs []dedupe.Output,
) (created bool, err error) {
	created, err = s.ObjectSink.CommitLetter(ctx, key, letter, outputs)
	if created {
		s.confirm(ctx, outputs)
	}
	return created, err
}

type observedChain struct {
	dedupe.Chain
	*World
}

func (c observedChain) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	committed, err := c.Chain.Commit(ctx, records)
	inv := invocationOf(ctx)
	for i, r := range records[:committed.Done] {
		if committed.Written == nil || committed.Written[i] {
			c.confirm(ctx, r.Outputs)
			continue
		}
		for _, in := range c.byRecord[recordKey(inv.Shard, r.Sequence)] {
			inv.acked[in.wholeMark()] = true // the object of another invocation has the record
		}
	}
	return committed, err
}
