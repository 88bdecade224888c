// Package suggest finds the name that a user most likely meant.
package suggest

import "strings"

// lettersPerEdit is the number of letters of a name for each allowed edit. Names of one or two letters get no
// suggestion, because every other short name would be close to them.
const lettersPerEdit = 3

// Closest returns the known name that is closest to name, or "" if none is close. An edit adds, removes or replaces
// one letter, or swaps two neighbours; a name may have one edit for every three of its letters. Upper and lower case
// are the same letter, and so are "-" and "_". A prefix that all names share, as in ONCEBOX_, does not count as
// letters. Of several names at the same distance the first counts.
func Closest(name string, known []string) string {
	shared := len(sharedPrefix(append([]string{name}, known...)))
	typed := normalize(name[shared:])
	best, fewest := "", len(typed)/lettersPerEdit+1
	for _, candidate := range known {
		if d := distance(typed, normalize(candidate[shared:])); d < fewest {
			best, fewest = candidate, d
		}
	}
	return best
}

// sharedPrefix returns the common beginning of all names, up to the last separator.
func sharedPrefix(names []string) string {
	prefix := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix[:strings.LastIndexAny(prefix, "_-:.")+1]
}

func normalize(name string) []rune {
	return []rune(strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// distance counts the edits between two names: the optimal string alignment distance.
func distance(a, b []rune) int {
	// Row i holds the distances between the first i letters of a and each beginning of b.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
