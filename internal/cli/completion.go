package cli

import (
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" optional:"" enum:"bash,zsh,fish," default:"" help:"bash, zsh or fish. Default: the shell that the variable SHELL names."`
	Code  bool   `short:"c" help:"Print the script that completes."`
}

func (completionCommand) Help() string {
	return `Prints the command that turns on completion, and the file that keeps it.

The shell completes commands, flags, values and file names with a script. It does not start oncebox.

Examples:
  oncebox completion
  oncebox completion zsh
  oncebox completion -c bash > /etc/bash_completion.d/oncebox`
}

// completedShell tells how a shell gets its script.
type completedShell struct {
	name     string
	template string
	command  string // reads the script
	file     string // its commands run in each new shell
}

// The completion of zsh can run scripts of bash.
var completedShells = []completedShell{
	{"bash", "completion.bash", `eval "$(oncebox completion -c bash)"`, "~/.bashrc"},
	{"zsh", "completion.bash", `eval "$(oncebox completion -c zsh)"`, "~/.zshrc, below compinit"},
	{"fish", "completion.fish", "oncebox completion -c fish | source", "~/.config/fish/config.fish"},
}

func (c completionCommand) Run(a *App, kctx *kong.Context) error {
	name := c.Shell
	if name == "" {
		name = filepath.Base(a.Getenv("SHELL"))
	}
	i := slices.IndexFunc(completedShells, func(s completedShell) bool { return s.name == name })
	if i < 0 {
		err := fmt.Errorf("the variable SHELL is %q, which is not bash, zsh or fish", a.Getenv("SHELL"))
		return BadUsage(err, "Name a shell, as in: oncebox completion bash.")
	}
	shell := completedShells[i]
	if c.Code {
		script := template.Must(template.New(shell.template).
			Funcs(template.FuncMap{"join": strings.Join, "fish": inFish}).ParseFS(completionFiles, shell.template))
		return script.Execute(a.Stdout, map[string]any{
			"Shell": name, "Program": completed{kctx.Model.Node}, "Commands": allCompleted(kctx.Model.Node),
		})
	}
	const text = "This command turns on completion in %s:\n\n    %s\n\nTo keep it, add the command to %s.\n"
	_, err := fmt.Fprintf(a.Stdout, text, name, shell.command, shell.file)
	return err
}

//go:embed completion.bash completion.fish
var completionFiles embed.FS

// inFish is the first sentence of a help text as a quoted word of fish.
func inFish(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(strings.TrimSuffix(first, ".")) + "'"
}

// completed is a command, or the program, as the scripts complete it.
type completed struct{ *kong.Node }

// allCompleted are a command and all commands below it.
func allCompleted(node *kong.Node) []completed {
	all := []completed{{node}}
	for _, child := range (completed{node}).Commands() {
		all = append(all, allCompleted(child.Node)...)
	}
	return all
}

// Place is the command on the command line, as in oncebox/campaign/create.
func (c completed) Place() string {
	if c.Parent == nil {
		return c.Name
	}
	return completed{c.Parent}.Place() + "/" + c.Name
}

// Commands are the commands that can follow.
func (c completed) Commands() (all []completed) {
	for _, child := range c.Children {
		if !child.Hidden {
			all = append(all, completed{child})
		}
	}
	return all
}

// Values are the values that the arguments can have, where these are fixed.
func (c completed) Values() (all []string) {
	for _, argument := range c.Positional {
		all = append(all, valuesOf(argument)...)
	}
	return all
}

// Flags are the flags of the command, and those of the command that it is short for.
func (c completed) Flags() (all []completedFlag) {
	flags := c.Node.Flags
	if c.DefaultCmd != nil {
		flags = slices.Concat(flags, c.DefaultCmd.Flags)
	}
	for _, flag := range flags {
		if !flag.Hidden {
			all = append(all, completedFlag{flag})
		}
	}
	return all
}

// completedFlag is a flag as the scripts complete it.
type completedFlag struct{ *kong.Flag }

// Names are the long names of the flag.
func (f completedFlag) Names() []string {
	names := []string{f.Name}
	if f.Tag.Negatable != "" {
		names = append(names, "no-"+f.Name)
	}
	return names
}

// Letter is the short name of the flag. It may be empty.
func (f completedFlag) Letter() string { return strings.Trim(string(f.Short), "\x00") }

// Values are the values that the flag can have, where these are fixed.
func (f completedFlag) Values() []string { return valuesOf(f.Value) }

// valuesOf are the values of an enum. The empty one stands for a value that was not given.
func valuesOf(value *kong.Value) []string {
	return slices.DeleteFunc(value.EnumSlice(), func(v string) bool { return v == "" })
}
