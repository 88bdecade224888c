package logledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// record is a record that has no answer yet.
type record struct {
	*dedupe.Candidate
	key     rowKey
	content content
	tag     tag
	arrival int64 // in milliseconds since 1970
	source  dedupe.Digest
	answer  *dedupe.Answer

	position position
	placed   bool // position is computed
}

func newRecord(c *dedupe.Candidate, k dedupe.Key, source dedupe.Digest, answer *dedupe.Answer) record {
	return record{
		Candidate: c, key: rowKeyOf(k), content: contentOf(k, c.Fingerprint), arrival: c.Arrival.UnixMilli(),
		tag: tagOf(c.Owner), source: source, answer: answer,
	}
}

func (r *record) row() row { return row{r.key, r.content, r.tag} }

// The records of a lane are appended in runs. A run becomes one item. It has at most maxRunRecords records, and its
// arrivals span at most 1/runsInWindow of the window, because all entries of an item count for the window around all of
// them.
const (
	maxRunRecords = 12_000 // 312 KB; DynamoDB takes items of 400 KB
	runsInWindow  = 16
)

// runEnd returns how many of the records are in the first run.
func runEnd(records []record, window time.Duration) int {
	at := arrivals{records[0].arrival, records[0].arrival}
	for n, r := range records[:min(len(records), maxRunRecords)] {
		at = at.with(r.arrival)
		if at.greatest-at.least > window.Milliseconds()/runsInWindow {
			return n
		}
	}
	return min(len(records), maxRunRecords)
}

func (a arrivals) with(arrival int64) arrivals {
	return arrivals{min(a.least, arrival), max(a.greatest, arrival)}
}

// enter answers records, in order. After an error it is the answer of all remaining records. If the error is a
// *MemoryError, enter returns these records as noRoom.
func (l *lane) enter(ctx context.Context, q dedupe.Question, records []record) (noRoom []record) {
	rest, err := l.enterRuns(ctx, q, records)
	for _, r := range rest {
		*r.answer = dedupe.Answer{Err: err}
	}
	if full := (*MemoryError)(nil); errors.As(err, &full) {
		return rest
	}
	return nil
}

func (l *lane) enterRuns(ctx context.Context, q dedupe.Question, records []record) (rest []record, err error) {
	if err := l.lock(ctx); err != nil {
		return records, err
	}
	defer l.unlock()
	l.wanted, l.opened = records[0].arrival, map[ref]item{}
	for _, r := range records {
		l.wanted = min(l.wanted, r.arrival)
	}
	for len(records) > 0 {
		n := runEnd(records, q.Retention.Window)
		if err := l.enterRun(ctx, q, records[:n]); err != nil {
			return records, err
		}
		records = records[n:]
	}
	l.noteCounting(0)
	return nil, nil
}

// maxAttempts limits how often a run is decided. The first attempts have no pause.
const (
	maxAttempts    = 64
	attemptsAtOnce = 4
	firstPause     = 32 * time.Millisecond
	longestPause   = 200 * time.Millisecond
)

// enterRun decides a run again and again until nothing was appended between deciding it and appending its rows.
func (l *lane) enterRun(ctx context.Context, q dedupe.Question, run []record) error {
	l.raced = false
	pause := firstPause
	for attempt := range maxAttempts {
		if attempt > attemptsAtOnce {
			if err := l.ledger.clock.Pause(ctx, pause); err != nil {
				return err
			}
			pause = min(2*pause, longestPause)
		}
		if err := l.prepare(ctx); err != nil {
			return err
		}
		d, err := l.decide(ctx, q, run)
		if err != nil {
			return err
		}
		done := false
		switch {
		case d.rows > 0:
			done, err = l.append(ctx, d.item(run, l.ledger.nonce()), q.Retention)
		case d.allMine():
			done = true
		default:
			done, err = l.current(ctx)
		}
		if err != nil {
			return err
		}
		if done {
			for i := range run {
				*run[i].answer = d.answers[i]
			}
			return nil
		}
	}
	return fmt.Errorf("logledger: %w: other processes have appended to lane %d of the scope %q before each of %d attempts",
		dedupe.ErrTryAgain, l.Lane, l.Scope, maxAttempts)
}

