// Package memstore holds simple stores of claims, of records and of idempotent calls in memory. The tests of the domain
// packages run on them with the race detector, and simulations use them, too.
//
// A store has one lock, no clock and no randomness. It keeps the same contract as the databases, and passes the same
// suite as the engines of its domain.
package memstore
