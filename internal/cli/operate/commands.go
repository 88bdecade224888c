// Package operate holds the commands that make, serve, try and check a store or a deployment.
package operate

// SetupCommands make a store, copy it, and serve it on this machine.
type SetupCommands struct {
	Init   initCommand   `cmd:"" help:"Make the store: a SQLite file, or the two DynamoDB tables."`
	Backup backupCommand `cmd:"" help:"Copy the SQLite file of the store while others write to it."`
	Local  localCommand  `cmd:"" help:"Serve the claim API on this machine, through the Lambda handler."`
}

// CheckCommands try the handlers, and check a store or a deployment.
type CheckCommands struct {
	Invoke invokeCommand `cmd:"" help:"Send one event through a Lambda handler and print its reply."`
	Doctor doctorCommand `cmd:"" help:"Check the store and the settings, or a deployment and its permissions."`
}
