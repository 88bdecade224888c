package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
)

const (
	writers = 4
	visits  = 40 // the visits of a process that comes and goes

	// contestedThings is the number of things that several processes take at once.
	contestedThings = 3000

	// mostLost limits how often in a row a waiting process may find the first gate locked while others write. The
	// test does not judge waits by the clock. Nor does it count writes that overtake a process which the system does
	// not let run. Measured values are 3 to 5, even on a machine with eight times more work than it can do. With one
	// place they are 17 to 40, and without places 75 to 230. A process loses five times in a row in every third run,
	// and each further time with a probability of 1/6. So one run in four million has more than twelve.
	mostLost = 12
)

// history is one writer's record of its writes.
type history struct {
	Took        []string
	Writes      []passed
	LongestWait time.Duration
}

// passed counts the writes of other writers that came before one write of this writer.
type passed struct {
	All       int // since the writer wanted to write
	Lost      int // attempts that found the first gate locked, with other writers' writes since the attempt before
	AfterGate int // since the writer passed the first gate
}

// turnsSoFar returns the number of turns of all writers.
func turnsSoFar(ctx context.Context, db *DB) (n int, err error) {
	err = db.Read(ctx, "count turns", func(ctx context.Context, r *Statements) error {
		_, err := r.One(ctx, `SELECT n FROM turns`, nil, &n)
		return err
	})
	return n, err
}

func addTurn(ctx context.Context, db *DB) error {
	return db.Write(ctx, "add turn", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `UPDATE turns SET n = n + 1`)
		return err
	})
}

// watchedGate counts how often other writers were faster although this writer tried.
type watchedGate struct {
	gate
	db   *DB
	seen int // the number of turns at the last attempt
	lost int
}

func (g *watchedGate) TryLock() (bool, error) {
	ok, err := g.gate.TryLock()
	if err != nil {
		return ok, err
	}
	before := g.seen
	if g.seen, err = turnsSoFar(context.Background(), g.db); !ok && g.seen > before {
		g.lost++
	}
	return ok, err
}

// taker takes things and records the history of its writes.
type taker struct {
	db      *DB
	name    string
	gate    *watchedGate
	history history
}

func newTaker(db *DB, name string) *taker {
	w := &taker{db: db, name: name, gate: &watchedGate{gate: db.turns.gates[0], db: db}}
	db.turns.gates[0] = w.gate
	return w
}

// take takes a thing, and records the number of turns that other writers had while it waited.
func (w *taker) take(ctx context.Context) (name string, err error) {
	wanted, err := turnsSoFar(ctx, w.db)
	if err != nil {
		return "", err
	}
	began, turn := time.Now(), 0
	w.gate.seen, w.gate.lost = wanted, 0
	err = w.db.Write(ctx, "take", func(ctx context.Context, on *Statements) error {
		w.history.LongestWait = max(w.history.LongestWait, time.Since(began))
		if _, err := on.One(ctx, `UPDATE turns SET n = n + 1 RETURNING n`, nil, &turn); err != nil {
			return err
		}
		name, err = takeOne(ctx, on, w.name)
		return err
	})
	others := passed{All: turn - 1 - wanted, Lost: w.gate.lost, AfterGate: turn - 1 - w.gate.seen}
	w.history.Writes = append(w.history.Writes, others)
	return name, err
}

// everything takes things without a pause until none is left.
func (w *taker) everything(ctx context.Context) (history, error) {
	for {
		name, err := w.take(ctx)
		if err != nil || name == "" {
			return w.history, err
		}
		w.history.Took = append(w.history.Took, name)
	}
}

func takeEverything(ctx context.Context, db *DB, name string) (any, error) {
	w := newTaker(db, name)
	sqlitetest.Ready()
	return w.everything(ctx)
}

