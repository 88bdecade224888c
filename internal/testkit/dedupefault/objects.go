package dedupefault

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/memobjects"
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
		Encoding:   objectsink.Encoding{Compression: objectsink.Uncompressed},
		ObjectSize: w.scenario.Objects.Size, HintEvery: w.scenario.Objects.HintEvery, Clock: w.clock(),
	})
	if err != nil {
		panic(err) // cannot happen: the options are valid
	}
	return observedObjects{w.mutant.objectSink(sink, storage), w}
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
	inv := invocationOf(ctx)
	if b.fault.Way == EffectLater {
		w.later(inv, func() { _ = w.putObject(context.Background(), inv, c) })
		return b.lost()
	}
	if err := w.putObject(ctx, inv, c); err != nil {
		return err
	}
	return b.end()
}

// putObject makes a call of the storage. If it puts an object, the judge gets its records.
func (w *World) putObject(ctx context.Context, inv *invocation, c *memobjects.Call) error {
	if err := c.Do(ctx); err != nil {
		return err
	}
	put := c.Method == memobjects.PutIfAbsent && c.Created || c.Method == memobjects.Put
	if put && !isHint(c.Key) {
		w.readObject(inv, c.Content.Body)
	}
	return nil
}

// isHint reports whether an object has no records.
func isHint(key string) bool { return strings.HasPrefix(path.Base(key), "_") }

// later lets an effect come later than its call, but not later than the process may run.
func (w *World) later(inv *invocation, effect func()) {
	waits := []time.Duration{0, 0, time.Second, 5 * time.Second, 20 * time.Second}
	wait := min(waits[w.sim.Rand.IntN(len(waits))], inv.Deadline.Add(mostLate).Sub(w.sim.Now()))
	w.sim.Go(func(ctx context.Context, _ *eventsource.Invocation) {
		eventsource.Wait(ctx, max(wait, 0))
		w.note("#%d: the effect comes", inv.Number)
		effect()
	})
}

// eachLine reads all objects, as a reader does who does not know chains.
func eachLine(ctx context.Context, storage objectsink.Storage, read func(key, line string)) error {
	for after, more := "", true; more; {
		keys, further, err := storage.List(ctx, "", after)
		if err != nil {
			return err
		}
		for _, key := range keys {
			after = key
			if isHint(key) {
				continue
			}
			o, err := storage.Get(ctx, key)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(o.Body)) {
				read(key, strings.TrimSuffix(line, "\n"))
			}
		}
		more = further
	}
	return nil
}

// checkObjects checks that each record that came to the sink is in exactly one object, and that the chains have no
// problem.
func (w *World) checkObjects() error {
	if w.scenario.Sink != Objects {
		return nil
	}
	objects := map[*input]string{}
	err := eachLine(w.ctx, w.storage, func(key, line string) {
		in := w.inputOfOutput(dedupe.Output{Data: []byte(line)})
		if in == nil {
			w.violate("G10: %s has %q", key, line)
		} else if other, twice := objects[in]; twice {
			w.violate("G11: %v is in %s and in %s", in, other, key)
		}
		objects[in] = key
	})
	if err != nil {
		return err
	}
	for _, in := range w.inputs {
		if _, found := objects[in]; in.delivered() && !found {
			w.violate("G6: %v is in no object, and was in one", in)
		}
	}
	_, err = objectsink.Verify(w.ctx, w.storage, objectsink.Filter{}, func(p objectsink.Problem) {
		w.violate("chain: %s: %s", p.Key, p.What)
	})
	return err
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
