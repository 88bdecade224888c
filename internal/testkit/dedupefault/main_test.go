package dedupefault

import (
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// shares says, for each engine, how many plays there are for each one that is played at random. A play on a real
// engine takes longer.
type shares map[string]int

// of returns the share of an engine. 1 means that every play is played.
func (s shares) of(e Engine) int {
	return search.Share(max(1, s[e.Name]))
}
