package sinktest

import (
	"errors"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
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

// newerStays: versions are compared as numbers or as texts. A record that is not newer is superseded, and done.
func newerStays(c *txCase) {
	for _, versions := range [][3]any{{9, 10, 11}, {-10, -9, 0}, {"2026-01-09", "2026-01-10", "2026-02-01"}} {
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

// anotherType: a version of another type cannot be compared. The record is a dead letter, not superseded.
func anotherType(c *txCase) {
	for _, versions := range [][2]any{{5, "4"}, {5, "6"}, {"5", 4}, {"5", 6}} {
		item := c.needVersions()
		id := newName()
		c.wantWritten(1, id, item, versions[0], false, false)
		var poison *dedupe.PoisonError
		if result, err := c.write(2, newName(), item, versions[1], false); !errors.As(err, &poison) {
			c.Errorf("versions %#v, %#v: want a *dedupe.PoisonError, got %+v, %v", versions[0], versions[1], result, err)
		}
		c.wantItem(item, id)
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
