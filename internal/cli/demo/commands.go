// Package demo holds the demo of the three jobs.
package demo

// Commands has the demo.
type Commands struct {
	Demo demoCommand `cmd:"" help:"Show what oncebox does, on a store of its own, and check it."`
}
