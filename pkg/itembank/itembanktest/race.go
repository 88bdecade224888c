//go:build race

package itembanktest

// scale shrinks the data under the race detector, which makes SQLite about 30
// times slower.
const scale = 1
