package sinktest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// Versions describes a sink that upserts and deletes items by a version.
type Versions struct {
	// Payload makes a record that writes a version of an item, or deletes the item. A version is an int or a string.
	// Payloads of different ids differ.
	Payload func(id, item string, version any, deletes bool) []byte
	// Item returns the id of the record that wrote the item. It returns "" for an item that is missing or deleted.
	Item func(t testing.TB, item string) (id string)
}

// write runs the transaction of a record. n is its place in the order of the records.
func (c *txCase) write(n int, id, item string, version any, deletes bool) (dedupe.TxResult, error) {
	c.Helper()
	data := c.Versions.Payload(id, item, version, deletes)
	t := dedupe.Transaction{Entry: c.entry(n, id), Output: dedupe.Output{ID: id, PartitionKey: "pk", Data: data}}
	if err := c.Sink.Check(c.Context(), t.Output); err != nil {
		c.Fatalf("Check refuses a good record: %v", err)
	}
	result, err := c.transact(t)
	if err == nil && result.Existing == nil { // written or superseded: the entry exists and is Done
		c.finds(t, t.Entry.Owner, true)
	}
	return result, err
}

func (c *txCase) wantWritten(n int, id, item string, version any, deletes, superseded bool) {
	c.Helper()
	result, err := c.write(n, id, item, version, deletes)
	if err != nil || result.Existing != nil || result.Superseded != superseded {
		c.Fatalf("version %v: want superseded %t, got %+v, %v", version, superseded, result, err)
	}
}

func (c *txCase) wantItem(item, id string) {
	c.Helper()
	if got := c.Versions.Item(c.TB, item); got != id {
		c.Errorf("the item is of %q, want %q", got, id)
	}
}

func (c *txCase) needVersions() (item string) {
	c.Helper()
	if c.Versions == nil {
		c.Skip("the sink has no versions")
	}
	return newName()
}

// newerStays: versions are compared as numbers, or as texts of one form. A record that is not newer is superseded, and
// done.
func newerStays(c *txCase) {
	for _, versions := range [][3]any{
		{9, 10, 11}, {-10, -9, 0}, {"2026-01-09", "2026-01-10", "2026-02-01"}, {"0009", "0010", "00A0"},
		{"0009", "00a0", "0100"}, {"20261122T090000Z", "20261122T090001Z", "20261123T000000Z"},
	} {
		item := c.needVersions()
		ids := [3]string{newName(), newName(), newName()}
		c.wantWritten(1, ids[1], item, versions[1], false, false)
		c.wantWritten(2, ids[0], item, versions[0], false, true)
		c.wantItem(item, ids[1])
		c.wantWritten(3, ids[2], item, versions[2], false, false)
		c.wantItem(item, ids[2])
	}
}

// equalVersions: of two records with the same version, the same one stays in both orders.
func equalVersions(c *txCase) {
	ids := [2]string{newName(), newName()}
	var stays [2]string
	for first := range ids {
		item := c.needVersions()
		scope := c.scope
		c.scope = newName() // the second order uses another scope
		for n, i := range []int{first, 1 - first} {
			if result, err := c.write(n+1, ids[i], item, 5, false); err != nil || result.Existing != nil {
				c.Fatalf("got %+v, %v", result, err)
			}
		}
		c.scope = scope
		stays[first] = c.Versions.Item(c.TB, item)
	}
	if stays[0] != stays[1] || stays[0] == "" {
		c.Errorf("%q stays in one order, and %q in the other", stays[0], stays[1])
	}
}

// notComparable: a version of another type, length, form or case cannot be compared. The record is a dead letter: it is
// not superseded, and does not replace the item, whatever the order of the bytes is. So is a delete.
func notComparable(c *txCase) {
	pairs := [][2]any{
		{5, "4"}, {5, "6"}, {"9", "10"}, {"2026110100", "2026-11-01"}, {"2026-11-01", "3026110100"},
		{"0190163D86999", "0190163d86947"}, {"0a00", "0B00"}, {"20261122T090000Z", "20261123a09000az"},
	}
	for _, older := range []string{"2026-11-22T10:00:00Z", "2026-11-22T10:00:00.2Z"} {
		pairs = append(pairs, [2]any{older, "2026-11-22T10:00:00.250Z"}, [2]any{older, 1795176000123})
	}
	for _, pair := range pairs {
		for _, versions := range [][2]any{pair, {pair[1], pair[0]}} {
			item := c.needVersions()
			id := newName()
			c.wantWritten(1, id, item, versions[0], false, false)
			for n, deletes := range []bool{false, true} {
				var poison *dedupe.PoisonError
				if result, err := c.write(n+2, newName(), item, versions[1], deletes); !errors.As(err, &poison) {
					c.Errorf("versions %#v, %#v, delete %t: want a *dedupe.PoisonError, got %+v, %v",
						versions[0], versions[1], deletes, result, err)
				}
			}
			c.wantItem(item, id)
		}
	}
}

