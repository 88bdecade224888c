//go:build race

package sqlite

// contestedThings is small here: the race detector makes SQLite 30 times slower.
const contestedThings = 200
