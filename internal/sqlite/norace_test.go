//go:build !race

package sqlite

const contestedThings = 3000
