package dedupe

import (
	"fmt"
	"sync"
)

// PoisonLimit says when poison is taken for a wrong setting: when at least Share of the first Records records of a
// Processor are poison for one reason. Then the batch fails with ErrWrongSetting, instead of emptying the stream into
// the dead-letter store. Once enough of the first records were good, a Processor never looks again: a producer that
// breaks later must not block its shard.
type PoisonLimit struct {
	Share   float64 // above 0, up to 1; 0 means DefaultPoisonLimit
	Records int
	Off     bool
}

// DefaultPoisonLimit takes 90 of the first 100 records for a wrong setting.
var DefaultPoisonLimit = PoisonLimit{Share: 0.9, Records: 100}

// suspicion looks at the first records of a Processor. It is safe for concurrent use.
type suspicion struct {
	limit PoisonLimit

	mu      sync.Mutex
	cleared bool
	seen    int
	reasons map[string]int
}

func newSuspicion(limit PoisonLimit) *suspicion {
	if limit.Share == 0 && limit.Records == 0 && !limit.Off {
		limit = DefaultPoisonLimit
	}
	return &suspicion{limit: limit, cleared: limit.Off, reasons: map[string]int{}}
}

// look counts the records of a chunk that have been read. The error is ErrWrongSetting, with the reason.
func (s *suspicion) look(users []userRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared {
		return nil
	}
	for i := range users {
		u := &users[i]
		if u.acked || u.err != nil {
			continue
		}
		s.seen++
		if u.poison != nil {
			s.reasons[u.poison.Reason]++
		}
	}
	if s.seen < s.limit.Records {
		return nil
	}
	for reason, n := range s.reasons {
		if float64(n) >= s.limit.Share*float64(s.seen) {
			return fmt.Errorf("%w: %d of the first %d: %s", ErrWrongSetting, n, s.seen, reason)
		}
	}
	s.cleared, s.reasons = true, nil
	return nil
}
