package valkeystore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// randomRecords have few ids and contents, and arrivals around the begin and the end of a change at epoch. Some records
// come again.
var randomRecords = rapid.Custom(func(t *rapid.T) (all []rec) {
	for n := range rapid.IntRange(1, 30).Draw(t, "records") {
		if n > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
			all = append(all, all[rapid.IntRange(0, n-1).Draw(t, "which")])
			continue
		}
		all = append(all, rec{
			id:          fmt.Sprint("id-", rapid.IntRange(0, 2).Draw(t, "id")),
			owner:       fmt.Sprint(n),
			fingerprint: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "content")),
			after:       time.Duration(rapid.IntRange(-18, 18).Draw(t, "arrival")) * 10 * time.Minute,
		})
	}
	return all
})

// TestOneByOne: a question has the same result as entering its records one by one.
func TestOneByOne(t *testing.T) {
	a, b := testengine.FreshValkey(t), testengine.FreshValkey(t)
	changing, before := options(b.Addr, a.Addr), options(a.Addr)
	changing.Previous, changing.Since = &before.Servers, epoch
	for name, o := range map[string]Options{"servers": options(a.Addr, b.Addr), "change": changing} {
		l := open(t, o)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				all := randomRecords.Draw(rt, "all")
				keepIDs := rapid.Bool().Draw(rt, "keep ids")
				q, one := question(newScope(), all...), question(newScope())
				q.KeepIDs, one.KeepIDs = keepIDs, keepIDs
				got, err := l.Enter(t.Context(), q)
				if err != nil {
					rt.Fatal(err)
				}
				for i, c := range q.Records {
					one.Records = []dedupe.Candidate{c}
					if want, err := l.Enter(t.Context(), one); err != nil || text(want[0]) != text(got[i]) {
						rt.Fatalf("record %d, %+v: want %s, got %s, %v", i, all[i], texts(want), text(got[i]), err)
					}
				}
			})
		})
	}
}

// TestReference: the script decides like a short reference in Go.
func TestReference(t *testing.T) {
	l := open(t, options(testengine.Valkey(t)))
	rapid.Check(t, func(rt *rapid.T) {
		all := randomRecords.Draw(rt, "all")
		cut := rapid.IntRange(0, len(all)).Draw(rt, "cut")
		keepIDs := rapid.Bool().Draw(rt, "keep ids")
		scope := newScope()
		var ref reference
		for _, part := range [][]rec{all[:cut], all[cut:]} {
			q := question(scope, part...)
			q.KeepIDs = keepIDs
			got, err := l.Enter(t.Context(), q)
			if err != nil {
				rt.Fatal(err)
			}
			var want []string
			for _, c := range q.Records {
				want = append(want, ref.enter(c, keepIDs))
			}
			if texts(got) != strings.Join(want, " ") {
				rt.Fatalf("%+v: want %s, got %s", part, want, texts(got))
			}
		}
	})
}

// reference has all rows in the order in which they were entered.
type reference []struct {
	dedupe.Candidate
	slice   int64
	derived string
}

func (ref *reference) enter(c dedupe.Candidate, keepIDs bool) string {
	slice := c.Arrival.Unix() / int64(retention.Window.Seconds())
	var seen dedupe.Seen
	mine, same := "", "1"
	for _, row := range *ref {
		if row.ID != c.ID || row.slice < slice-1 || row.slice > slice+1 {
			continue
		}
		seen.Other = true
		if row.Owner == c.Owner {
			seen.Mine, mine = true, row.derived
		}
		if row.Fingerprint == c.Fingerprint {
			seen.Same = true
			same = same[:min(len(same), len(row.derived))] // prefer the own id, if one of the rows has it
		}
	}
	derived := ""
	switch found := seen.Found(); {
	case found == dedupe.Mine:
		return "mine" + mine
	case found == dedupe.Same:
		return "same" + same
	case found == dedupe.Other && keepIDs:
		return "other"
	case found == dedupe.Other:
		derived = "1"
	}
	*ref = append(*ref, struct {
		dedupe.Candidate
		slice   int64
		derived string
	}{c, slice, derived})
	return "put" + derived
}

// TestContent: the content depends on the key too. No chosen fingerprint can imitate another pair of key and
// fingerprint.
func TestContent(t *testing.T) {
	seen := map[[contentSize]byte]string{}
	for _, id := range []string{"a", "b"} {
		for _, fingerprint := range []string{"", "x", "y", id} {
			c := dedupe.Candidate{ID: id, Fingerprint: fingerprint}
			r := recordOf(0, &c)
			if other, ok := seen[r.content]; ok {
				t.Errorf("%q and %q of %q have one content", other, fingerprint, id)
			}
			seen[r.content] = fingerprint
			if packed := r.appendTo(nil, 258); len(packed) != recordSize || !bytes.Equal(packed[:3], []byte{1, 2, 0}) {
				t.Errorf("got %x", packed)
			}
		}
	}
}
