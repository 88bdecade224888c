//go:build race

package main

// interruptedLines is a load of some seconds, which a test can interrupt. The
// race detector makes SQLite about 30 times slower.
const interruptedLines = 5_000
