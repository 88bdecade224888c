package simulated

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// draw returns random numbers that depend on the seed and the key only.
func draw(seed uint64, key string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// source is the source of random bytes of one Bank. It is safe for concurrent use.
type source struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range p {
		p[i] = byte(s.rng.Uint32())
	}
	return len(p), nil
}
