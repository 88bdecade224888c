package logledger

import "time"

// epochLength returns how long an epoch lasts.
func epochLength(window time.Duration) time.Duration { return max(window/partOfWindow, shortestEpoch) }

// NeededEntries returns how many entries are in memory because they count: those of the window, and of the epoch in
// which it begins. perSecond is how many new records all sources of the scope have in a second. A batch that is late
// needs more, for the time that it is late.
func NeededEntries(perSecond float64, window time.Duration) float64 {
	return perSecond * (window + epochLength(window)).Seconds()
}

// NeededMemory returns how many bytes NeededEntries take, at most.
func NeededMemory(perSecond float64, window time.Duration) float64 {
	return entrySize * NeededEntries(perSecond, window)
}

// LongestWindow returns the longest window, in whole minutes, for which NeededMemory is within a memory. It is 0 if
// there is none, and never above a century.
func LongestWindow(perSecond float64, memory int64) time.Duration {
	const century = 100 * 365 * 24 * time.Hour // a time.Duration ends at 292 years
	minutes := min(float64(memory)/entrySize/perSecond/60, century.Minutes())
	epoch := max(minutes/(partOfWindow+1), shortestEpoch.Minutes())
	return time.Duration(max(0, minutes-epoch)) * time.Minute
}
