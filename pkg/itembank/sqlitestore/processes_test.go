package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

const (
	writers = 4

	// mostPassed bounds how many writes of others may pass a waiting process.
	// A fair draw among the three who wait passes one of them this often in a
	// row once in ten million; an unfair one does so at once.
	mostPassed = 40
)

// history is what one process tells of its writes.
type history struct {
	Claims  map[string]string // claimant to item
	Passed  []int             // for each write, how many of others came between its wish and its turn
	Longest time.Duration     // longest wait and write
}

// counted counts in the store the turns of all processes.
type counted struct {
	*Store
	history *history
}

func makeTurnCounter(t *testing.T, s *Store) {
	t.Helper()
	check(t, s.write(t.Context(), "test", func(ctx context.Context, w *statements) error {
		return w.run(ctx, `CREATE TABLE test_turns (n INTEGER NOT NULL) STRICT; INSERT INTO test_turns VALUES (0);`)
	}))
}

// Take is Store's, and notes how many turns others had while it waited.
func (c counted) Take(ctx context.Context, item itembank.FreeItem, claim itembank.Claim) (found itembank.Evidence, err error) {
	var before, turn int
	if _, err = c.reader.one(ctx, `SELECT n FROM test_turns`, nil, &before); err != nil {
		return found, err
	}
	began := time.Now()
	err = c.write(ctx, "take", func(ctx context.Context, w *statements) error {
		if _, err := w.one(ctx, `UPDATE test_turns SET n = n + 1 RETURNING n`, nil, &turn); err != nil {
			return err
		}
		found, err = take(ctx, w, item, claim)
		return err
	})
	c.history.Longest = max(c.history.Longest, time.Since(began))
	c.history.Passed = append(c.history.Passed, turn-before-1)
	return found, err
}

// claimEverything claims for new claimants without pause until nothing is left.
func claimEverything(ctx context.Context, s *Store) (any, error) {
	h := &history{Claims: map[string]string{}}
	bank := itembank.New(counted{s, h})
	ready()
	for i := 0; ; i++ {
		claimant := fmt.Sprintf("%s-%d", os.Getenv(nameVariable), i)
		grant, err := bank.Claim(ctx, "c", claimant)
		if errors.Is(err, itembank.ErrSoldOut) {
			return h, nil
		}
		if err != nil {
			return nil, err
		}
		h.Claims[claimant] = grant.Claim.Item
	}
}

func TestProcessesClaimEachItemOnceAndTakeTurns(t *testing.T) {
	s, c := newStore(t, contestedItems)
	makeTurnCounter(t, s)
	var all []*process
	for i := range writers {
		all = append(all, start(t, "claim everything", s.path, fmt.Sprintf("process %d", i)))
	}
	began := time.Now()
	for _, p := range all {
		p.proceed(t)
	}
	holder := map[string]string{}
	for _, p := range all {
		var h history
		p.result(t, &h)
		for claimant, item := range h.Claims {
			if other, twice := holder[item]; twice {
				t.Errorf("%s was given to %q and to %q", item, other, claimant)
			}
			holder[item] = claimant
			checkHeld(t, s, claimant, item)
		}
		if worst := slices.Max(h.Passed); worst > mostPassed {
			t.Errorf("%d writes passed a process that waited; at most %d should", worst, mostPassed)
		}
		t.Logf("%4d claims, %4d writes; passed by %.1f writes on average, %d at most; longest wait %d ms",
			len(h.Claims), len(h.Passed), mean(h.Passed), slices.Max(h.Passed), h.Longest.Milliseconds())
	}
	t.Logf("%.0f claims/s", float64(len(holder))/time.Since(began).Seconds())
	if len(holder) != contestedItems {
		t.Errorf("%d of %d items were given", len(holder), contestedItems)
	}
	want := itembank.Counts{Loaded: contestedItems, Claimed: contestedItems}
	if n, err := s.Counts(t.Context(), c); err != nil || n != want {
		t.Errorf("counts are %+v (%v), want %+v", n, err, want)
	}
}

func checkHeld(t *testing.T, s *Store, claimant, item string) {
	t.Helper()
	held, err := s.HeldClaim(t.Context(), "c", claimant)
	if err != nil || held == nil || held.Item != item {
		t.Errorf("%q was told %s, the store says %+v (%v)", claimant, item, held, err)
	}
}

func mean(all []int) float64 {
	sum := 0
	for _, n := range all {
		sum += n
	}
	return float64(sum) / float64(len(all))
}

// holdTurn stops in the middle of a write.
func holdTurn(ctx context.Context, s *Store) (any, error) {
	err := s.write(ctx, "hold", func(ctx context.Context, w *statements) error {
		_, err := w.exec(ctx, `DELETE FROM bank`)
		ready()
		return errors.Join(err, errors.New("let go without a commit"))
	})
	return err.Error(), nil
}

func TestKilledWriterBlocksNobody(t *testing.T) {
	s, _ := newStore(t, 1)
	item := free(t, s, 1)[0]
	holder := start(t, "hold the turn", s.path, "holder")
	check(t, holder.Process.Kill())
	_ = holder.Wait()
	found, err := s.Take(t.Context(), item, claimOf(item, "ann"))
	if err != nil || !found.Taken() {
		t.Errorf("after the kill: %+v, %v", found, err)
	}
}
