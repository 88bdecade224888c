package logledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// record is a record on its way to an answer.
type record struct {
	*dedupe.Candidate
	key     rowKey
	content content
	tag     tag
	arrival int64 // in milliseconds since 1970
	source  dedupe.Digest
	answer  *dedupe.Answer

	position position
	placed   bool // position is known
}

func newRecord(c *dedupe.Candidate, k dedupe.Key, source dedupe.Digest, answer *dedupe.Answer) record {
	return record{
		Candidate: c, key: rowKeyOf(k), content: contentOf(k, c.Fingerprint), arrival: c.Arrival.UnixMilli(),
		tag: tagOf(c.Owner), source: source, answer: answer,
	}
}

func (r *record) row() row { return row{r.key, r.content, r.tag} }

// The records of a lane are appended in runs: one item has at most so many, and its arrivals span at most a part of the
// window, since all of its entries count for the window around all of them.
const (
	mostInRun   = 12_000 // 312 KB; DynamoDB takes items of 400 KB
	spanOfAnRun = 16     // the part of the window
)

// runEnd returns how many of the records make the first run.
func runEnd(records []record, window time.Duration) int {
	at := arrivals{records[0].arrival, records[0].arrival}
	for n, r := range records[:min(len(records), mostInRun)] {
		at = at.with(r.arrival)
		if at.greatest-at.least > window.Milliseconds()/spanOfAnRun {
			return n
		}
	}
	return min(len(records), mostInRun)
}

func (a arrivals) with(arrival int64) arrivals {
	return arrivals{min(a.least, arrival), max(a.greatest, arrival)}
}

// enter answers records, in order. After an error the rest of them have it as their answer. If the error is that they
// have no room in memory, they are returned.
func (l *lane) enter(ctx context.Context, q dedupe.Question, records []record) (short []record) {
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

// mostAttempts is how often a run is decided at most, and patience how often without a pause.
const (
	mostAttempts = 64
	patience     = 4
	firstPause   = 32 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// enterRun decides a run until its rows are appended behind everything that it was decided by.
func (l *lane) enterRun(ctx context.Context, q dedupe.Question, run []record) error {
	l.raced = false
	pause := firstPause
	for attempt := range mostAttempts {
		if attempt > patience {
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
		dedupe.ErrTryAgain, l.Lane, l.Scope, mostAttempts)
}

// decision is what a run is, by what is in memory.
type decision struct {
	answers []dedupe.Answer
	fresh   map[rowKey][]freshRow // to be appended
	rows    int                   // how many these are
}

// allMine reports whether all records have rows already. No other row can change that.
func (d *decision) allMine() bool {
	return !slices.ContainsFunc(d.answers, func(a dedupe.Answer) bool { return a.Found != dedupe.Mine })
}

// freshRow is the row of a record of the run, which later records of the run see.
type freshRow struct {
	of      *record
	derived int
}

// decide decides records one by one, in order.
func (l *lane) decide(ctx context.Context, q dedupe.Question, run []record) (decision, error) {
	d := decision{answers: make([]dedupe.Answer, len(run)), fresh: make(map[rowKey][]freshRow, len(run))}
	for i := range run {
		r := &run[i]
		s := sight{record: r}
		if err := l.look(ctx, &s); err != nil {
			return d, err
		}
		for _, f := range d.fresh[r.key] {
			s.see(f.of.content, f.of.tag == r.tag, f.derived)
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

// sight is what a record sees under its key.
type sight struct {
	*record
	seen    dedupe.Seen
	derived int // of the record's own row
}

// see takes a row into account. All rows count: the first one does not say what a later record is.
func (s *sight) see(c content, mine bool, derived int) {
	switch {
	case mine:
		s.seen.Mine, s.derived = true, derived
	case c == s.content:
		s.seen.Same = true
	default:
		s.seen.Other = true
	}
}

// look looks at the entries in memory, as far as they count: an entry counts if an arrival of its item is at most the
// window away, on either side.
func (l *lane) look(ctx context.Context, s *sight) (err error) {
	l.entries.each(s.key, func(c content, of ref) bool {
		h := l.items.at(of)
		if s.arrival < h.since || s.arrival > h.until {
			return true
		}
		mine := false
		if h.span.mayHold(s.record) {
			if mine, err = l.holds(ctx, of, row{s.key, c, s.tag}); err != nil {
				return false
			}
		}
		s.see(c, mine, of.derived())
		return true
	})
	return err
}

// holds reports whether an item has a row. The item is read, since the memory has no tags.
func (l *lane) holds(ctx context.Context, of ref, r row) (bool, error) {
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

// item makes the item of a decision.
func (d *decision) item(run []record, nonce uint64) item {
	it := item{nonce: nonce, at: arrivals{run[0].arrival, run[0].arrival}, rows: make([]row, 0, d.rows)}
	for _, r := range run {
		it.at = it.at.with(r.arrival)
	}
	var of spanOf
	for _, derived := range []int{0, 1} {
		for i := range run {
			if d.answers[i] == (dedupe.Answer{Found: dedupe.Put, Derived: derived}) {
				it.rows = append(it.rows, run[i].row())
				of.add(&run[i])
			}
		}
		if derived == 0 {
			it.plain = len(it.rows)
		}
	}
	it.span = of.span()
	return it
}
