// Package repeats measures the share of requests that are repeats of earlier ones.
//
// A repeat costs a conditional write that is refused: 4 write units for a claim, and one for an idempotent call. If the
// row is read first, it costs half a read unit. For a new request the read is an additional cost. So reading first is
// cheaper as soon as a few percent of the requests are repeats.
package repeats

import "sync"

const (
	// frequentFrom is higher than the share from which reading first is cheaper, because a new request then waits for a
	// read and a write.
	frequentFrom = 0.1
	lastWeight   = 1.0 / 16 // the weight of the latest request
)

// Share is the share of requests that are repeats. The zero value has seen none.
type Share struct {
	mu    sync.Mutex
	value float64
}

// Count counts a request.
func (s *Share) Count(repeat bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value *= 1 - lastWeight
	if repeat {
		s.value += lastWeight
	}
}

// Frequent reports whether it is cheaper to read the row before the write.
func (s *Share) Frequent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value >= frequentFrom
}
