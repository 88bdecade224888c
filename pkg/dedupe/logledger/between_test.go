package logledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// between is a log on which another process acts once, before a call.
type between struct {
	logledger.Storage
	calls int // before the other process acts
	act   func()
}

func (b *between) called() {
	if b.calls--; b.calls == -1 {
		b.act()
	}
}

func (b *between) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	b.called()
	return b.Storage.Epochs(ctx, lane, below, limit)
}

func (b *between) PutEpoch(ctx context.Context, lane logledger.LaneID, e logledger.Epoch) (*logledger.Epoch, error) {
	b.called()
	return b.Storage.PutEpoch(ctx, lane, e)
}

func (b *between) Append(ctx context.Context, at logledger.Place, data []byte, purgeAt int64) ([]byte, error) {
	b.called()
	return b.Storage.Append(ctx, at, data, purgeAt)
}

func (b *between) Read(ctx context.Context, from logledger.Place, limit int, consistent bool) (
	[]logledger.Item, bool, error,
) {
	b.called()
	return b.Storage.Read(ctx, from, limit, consistent)
}

// TestBetweenCalls: another process enters a record between any two calls of this one to the storage. That record has
// the same id as the last one of this process, and begins an epoch. One of the two is new, and the other one is its copy.
func TestBetweenCalls(t *testing.T) {
	t.Parallel()
	met := true
	for n := 0; met; n++ {
		log := memlog.New()
		other := newLedger(t, log, logledger.Options{Lanes: 1})
		enter(t, other, candidate("a", "1", "x", 0))
		var theirs dedupe.Answer
		met = false
		l := newLedger(t, &between{Storage: log, calls: n, act: func() {
			met = true
			theirs = enter(t, other, candidate("c", "2", "x", time.Hour))[0]
		}}, logledger.Options{Lanes: 1})
		enter(t, l, candidate("b", "3", "x", time.Minute))
		mine := enter(t, l, candidate("c", "4", "x", time.Hour))[0]
		if !met {
			theirs = enter(t, other, candidate("c", "2", "x", time.Hour))[0]
		}
		first, second := dedupe.Answer{Found: dedupe.Put}, dedupe.Answer{Found: dedupe.Same}
		if (mine != first || theirs != second) && (mine != second || theirs != first) {
			t.Errorf("before call %d: this process got %+v, the other one %+v", n, mine, theirs)
		}
	}
}
