package dedupefault

import (
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// allVariable in the environment plays all faults and histories, whatever the shares.
const allVariable = "DEDUPEFAULT_ALL"

func playAll() bool { return os.Getenv(allVariable) != "" }

// shares says of how many plays one is played on an engine, at random: a play on a real engine takes longer.
type shares map[string]int

// of returns the share of an engine: 1 means that every play is played.
func (s shares) of(e Engine) int {
	if playAll() {
		return 1
	}
	return max(1, s[e.Name])
}