// decision has the answers for a run, by the entries in memory.
type decision struct {
	answers []dedupe.Answer
	fresh   map[rowKey][]freshRow // the rows to append
	rows    int                   // their number
}

// allMine reports whether all records have rows already. Then no other row can change the answers.
func (d *decision) allMine() bool {
	return !slices.ContainsFunc(d.answers, func(a dedupe.Answer) bool { return a.Found != dedupe.Mine })
}

// freshRow is a row to append for a record of the run. Later records of the run are compared with it.
type freshRow struct {
	of      *record
	derived int
}

// decide decides records one by one, in order.
func (l *lane) decide(ctx context.Context, q dedupe.Question, run []record) (decision, error) {
	d := decision{answers: make([]dedupe.Answer, len(run)), fresh: make(map[rowKey][]freshRow, len(run))}
	for i := range run {
		r := &run[i]
		s := search{record: r}
		if err := l.findEntries(ctx, &s); err != nil {
			return d, err
		}
		for _, f := range d.fresh[r.key] {
			s.add(f.of.content, f.of.tag == r.tag, f.derived)
		}
		answer := dedupe.Answer{Found: s.seen.Found()}
		switch {
		case answer.Found == dedupe.Mine:
			answer.Derived = s.derived
		case answer.Found == dedupe.Other && !q.KeepIDs:
			answer = dedupe.Answer{Found: dedupe.Put, Derived: 1}
		}
		if answer.Found == dedupe.Put {
			d.fresh[r.key] = append(d.fresh[r.key], freshRow{r, answer.Derived})
			d.rows++
		}
		d.answers[i] = answer
	}
	return d, nil
}

// search collects the rows that count for a record, from all rows under its key.
type search struct {
	*record
	seen    dedupe.Seen
	derived int // of the record's own row
}

// add adds a row. All rows are needed: the first one alone does not decide about a later record.
func (s *search) add(c content, mine bool, derived int) {
	switch {
	case mine:
		s.seen.Mine, s.derived = true, derived
	case c == s.content:
		s.seen.Same = true
	default:
		s.seen.Other = true
	}
}

// findEntries adds the entries in memory that count for the record: an entry counts if the record's arrival is at
// most the window away from an arrival of the entry's item, on either side.
func (l *lane) findEntries(ctx context.Context, s *search) (err error) {
	l.entries.each(s.key, func(c content, of ref) bool {
		h := l.items.at(of)
		if s.arrival < h.since || s.arrival > h.until {
			return true
		}
		mine := false
		if h.span.mayHold(s.record) {
			if mine, err = l.itemHasRow(ctx, of, row{s.key, c, s.tag}); err != nil {
				return false
			}
		}
		s.add(c, mine, of.derived())
		return true
	})
	return err
}

// itemHasRow reports whether an item has a row. It reads the item from the storage, because the memory has no tags.
func (l *lane) itemHasRow(ctx context.Context, of ref, r row) (bool, error) {
	it, ok := l.opened[of&^derivedMark]
	if !ok {
		var err error
		if it, err = l.read(ctx, l.items.at(of)); err != nil {
			return false, err
		}
		for _, rows := range it.parts() {
			slices.SortFunc(rows, row.compare)
		}
		l.opened[of&^derivedMark] = it
	}
	_, found := slices.BinarySearchFunc(it.parts()[of.derived()], r, row.compare)
	return found, nil
}

// item makes the item with the rows of a decision.
func (d *decision) item(run []record, nonce uint64) item {
	it := item{nonce: nonce, at: arrivals{run[0].arrival, run[0].arrival}, rows: make([]row, 0, d.rows)}
	for _, r := range run {
		it.at = it.at.with(r.arrival)
	}
	var spans spanBuilder
	for _, derived := range []int{0, 1} {
		for i := range run {
			if d.answers[i] == (dedupe.Answer{Found: dedupe.Put, Derived: derived}) {
				it.rows = append(it.rows, run[i].row())
				spans.add(&run[i])
			}
		}
		if derived == 0 {
			it.plain = len(it.rows)
		}
	}
	it.span = spans.span()
	return it
}
