package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the command line's part of docs/configuration.md")

const (
	configurationPage  = "../../docs/configuration.md"
	beginningOfCommand = "<!-- go test ./cmd/oncebox -run TestConfigurationPage -update writes from here -->\n"
	endOfCommand       = "<!-- to here -->\n"
)

// TestConfigurationPage checks that docs/configuration.md lists the commands and their flags as the program has them.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasBeginning := strings.Cut(string(raw), beginningOfCommand)
	listed, after, hasEnd := strings.Cut(rest, endOfCommand)
	if !hasBeginning || !hasEnd {
		t.Fatalf("%s has no place for the command line", configurationPage)
	}
	want := commandReference(t)
	if listed == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: run the command that it names", configurationPage)
	}
	page := before + beginningOfCommand + want + endOfCommand + after
	if err := os.WriteFile(configurationPage, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

// commandReference is a section for the global flags and one for each command.
func commandReference(t *testing.T) string {
	t.Helper()
	p := newTestProgram(t)
	var out strings.Builder
	out.WriteString("\n### Global flags\n\n")
	writeTable(&out, p.Variable, nil, p.Model.Flags)
	for _, command := range p.Model.Leaves(true) {
		fmt.Fprintf(&out, "\n### oncebox %s\n\n%s\n", command.Path(), command.Help)
		if len(command.Positional) > 0 {
			fmt.Fprintf(&out, "\n```text\n%s\n```\n", usage(command))
		}
		if len(command.Positional)+len(command.Flags) > 0 {
			out.WriteString("\n")
			writeTable(&out, nil, command.Positional, command.Flags)
		}
	}
	return out.String()
}

// usage is the command with its arguments.
func usage(command *kong.Node) string {
	text := "oncebox " + command.Path()
	for _, argument := range command.Positional {
		text += " " + argument.Summary()
	}
	return text
}

// writeTable writes a table of arguments and flags. If flags have no variables, variable is nil.
func writeTable(
	out *strings.Builder, variable func(*kong.Flag) string, arguments []*kong.Positional, flags []*kong.Flag,
) {
	head := "| | default | |\n|---|---|---|\n"
	if variable != nil {
		head = "| | variable | default | |\n|---|---|---|---|\n"
	}
	out.WriteString(head)
	for _, a := range arguments {
		fmt.Fprintf(out, "| `%s` | | %s |\n", a.Summary(), escapeCell(a.Help))
	}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "`--" + f.Name
		if f.Negated || f.Tag.Negatable != "" {
			name = "`--[no-]" + f.Name
		}
		if !f.IsBool() {
			name += " " + f.FormatPlaceHolder()
		}
		cells := []string{escapeCell(name) + "`"}
		if variable != nil {
			cells = append(cells, quoted(variable(f)))
		}
		help := strings.TrimSuffix(strings.TrimSpace(f.Help), " Default: "+f.Default+".")
		cells = append(cells, defaultOf(f), escapeCell(help))
		fmt.Fprintln(out, strings.Join(strings.Fields("| "+strings.Join(cells, " | ")+" |"), " "))
	}
}

func defaultOf(f *kong.Flag) string {
	switch {
	case f.Required:
		return "required"
	default:
		return quoted(f.Default)
	}
}

// quoted returns a text as code, or nothing if it is empty.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func escapeCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
