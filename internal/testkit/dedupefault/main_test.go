package dedupefault

import (
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// allVariable is the environment variable that makes the tests play all faults and histories, whatever the shares
// are.
const allVariable = "DEDUPEFAULT_ALL"

func playAll() bool { return os.Getenv(allVariable) != "" }

// shares says, for each engine, how many plays there are for each one that is played at random. A play on a real
// engine takes longer.
type shares map[string]int

// of returns the share of an engine. 1 means that every play is played.
func (s shares) of(e Engine) int {
	if playAll() {
		return 1
	}
	return max(1, s[e.Name])
}
