package mutanttest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// variable names the mutant that a joint binary is.
const variable = "ONCEBOX_MUTANT"

// switches are the files of a joint binary, by path. A changed function stands there once more for each mutant that
// changes it, and calls that copy if the binary is that mutant.
type switches map[string]*switched

type switched struct {
	text  string
	tree  *ast.File
	edits []edit // of the text, beside the copies
	named map[*ast.FuncDecl]call
	after []string // the copies
}

// edit replaces the text between two places.
type edit struct {
	from, to int
	text     string
}

// call is the text of a call of a copy, before and after the name of the copy.
type call struct{ before, after string }

// add adds a mutant. It reports false, and adds nothing, if the mutant changes more than the bodies of functions.
func (s switches) add(t testing.TB, root string, m Mutant) bool {
	t.Helper()
	type place struct {
		file *switched
		in   *ast.FuncDecl
	}
	found := map[place][]edit{}
	var order []place
	for _, c := range m.Changes {
		file := s.open(t, filepath.Join(root, c.File))
		if strings.Count(file.text, c.Old) != 1 {
			return false
		}
		e := smallest(file.text, c)
		in := file.function(e)
		if in == nil {
			return false
		}
		p := place{file, in}
		if found[p] == nil {
			order = append(order, p)
		}
		found[p] = append(found[p], e)
	}
	for _, p := range order {
		p.file.switchTo(p.in, m.Name, found[p])
	}
	return true
}

func (s switches) open(t testing.TB, path string) *switched {
	t.Helper()
	if s[path] == nil {
		text := read(t, path)
		tree, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s[path] = &switched{text: text, tree: tree, named: map[*ast.FuncDecl]call{}}
	}
	return s[path]
}

// smallest returns the part of a change that is another text.
func smallest(text string, c Change) edit {
	from, before, after := strings.Index(text, c.Old), c.Old, c.New
	for before != "" && after != "" && before[0] == after[0] {
		from, before, after = from+1, before[1:], after[1:]
	}
	for before != "" && after != "" && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return edit{from, from + len(before), after}
}

// offset returns a place in the text. A tree of one file has its places from 1 on.
func offset(p token.Pos) int { return int(p) - 1 }

// function returns the function whose body an edit changes.
func (f *switched) function(e edit) *ast.FuncDecl {
	for _, d := range f.tree.Decls {
		d, is := d.(*ast.FuncDecl)
		if is && d.Body != nil && offset(d.Body.Lbrace) < e.from && e.to <= offset(d.Body.Rbrace) &&
			d.Name.Name != "init" && !recovers(d.Body) {
			return d
		}
	}
	return nil
}

// recovers reports whether a function is one that recovers from a panic itself. Its copy would not, because the
// deferred call is not the copy's.
func recovers(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && name.Name == "recover" {
			found = true
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return found
}

// switchTo adds the copy of a function that has the edits, and its call.
func (f *switched) switchTo(d *ast.FuncDecl, mutant string, edits []edit) {
	c, named := f.named[d]
	if !named {
		c = f.name(d)
		f.named[d] = c
	}
	from, to := offset(d.Pos()), offset(d.End())
	name := fmt.Sprintf("%s__%d", d.Name.Name, len(f.after))
	edits = append(edits, edit{offset(d.Name.Pos()), offset(d.Name.End()), name})
	f.after = append(f.after, apply(f.text[:to], edits)[from:])
	does := "return " + c.before + name + c.after
	if d.Type.Results == nil {
		does = c.before + name + c.after + "; return"
	}
	at := offset(d.Body.Lbrace) + 1
	f.edits = append(f.edits, edit{at, at, fmt.Sprintf(" if mutant__ == %q { %s };", mutant, does)})
}

// name gives all parameters of a function a name, and returns the call with them.
func (f *switched) name(d *ast.FuncDecl) (c call) {
	var arguments, types []string
	if d.Recv != nil {
		c.before = f.fields(d.Recv)[0] + "."
	}
	if d.Type.TypeParams != nil {
		types = f.fields(d.Type.TypeParams)
		c.after = "[" + strings.Join(types, ", ") + "]"
	}
	arguments = f.fields(d.Type.Params)
	c.after += "(" + strings.Join(arguments, ", ")
	if all := d.Type.Params.List; len(all) > 0 {
		if _, variadic := all[len(all)-1].Type.(*ast.Ellipsis); variadic {
			c.after += "..."
		}
	}
	c.after += ")"
	return c
}

// fields returns the names of parameters. It names those that have none.
func (f *switched) fields(list *ast.FieldList) (names []string) {
	for _, field := range list.List {
		if field.Names == nil {
			name := fmt.Sprintf("p__%d", offset(field.Pos()))
			f.edits = append(f.edits, edit{offset(field.Pos()), offset(field.Pos()), name + " "})
			names = append(names, name)
		}
		for _, n := range field.Names {
			name := n.Name
			if name == "_" {
				name = fmt.Sprintf("p__%d", offset(n.Pos()))
				f.edits = append(f.edits, edit{offset(n.Pos()), offset(n.End()), name})
			}
			names = append(names, name)
		}
	}
	return names
}

// apply applies edits, the last in the text first.
func apply(text string, edits []edit) string {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	for _, e := range edits {
		text = text[:e.from] + e.text + text[e.to:]
	}
	return text
}

// texts returns the files, and for each package one more, which says which mutant the binary is.
func (s switches) texts(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path, f := range s {
		if len(f.after) == 0 {
			continue
		}
		all[path] = apply(f.text, f.edits) + "\n" + strings.Join(f.after, "\n\n") + "\n"
		all[filepath.Join(filepath.Dir(path), "mutant__.go")] = fmt.Sprintf(
			"package %s\n\nimport \"os\"\n\nvar mutant__ = os.Getenv(%q)\n", f.tree.Name.Name, variable)
	}
	return all
}
