package deadletter_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// begins tries to begin the letter x, and returns what happened.
func begins(t testing.TB, a *deadletter.Archive, run string, takesOver ...string) (*deadletter.Attempt, string) {
	t.Helper()
	begun, err := a.Begin(t.Context(), "dir/x", deadletter.Runner{Run: run, By: "a test", TakesOver: takesOver}, time.Now())
	switch {
	case err != nil:
		return nil, "failed"
	case begun.Mine != nil:
		return begun.Mine, "mine"
	case begun.Other != nil:
		return nil, "of " + begun.Other.Run
	case begun.Done:
		return nil, "done"
	}
	return nil, "nothing"
}

func wantBegin(t testing.TB, a *deadletter.Archive, want, run string, takesOver ...string) *deadletter.Attempt {
	t.Helper()
	mine, got := begins(t, a, run, takesOver...)
	if got != want {
		t.Fatalf("run %s begins: %s, want %s", run, got, want)
	}
	return mine
}

// TestAttempts: an attempt keeps other runs away until it is ended, or until a run takes over its run. Attempts are
// neither letters nor markers.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, objects := range listed(t) {
		t.Run(name, func(t *testing.T) {
			create(t, objects, "dir/x", "dir/x.1", "dir/y")
			a := deadletter.NewArchive(objects)
			first := wantBegin(t, a, "mine", "1")
			wantBegin(t, a, "of 1", "2")
			wantBegin(t, a, "of 1", "1")
			must(t, a.End(t.Context(), first))
			must(t, a.End(t.Context(), first))
			wantBegin(t, a, "mine", "2", "1")
			wantBegin(t, a, "of 2", "3", "1")
			wantBegin(t, a, "mine", "3", "1", "2")
			wantBegin(t, a, "of 3", "4", "1", "2")
			if all := entries(t, a); len(all) != 3 || all[0].Done || all[1].Done || all[2].Done {
				t.Errorf("%+v", all)
			}
			_, err := a.MarkDone(t.Context(), "dir/x", deadletter.Marker{})
			must(t, err)
			wantBegin(t, a, "done", "4", "3")
			if all := entries(t, a); len(all) != 3 || !all[0].Done || all[1].Done || all[2].Done {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestAttemptsAtOnce: of many runs that begin a letter at the same time, one gets it.
func TestAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	for name, objects := range listed(t) {
		a := deadletter.NewArchive(objects)
		must(t, a.End(t.Context(), wantBegin(t, a, "mine", "0")))
		var all sync.WaitGroup
		var began atomic.Int32
		for range 8 {
			all.Go(func() {
				if mine, _ := begins(t, a, "run"); mine != nil {
					began.Add(1)
				}
			})
		}
		all.Wait()
		if n := began.Load(); n != 1 {
			t.Errorf("%s: %d runs have begun it", name, n)
		}
	}
}

// lossy loses the reply to its next put: the object is stored, and the call fails, or says that it has created it.
type lossy struct {
	deadletter.Listed
	lose, believe bool
}

func (l *lossy) Create(ctx context.Context, name string, content []byte) (bool, error) {
	created, err := l.Listed.Create(ctx, name, content)
	if l.lose {
		l.lose = false
		return l.believe, errors.Join(err, map[bool]error{false: errors.New("lost")}[l.believe])
	}
	return created, err
}

// TestLostReplyOfAnAttempt: who has begun a letter is what is stored, not what a reply says. An attempt that failed,
// and may be stored, keeps no run away.
func TestLostReplyOfAnAttempt(t *testing.T) {
	t.Parallel()
	for _, objects := range listed(t) {
		l := &lossy{Listed: objects, lose: true}
		a := deadletter.NewArchive(l)
		wantBegin(t, a, "failed", "1")
		wantBegin(t, a, "mine", "2")
		l.lose, l.believe = true, true // S3 does not say whose put it was: see Objects.Create
		wantBegin(t, a, "of 2", "3")
	}
}
