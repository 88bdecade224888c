package docs

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWays checks the ways in docs/how-it-works.md: each function calls the next one, and no way goes back up.
func TestWays(t *testing.T) {
	t.Parallel()
	code := newTypedCode(t)
	ways := waysOf(read(t, "docs/how-it-works.md"))
	for _, w := range ways {
		for _, problem := range code.problems(w) {
			t.Errorf("docs/how-it-works.md: %s: %s", w.name, problem)
		}
	}
	for _, name := range []string{"A claim", "A record", "A setting"} {
		if !slices.ContainsFunc(ways, func(w way) bool { return strings.HasPrefix(w.name, name) }) {
			t.Errorf("docs/how-it-works.md has no way of %q", name)
		}
	}
}

// TestWrongWays: the check finds each thing that can be wrong with a way.
func TestWrongWays(t *testing.T) {
	t.Parallel()
	code := newTypedCode(t)
	const bank, handler = "[](../pkg/itembank/claim.go) ", "[](../pkg/claimapi/handler.go) "
	const store = " → [](../pkg/itembank/dynamostore/claims.go) "
	for _, test := range []struct{ steps, want string }{
		{bank + "`Bank.claimBy` → `request.run` → `request.attempt` → `request.take`" + store + "`Store.Take`", ""},
		{handler + "`Handler.answer` → `Handler.claim` → " + bank + "`Bank.Claim`", ""},
		{bank + "`Bank.Claim` → `request.ran`", "has no function request.ran"},
		{bank + "`Bank.Claim`\n  → `request.ran`", "has no function request.ran"},
		{bank + "`Bank.claim` → `request.run`", "has no function Bank.claim"},
		{"[](../pkg/itembank/gone.go) `Bank.Claim` → `request.run`", "gone.go"},
		{"`Bank.Claim` → `request.run`", "names no file"},
		{bank + "`Bank.Claim` → `request.attempt`", "Bank.Claim does not call request.attempt"},
		{bank + "`request.take`" + store + "`Store.HeldClaim`", "request.take does not call Store.HeldClaim"},
		{bank + "`request.take`" + " → [](../pkg/dedupe/dynamostore/store.go) `Store.PutIfAbsent`", "request.take does not call"},
		{handler + "`Handler.answer` → [](../pkg/claimapi/log.go) `Handler.report`", "does not call"},
		{bank + "`request.run` → `request.heldOr` → `request.run`", "twice"},
		{bank + "`request.heldOr` → `request.readHeld` → [](../pkg/itembank/release.go) `Bank.closeEnded`", "does not call"},
		{handler + "`Handler.claim` → " + bank + "`Bank.Claim` → " + handler + "`Handler.handle`", "back to pkg/claimapi"},
		{bank + "`request.take` → `request.decide` → `request.answer` → `request.attempt`", "request.attempt is above"},
	} {
		ways := waysOf("- **A way**: " + test.steps + "\n")
		if len(ways) != 1 {
			t.Fatalf("%s: got %d ways", test.steps, len(ways))
		}
		problems := code.problems(ways[0])
		found := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, test.want) })
		if test.want == "" && len(problems) > 0 || test.want != "" && !found {
			t.Errorf("%s: want %q, got %q", test.steps, test.want, problems)
		}
	}
}

// A way is a line of functions, each called by the one before.
type way struct {
	name  string
	steps []step
}

type step struct{ file, function string } // function is Function or Type.Method

