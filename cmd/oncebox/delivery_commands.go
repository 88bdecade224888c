package main

// deliveryCommands work on what the dedupe function has delivered, and on its dead letters.
type deliveryCommands struct {
	Redrive redriveCommand `cmd:"" help:"List dead letters, and deliver them."`
	Objects objectsCommand `cmd:"" help:"List and verify the objects that the dedupe function writes into a bucket."`
}
