// Package memstore holds simple stores in memory. Tests of the domain packages run on them, with the race detector, and
// so do simulations. Each store passes the suite that all engines of its domain pass.
package memstore
