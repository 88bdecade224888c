// Package enginetest is the test suite of an engine of itembank: whatever stores
// campaigns, items and claims passes it unchanged.
//
// It is for authors of engines. Like package engine, it is not stable.
//
// An engine's test is one function:
//
//	func TestEngine(t *testing.T) {
//		enginetest.Run(t, func(t testing.TB) enginetest.Engine {
//			store := open(t)
//			return enginetest.Engine{Store: store, Raw: raw{store}}
//		})
//	}
//
// The suite tests what the documentation of engine.Store says, method by method,
// and what must hold when several callers work on the same rows. It needs an engine
// that is otherwise idle only for its speed: each case works on campaigns of its own.
//
// Where a case needs rows that no method of engine.Store writes, such as rows that
// contradict each other, it writes them through [Raw], which the author of the engine
// implements in test code.
//
// What a Bank makes of the results of an engine is tested in package itembank.
package enginetest
