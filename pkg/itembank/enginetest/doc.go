// Package enginetest is the test suite of an engine of itembank. Every store of campaigns, items and claims passes it
// unchanged.
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
// The suite tests the documentation of engine.Store, method by method, and the behaviour when several callers work on
// the same rows. Each case works on campaigns of its own, so that other users of the engine only make it slower.
//
// Some cases need rows that no method of engine.Store writes, such as rows that contradict each other. They write these
// rows through [Raw], which the author of the engine implements in test code.
//
// Package itembank tests how a Bank interprets the results of an engine.
package enginetest
