package simulated

import (
	"context"
	"fmt"
)

// Play hands out a bank to its last item, each item to another claimant. The claimants come to
// workers, which have a Bank each. After every claim Play calls claimed with the number of
// claims so far.
func Play(seed uint64, items, shards, workers int, claimed func(n int, s *Store)) (*Store, error) {
	world := NewWorld(seed)
	s, err := NewStore(world, items, shards)
	if err != nil {
		return nil, err
	}
	asked, done := 0, 0
	var failed error
	world.Run(workers, func(int) {
		bank := s.Bank()
		for asked < items && failed == nil {
			asked++
			if _, err := bank.Claim(context.Background(), s.Name(), fmt.Sprintf("customer-%d", asked)); err != nil {
				failed = err
				return
			}
			done++
			claimed(done, s)
		}
	})
	return s, failed
}
