package itembank

import "sync"

// A claimant who asks again costs 4 write units in a transaction that fails, and
// half a read unit if the claim is read first. For a new claimant that read comes on
// top of the transaction. So reading first is cheaper as soon as a few percent of the
// requests are repeats. It begins a little later, since it makes a new claimant wait
// for two requests.
const (
	readFirstFrom = 0.1
	repeatWeight  = 1.0 / 16 // of the latest request in the share
)

// repeats measures which share of a campaign's requests come from claimants who hold
// a claim already.
type repeats struct {
	mu    sync.Mutex
	share float64
}

func (r *repeats) count(repeat bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share *= 1 - repeatWeight
	if repeat {
		r.share += repeatWeight
	}
}

// frequent reports that it is cheaper to read the claim before the transaction.
func (r *repeats) frequent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.share >= readFirstFrom
}
