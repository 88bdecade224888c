package logfault

import (
	"slices"

	"github.com/oncebox/oncebox/internal/testkit/search"
)

// smaller returns a smaller history that still fails, and from which no part can be left out.
func (h history) smaller(broken func(history) bool) history {
	return search.Smallest(h, history.parts, func(part *history) bool { return part.reorder(broken) })
}

// orders is the number of orders of the calls that are tried for each smaller history.
const orders = 300

// reorder looks for an order of the calls in which a history fails.
func (h *history) reorder(broken func(history) bool) bool {
	for range orders {
		if broken(*h) {
			return true
		}
		h.Seed++
	}
	return false
}

// parts returns the histories that lack one part each.
func (h history) parts() (all []history) {
	add := func(change func(*history)) {
		part := h.clone()
		change(&part)
		if len(part.Batches) > 0 {
			all = append(all, part)
		}
	}
	for n := range h.Batches {
		add(func(h *history) { h.Batches = slices.Delete(h.Batches, n, n+1) })
	}
	for n := range h.Records {
		add(func(h *history) { h.leaveOut(n) })
	}
	for n := range h.Batches {
		if b := h.Batches[n]; b.Process > 0 {
			add(func(h *history) { h.Batches[n].Process = 0 })
		}
	}
	for n := range h.Batches {
		if b := h.Batches[n]; b.Beside || b.Cut > 0 {
			add(func(h *history) { h.Batches[n].Beside, h.Batches[n].Cut = false, 0 })
		}
	}
	for n := range h.Batches {
		for i := range h.Batches[n].Records {
			if len(h.Batches[n].Records) > 1 {
				add(func(h *history) { h.Batches[n].Records = slices.Delete(h.Batches[n].Records, i, i+1) })
			}
		}
	}
	for _, part := range []struct {
		of   *float64
		less func(*history)
	}{
		{&h.Trouble, func(h *history) { h.Trouble = 0 }},
		{&h.Stale, func(h *history) { h.Stale = 0 }},
		{&h.Purge, func(h *history) { h.Purge = 0 }},
	} {
		if *part.of > 0 {
			add(part.less)
		}
	}
	return all
}

func (h history) clone() history {
	h.Records, h.Batches = slices.Clone(h.Records), slices.Clone(h.Batches)
	for n := range h.Batches {
		h.Batches[n].Records = slices.Clone(h.Batches[n].Records)
	}
	return h
}

// leaveOut leaves a record out, and changes the numbers of the records after it.
func (h *history) leaveOut(record int) {
	h.Records = slices.Delete(h.Records, record, record+1)
	for n := range h.Batches {
		b := &h.Batches[n]
		b.Records = slices.DeleteFunc(b.Records, func(r int) bool { return r == record })
		for i := range b.Records {
			if b.Records[i] > record {
				b.Records[i]--
			}
		}
	}
	h.Batches = slices.DeleteFunc(h.Batches, func(b batch) bool { return len(b.Records) == 0 })
}
