package itembank

import "sync"

// A claimant who asks again costs 4 write units for a transaction that fails, or half a read unit if the claim is
// read first. For a new claimant the read is an additional cost. So reading first is cheaper as soon as a few percent
// of the requests are repeats. The Bank begins to read first at a somewhat higher share, because a new claimant then
// waits for two requests.
const (
	readFirstFrom = 0.1
	repeatWeight  = 1.0 / 16 // the weight of the latest request
)

// repeats measures the share of a campaign's requests whose claimants already hold a claim.
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

// frequent reports whether it is cheaper to read the claim before the transaction.
func (r *repeats) frequent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.share >= readFirstFrom
}
