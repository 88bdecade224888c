package offline

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// settle decides a batch and writes what comes of it. The run is further only
// when all of that is written.
func (r *run) settle(ctx context.Context, b *batch) error {
	if err := r.decide(ctx, b); err != nil {
		return err
	}
	at := r.at
	r.survivors, r.poison = r.survivors[:0], r.poison[:0]
	for _, rec := range b.records {
		at.Lines++
		at.Input += rec.size
		if err := r.render(rec, &at.Tally); err != nil {
			return err
		}
	}
	if _, err := r.out.Write(r.survivors); err != nil {
		return err
	}
	if _, err := r.deadLetters.Write(r.poison); err != nil {
		return err
	}
	long, err := r.deadLetterRest(b)
	if err != nil {
		return err
	}
	at.Input += long
	at.Output, at.DeadLetters = r.out.size, r.deadLetters.size
	r.at = at
	return nil
}

// render appends what a record gives to the survivors or to the poison, and counts it.
func (r *run) render(rec *record, t *dedupe.Tally) (err error) {
	text, survives := r.survivor(rec)
	t.In++
	switch outcome := rec.decision.Outcome; {
	case rec.blank:
		t.Skipped++
		return nil
	case rec.poison != "":
		t.DeadLettered++
		r.poison, err = r.appendParked(r.poison, rec)
		return err
	case outcome == dedupe.New:
		t.New++
	case outcome == dedupe.Retry:
		t.Retry++
	case outcome == dedupe.Natural:
		t.Natural++
	case outcome == dedupe.Synthetic:
		t.Synthetic++
	}
	if survives {
		t.Out++
		r.survivors = append(append(r.survivors, text...), '\n')
	}
	return nil
}

// survivor returns the text under which a record survives, or finds that it is
// poison after all.
func (r *run) survivor(rec *record) (text []byte, survives bool) {
	defer rec.recover()
	d := rec.decision
	switch {
	case rec.blank || rec.poison != "":
		return nil, false
	case d.Outcome == dedupe.NoID:
		rec.poison = reasonNoID
		return nil, false
	case d.Outcome == dedupe.Natural:
		return rec.text, r.PassNatural
	case d.ID == rec.fields.ID:
		return rec.text, true
	}
	renamed, err := r.format.Rename(rec.text, rec.fields.ID, d.ID)
	if err != nil {
		rec.poison = reasonOf(err)
	}
	return renamed, err == nil
}

// appendParked appends the line of a poison record. That of one that is too long
// ends where its data begins: deadLetterRest writes the rest.
func (r *run) appendParked(to []byte, rec *record) ([]byte, error) {
	head, err := json.Marshal(struct {
		File   string `json:"file"`
		Line   int64  `json:"line"`
		Reason string `json:"reason"`
	}{r.Inputs[rec.file-1].Name, rec.number, rec.poison})
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

// deadLetterRest ends the dead-lettered line of a record that is too long, if that is the
// batch's last, with all of its data. It returns how many more bytes of the
// input are done.
func (r *run) deadLetterRest(b *batch) (size int64, err error) {
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
	return r.lines.done - before, w.Flush()
}
