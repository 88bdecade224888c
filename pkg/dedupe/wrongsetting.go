package dedupe

import (
	"cmp"
	"fmt"
	"sync"
)

// PoisonLimit says when poison is taken for a wrong setting: when at least Share of the first Records records of a
// Processor are poison for one reason. Then a batch with such records fails with ErrWrongSetting, instead of emptying
// the stream into the dead-letter store. Once enough of the first records were good, a Processor never looks again:
// then a producer that breaks later blocks nothing. A Processor that is made while a stretch of poison is all there is
// takes that for a wrong setting too, and its shard waits: Off lets the stretch through.
type PoisonLimit struct {
	Share   float64 // above 0, up to 1; 0 means that of DefaultPoisonLimit
	Records int     // up to DefaultChunk; 0 means that of DefaultPoisonLimit
	Off     bool
}

// DefaultPoisonLimit takes 90 of the first 100 records for a wrong setting.
var DefaultPoisonLimit = PoisonLimit{Share: 0.9, Records: 100}

// suspicion looks at the first records of a Processor. It is safe for concurrent use.
type suspicion struct {
	limit PoisonLimit

	mu      sync.Mutex
	cleared bool
	// seen are the first records. One that comes again counts once: when the dead-letter store is down, a single poison
	// record comes again and again.
	seen    map[OwnerMark]struct{}
	reasons map[string]int
}

func newSuspicion(limit PoisonLimit) *suspicion {
	limit.Share = cmp.Or(limit.Share, DefaultPoisonLimit.Share)
	limit.Records = cmp.Or(limit.Records, DefaultPoisonLimit.Records)
	return &suspicion{limit: limit, cleared: limit.Off, seen: map[OwnerMark]struct{}{}, reasons: map[string]int{}}
}

// look counts the records of a chunk that have been read. The error is ErrWrongSetting, with the reason. It is about
// poison of the chunk: other records are not stopped.
func (s *suspicion) look(users []userRecord, ownerOf func(*userRecord) Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared {
		return nil
	}
	here := map[string]bool{} // the reasons in the chunk
	for i := range users {
		u := &users[i]
		if u.acked || u.err != nil {
			continue
		}
		if u.poison != nil {
			here[u.poison.Reason] = true
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
		if suspect = true; here[reason] {
			return fmt.Errorf("%w: %d of the first %d: %s", ErrWrongSetting, n, seen, reason)
		}
	}
	if !suspect {
		s.cleared, s.seen, s.reasons = true, nil, nil
	}
	return nil
}
