package logledger

import "time"

// epochLength returns how long an epoch lasts.
func epochLength(window time.Duration) time.Duration { return max(window/partOfWindow, shortestEpoch) }

// NeededEntries returns how many entries are in memory because they count: the entries of the window, and of the
// epoch in which the window begins. perSecond is the number of new records of all sources of the scope in a second. A
// late batch needs more entries, for the time that it is late.
func NeededEntries(perSecond float64, window time.Duration) float64 {
	return perSecond * (window + epochLength(window)).Seconds()
}

// entrySize is the most bytes that an entry takes in memory. It does not include the entry's part of its item, which
// takes heldSize.
const entrySize = 31

// EntryBytes returns the most bytes that an entry takes in memory: 32, or more if an item has fewer than 88 entries.
// perItem is the mean number of entries in an item: the new records of a batch, divided by the lanes.
func EntryBytes(perItem float64) float64 {
	return entrySize + max(1, heldSize/max(1, perItem))
}

// NeededMemory returns how many bytes NeededEntries take at most, at EntryBytes(perItem) each.
func NeededMemory(perSecond float64, window time.Duration, perItem float64) float64 {
	return EntryBytes(perItem) * NeededEntries(perSecond, window)
}

// LongestWindow returns the longest window, in whole minutes, whose NeededMemory fits into memory. It is 0 if no window
// fits, and at most a century.
func LongestWindow(perSecond float64, memory int64, perItem float64) time.Duration {
	const century = 100 * 365 * 24 * time.Hour // a time.Duration ends at 292 years
	minutes := min(float64(memory)/EntryBytes(perItem)/perSecond/60, century.Minutes())
	epoch := max(minutes/(partOfWindow+1), shortestEpoch.Minutes())
	return time.Duration(max(0, minutes-epoch)) * time.Minute
}
