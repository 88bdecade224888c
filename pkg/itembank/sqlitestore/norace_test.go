//go:build !race

package sqlitestore

const contestedItems = 3000
