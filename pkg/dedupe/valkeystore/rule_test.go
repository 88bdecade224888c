package valkeystore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ruleCases are the cases that find the mutants of the script.
var ruleCases = map[string]func(testing.TB, *Ledger){
	"new, mine, same, derived": func(t testing.TB, l *Ledger) {
		q := question(newScope(), rec{"a", "1", "x", 0}, rec{"a", "2", "x", 0}, rec{"a", "3", "y", 0}, rec{"b", "4", "y", 0})
		want(t, l, q, "put same put1 put")
		want(t, l, q, "mine same mine1 mine")
		q.Records = append(q.Records, rec{"a", "5", "y", 0}.candidate(), rec{"a", "6", "z", 0}.candidate())
		want(t, l, q, "mine same mine1 mine same1 put1")
	},
	"the owner decides, whatever its fingerprint is now": func(t testing.TB, l *Ledger) {
		scope := newScope()
		want(t, l, question(scope, rec{"a", "1", "x", 0}, rec{"a", "2", "y", 0}), "put put1")
		want(t, l, question(scope, rec{"a", "1", "y", 0}, rec{"a", "2", "x", 0}), "mine mine1")
	},
	"ids that keep": func(t testing.TB, l *Ledger) {
		q := question(newScope(), rec{"a", "1", "x", 0}, rec{"a", "2", "y", 0}, rec{"a", "3", "x", 0})
		q.KeepIDs = true
		want(t, l, q, "put other same")
		want(t, l, q, "mine other same")
		q.KeepIDs = false
		want(t, l, q, "mine put1 same")
	},
	"arrivals within the window, in either order": func(t testing.TB, l *Ledger) {
		for _, begin := range []time.Duration{0, 1, 20 * time.Minute, time.Hour - time.Millisecond, -time.Hour, -90 * time.Minute} {
			scope := newScope()
			want(t, l, question(scope, rec{"early", "1", "x", begin}, rec{"late", "2", "x", begin + time.Hour}), "put put")
			want(t, l, question(scope, rec{"early", "3", "x", begin + time.Hour}, rec{"late", "4", "x", begin}), "same same")
			want(t, l, question(scope, rec{"early", "5", "y", begin + time.Hour}, rec{"late", "6", "y", begin}), "put1 put1")
		}
	},
	"a row does not count further away than window and horizon": func(t testing.TB, l *Ledger) {
		scope, far := newScope(), retention.Window+retention.Horizon+time.Millisecond
		for i := range 3 {
			after := -time.Duration(i) * far
			want(t, l, question(scope, rec{"a", fmt.Sprint(i), "x", after}), "put")
		}
	},
	"all rows that count, not only the first": func(t testing.TB, l *Ledger) {
		scope := newScope()
		want(t, l, question(scope, rec{"a", "1", "x", -time.Hour}, rec{"a", "2", "y", 0}, rec{"a", "3", "z", 0}), "put put1 put1")
		want(t, l, question(scope, rec{"a", "4", "z", 0}, rec{"a", "5", "y", 0}, rec{"a", "6", "x", 0}), "same1 same1 same")
		want(t, l, question(scope, rec{"a", "3", "x", 0}, rec{"a", "2", "x", 0}, rec{"a", "1", "z", -time.Hour}), "mine1 mine1 mine")
	},
	"a row of the record itself in a later slice than one of a copy": func(t testing.TB, l *Ledger) {
		scope := newScope()
		want(t, l, question(scope, rec{"a", "1", "x", 0}, rec{"a", "2", "y", -time.Hour}), "put put1")
		want(t, l, question(scope, rec{"a", "1", "y", 0}), "mine")
	},
	"slices last for the window and the horizon": func(t testing.TB, l *Ledger) {
		// By the clock of the server, since it deletes: this record arrived half of the horizon ago.
		old := time.Now().Add(-retention.Horizon / 2).Sub(epoch)
		scope := newScope()
		want(t, l, question(scope, rec{"a", "1", "x", old}), "put")
		want(t, l, question(scope, rec{"a", "1", "x", old}, rec{"a", "2", "x", old}), "mine same")
	},
}

