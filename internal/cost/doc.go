// Package cost calculates what the ledgers of records cost: units of DynamoDB, memory, nodes, and USD a day.
//
// The formulas are checked against units that are counted on the real ledgers: TestCosts in tests counts the requests on
// the wire, and bench/simulated runs log ledgers in simulated time.
package cost
