//go:build !race

package main

const interruptedLines = 60_000
