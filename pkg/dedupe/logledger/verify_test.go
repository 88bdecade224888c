package logledger_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
)

// aLog has 70 ids of three records each in one lane: two records with different contents, and a copy. Each id is two
// hours later than the id before, so that each has its own epochs.
func aLog(t *testing.T) *memlog.Log {
	t.Helper()
	log := memlog.New()
	log.Page = 2
	l := newLedger(t, log, logledger.Options{Lanes: 1})
	for n := range 70 {
		for k, fingerprint := range []string{"x", "y", "x"} {
			at := time.Duration(n)*2*time.Hour + time.Duration(k)*time.Second
			enter(t, l, candidate(fmt.Sprint("id-", n), fmt.Sprint(10*n+k), fingerprint, at))
		}
	}
	return log
}

var lane0 = logledger.LaneID{Scope: "orders"}

func verify(t *testing.T, log logledger.Storage, after time.Duration) (logledger.Verified, string) {
	t.Helper()
	var problems []string
	v, err := logledger.Verify(t.Context(), log, "orders", func() time.Time { return now.Add(after) },
		func(p logledger.Problem) {
			problems = append(problems, fmt.Sprintf("%d/%d %s", p.Place.Epoch, p.Place.Index, p.What))
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != v.Problems {
		t.Errorf("%d problems are reported, and %d counted", len(problems), v.Problems)
	}
	return v, strings.Join(problems, "\n")
}

// TestVerify: a log that a Ledger has written has no problem, also if some of it is purged. Each fault is reported
// once.
func TestVerify(t *testing.T) {
	t.Parallel()
	first := logledger.Place{LaneID: lane0}
	dataOf := func(log *memlog.Log, epoch, index int) []byte {
		items, _, err := log.Read(t.Context(), logledger.Place{LaneID: lane0, Epoch: epoch, Index: index}, 1, true)
		if err != nil || len(items) == 0 {
			t.Fatal(items, err)
		}
		return items[0].Data
	}
	data := func(log *memlog.Log, index int) []byte { return dataOf(log, 0, index) }
	appendTo := func(log *memlog.Log, epoch, index int, data []byte) {
		at := logledger.Place{LaneID: lane0, Epoch: epoch, Index: index}
		if there, err := log.Append(t.Context(), at, data, 0); err != nil || there != nil {
			t.Fatal(there, err)
		}
	}
	purge := func(log *memlog.Log, gone logledger.Place) {
		log.Purge(gone.Scope, math.MaxInt64, func(p logledger.Place) bool { return p == gone })
	}
	for name, test := range map[string]struct {
		breaks func(*memlog.Log)
		after  time.Duration // the time of the Verify
		want   string        // a problem, or a part of it
	}{
		"right":  {func(*memlog.Log) {}, 0, ""},
		"purged": {func(log *memlog.Log) { purge(log, first) }, 1000 * time.Hour, ""},
		"gap": {
			func(log *memlog.Log) { purge(log, first) }, 0,
			"0/0 the item is missing; the purge time of the epoch is 2050-01-02T02:07:30Z",
		},
		"no seal": {
			func(log *memlog.Log) { purge(log, logledger.Place{LaneID: lane0, Index: 2}) }, 0, "0/2 the item is missing",
		},
		"behind the seal": {
			func(log *memlog.Log) { appendTo(log, 0, 3, data(log, 2)) }, 0, "0/3 the item stands behind the seal",
		},
		"another seal": {
			func(log *memlog.Log) {
				seal := data(log, 2)
				purge(log, logledger.Place{LaneID: lane0, Index: 1})
				appendTo(log, 0, 1, seal)
			}, 0, "0/1 the next chain row says that the seal has the index 2",
		},
		"twice": {
			func(log *memlog.Log) {
				again := data(log, 0)
				purge(log, logledger.Place{LaneID: lane0, Index: 1})
				appendTo(log, 0, 1, again)
			}, 0, "0/1 the record has two rows",
		},
		"derived from nothing": {
			func(log *memlog.Log) {
				other := dataOf(log, 1, 0)
				purge(log, first)
				appendTo(log, 0, 0, other)
			}, 0, "0/1 a derived row (content d2933a2cdb90d7e2, tag 9870fa095de8) has no row before it with another content",
		},
		"a seal where an item was": {
			func(log *memlog.Log) {
				seal := data(log, 2)
				purge(log, first)
				appendTo(log, 0, 0, seal)
			}, 1000 * time.Hour, "",
		},
		"late": {
			func(log *memlog.Log) { appendTo(log, 69, 2, data(log, 0)) }, 0, "69/2 two contents have one id",
		},
		"chain": {
			func(log *memlog.Log) {
				page, err := log.Epochs(t.Context(), lane0, 70, 1)
				if err != nil {
					t.Fatal(err)
				}
				appendTo(log, 69, 2, data(log, 2))
				next := page[0]
				next.Number, next.Start, next.Ends, next.Lanes = 70, next.Ends, next.Until, 2
				if _, err := log.PutEpoch(t.Context(), lane0, next); err != nil {
					t.Fatal(err)
				}
			}, 0, "70/0 the chain row says that there are 2 lanes, and the first one of lane 0 says 1",
		},
	} {
		log := aLog(t)
		test.breaks(log)
		v, got := verify(t, log, test.after)
		if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s: want %q, got %q", name, test.want, got)
		}
		if name == "right" && v != (logledger.Verified{Lanes: 1, Epochs: 70, Items: 140, Rows: 140, Derived: 70}) {
			t.Errorf("got %+v", v)
		}
		if name == "purged" && (v.Purged != 1 || v.Unknown != 1) {
			t.Errorf("purged: got %+v", v)
		}
	}
}

// TestExplain: Explain finds the rows under a key from the log alone.
func TestExplain(t *testing.T) {
	t.Parallel()
	key := format.KeyOf("id-3")
	got, err := logledger.Explain(t.Context(), aLog(t), "orders", key, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Derived || !got[1].Derived ||
		!got[0].HasContent(key, "x") || !got[1].HasContent(key, "y") ||
		!got[0].HasOwner(dedupe.Owner{Source: "s", Sequence: "30", Sub: dedupe.Plain}) || got[1].Index != 1 ||
		!got[0].First.Equal(now.Add(6*time.Hour)) || got[0].PurgeAt < now.Add(32*time.Hour).Unix() {
		t.Errorf("got %+v", got)
	}
	got, err = logledger.Explain(t.Context(), aLog(t), "orders", key, now.Add(100*time.Hour))
	if err != nil || got != nil {
		t.Errorf("after the purge time: %+v, %v", got, err)
	}
}
