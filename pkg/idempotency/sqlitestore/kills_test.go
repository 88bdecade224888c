package sqlitestore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// The clocks of a round are ahead of the clocks of the round before. So the leases of killed processes are over in the
// next round, and no lease ends within a round, however slow the machine is.
const (
	killLease = time.Hour
	killAhead = 2 * killLease
)

// killRound is what the processes of a round need to know.
type killRound struct {
	Keys  int           // each process calls key 0, 1, ..., in an order of its own
	Ahead time.Duration // of the clock
}

// line is what a process prints: that its function runs for a key, or the result that its call got.
type line struct {
	Key    string
	Number int64  `json:",omitempty"` // of the execution
	Result string `json:",omitempty"`
}

func killRunner(s *Store, options ...idempotency.Option) (*idempotency.Runner, error) {
	settings := idempotency.Settings{Lease: killLease, Window: 10 * 365 * 24 * time.Hour, DoNotWait: true}
	return idempotency.New(s, "kills", settings, options...)
}

// resultOfCalls is what a process prints last: the role has no result.
const resultOfCalls = "null"

// callEachKey calls each key once, and prints what happens. A pipe has each line that a process has written before it
// was killed.
func callEachKey(ctx context.Context, path, text string) (any, error) {
	s, err := Open(ctx, path, WithBusyTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	var round killRound
	if err := json.Unmarshal([]byte(text), &round); err != nil {
		return nil, err
	}
	s.now = func() time.Time { return time.Now().UTC().Round(0).Add(round.Ahead) }
	runner, err := killRunner(s)
	if err != nil {
		return nil, err
	}
	sqlitetest.Ready()
	for _, n := range mathrand.Perm(round.Keys) {
		key := fmt.Sprint(n)
		out, err := idempotency.Do(ctx, runner, key, key, printedAndCounted(n))
		if errors.Is(err, idempotency.ErrInProgress) {
			continue // the other process holds the key, or held it when it was killed
		}
		if err != nil {
			return nil, err
		}
		if err := printLine(line{Key: key, Result: out.Value}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func printLine(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return err
}

// printedAndCounted is the function of a key. It prints its number, and returns a random result. Every other key also
// has a row as effect.
func printedAndCounted(n int) func(context.Context, idempotency.Execution, string) (string, error) {
	return func(_ context.Context, e idempotency.Execution, key string) (string, error) {
		if hasEffect(n) {
			e.Commit(Effects(func(ctx context.Context, tx Tx) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (?, ?)`, key, e.Number)
				return err
			}))
		}
		return rand.Text(), printLine(line{Key: key, Number: e.Number})
	}
}

func hasEffect(n int) bool { return n%2 == 0 }

// killed is what the test knows about a key.
type killed struct {
	number     int64 // of the last execution
	executions int
	leftBy     int64 // the number of the last row in progress that a kill has left
	left       int   // such rows
	result     string
}

// TestKills kills processes while they call the keys of a file, and starts others, until ten kills have interrupted a
// function or its completion and all keys have a result. A key runs again only after the lease of a killed process.
// All callers get the same result, and effects have happened once.
func TestKills(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	const processes, keysOfRound, wanted = 2, 4, 10
	path := inTemp(t)
	s := newStore(t, path, WithBusyTimeout(time.Minute))
	check(t, s.Do(t.Context(), "make effects", func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE effect (key TEXT NOT NULL, number INTEGER NOT NULL) STRICT`)
		return err
	}))
	var keys []*killed
	rounds, interrupted, missing := 0, 0, 1
	for ; interrupted < wanted || missing > 0; rounds++ {
		for range keysOfRound {
			if interrupted < wanted {
				keys = append(keys, &killed{})
			}
		}
		said := playRound(t, path, processes, killRound{len(keys), time.Duration(rounds) * killAhead})
		ran := judgeLines(t, keys, said)
		var left int
		left, missing = judgeRows(t, s, keys, ran, &interrupted)
		if left > processes {
			t.Errorf("%d killed processes left %d rows in progress", processes, left)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	executions := 0
	for n, k := range keys {
		if executions += k.executions; k.executions > 1+k.left {
			t.Errorf("key %d: %d executions, and %d kills", n, k.executions, k.left)
		}
	}
	judgeEnd(t, s, keys, time.Duration(rounds)*killAhead)
	t.Logf("%d rounds: %d executions of %d keys; %d were interrupted", rounds, executions, len(keys), interrupted)
}

// playRound lets processes work, and kills each of them shortly after one of its executions has begun, if it has not
// ended. It returns the lines that the processes have printed.
func playRound(t *testing.T, path string, processes int, round killRound) (said []line) {
	t.Helper()
	text, err := json.Marshal(round)
	check(t, err)
	all := make([]*sqlitetest.Process, processes)
	for i := range all {
		all[i] = sqlitetest.Start(t, "call each key", path, string(text))
	}
	printed, errs := make([]string, processes), make([]error, processes)
	var done sync.WaitGroup
	for i, p := range all {
		p.Proceed(t)
		done.Go(func() { printed[i], errs[i] = killSometime(p) })
	}
	done.Wait()
	check(t, errors.Join(errs...))
	for _, text := range strings.Split(strings.Join(printed, ""), "\n") {
		if text != "" && text != resultOfCalls {
			var l line
			check(t, json.Unmarshal([]byte(text), &l))
			said = append(said, l)
		}
	}
	return said
}

// killSometime kills a process after one of its first executions has begun, within about the time of a call. It returns
// what the process has printed.
func killSometime(p *sqlitetest.Process) (printed string, err error) {
	began := time.Now()
	for lines, executions := 1, 1+mathrand.IntN(3); executions > 0; lines++ {
		text, ok := p.Line()
		switch {
		case !ok:
			return printed, errors.New("a process has failed")
		case text == resultOfCalls:
			return printed, nil
		case strings.Contains(text, `"Number"`):
			executions--
		}
		printed += text + "\n"
		if executions == 0 {
			<-time.After(mathrand.N(1 + time.Since(began)/time.Duration(lines)))
		}
	}
	return printed + p.Kill(), nil
}

// judgeLines checks what the processes of a round have printed, and returns the keys that ran. In one round a key runs
// once, because no lease ends.
func judgeLines(t *testing.T, keys []*killed, said []line) map[int]bool {
	t.Helper()
	at := func(l line) (n int, k *killed) {
		_, err := fmt.Sscan(l.Key, &n)
		check(t, err)
		return n, keys[n]
	}
	ran := map[int]bool{}
	for _, l := range said {
		if l.Number == 0 {
			continue
		}
		n, k := at(l)
		if ran[n] || k.result != "" || l.Number <= k.number {
			t.Errorf("key %d runs with number %d, after %+v; in the same round: %v", n, l.Number, *k, ran[n])
		}
		ran[n], k.number, k.executions = true, l.Number, k.executions+1
	}
	for _, l := range said {
		if l.Number != 0 {
			continue
		}
		n, k := at(l)
		if k.result == "" {
			k.result = l.Result
		}
		if l.Result == "" || l.Result != k.result {
			t.Errorf("key %d: a caller got %q, and another %q", n, l.Result, k.result)
		}
	}
	return ran
}

// judgeRows checks the rows after a round. It returns how many rows in progress this round has left, and how many keys
// have no result. It counts the executions that a kill has interrupted.
func judgeRows(t *testing.T, s *Store, keys []*killed, ran map[int]bool, interrupted *int) (left, missing int) {
	t.Helper()
	for n, k := range keys {
		name := fmt.Sprint(n)
		a, err := s.Read(t.Context(), engine.Key{Namespace: "kills", Name: name}, engine.Strong)
		check(t, err)
		switch {
		case a.Row == nil:
			missing++
			if k.number != 0 {
				t.Errorf("key %d ran with number %d and has no row", n, k.number)
			}
		case a.Row.Status == engine.Completed:
			if a.Row.Number != k.number {
				t.Errorf("key %d is completed by number %d, and %d ran last", n, a.Row.Number, k.number)
			}
		default:
			missing++
			if a.Row.Number == k.leftBy {
				continue // no process of this round has reached the key
			}
			left, k.left, k.leftBy = left+1, k.left+1, a.Row.Number
			if k.result != "" || a.Row.Number < k.number || ran[n] && a.Row.Number != k.number {
				t.Errorf("key %d, after %+v, is in progress with number %d", n, *k, a.Row.Number)
			}
			if ran[n] {
				*interrupted++
			}
			s.now = func() time.Time { return a.Row.LeaseEnd } // the early clock is before the Date
			if _, err := callWithoutRunning(t, s, name); !errors.Is(err, idempotency.ErrInProgress) {
				t.Errorf("key %d, within the lease of a killed process: %v", n, err)
			}
		}
	}
	return left, missing
}

// stopped is a machine whose clocks stand still. So the time of the store decides alone.
type stopped struct{}

func (stopped) Moment() idempotency.Moment { return idempotency.Moment{} }

func (stopped) Sleep(context.Context, time.Duration) error { return errors.New("a call waits") }

// callWithoutRunning calls a key whose function must not run.
func callWithoutRunning(t *testing.T, s *Store, key string) (idempotency.Outcome[string], error) {
	t.Helper()
	runner, err := killRunner(s, idempotency.WithMachine(stopped{}))
	check(t, err)
	return idempotency.Do(t.Context(), runner, key, key,
		func(context.Context, idempotency.Execution, string) (string, error) {
			t.Errorf("key %s runs", key)
			return "", nil
		})
}

// judgeEnd checks that a later caller of each key gets its result, and that each key with an effect has it once, of the
// execution that has completed.
func judgeEnd(t *testing.T, s *Store, keys []*killed, ahead time.Duration) {
	t.Helper()
	s.now = func() time.Time { return time.Now().Add(ahead) }
	for n, k := range keys {
		name := fmt.Sprint(n)
		out, err := callWithoutRunning(t, s, name)
		if err != nil || !out.Replayed || out.Number != k.number || k.result != "" && out.Value != k.result {
			t.Errorf("key %d, %+v: a later caller gets %+v, %v", n, *k, out, err)
		}
		var count int
		var number int64
		check(t, s.Do(t.Context(), "read effects", func(ctx context.Context, tx Tx) error {
			return tx.QueryRowContext(ctx, `SELECT count(*), coalesce(max(number), 0) FROM effect WHERE key = ?`, name).
				Scan(&count, &number)
		}))
		if hasEffect(n) && (count != 1 || number != k.number) || !hasEffect(n) && count != 0 {
			t.Errorf("key %d, completed by number %d: %d effects, the last of number %d", n, k.number, count, number)
		}
	}
}
