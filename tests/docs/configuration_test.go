package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

var update = flag.Bool("update", false, "write the settings of the functions into docs/configuration.md")

// A function is a Lambda function with its struct of settings.
type function struct {
	section  string // of docs/configuration.md
	source   string // has the struct
	settings any
	parse    func(environ []string) (options any, err error)
	required []string // the settings without which it does not start
}

var functions = []function{
	{
		"Variables of the claim function", "pkg/claimapi/settings.go", claimapi.Settings{},
		func(environ []string) (any, error) { _, o, err := claimapi.ParseSettings(environ); return o, err },
		[]string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=claims", "ONCEBOX_CLAIMANT_FROM=iam"},
	},
	{
		"Variables of the sweep function", "pkg/sweephandler/settings.go", sweephandler.Settings{},
		func(environ []string) (any, error) { _, o, err := sweephandler.ParseSettings(environ); return o, err },
		[]string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=claims"},
	},
	{
		"Variables of the dedupe function", "pkg/recordhandler/settings.go", recordhandler.Settings{},
		func(environ []string) (any, error) { _, o, err := recordhandler.ParseSettings(environ); return o, err },
		[]string{
			"ONCEBOX_DEDUPE_TABLE=entries", "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:dead",
		},
	},
}

const (
	beginningOfSettings = "<!-- go test ./tests/docs -run TestSettingsPage -update writes from here -->\n"
	endOfSettings       = "<!-- to here -->\n"
)

// TestSettingsPage checks that docs/configuration.md has the settings of each function as its struct has them.
func TestSettingsPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "docs/configuration.md")
	page := read(t, "docs/configuration.md")
	want := page
	for _, f := range functions {
		before, section, _ := strings.Cut(want, "## "+f.section+"\n")
		start, rest, hasBeginning := strings.Cut(section, beginningOfSettings)
		_, after, hasEnd := strings.Cut(rest, endOfSettings)
		if !hasBeginning || !hasEnd {
			t.Fatalf("%s: section %q has no place for the settings", path, f.section)
		}
		want = before + "## " + f.section + "\n" + start + beginningOfSettings + "\n" + f.reference(t) + "\n" + endOfSettings + after
	}
	switch {
	case page == want:
	case *update:
		must(t, os.WriteFile(path, []byte(want), 0o600))
	default:
		t.Fatalf("%s is not up to date: run the command that it names", path)
	}
}

// reference is the table of the settings.
func (f function) reference(t *testing.T) string {
	t.Helper()
	help := commentsOf(t, f.source)
	var out strings.Builder
	out.WriteString("| variable | word | Go | default | |\n|---|---|---|---|---|\n")
	for _, s := range settings.Fields(f.settings) {
		if help[s.Go] == "" {
			t.Errorf("%s: the field %s has no comment", f.source, s.Go)
		}
		row := fmt.Sprintf("| `%s` | `%s` | `%s` | %s | %s |", s.Name, s.Word, s.Go, defaultOf(s), help[s.Go])
		fmt.Fprintln(&out, strings.Join(strings.Fields(row), " "))
	}
	return out.String()
}

func defaultOf(s settings.Field) string {
	if _, required := s.Tag.Lookup("required"); required {
		return "required"
	}
	if value := s.Tag.Get("default"); value != "" {
		return "`" + value + "`"
	}
	return s.Tag.Get("unset")
}

// commentsOf returns the comments of the fields of Settings.
func commentsOf(t *testing.T, source string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, source), nil, parser.ParseComments)
	must(t, err)
	comments := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		declared, ok := node.(*ast.TypeSpec)
		if !ok || declared.Name.Name != "Settings" {
			return true
		}
		for _, field := range declared.Type.(*ast.StructType).Fields.List {
			comments[field.Names[0].Name] = field.Doc.Text()
		}
		return false
	})
	return comments
}

// TestDefaults: a setting that is set to the default in the reference changes nothing, and a required setting cannot be
// left out.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, f := range functions {
		t.Run(f.section, func(t *testing.T) {
			t.Parallel()
			usual, err := f.parse(f.required)
			must(t, err)
			var required []string
			for _, s := range settings.Fields(f.settings) {
				value := defaultOf(s)
				switch {
				case value == "required":
					required = append(required, s.Name)
				case strings.HasPrefix(value, "`"):
					set, err := f.parse(append(slices.Clone(f.required), s.Name+"="+strings.Trim(value, "`")))
					if err != nil || !reflect.DeepEqual(set, usual) {
						t.Errorf("%s is not the default of %s: %v", value, s.Name, err)
					}
				}
			}
			for i, setting := range f.required {
				variable, _, _ := strings.Cut(setting, "=")
				_, err := f.parse(slices.Delete(slices.Clone(f.required), i, i+1))
				if err == nil || !slices.Contains(required, variable) {
					t.Errorf("%s is required: the page says %v, the function %v", variable, slices.Contains(required, variable), err)
				}
			}
			if len(required) != len(f.required) {
				t.Errorf("the page says that %v are required", required)
			}
		})
	}
}
