package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWays checks the ways in docs/how-it-works.md: each function calls the next one, which is below it if it is in the
// same file.
func TestWays(t *testing.T) {
	t.Parallel()
	ways := waysOf(read(t, "docs/how-it-works.md"))
	for _, w := range ways {
		for _, problem := range w.problems(t) {
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
	const bank, handler = "[](../pkg/itembank/claim.go) ", "[](../pkg/claimapi/handler.go) "
	const store = " → [](../pkg/itembank/dynamostore/claims.go) "
	for _, test := range []struct{ steps, want string }{
		{bank + "`Bank.claimBy` → `request.run` → `request.attempt` → `request.take`" + store + "`Store.Take`", ""},
		{handler + "`Handler.claim` → " + bank + "`Bank.Claim`", ""},
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
		{bank + "`request.heldOr` → `request.run`", "does not call"},
	} {
		ways := waysOf("- **A way**: " + test.steps + "\n")
		if len(ways) != 1 {
			t.Fatalf("%s: got %d ways", test.steps, len(ways))
		}
		problems := ways[0].problems(t)
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

// problems returns what is wrong with a way. Calls are found by their names, also those of a method of an interface.
func (w way) problems(t *testing.T) (problems []string) {
	t.Helper()
	files, parsed := token.NewFileSet(), map[string]*ast.File{}
	var before *ast.FuncDecl
	seen := map[step]bool{}
	for i, s := range w.steps {
		if s.file == "" {
			return append(problems, s.function+" names no file")
		}
		if parsed[s.file] == nil {
			file, err := parser.ParseFile(files, filepath.Join(root, s.file), nil, parser.SkipObjectResolution)
			if err != nil {
				return append(problems, err.Error())
			}
			parsed[s.file] = file
		}
		at := slices.IndexFunc(parsed[s.file].Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && nameOf(f) == s.function
		})
		if at < 0 {
			return append(problems, fmt.Sprintf("%s has no function %s", s.file, s.function))
		}
		f := parsed[s.file].Decls[at].(*ast.FuncDecl)
		switch {
		case seen[s]:
			problems = append(problems, s.function+" is named twice")
		case before != nil && !calls(before, f):
			problems = append(problems, fmt.Sprintf("%s does not call %s", w.steps[i-1].function, s.function))
		case before != nil && w.steps[i-1].file == s.file && before.Pos() > f.Pos():
			problems = append(problems, fmt.Sprintf("%s is above %s", s.function, w.steps[i-1].function))
		}
		before, seen[s] = f, true
	}
	return problems
}

// calls reports whether a function calls another one, by its name.
func calls(from, to *ast.FuncDecl) (found bool) {
	ast.Inspect(from.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !found
		}
		switch called := ast.Unparen(call.Fun).(type) {
		case *ast.Ident:
			found = found || called.Name == to.Name.Name
		case *ast.SelectorExpr:
			found = found || called.Sel.Name == to.Name.Name
		}
		return !found
	})
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
