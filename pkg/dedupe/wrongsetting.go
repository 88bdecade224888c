package dedupe

import (
	"cmp"
	"fmt"
	"sync"
)

// PoisonLimit decides when poison is taken for a wrong setting: when at least Share of the first Records records of a
// Processor are poison for one reason. A batch with such records then fails with ErrWrongSetting, instead of emptying
// the stream into the dead-letter store. Once enough of the first records were good, a Processor does not check
// again, so that a producer that breaks later blocks nothing. If a Processor is made while the stream has only
// poison, it takes this for a wrong setting too, and its shard waits. Off lets the poison through.
//
// The records that a Sink delivers or refuses are counted by themselves, by the same limit.
type PoisonLimit struct {
	Share   float64 // above 0, up to 1; 0 means the Share of DefaultPoisonLimit
	Records int     // up to DefaultChunk; 0 means the Records of DefaultPoisonLimit
	Off     bool
}

// DefaultPoisonLimit suspects a wrong setting if 90 of the first 100 records are poison for one reason.
var DefaultPoisonLimit = PoisonLimit{Share: 0.9, Records: 100}

// suspicion checks the first records of a Processor that are read, or those that its sink answers. It is safe for
// concurrent use. nil checks nothing.
type suspicion struct {
	limit PoisonLimit

	mu      sync.Mutex
	cleared bool
	// seen has the first records. A record that comes again counts once: while the dead-letter store is down, a single
	// poison record comes again and again.
	seen    map[OwnerMark]struct{}
	reasons map[string]int
}

func newSuspicion(limit PoisonLimit) *suspicion {
	limit.Share = cmp.Or(limit.Share, DefaultPoisonLimit.Share)
	limit.Records = cmp.Or(limit.Records, DefaultPoisonLimit.Records)
	return &suspicion{limit: limit, cleared: limit.Off, seen: map[OwnerMark]struct{}{}, reasons: map[string]int{}}
}

// check counts the records of a chunk of which it is known whether they are poison. It returns ErrWrongSetting with the
// reason if the limit is reached and the chunk has poison of that reason. Chunks without such poison are not stopped.
func (s *suspicion) check(users []userRecord, known func(*userRecord) bool, ownerOf func(*userRecord) Owner) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared {
		return nil
	}
	inChunk := map[string]bool{} // the reasons in the chunk
	for i := range users {
		u := &users[i]
		if !known(u) {
			continue
		}
		if u.poison != nil {
			inChunk[u.poison.Reason] = true
		}
		mark := ownerOf(u).Mark()
		if _, again := s.seen[mark]; again {
			continue
		}
		s.seen[mark] = struct{}{}
		if u.poison != nil {
			s.reasons[u.poison.Reason]++
		}
	}
	seen := len(s.seen)
	if seen < s.limit.Records {
		return nil
	}
	suspect := false
	for reason, n := range s.reasons {
		if float64(n) < s.limit.Share*float64(seen) {
			continue
		}
		if suspect = true; inChunk[reason] {
			return fmt.Errorf("%w: %d of the first %d: %s", ErrWrongSetting, n, seen, reason)
		}
	}
	if !suspect {
		s.cleared, s.seen, s.reasons = true, nil, nil
	}
	return nil
}
