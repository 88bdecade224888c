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
	return begun.Mine, said(begun, err)
}

func said(begun deadletter.Begun, err error) string {
	switch {
	case err != nil:
		return "failed"
	case begun.Mine != nil:
		return "mine"
	case begun.Other != nil:
		return "of " + begun.Other.Run
	case begun.Done:
		return "done"
	}
	return "free"
}

func wantLook(t testing.TB, a *deadletter.Archive, want string, takesOver ...string) {
	t.Helper()
	if got := said(a.Look(t.Context(), "dir/x", takesOver)); got != want {
		t.Fatalf("it looks %s, want %s", got, want)
	}
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
			must(t, a.End(t.Context(), "dir/x", first))
			must(t, a.End(t.Context(), "dir/x", first))
			wantBegin(t, a, "mine", "2", "1")
			wantBegin(t, a, "of 2", "3", "1")
			wantBegin(t, a, "mine", "3", "1", "2")
			wantBegin(t, a, "of 3", "4", "1", "2")
			wantLook(t, a, "of 3", "1", "2")
			wantLook(t, a, "free", "3") // the last one is enough, and a look begins nothing
			wantBegin(t, a, "mine", "4", "3")
			wantBegin(t, a, "of 4", "5", "3")
			if all := entries(t, a); len(all) != 3 || all[0].Done || all[1].Done || all[2].Done {
				t.Errorf("%+v", all)
			}
			_, err := a.MarkDone(t.Context(), "dir/x", deadletter.Marker{})
			must(t, err)
			wantBegin(t, a, "done", "5", "3")
			wantLook(t, a, "done", "3")
			if all := entries(t, a); len(all) != 3 || !all[0].Done || all[1].Done || all[2].Done {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestAttemptsOfPrefixes: runs over a bucket or folder and over a prefix of it see the same attempts.
func TestAttemptsOfPrefixes(t *testing.T) {
	t.Parallel()
	client := newClient(t, "bucket")
	in := func(prefix string) *deadletter.Archive {
		return deadletter.NewArchive(deadletter.NewBucket(client, "bucket", prefix))
	}
	whole, part := in("a/"), in("a/dir/")
	begin := func(a *deadletter.Archive, name, run, want string) *deadletter.Attempt {
		t.Helper()
		begun, err := a.Begin(t.Context(), name, deadletter.Runner{Run: run}, time.Now())
		if got := said(begun, err); got != want {
			t.Fatalf("run %s: %s, want %s", run, got, want)
		}
		return begun.Mine
	}
	mine := begin(part, "x", "1", "mine")
	begin(whole, "dir/x", "2", "of 1")
	must(t, part.End(t.Context(), "x", mine))
	mine = begin(whole, "dir/x", "2", "mine")
	begin(part, "x", "3", "of 2")
	must(t, whole.End(t.Context(), "dir/x", mine))
	begin(part, "x", "3", "mine")
}

// TestAttemptsAtOnce: of many runs that begin a letter at the same time, one gets it.
func TestAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	for name, objects := range listed(t) {
		a := deadletter.NewArchive(objects)
		must(t, a.End(t.Context(), "dir/x", wantBegin(t, a, "mine", "0")))
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
