// Package delivery holds the commands of what the dedupe function has delivered into a bucket, and of its dead letters.
package delivery

// DeliveryCommands work on what the dedupe function has delivered, and on its dead letters.
type DeliveryCommands struct {
	Redrive redriveCommand `cmd:"" help:"List dead letters, and deliver them."`
	Objects objectsCommand `cmd:"" help:"List and verify the objects that the dedupe function writes into a bucket."`
}
