package logledger

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Entry is a row under a key, as the log stores it.
type Entry struct {
	Place
	Derived bool // the record has a derived id, because another record had its id
	// Content is a hash of the key and the fingerprint. Copies of a record have the same hash. HasContent compares it.
	Content [contentSize]byte
	// Tag is the part of the owner's digest that is stored. HasOwner compares it.
	Tag [TagSize]byte
	// First and Last are the earliest and the latest arrival in the row's item. The row's own arrival is between them.
	First, Last time.Time
	Window      time.Duration // the row counts for arrivals up to this far from those
	PurgeAt     int64         // epoch seconds
}

// HasContent reports whether the row belongs to a record with this key and fingerprint.
func (e Entry) HasContent(k dedupe.Key, fingerprint string) bool {
	return e.Content == contentOf(k, fingerprint)
}

// HasOwner reports whether the row belongs to an owner.
func (e Entry) HasOwner(o dedupe.Owner) bool { return e.Tag == tagOf(o) }

// Explain returns the rows under a key, in the order in which they were appended. It reads the log of the key's lane
// that is not past its purge time, consistently, and keeps only these rows in memory.
func Explain(ctx context.Context, storage Storage, scope string, k dedupe.Key, now time.Time) ([]Entry, error) {
	lanes, err := lanesIn(ctx, storage, scope)
	if err != nil || lanes == 0 {
		return nil, err
	}
	s := scan{LaneID{scope, laneOf(k, lanes)}, storage}
	var epochs []Epoch
	for e, err := range s.epochs(ctx) {
		if err != nil {
			return nil, err
		}
		if e.PurgeAt() > now.Unix() {
			epochs = append(epochs, e)
		}
	}
	var entries []Entry
	for n := len(epochs) - 1; n >= 0; n-- {
		if entries, err = s.explain(ctx, epochs[n], rowKeyOf(k), entries); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// explain appends to entries the rows under a key in one epoch.
func (s scan) explain(ctx context.Context, e Epoch, k rowKey, entries []Entry) ([]Entry, error) {
	for i, err := range s.items(ctx, e.Number) {
		if err != nil {
			return nil, err
		}
		for n, r := range i.rows {
			if r.key != k {
				continue
			}
			entries = append(entries, Entry{
				Place: Place{s.LaneID, e.Number, i.index}, Derived: n >= i.plain, Content: r.content, Tag: r.tag,
				First: time.UnixMilli(i.at.least).UTC(), Last: time.UnixMilli(i.at.greatest).UTC(), Window: e.Window,
				PurgeAt: e.PurgeAt(),
			})
		}
	}
	return entries, nil
}
