package offline

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// withoutEntry are the outcomes of records of which the ledger has no entry.
var withoutEntry = []dedupe.Outcome{dedupe.Undecided, dedupe.NoID, dedupe.TooOld}

// writeBytes is the smallest number of bytes that are written at a time, except at the end of a batch.
const writeBytes = 256 << 10

// decidePatiently decides a batch. If two runs at work wait for each other, the one that began later gives up and rests.
// The other one waits until it can close it.
func (r *run) decidePatiently(ctx context.Context, b *batch) error {
	for {
		err := r.decide(ctx, b)
		other, ok := errors.AsType[*dedupe.RunAtWorkError](err)
		if !ok || other.Run < r.done.ID || r.clock.OrReal().Pause(ctx, dedupe.BeatEvery) != nil {
			return err
		}
	}
}

// savingLedger is the ledger of a run. Before the run waits for another one, it saves its own progress: the other one
// may wait for that.
type savingLedger struct {
	dedupe.Ledger
	run *run
}

// Enter implements dedupe.Ledger.
func (l savingLedger) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	answers, err := l.Ledger.Enter(ctx, q)
	for _, a := range answers {
		if _, waits := errors.AsType[*dedupe.RunAtWorkError](a.Err); waits && l.run.done.Lines > l.run.beats.lines() {
			return answers, errors.Join(err, l.run.record(ctx))
		}
	}
	return answers, err
}

// decide asks the ledger about the records of a batch. If a record gets no decision, the batch fails.
func (r *run) decide(ctx context.Context, b *batch) error {
	candidates := make([]dedupe.Candidate, 0, len(b.records))
	asked := make([]*record, 0, len(b.records))
	for _, rec := range b.records {
		if !rec.isRecord() {
			continue
		}
		asked = append(asked, rec)
		candidates = append(candidates, dedupe.Candidate{
			ID: rec.fields.ID, Owner: rec.owner, Fingerprint: rec.fields.Fingerprint,
			Version: rec.fields.Version, Arrival: rec.arrival,
		})
	}
	if len(asked) == 0 {
		return nil
	}
	decisions, err := r.ask(ctx, candidates)
	if err != nil {
		return err
	}
	for i, decision := range decisions {
		if decision.Outcome == dedupe.Undecided {
			return decision.Err
		}
		asked[i].decision = decision
	}
	if r.otherSettings == nil {
		r.otherSettings = FindOtherSettings(ctx, r.Store, r.Scope, candidates, decisions)
	}
	return nil
}

// write writes the results of the decisions about a batch. The progress of the run changes only after all results are
// written.
func (r *run) write(ctx context.Context, b *batch) error {
	done := r.done
	for _, rec := range b.records {
		done.Lines++
		done.File, done.Line = rec.file, rec.number
		done.Input += rec.size
		if err := r.appendResult(ctx, rec, &done.Tally); err != nil {
			return err
		}
		if len(r.survivors)+len(r.poison) >= writeBytes {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	rest, err := r.writeRestOfLongLine(b)
	if err != nil {
		return err
	}
	done.Input += rest
	r.out.keep()
	done.Output, done.DeadLetters = r.out.kept, r.deadLetters.size
	r.done = done
	return nil
}

// flush writes the appended results.
func (r *run) flush() error {
	if _, err := r.out.Write(r.survivors); err != nil {
		return err
	}
	if _, err := r.deadLetters.Write(r.poison); err != nil {
		return err
	}
	r.survivors, r.poison = r.survivors[:0], r.poison[:0]
	return nil
}

// appendResult appends a record to the survivors or to the poison, or drops it, and counts it.
func (r *run) appendResult(ctx context.Context, rec *record, t *dedupe.Tally) (err error) {
	if rec.blank {
		t.In++
		t.Skipped++
		return nil
	}
	var out dedupe.Output
	var survives bool
	var differsIn []string
	if rec.poison == nil {
		differsIn = r.differences.add(rec)
		out, survives, err = r.delivery.Prepare(ctx, dedupe.Output{Data: rec.text}, rec.fields, rec.decision)
		poison, ok := errors.AsType[*dedupe.PoisonError](err)
		if rec.poison = poison; !ok && err != nil {
			return err
		}
		err = nil
	}
	t.Count(rec.decision.Outcome, rec.poison)
	if err := r.listing.add(t.In, r.Inputs[rec.file-1].Name, rec, survives, differsIn); err != nil {
		return err
	}
	switch {
	case rec.poison != nil:
		r.poison, err = r.appendDeadLetter(r.poison, rec)
	case survives:
		t.Out++
		r.survivors = append(append(r.survivors, out.Data...), '\n')
	}
	return err
}

// appendDeadLetter appends a line of the dead-letter file. If the record is too long, it appends the line only up to
// its data, and writeRestOfLongLine writes the data.
func (r *run) appendDeadLetter(to []byte, rec *record) ([]byte, error) {
	head, err := json.Marshal(letter{
		File: r.Inputs[rec.file-1].Name, Line: rec.number, Reason: rec.poison.Reason,
		Entered: rec.entered || !slices.Contains(withoutEntry, rec.decision.Outcome),
	})
	if err != nil {
		return nil, err
	}
	to = append(to, head[:len(head)-1]...)
	to = append(to, `,"data":"`...)
	if rec.tooLong {
		return to, nil
	}
	to = base64.StdEncoding.AppendEncode(to, rec.text)
	return append(to, deadLetterEnd...), nil
}

const deadLetterEnd = "\"}\n"

// writeRestOfLongLine writes the data of a record that is too long to the dead-letter file, if the batch ends with
// such a record. It returns the number of further bytes of the input that are done.
func (r *run) writeRestOfLongLine(b *batch) (size int64, err error) {
	if !b.endsTooLong() {
		return 0, nil
	}
	before := r.lines.done
	w := bufio.NewWriterSize(&r.deadLetters, 64<<10)
	data := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := data.Write(b.records[len(b.records)-1].text); err != nil {
		return 0, err
	}
	if err := r.lines.rest(data); err != nil {
		return 0, err
	}
	if err := data.Close(); err != nil {
		return 0, err
	}
	if _, err := w.WriteString(deadLetterEnd); err != nil {
		return 0, err
	}
	size = r.lines.done - before
	r.feed.proceed()
	return size, w.Flush()
}
