package main

// demoCommands has the demo.
type demoCommands struct {
	Demo demoCommand `cmd:"" help:"Show what oncebox does, on a store of its own, and check it."`
}
