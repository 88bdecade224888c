package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/cli"
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
	writeTable(p, &out, nil, p.Model.Flags)
	for _, command := range p.Model.Leaves(true) {
		fmt.Fprintf(&out, "\n### oncebox %s\n\n%s\n\n```text\n%s\n```\n", command.Path(), command.Help, usage(command))
		if len(command.Positional)+len(command.Flags) > 0 {
			out.WriteString("\n")
			writeTable(p, &out, command.Positional, command.Flags)
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

func writeTable(p *cli.Program, out *strings.Builder, arguments []*kong.Positional, flags []*kong.Flag) {
	out.WriteString("| | variable | default | |\n|---|---|---|---|\n")
	for _, a := range arguments {
		fmt.Fprintf(out, "| `%s` | | | %s |\n", a.Summary(), escapeCell(a.Help))
	}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name, variable := "`--"+f.Name, p.Variable(f)
		if f.Negated || f.Tag.Negatable != "" {
			name = "`--[no-]" + f.Name
		}
		if !f.IsBool() {
			name += " " + f.FormatPlaceHolder()
		}
		if variable != "" {
			variable = "`" + variable + "`"
		}
		help := strings.TrimSuffix(strings.TrimSpace(f.Help), " Default: "+f.Default+".")
		fmt.Fprintln(out, strings.Join(strings.Fields(fmt.Sprintf("| %s` | %s | %s | %s |", escapeCell(name), variable, defaultOf(f), escapeCell(help))), " "))
	}
}

func defaultOf(f *kong.Flag) string {
	switch {
	case f.Required:
		return "required"
	case f.Default == "":
		return ""
	}
	return "`" + f.Default + "`"
}

func escapeCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
