package objectsink

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// chain is the objects of a shard, as one batch sees them.
type chain struct {
	*Sink
	key   dedupe.ChainKey
	found []*Object // by Open, that reach into the batch
	met   []*Object // by Commit: others have written them in the meantime
	tip   *Object   // the last one
}

// Done reports whether an object that Open has found has handled a record.
func (c *chain) Done(sequence string) bool {
	return slices.ContainsFunc(c.found, func(o *Object) bool { return o.handled(sequence) })
}

// Commit is that of dedupe.Chain.
func (c *chain) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	w := work{records: records, done: make([]bool, len(records)), written: make([]bool, len(records))}
	for _, o := range slices.Concat(c.found, c.met) {
		w.handledBy(o)
	}
	for {
		piece := w.next(c.options.ObjectSize)
		if piece == nil {
			return dedupe.Committed{Done: len(records), Written: w.written}, nil
		}
		created, err := c.append(ctx, records, piece)
		if err != nil {
			return w.committed(), err
		}
		if !created { // it may have handled records of a later Commit, too
			c.met = append(c.met, c.tip)
			w.handledBy(c.tip)
			continue
		}
		for _, i := range piece {
			w.done[i], w.written[i] = true, true
		}
	}
}

// append puts an object of some records behind the tip, or finds the one that is there. Either is the tip then.
func (c *chain) append(ctx context.Context, records []dedupe.ChainRecord, piece []int) (created bool, err error) {
	name := c.tip.end
	if name.step > maxStep {
		return false, fmt.Errorf("object sink: there are %d late objects behind record %s; put newer records into the stream",
			name.step, name.sequence)
	}
	var outputs []dedupe.Output
	for _, i := range piece {
		outputs = append(outputs, records[i].Outputs...)
	}
	o := &Object{
		Name: name.String(), Writer: rand.Text(), Records: len(outputs), Late: c.tip.lastLate(),
		First: records[piece[0]].Sequence, Last: records[piece[len(piece)-1]].Sequence, name: name,
	}
	o.end = name.after(o.Last)
	o.End = o.end.String()
	content, err := c.encode(o, outputs)
	if err != nil {
		return false, err
	}
	created, err = c.storage.PutIfAbsent(ctx, shardFolder(c.key)+o.Name+c.options.Extension(), content)
	if err != nil {
		return false, err
	}
	if !created {
		there, err := c.object(ctx, c.key, name)
		if err != nil {
			return false, tryAgainIfGone(err)
		}
		created = there.Writer == o.Writer // by an attempt whose reply was lost
		o = there
	}
	c.tip = o
	if c.remember(c.key, o, 1) {
		c.writeHint(ctx, c.key, o)
	}
	return created, nil
}

// work is the records of a Commit, and what became of them.
type work struct {
	records       []dedupe.ChainRecord
	done, written []bool
}

// handledBy notes what an object has handled.
func (w *work) handledBy(o *Object) {
	for i := range w.records {
		w.done[i] = w.done[i] || o.handled(w.records[i].Sequence)
	}
}

// next returns the records of the next object: as many as fit into a size, and at least one. It returns none if nothing
// is left to be delivered. Records at the end of which nothing is delivered go with those before.
func (w *work) next(most int64) (piece []int) {
	var size int64
	for i, r := range w.records {
		if w.done[i] {
			continue
		}
		var more int64
		for _, o := range r.Outputs {
			more += int64(len(o.Data)) + 1
		}
		if size > 0 && more > 0 && size+more > most {
			break
		}
		size += more
		piece = append(piece, i)
	}
	if size == 0 {
		return nil
	}
	return piece
}

// committed counts the records that are done, from the first one on.
func (w *work) committed() dedupe.Committed {
	done := slices.Index(w.done, false)
	if done < 0 {
		done = len(w.done)
	}
	return dedupe.Committed{Done: done, Written: w.written[:done]}
}