// timesOfOneForm: times of one form are compared, with and without a fraction of a second.
func timesOfOneForm(c *txCase) {
	for _, at := range [][2]string{
		{"2026-11-22T10:00:00Z", "2026-11-22T10:00:01Z"}, {"2026-11-22T10:00:00.000Z", "2026-11-22T10:00:00.250Z"},
	} {
		item := c.needVersions()
		ids := [2]string{newName(), newName()}
		c.wantWritten(1, ids[0], item, at[0], false, false)
		c.wantWritten(2, ids[1], item, at[1], false, false)
		c.wantWritten(3, newName(), item, at[0], true, true)
		c.wantItem(item, ids[1])
	}
}

// textsOfOtherForms: a text that looks like a time is a version only in UTC, and in one form. A text with capital and
// small letters is no version.
func textsOfOtherForms(c *txCase) {
	for _, version := range []string{
		"2026-11-22T11:00:00+01:00", "2026-11-22T10:00:00", "2026-11-22 10:00:00Z", "2026-11-22T10:00:00,250Z",
		"2026-11-22t10:00:00z", "20261122T100000", "2026-11-22T10:00Z", "-5", "1.5",
		"20261122t090000Z", "20261122t090000z", "20261122T090000EST", "2NxQ5vYpVHbYhVxvT4JHtVQm6RB", "0190163D86999d",
	} {
		item := c.needVersions()
		for _, deletes := range []bool{false, true} {
			var poison *dedupe.PoisonError
			data := c.Versions.Payload(newName(), item, version, deletes)
			err := c.Sink.Check(c.Context(), dedupe.Output{ID: newName(), Data: data})
			if !errors.As(err, &poison) {
				c.Errorf("%s, delete %t: want a *dedupe.PoisonError, got %v", version, deletes, err)
			}
		}
	}
}

// deleteLeavesVersion: after a delete, an older version does not bring the item back. A newer version does.
func deleteLeavesVersion(c *txCase) {
	item := c.needVersions()
	c.wantWritten(1, newName(), item, 1, false, false)
	c.wantWritten(2, newName(), item, 3, true, false)
	c.wantItem(item, "")
	c.wantWritten(3, newName(), item, 2, false, true)
	c.wantItem(item, "")
	c.wantWritten(4, newName(), item, 2, true, true)
	id := newName()
	c.wantWritten(5, id, item, 4, false, false)
	c.wantItem(item, id)
}

// randomVersion returns a version, the kind of versions that it is comparable with, and its value among these.
func randomVersion(r *rand.Rand) (version any, kind string, value int) {
	value = r.IntN(12)
	at := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC).Add(time.Duration(value) * 250 * time.Millisecond)
	switch r.IntN(9) {
	case 0:
		return value - 6, "numbers", value
	case 1:
		return fmt.Sprintf("%010d", value), "numbers with zeros", value
	case 2:
		return fmt.Sprint(value % 10), "digits", value % 10
	case 3:
		return at.Format("2006-01-02"), "days", at.YearDay() % 365
	case 4:
		return at.Format("2006-01-02T15:04:05.000Z"), "milliseconds", value
	case 5:
		return at.Format("2006-01-02T15:04:05.0Z"), "tenths", int(at.UnixMilli() / 100)
	case 6:
		return fmt.Sprintf("1%c", 'A'+value), "capital letters", value
	case 7:
		return fmt.Sprintf("1%c", 'a'+value), "small letters", value
	}
	return at.Format("2006-01-02T15:04:05Z"), "seconds", value / 4
}

// versionHistories plays random writes and deletes of an item. Each is written if it is newer, superseded if it is
// older, and a dead letter if it cannot be compared. A seed plays the same history each time.
func versionHistories(c *txCase) {
	for seed := range uint64(30) {
		item := c.needVersions()
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it must play the same history each time
		kind, value, holder, shown := "", 0, "", ""
		for n := range 8 {
			version, k, v := randomVersion(r)
			id, deletes := newName(), r.IntN(4) == 0
			result, err := c.write(int(seed)*8+n+1, id, item, version, deletes)
			_, dead := errors.AsType[*dedupe.PoisonError](err)
			mine, old := format.KeyOf(id), format.KeyOf(holder)
			newer := kind == "" || v > value || v == value && bytes.Compare(mine[:], old[:]) > 0
			switch wantDead := kind != "" && k != kind; {
			case dead != wantDead || !dead && err != nil:
				c.Fatalf("seed %d: %v behind %s: want a dead letter %t, got %v", seed, version, kind, wantDead, err)
			case dead:
			case result.Superseded == newer:
				c.Fatalf("seed %d: %v behind %d of %s: want it written %t, got %+v", seed, version, value, kind, newer, result)
			case newer:
				if kind, value, holder, shown = k, v, id, id; deletes {
					shown = ""
				}
			}
			c.wantItem(item, shown)
		}
	}
}
