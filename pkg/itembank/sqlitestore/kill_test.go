package sqlitestore

import (
	"testing"

	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

// TestKills kills other processes of the store.
func TestKills(t *testing.T) {
	t.Parallel()
	path := inTemp(t)
	s, err := Create(t.Context(), path)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	itembankfault.RunKills(t, itembanktest.Engine{Store: s, Raw: raw{s}}, path, 3)
}

// TestChild is the process that TestKills kills.
func TestChild(t *testing.T) {
	itembankfault.Child(t, func(t *testing.T, path string) engine.Store {
		s, err := Open(t.Context(), path)
		check(t, err)
		return s
	})
}
