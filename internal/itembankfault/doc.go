// Package itembankfault breaks the calls of itembank's engines, and checks that the
// guarantees G1 to G5 (docs/guarantees.md) hold whatever was broken:
//
//   - Run fails every call of every Scenario once, in every way;
//   - RunHistories records concurrent requests, with faults among them, and looks for
//     an order of them that explains all answers;
//   - RunSequences plays random requests one after the other against a simple model;
//   - RunMutants does the same with stores that break a rule, which must be found.
//
// What is checked is never success but what must be true at rest: a client repeats
// its call until it has an answer, as clients do.
package itembankfault
