package objectsink

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// chain is the sequence of a shard's objects, for one batch.
type chain struct {
	*Sink
	key     dedupe.ChainKey
	found   ranges    // from Open: the records that objects have handled which overlap the batch
	foreign []*Object // from Commit: objects that other writers have written meanwhile
	tip     *Object   // the last object
}

// Done reports whether an object that Open found has handled a record.
func (c *chain) Done(sequence string) bool { return c.found.has(sequence) }

// Commit implements dedupe.Chain.
func (c *chain) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	w := work{records: records, done: make([]bool, len(records)), written: make([]bool, len(records))}
	for i := range records {
		w.done[i] = c.found.has(records[i].Sequence)
	}
	for _, o := range c.foreign {
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
		if !created { // the object may also have handled records of a later Commit
			c.foreign = append(c.foreign, c.tip)
			w.handledBy(c.tip)
			continue
		}
		for _, i := range piece {
			w.done[i], w.written[i] = true, true
		}
	}
}

// append puts an object of some records after the tip, or reads the existing object there. That object becomes the
// tip.
func (c *chain) append(ctx context.Context, records []dedupe.ChainRecord, piece []int) (created bool, err error) {
	if err := c.checkLayout(ctx, c.key, true); err != nil {
		return false, err
	}
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
	created, err = c.storage.PutIfAbsent(ctx, c.keyOf(c.key, name), content)
	if err != nil {
		return false, err
	}
	if !created {
		there, err := c.object(ctx, c.key, name)
		if err != nil {
			return false, tryAgainIfGone(err)
		}
		created = there.Writer == o.Writer // an earlier attempt put it and lost its reply
		o = there
	}
	c.tip = o
	if c.remember(c.key, o, 1) {
		c.writeHint(ctx, c.key, o)
	}
	return created, nil
}

// work has the records of a Commit and their results.
type work struct {
	records       []dedupe.ChainRecord
	done, written []bool
}

// handledBy marks the records that an object has handled.
func (w *work) handledBy(o *Object) {
	for i := range w.records {
		w.done[i] = w.done[i] || o.handled(w.records[i].Sequence)
	}
}

// next returns the records of the next object: as many as fit into most bytes, and at least one. It returns none if
// no record is left to deliver. Records at the end without an output go with the records before them.
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