var (
	wayItem = regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*:(.*\n(?:  .*\n)*)`)
	wayStep = regexp.MustCompile("^(?:\\[[^]]*\\]\\(\\.\\./([^)]+\\.go)\\) )?`([A-Za-z.]+)`")
)

// waysOf reads the ways of a document. A way is an item of a list: a name, and the functions with arrows between them.
// A function without a file is in the file of the function before.
func waysOf(document string) (ways []way) {
	for _, item := range wayItem.FindAllStringSubmatch(document, -1) {
		w, file := way{name: item[1]}, ""
		steps := strings.Split(strings.Join(strings.Fields(item[2]), " "), " → ")
		if len(steps) == 1 {
			continue // an item of another list
		}
		for _, text := range steps {
			found := wayStep.FindStringSubmatch(text)
			if found == nil {
				found = []string{"", "", text} // which is no function
			}
			if found[1] != "" {
				file = found[1]
			}
			w.steps = append(w.steps, step{file, found[2]})
		}
		ways = append(ways, w)
	}
	return ways
}

// typedCode has the types of this module's packages, which it reads from their source. Packages of other modules are
// empty: what is called through them is not known, and no step of a way.
type typedCode struct {
	t        *testing.T
	files    *token.FileSet
	packages map[string]*typedPackage // by folder from the root
}

type typedPackage struct {
	*types.Package
	syntax map[string]*ast.File // by path from the root
	info   types.Info
}

const module = "github.com/oncebox/oncebox"

func newTypedCode(t *testing.T) *typedCode {
	return &typedCode{t, token.NewFileSet(), map[string]*typedPackage{}}
}

// Import implements types.Importer.
func (c *typedCode) Import(importPath string) (*types.Package, error) {
	if folder, own := strings.CutPrefix(importPath, module+"/"); own {
		return c.load(folder).Package, nil
	}
	empty := types.NewPackage(importPath, path.Base(importPath))
	empty.MarkComplete()
	return empty, nil
}

func (c *typedCode) load(folder string) *typedPackage {
	if p := c.packages[folder]; p != nil {
		return p
	}
	p := &typedPackage{syntax: map[string]*ast.File{}, info: types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
	}}
	of, err := build.Default.ImportDir(filepath.Join(root, folder), 0)
	must(c.t, err)
	var files []*ast.File
	for _, name := range of.GoFiles {
		file, err := parser.ParseFile(c.files, filepath.Join(root, folder, name), nil, parser.SkipObjectResolution)
		must(c.t, err)
		files, p.syntax[path.Join(folder, name)] = append(files, file), file
	}
	// What comes from other modules is not known, so there are errors.
	check := types.Config{Importer: c, Error: func(error) {}}
	p.Package, _ = check.Check(module+"/"+folder, c.files, files, &p.info)
	c.packages[folder] = p
	return p
}

// A place is where the function of a step is.
type place struct {
	step
	of     *typedPackage
	object *types.Func
	body   *ast.BlockStmt
}

// problems returns what is wrong with a way.
func (c *typedCode) problems(w way) (problems []string) {
	var before []place
	for _, s := range w.steps {
		f, problem := c.find(s)
		if problem != "" {
			return append(problems, problem)
		}
		if len(before) > 0 && !c.calls(before[len(before)-1], f) {
			problems = append(problems, fmt.Sprintf("%s does not call %s", before[len(before)-1].function, s.function))
		}
		problems = append(problems, c.upwards(before, f)...)
		before = append(before, f)
	}
	return problems
}

func (c *typedCode) find(s step) (f place, problem string) {
	if s.file == "" {
		return f, s.function + " names no file"
	}
	if _, err := os.Stat(filepath.Join(root, s.file)); err != nil {
		return f, s.file + " does not exist"
	}
	p := c.load(path.Dir(s.file))
	for _, d := range p.syntax[s.file].Decls {
		if d, ok := d.(*ast.FuncDecl); ok && nameOf(d) == s.function {
			return place{s, p, p.info.Defs[d.Name].(*types.Func), d.Body}, ""
		}
	}
	return f, fmt.Sprintf("%s has no function %s", s.file, s.function)
}

// upwards returns where a way goes back up with f. It goes on in a file below the function before, never comes back to
// a package or a file, and never calls a function again.
func (c *typedCode) upwards(before []place, f place) (problems []string) {
	for i, b := range before {
		last := i == len(before)-1
		switch {
		case b.object == f.object:
			problems = append(problems, f.function+" is named twice")
		case c.calls(f, b):
			problems = append(problems, fmt.Sprintf("%s calls %s, which is before it", f.function, b.function))
		case !last && b.of == f.of && before[len(before)-1].of != f.of:
			problems = append(problems, fmt.Sprintf("%s goes back to %s", f.function, path.Dir(f.file)))
		case !last && b.file == f.file && before[len(before)-1].file != f.file:
			problems = append(problems, fmt.Sprintf("%s goes back to %s", f.function, f.file))
		case last && b.file == f.file && b.body.Pos() > f.body.Pos():
			problems = append(problems, fmt.Sprintf("%s is above %s", f.function, b.function))
		}
	}
	return problems
}

// calls reports whether one function calls another one: directly, through a method of an interface, or through a field
// that has the function somewhere in the package.
func (c *typedCode) calls(from, to place) (found bool) {
	ast.Inspect(from.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found {
			return !found
		}
		switch called := from.of.used(call.Fun).(type) {
		case *types.Func:
			found = called.Origin() == to.object || implements(to.object, called)
		case *types.Var:
			found = called.IsField() && from.of.isIn(called, to.object)
		}
		return !found
	})
	return found
}

// used returns the object that an expression names.
func (p *typedPackage) used(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return p.info.Uses[e]
	case *ast.SelectorExpr:
		return p.info.Uses[e.Sel]
	case *ast.IndexExpr: // with type arguments
		return p.used(e.X)
	}
	return nil
}

// implements reports whether a method implements a method of an interface, for its own type or for one that embeds it.
func implements(method, of *types.Func) bool {
	promised := of.Signature().Recv()
	if method.Name() != of.Name() || promised == nil {
		return false
	}
	face, ok := promised.Type().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	scope := method.Pkg().Scope()
	return slices.ContainsFunc(scope.Names(), func(name string) bool {
		named, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || types.IsInterface(named.Type()) {
			return false
		}
		pointer := types.NewPointer(named.Type())
		found, _, _ := types.LookupFieldOrMethod(pointer, true, method.Pkg(), method.Name())
		return found == method && types.Implements(pointer, face)
	})
}

// isIn reports whether a value in the package has the function in a field.
func (p *typedPackage) isIn(field *types.Var, f *types.Func) (found bool) {
	for _, file := range p.syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			value, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of, ok := p.info.TypeOf(value).Underlying().(*types.Struct)
			if !ok {
				return true
			}
			for i, e := range value.Elts {
				if pair, named := e.(*ast.KeyValueExpr); named {
					found = found || p.used(pair.Key) == field && p.used(pair.Value) == f
				} else {
					found = found || of.Field(i) == field && p.used(e) == f
				}
			}
			return true
		})
	}
	return found
}

// nameOf returns the name of a function, as Function or Type.Method.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	return types.ExprString(of) + "." + d.Name.Name
}
