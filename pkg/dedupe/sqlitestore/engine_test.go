package sqlitestore

import (
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) dedupe.Store { return newStore(t, inTemp(t)) })
}

func TestEngineInMemory(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) dedupe.Store {
		s, err := OpenMemory(t.Context())
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		return s
	})
}
