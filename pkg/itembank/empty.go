package itembank

import (
	"context"
	"sync"
	"time"
)

// loadMemory remembers whether a campaign was ever loaded. The answer yes never changes. The answer no is good for
// emptyMemory, counted from the moment the read began, like that of an empty shard.
type loadMemory struct {
	mu     sync.Mutex
	loaded bool
	readAt time.Time // when the last read that found no load began
}

// emptyOrSoldOut returns the state of an open campaign whose bank is proven empty: Empty if no load was ever started,
// else SoldOut. It costs one read of one row, which is remembered. A load is started before its first item is added, so
// that a campaign with an item is never Empty.
func (b *Bank) emptyOrSoldOut(ctx context.Context, m *loadMemory, campaign string, start time.Time) (State, error) {
	m.mu.Lock()
	loaded, readAt := m.loaded, m.readAt
	m.mu.Unlock()
	switch {
	case loaded:
		return SoldOut, nil
	case !readAt.IsZero() && elapsed(readAt, start) < emptyMemory:
		return Empty, nil
	}
	readAt = b.clock.Now()
	loaded, err := b.store.Loaded(ctx, campaign)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded = m.loaded || loaded; m.loaded {
		return SoldOut, nil
	}
	m.readAt = readAt
	return Empty, nil
}
