package memstore_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

func TestRecords(t *testing.T) {
	enginetest.Run(t, func(*testing.T) dedupe.Store { return memstore.NewRecords() })
}
