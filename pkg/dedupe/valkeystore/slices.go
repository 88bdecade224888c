package valkeystore

import (
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// maxSlices is the largest number of slices that a record sees on either side of its own. Each costs a read. It sees
// 1 if the horizon is at least as long as the window.
const maxSlices = 32

// slicing divides time. The rows of a key are in one hash for each slice. A record sees the rows of all slices that
// overlap its window on either side. So it also sees rows that are up to a slice further away than the window.
type slicing struct {
	length int64 // of a slice, in milliseconds
	sees   int64 // number of slices on either side
	keeps  int64 // how long a slice is kept after its end, in milliseconds: window + horizon
}

// sliceFor returns the length of the slices of a new scope. No row counts further away than window + horizon, so a
// slice is not longer than the horizon.
func sliceFor(r dedupe.Retention) int64 { return min(inMillis(r.Window), r.Horizon.Milliseconds()) }

// slicingOf returns an error if slices of this length do not fit the retention.
func slicingOf(length int64, r dedupe.Retention) (slicing, error) {
	window := inMillis(r.Window)
	switch {
	case r.ForGood:
		return slicing{}, errForGood
	case window <= 0:
		return slicing{}, errNoWindow
	case length <= 0 || (window+length-1)/length > maxSlices:
		return slicing{}, fmt.Errorf("valkey: the window of %v is more than %d slices of %v: use a longer horizon, "+
			"a shorter window, or a new scope", r.Window, maxSlices, millis(length))
	case length > r.Horizon.Milliseconds():
		return slicing{}, fmt.Errorf("valkey: the horizon of %v is shorter than the scope's slices of %v: "+
			"use a longer horizon, or a new scope", r.Horizon, millis(length))
	}
	return slicing{length: length, sees: (window + length - 1) / length, keeps: inMillis(r.Window + r.Horizon)}, nil
}

// number returns the number of the slice that an arrival is in.
func (s slicing) number(arrival int64) int64 {
	n := arrival / s.length
	if arrival%s.length < 0 {
		n--
	}
	return n
}

// expires returns when a slice may be deleted: no record that sees a row of it is processed later.
func (s slicing) expires(number int64) int64 { return (number+1)*s.length + s.keeps }

// inMillis returns d in milliseconds, rounded up.
func inMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
