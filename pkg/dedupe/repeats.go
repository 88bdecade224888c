package dedupe

import (
	"bytes"
	"fmt"
)

// repeats says which records of a batch without positions are in it several times: a queue may deliver a message twice
// in one batch. The first one is processed, and the others are done with it. The zero value has no repeats.
type repeats struct {
	first  []int        // the index of the first record with the same sequence number; nil: all records differ
	failed map[int]bool // the records that are not done, by their indexes; only if there are repeats
}

// repeats refuses records that cannot be distinguished: those without a sequence number, and those that differ
// although they have the same one.
func (b Batch) repeats() (repeats, error) {
	seen := make(map[string]int, len(b.Records))
	for i := range b.Records {
		r := &b.Records[i]
		if r.Sequence == "" {
			return repeats{}, fmt.Errorf("%w: record %d has no sequence number", ErrNotABatch, i)
		}
		first, again := seen[r.Sequence]
		if !again {
			seen[r.Sequence] = i
		} else if !bytes.Equal(b.Records[first].Data, r.Data) {
			return repeats{}, fmt.Errorf("%w: records %d and %d have the same one, but differ", ErrSharedSequence, first, i)
		}
	}
	if len(seen) == len(b.Records) {
		return repeats{}, nil
	}
	r := repeats{first: make([]int, len(b.Records)), failed: map[int]bool{}}
	for i := range b.Records {
		r.first[i] = seen[b.Records[i].Sequence]
	}
	return r, nil
}

// has reports whether a record is in the batch before.
func (r repeats) has(record int) bool { return r.first != nil && r.first[record] != record }

// fail records that a record is not done.
func (r repeats) fail(record int) {
	if r.failed != nil {
		r.failed[record] = true
	}
}

// isDone reports whether a record is in the batch before, and is done. counted is the number of records whose result
// is known.
func (r repeats) isDone(record, counted int) bool {
	return r.has(record) && r.first[record] < counted && !r.failed[r.first[record]]
}