func TestProcessesTakeTurns(t *testing.T) {
	things := contestedThings
	if testing.Short() {
		things /= 10
	}
	db := newDB(t, things)
	var all []*sqlitetest.Process
	for i := range writers {
		all = append(all, sqlitetest.Start(t, "take everything", db.path, fmt.Sprintf("process %d", i)))
	}
	began := time.Now()
	for _, p := range all {
		p.Proceed(t)
	}
	histories := make([]history, writers)
	for i, p := range all {
		p.Result(t, &histories[i])
	}
	t.Logf("%.0f things/s", float64(things)/time.Since(began).Seconds())
	checkHistories(t, db, histories, things)
	for _, h := range histories {
		checkLost(t, h)
	}
}

// The engines of one process open the file several times. Between them the gates work as between processes. How often
// one loses at the first gate depends on Go's scheduler here, so the test does not judge it.
func TestPartsOfOneProcessTakeTurns(t *testing.T) {
	db := newDB(t, contestedThings/5)
	histories := make([]history, writers)
	var all sync.WaitGroup
	for i := range writers {
		part := []Part{testPart, otherPart}[i%2]
		own, err := Create(t.Context(), db.path, part, []Option{WithBusyTimeout(time.Minute)})
		check(t, err)
		defer func() { check(t, own.Close()) }()
		all.Go(func() {
			var err error
			if histories[i], err = newTaker(own, part.Name).everything(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkHistories(t, db, histories, contestedThings/5)
}

func checkHistories(t *testing.T, db *DB, all []history, things int) {
	t.Helper()
	took := map[string]bool{}
	for _, h := range all {
		for _, name := range h.Took {
			if took[name] {
				t.Errorf("%s was taken twice", name)
			}
			took[name] = true
		}
		checkOrder(t, h)
	}
	if len(took) != things {
		t.Errorf("%d of %d things were taken", len(took), things)
	}
	checkThings(t, db, 0, things)
}

// checkOrder checks that, between the gates, only writers who are ahead pass a writer.
func checkOrder(t *testing.T, h history) {
	t.Helper()
	worst := h.worst()
	if worst.AfterGate > writers-1 {
		t.Errorf("%d writes of %d others passed a writer after the first gate", worst.AfterGate, writers-1)
	}
	t.Logf("%4d things, %4d writes; passed by at most %d writes, %d after the first gate; lost %d times in a row; longest wait %d ms",
		len(h.Took), len(h.Writes), worst.All, worst.AfterGate, worst.Lost, h.LongestWait.Milliseconds())
}

// checkLost checks that, at the first gate, chance decides only within limits.
func checkLost(t *testing.T, h history) {
	t.Helper()
	if worst := h.worst(); worst.Lost > mostLost {
		t.Errorf("a process lost %d times in a row, more than %d", worst.Lost, mostLost)
	}
}

// worst returns the largest value of each counter.
func (h history) worst() (worst passed) {
	for _, p := range h.Writes {
		worst.All = max(worst.All, p.All)
		worst.Lost = max(worst.Lost, p.Lost)
		worst.AfterGate = max(worst.AfterGate, p.AfterGate)
	}
	return worst
}

// holdTurn stops in the middle of a write.
func holdTurn(ctx context.Context, db *DB, _ string) (any, error) {
	err := db.Write(ctx, "hold", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `DELETE FROM thing`)
		sqlitetest.Ready()
		return errors.Join(err, errors.New("let go without a commit"))
	})
	return err.Error(), nil
}

func TestKilledWriterBlocksNobody(t *testing.T) {
	db := newDB(t, 1)
	sqlitetest.Start(t, "hold the turn", db.path, "holder").Kill()
	checkTakes(t, db)
}

// comeAndGo opens and closes the store again and again, as a command line tool does that uses both parts.
func comeAndGo(ctx context.Context, db *DB, _ string) (any, error) {
	sqlitetest.Ready()
	err := db.Close()
	for range visits {
		for _, part := range []Part{testPart, otherPart} {
			db, failed := Create(ctx, db.path, part, []Option{WithBusyTimeout(time.Minute)})
			if failed != nil {
				return nil, failed
			}
			write := addTurn(ctx, db)
			_, read := turnsSoFar(ctx, db)
			err = errors.Join(err, write, read, db.Close())
		}
	}
	return visits, err
}

// The last process to close a SQLite file cleans up. A process that opens the file at that moment must wait and not
// fail.
func TestProcessesComeAndGo(t *testing.T) {
	db := newDB(t, 0)
	check(t, db.Close())
	var all []*sqlitetest.Process
	for i := range writers {
		all = append(all, sqlitetest.Start(t, "come and go", db.path, fmt.Sprintf("process %d", i)))
	}
	for _, p := range all {
		p.Proceed(t)
	}
	for _, p := range all {
		var n int
		if p.Result(t, &n); n != visits {
			t.Errorf("%d visits, want %d", n, visits)
		}
	}
}

// breakIn writes as a program does that does not know turns.
func breakIn(ctx context.Context, path, _ string) (any, error) {
	sqlitetest.Ready()
	db, err := pool(dsn(path, "mode=rw", 0), 1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, `BEGIN IMMEDIATE; ROLLBACK`)
	if isBusy(err) {
		return "busy", nil
	}
	return "free", err
}

// By the rules of POSIX locks, a process loses all its locks on a file when it closes any descriptor of the file.
// When SQLite closes one part, it must not free the locks of the other part.
func TestClosingOnePartKeepsTheLocksOfTheOther(t *testing.T) {
	db := newDB(t, 1)
	other, err := Create(t.Context(), db.path, otherPart, nil)
	check(t, err)
	leave := occupy(t, db)
	check(t, other.Close())
	for _, want := range []string{"busy", "free"} {
		var got string
		p := sqlitetest.Start(t, "break in", db.path, "burglar")
		p.Proceed(t)
		if p.Result(t, &got); got != want {
			t.Errorf("the file is %s for others, want %s", got, want)
		}
		if want == "busy" {
			leave()
		}
	}
	checkTakes(t, db)
}

// There is one lock file beside a store, for any number of parts and processes that write to it. Its content explains
// it.
func TestOneLockFile(t *testing.T) {
	db := newDB(t, 1)
	other, err := Create(t.Context(), db.path, otherPart, nil)
	check(t, err)
	checkTakes(t, db)
	check(t, other.Close())
	check(t, db.Close())
	entries, err := os.ReadDir(filepath.Dir(db.path))
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"store.db", "store.db.lock"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	note, err := os.ReadFile(db.path + lockSuffix)
	if err != nil || string(note) != lockNote {
		t.Errorf("the lock file says %q, %v", note, err)
	}
}

// A process that cannot make the lock file gets an error that says so when it opens the store, not at its first write.
func TestLockFileCannotBeMade(t *testing.T) {
	db := newDB(t, 1)
	check(t, db.Close())
	removeLock(t, db.path)
	check(t, os.Mkdir(db.path+lockSuffix, 0o700))
	both(t, func(t *testing.T, open openFunc) {
		_, err := open(t.Context(), db.path, testPart, nil)
		if err == nil || errors.Is(err, errTryAgain) || !strings.Contains(err.Error(), "store.db.lock: is a directory") {
			t.Errorf("%v, want an error about the lock file", err)
		}
	})
}

// Statements that a part prepared before the other part's tables existed still work.
func TestPartsShareAFile(t *testing.T) {
	db := newDB(t, 2)
	checkTakes(t, db)
	checkThings(t, db, 1, 1)
	other, err := Create(t.Context(), db.path, otherPart, nil)
	check(t, err)
	check(t, other.Write(t.Context(), "test", func(ctx context.Context, w *Statements) error {
		return w.Run(ctx, `INSERT INTO other VALUES ('x')`)
	}))
	checkTakes(t, db)
	checkThings(t, db, 0, 2)
	check(t, other.Close())
	checkWritesAndReads(t, db)
}
