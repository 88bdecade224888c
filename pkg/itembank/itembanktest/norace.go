//go:build !race

package itembanktest

const scale = 4
