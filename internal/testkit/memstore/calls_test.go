package memstore_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/enginetest"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	store := memstore.NewCalls(time.Now)
	enginetest.Run(t, func(testing.TB) engine.Store { return store })
	enginetest.RunTransactor(t, func(testing.TB) (engine.Transactor, enginetest.Counters) {
		return store, &counters{counts: map[string]int{}}
	})
}

type counters struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counters) Add(counter, onlyOnce string) engine.Effects {
	return memstore.CallEffects(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if counter != onlyOnce {
			if c.counts[onlyOnce] > 0 {
				return errors.New("is counted")
			}
			c.counts[onlyOnce]++
		}
		c.counts[counter]++
		return nil
	})
}

func (c *counters) Count(_ testing.TB, counter string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[counter]
}
