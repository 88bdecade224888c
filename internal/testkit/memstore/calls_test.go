package memstore_test

import (
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
}
