package dedupefault

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// Mark is the call that stores the marker of a redriven dead letter.
const Mark Method = "Mark"

// maxRedriveTime is how long the redrive of a letter may take. A letter that could pass its horizon during that time is
// left alone.
const maxRedriveTime = timeout + mostLate + late

// redrive starts the program that redrives dead letters. It begins with the batches that the mapping gave up, with
// the settings of the function. Then it redrives the poison records, with settings that can read them. With again it
// also redrives the dead letters that are marked as done.
func (w *World) redrive(again bool) {
	w.sim.Go(func(ctx context.Context, program *eventsource.Invocation) {
		own := *program
		own.Deadline = w.sim.Now().Add(timeout)
		inv := w.newInvocation(&own)
		inv.redrives, inv.level = true, w.scenario.Sink
		ctx, inv.cancel = context.WithCancel(context.WithValue(ctx, invocationKey{}, inv))
		defer inv.cancel()
		for _, corrects := range []bool{false, true} {
			err := w.redriveJob(corrects, again).Run(ctx, func(r redrive.Report) error {
				w.note("#%d %s: %s %s", inv.Number, shortName(r.Name), r.Status, r.Why)
				return nil
			})
			w.note("#%d has redriven: %v", inv.Number, err)
		}
	})
}

// redriveJob redrives the poison records if corrects is set, or else the batches that the mapping gave up.
func (w *World) redriveJob(corrects, again bool) *redrive.Job {
	f := w.newFunction()
	f.options.Consumer = ""
	f.format = faultyFormat{Format: f.format.(faultyFormat).Format, corrects: corrects, safe: true}
	items := w.givenUpItems(again)
	if corrects {
		items = w.poisonItems(again)
	}
	h := f.handler(w)
	return &redrive.Job{
		Items: items, Retention: retention, Function: functionName,
		Target: func(ctx context.Context, s dedupe.Stream) (redrive.Processor, string, error) {
			p, scope, err := h.LetterProcessor(ctx, s)
			return changedLetters{p, w}, scope, err
		},
		Decode:  func(event json.RawMessage) (dedupe.Batch, error) { return recordhandler.Decode(event, false) },
		Markers: markers{World: w},
		Now:     func() time.Time { return w.sim.Now().Add(maxRedriveTime) },
	}
}

// markers are the markers of dead letters. Redrives store no attempts: the judge knows that a sink may get a letter
// again, and package redrive has histories of attempts.
type markers struct {
	redrive.Markers
	*World
}

func (m markers) MarkDone(ctx context.Context, name string, _ deadletter.Marker) (created bool, err error) {
	b, err := m.begin(ctx, Mark, shortName(name))
	if err != nil {
		return false, err
	}
	created = !m.marked[name]
	m.marked[name] = true
	return created, b.end()
}

// changedLetters changes dead letters as the mutant requires.
type changedLetters struct {
	redrive.Processor
	*World
}

func (c changedLetters) Redrive(ctx context.Context, d dedupe.DeadLetter, name string) dedupe.Result {
	if c.mutant != nil && c.mutant.letters != nil {
		d = c.mutant.letters(c.World, d)
	}
	return c.Processor.Redrive(ctx, d, name)
}

// shortName returns the name of a letter without the digest at its end. The digest depends on the scope, which is
// different in each play.
func shortName(name string) text {
	ofLetter := strings.HasSuffix(name, ".json") || strings.HasPrefix(name, "letter-")
	if at := strings.LastIndex(name, "-"); at > 0 && ofLetter {
		name = name[:at]
	}
	return text(name)
}

// functionName is the name of the mapping's function in the documents of given-up batches.
const functionName = "eventsource"

func (w *World) item(name string, content []byte, again bool) redrive.Item {
	return redrive.Item{
		Name:   name,
		Done:   func(context.Context) (bool, error) { return w.marked[name] && !again, nil },
		Letter: func(context.Context) (deadletter.Letter, error) { return deadletter.ParseLetter(name, content) },
	}
}

func (w *World) poisonItems(again bool) iter.Seq2[redrive.Item, error] {
	return func(yield func(redrive.Item, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(w.objects)) {
			if !yield(w.item(name, w.objects[name], again), nil) {
				return
			}
		}
	}
}

func (w *World) givenUpItems(again bool) iter.Seq2[redrive.Item, error] {
	return func(yield func(redrive.Item, error) bool) {
		for i, d := range slices.Clone(w.discards) {
			_, content := d.Object()
			if !yield(w.item(fmt.Sprint("batch-", i), content, again), nil) {
				return
			}
		}
	}
}

// redriveAll redrives the remaining dead letters at the end, without a fault. It checks that no letter is left that
// could be delivered. Into objects it redrives all letters again, which must change nothing.
func (w *World) redriveAll() error {
	if !w.scenario.redrives() {
		return nil
	}
	w.plan = nil
	begun := w.sim.Now()
	w.redrive(false)
	if err := w.sim.Drain(maxEnd); err != nil {
		return err
	}
	left := func(in *input) bool {
		arrived := in.arrival
		if in.storedAt == 0 {
			arrived = in.oldest // the batch is redriven as a whole
		}
		return (in.Kind == Correctable || in.Kind == Good) && (in.storedAt > 0 || in.givenUp) &&
			begun.Add(maxRedriveTime).Sub(arrived) < horizon && !in.delivered() && !in.confirmed
	}
	for _, in := range w.inputs {
		if left(in) && !w.hasCopy(in, func(c *input) bool { return c.handled() && !left(c) }) {
			w.violate("G6: %v was not redriven", in)
		}
	}
	if w.scenario.Sink != Objects {
		return nil
	}
	w.redrive(true)
	return w.sim.Drain(maxEnd)
}
