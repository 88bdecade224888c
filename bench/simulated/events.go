package simulated

import "time"

// event is the moment at which a request of a lane takes effect. Without a lane, it is the moment at which a shard
// looks for a batch.
type event struct {
	at          time.Duration
	shard, lane int32
}

// events is a heap.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].at <= s[i].at {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *events) pop() event {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	s = *h
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child].at < s[least].at {
				least = child
			}
		}
		if least == i {
			return first
		}
		s[least], s[i] = s[i], s[least]
		i = least
	}
}
