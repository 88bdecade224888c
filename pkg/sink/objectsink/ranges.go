package objectsink

import (
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ranges is a set of sequence numbers: ranges in ascending order that do not overlap. So a search takes few
// comparisons, however many objects reach into a batch.
type ranges []sequenceRange

type sequenceRange struct{ first, last string }

// add adds the sequence numbers from first to last.
func (r *ranges) add(first, last string) {
	from := r.search(first)
	to := from
	for ; to < len(*r) && dedupe.CompareSequence((*r)[to].first, last) <= 0; to++ {
		first, last = smaller(first, (*r)[to].first), larger(last, (*r)[to].last)
	}
	*r = slices.Replace(*r, from, to, sequenceRange{first, last})
}

func (r ranges) has(sequence string) bool {
	i := r.search(sequence)
	return i < len(r) && dedupe.CompareSequence(r[i].first, sequence) <= 0
}

// search returns the index of the first range that does not end before a sequence number.
func (r ranges) search(sequence string) int {
	i, _ := slices.BinarySearchFunc(r, sequence, func(s sequenceRange, sequence string) int {
		return dedupe.CompareSequence(s.last, sequence)
	})
	return i
}

func smaller(a, b string) string {
	if dedupe.CompareSequence(a, b) <= 0 {
		return a
	}
	return b
}

func larger(a, b string) string {
	if dedupe.CompareSequence(a, b) >= 0 {
		return a
	}
	return b
}
