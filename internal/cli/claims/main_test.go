package claims

import (
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }
