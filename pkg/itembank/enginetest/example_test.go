package enginetest_test

import (
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// The test of an engine. In a package of your own it is `func TestEngine(t *testing.T)`.
func ExampleRun() {
	var open func(testing.TB) (store engine.Store, raw enginetest.Raw) // opens your engine
	_ = func(t *testing.T) {
		enginetest.Run(t, func(t testing.TB) enginetest.Engine {
			store, raw := open(t)
			return enginetest.Engine{Store: store, Raw: raw}
		})
	}
}