func TestRule(t *testing.T) {
	l := open(t, options(testengine.Valkey(t)))
	for name, run := range ruleCases {
		t.Run(name, func(t *testing.T) { run(t, l) })
	}
}

// TestMutants: each mutant has one broken rule of the script, and a case must find it.
func TestMutants(t *testing.T) {
	for name, m := range map[string]struct{ rule, broken, noticed string }{
		"the owner is not compared": {
			"if position(rows, plain, contentSize) then mine = 'm' break end", "", "new, mine, same, derived",
		},
		"the owner of a derived row is not compared": {
			"if position(rows, derived, contentSize) then mine = 'n' break end", "", "new, mine, same, derived",
		},
		"earlier arrivals only": {
			"for slice = first, first + 2 * sees do", "for slice = first, first + sees do",
			"arrivals within the window, in either order",
		},
		"later arrivals only": {
			"for slice = first, first + 2 * sees do", "for slice = first + sees, first + 2 * sees do",
			"arrivals within the window, in either order",
		},
		"the first row only": {
			"if rows then\n", "if rows then\n rows = sub(rows, 1, rowSize)\n", "all rows that count, not only the first",
		},
		"the first slice with a copy decides": {
			"if slice == first + sees then own", "if same then break end if slice == first + sees then own",
			"a row of the record itself in a later slice than one of a copy",
		},
		"fields are found across rows": {
			"(at - 1 - offset) % rowSize ~= 0", "false", "",
		},
		"ids are derived that keep": {"has == 2 or not keepIDs", "true", "ids that keep"},
		"the window alone": {
			"call('PEXPIREAT', KEYS[slice], ARGV[3 + slice])",
			fmt.Sprintf("call('PEXPIREAT', KEYS[slice], expires - %d)", retention.Horizon.Milliseconds()),
			"slices last for the window and the horizon",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, options(testengine.Valkey(t)))
			source := strings.Replace(enterScript, m.rule, m.broken, 1)
			if source == enterScript {
				t.Fatalf("the script has no %q", m.rule)
			}
			for _, s := range l.servers {
				s.source = source
			}
			if m.noticed == "" {
				mutanttest.MustFail(t, func(t testing.TB) { fieldsAcrossRows(t, l) })
				return
			}
			mutanttest.MustFail(t, func(t testing.TB) { ruleCases[m.noticed](t, l) })
		})
	}
}

// fieldsAcrossRows enters records whose contents and owners occur in the bytes of the rows, but across the borders of
// the fields.
func fieldsAcrossRows(t testing.TB, l *Ledger) {
	scope := newScope()
	answers := make([]dedupe.Answer, 5)
	records := []record{
		{index: 0, content: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, owner: [6]byte{11, 12, 13, 14, 15, 16}},
		{index: 1, content: [8]byte{21, 22, 23, 24, 25, 26, 27, 28}, owner: [6]byte{31, 32, 33, 34, 35, 36}},
		{index: 2, content: [8]byte{3, 4, 5, 6, 7, 8, 11, 12}, owner: [6]byte{1, 2, 3, 4, 5, 6}},
		{index: 3, content: [8]byte{13, 14, 15, 16, 21, 22, 23, 24}, owner: [6]byte{26, 27, 28, 31 + 128, 32, 33}},
		{index: 4, content: [8]byte{3, 4, 5, 6, 7, 8, 11, 12}, owner: [6]byte{41, 42, 43, 44, 45, 46}},
	}
	for i := range records {
		records[i].arrival = epoch.UnixMilli()
	}
	l.enter(t.Context(), question(scope), records, answers)
	if got := texts(answers); got != "put put1 put1 put1 same1" {
		t.Errorf("got %s", got)
	}
}

func TestFieldsAcrossRows(t *testing.T) { fieldsAcrossRows(t, open(t, options(testengine.Valkey(t)))) }

// TestRace: several functions enter copies of one record at the same time. One copy is put.
func TestRace(t *testing.T) {
	scope := newScope()
	const racers, keys = 8, 50
	found := make([][]dedupe.Answer, racers)
	var all sync.WaitGroup
	for i := range racers {
		l := open(t, options(testengine.Valkey(t)))
		all.Go(func() {
			q := question(scope)
			for k := range keys {
				q.Records = append(q.Records, rec{fmt.Sprint(k), fmt.Sprint(i), "x", 0}.candidate())
			}
			var err error
			if found[i], err = l.Enter(t.Context(), q); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for k := range keys {
		put := 0
		for i := range racers {
			switch a := found[i][k]; text(a) {
			case "put":
				put++
			case "same":
			default:
				t.Errorf("got %s", text(a))
			}
		}
		if put != 1 {
			t.Errorf("key %d: %d of the copies were put", k, put)
		}
	}
}

// TestExpiry: a slice is kept until no record that sees it can be processed any more. A function with a shorter horizon
// never shortens that time.
func TestExpiry(t *testing.T) {
	l, scope := open(t, options(testengine.Valkey(t))), newScope()
	expires := func() int64 {
		t.Helper()
		keys, err := admin(t, testengine.Valkey(t), "KEYS", "{oncebox:"+scope+":*").AsStrSlice()
		if err != nil || len(keys) != 1 {
			t.Fatalf("want one slice, got %q, %v", keys, err)
		}
		n, err := admin(t, testengine.Valkey(t), "PEXPIRETIME", keys[0]).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	q := question(scope, rec{"a", "1", "x", 20 * time.Minute})
	check := func(want time.Duration) {
		t.Helper()
		if got := time.UnixMilli(expires()).Sub(epoch); got != want {
			t.Errorf("it expires after %v, want %v", got, want)
		}
	}
	want(t, l, q, "put")
	check(time.Hour + retention.Window + retention.Horizon)
	q.Records[0].Owner.Sequence, q.Records[0].Fingerprint, q.Retention.Horizon = "2", "y", 48*time.Hour
	want(t, l, q, "put1")
	check(time.Hour + retention.Window + 48*time.Hour)
	q.Records[0].Owner.Sequence, q.Records[0].Fingerprint, q.Retention.Horizon = "3", "z", 2*time.Hour
	want(t, l, q, "put1")
	check(time.Hour + retention.Window + 48*time.Hour)
}

// TestPastTheHorizon: a row that has expired is not kept, and leaves nothing that is never deleted.
func TestPastTheHorizon(t *testing.T) {
	l, scope := open(t, options(testengine.Valkey(t))), newScope()
	old := time.Now().Add(-2 * (retention.Window + retention.Horizon)).Sub(epoch)
	want(t, l, question(scope, rec{"a", "1", "x", old}, rec{"a", "2", "x", old}), "put put")
	if keys, err := admin(t, testengine.Valkey(t), "KEYS", "{oncebox:"+scope+":*").AsStrSlice(); err != nil || len(keys) > 0 {
		t.Errorf("left behind: %q, %v", keys, err)
	}
}

// TestClockOfArrivals: an arrival that is far ahead is an error of its record only.
func TestClockOfArrivals(t *testing.T) {
	l := open(t, options(testengine.Valkey(t)))
	q := question(newScope(), rec{"a", "1", "x", 25 * time.Hour}, rec{"a", "2", "x", 25*time.Hour + time.Millisecond}, rec{"b", "3", "x", 0})
	got, err := l.Enter(t.Context(), q)
	if err != nil || got[0].Found != dedupe.Put || got[2].Found != dedupe.Put ||
		!errors.Is(got[1].Err, errAhead) || errors.Is(got[1].Err, dedupe.ErrTryAgain) {
		t.Errorf("got %s, %v", texts(got), err)
	}
}

// TestPoison: a poison record only has a place among the answers.
func TestPoison(t *testing.T) {
	l := open(t, options(testengine.Valkey(t)))
	q := question(newScope(), rec{"a", "1", "x", 0}, rec{"a", "2", "x", 0})
	q.Records[0].Poison = true
	if got, err := l.Enter(t.Context(), q); err != nil || got[1].Found != dedupe.Put {
		t.Errorf("got %s, %v", texts(got), err)
	}
}
