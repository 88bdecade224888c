//go:build race

package sqlitestore

// contestedItems is small here: the race detector makes SQLite 30 times slower.
const contestedItems = 200
