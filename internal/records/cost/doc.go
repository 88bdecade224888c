// Package cost calculates the costs of the ledgers of records: units of DynamoDB, memory, nodes, and USD a day.
//
// Tests check the formulas against units that are counted on the real ledgers: TestCosts in tests counts the requests
// on the wire, and bench/simulated runs log ledgers in simulated time.
package cost
