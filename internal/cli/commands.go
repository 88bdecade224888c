package cli

// ProgramCommands are about the program itself.
type ProgramCommands struct {
	Version    versionCommand    `cmd:"" help:"Print the version."`
	Help       helpCommand       `cmd:"" help:"Explain a command."`
	Completion completionCommand `cmd:"" help:"Print how to turn on completion in bash, zsh or fish."`
}
