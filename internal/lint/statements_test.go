package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxNesting is how deep control statements of one function may stand in each other.
const maxNesting = 4

// The heads of if and switch have no effects that their conditions do not read: a reader who looks
// for what a function changes skips conditions. Control statements of a function nest at most
// maxNesting deep: a reader holds no more at once.
func TestStatementsAreUnfolded(t *testing.T) {
	read := 0
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/_") {
			continue
		}
		src, err := os.ReadFile(filepath.FromSlash(name))
		require.NoError(t, err)
		if generated.Match(src) {
			continue
		}
		read++
		for _, fault := range foldedStatements(t, name, src) {
			t.Error(fault)
		}
	}
	require.Greater(t, read, 400)
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// foldedStatements returns the places of a file with a head that has an effect, or with statements
// nested too deep.
func foldedStatements(t *testing.T, name string, src []byte) (faults []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, 0)
	require.NoError(t, err)
	report := func(node ast.Node, problem string) {
		faults = append(faults, fmt.Sprintf("%s: %s", set.Position(node.Pos()), problem))
	}

	reportNesting := func(node ast.Node, name string, body *ast.BlockStmt) {
		if deepest := nesting(body); deepest > maxNesting {
			report(node, fmt.Sprintf("%s has %d levels of control statements, want at most %d", name,
				deepest, maxNesting))
		}
	}

	ast.Inspect(file, func(node ast.Node) bool {
		switch statement := node.(type) {
		case *ast.IfStmt:
			if statement.Init != nil && !readsResult(statement.Cond, statement.Init) {
				report(node, "the condition does not read what the head does")
			}
		case *ast.SwitchStmt:
			if statement.Init != nil && !switchReads(statement) {
				report(node, "the switch does not read what its head does")
			}
		case *ast.FuncDecl:
			if statement.Body != nil {
				reportNesting(node, statement.Name.Name, statement.Body)
			}
		case *ast.FuncLit:
			reportNesting(node, "a function", statement.Body)
		}
		return true
	})
	return faults
}

// readsResult reports whether an expression mentions a variable that a statement sets.
func readsResult(expression ast.Expr, statement ast.Stmt) bool {
	assignment, ok := statement.(*ast.AssignStmt)
	if !ok {
		return false
	}
	set := map[string]bool{}
	for _, target := range assignment.Lhs {
		if identifier, ok := target.(*ast.Ident); ok {
			set[identifier.Name] = true
		}
	}
	read := false
	ast.Inspect(expression, func(node ast.Node) bool {
		if identifier, ok := node.(*ast.Ident); ok && set[identifier.Name] {
			read = true
		}
		return !read
	})
	return read
}

// switchReads reports whether a switch reads what its head sets: in its tag or, where it has none,
// in the condition of a case.
func switchReads(statement *ast.SwitchStmt) bool {
	if statement.Tag != nil {
		return readsResult(statement.Tag, statement.Init)
	}
	for _, clause := range statement.Body.List {
		for _, condition := range clause.(*ast.CaseClause).List {
			if readsResult(condition, statement.Init) {
				return true
			}
		}
	}
	return false
}

// nesting returns how many control statements stand in each other below a node. An else if stands
// beside its if, and a function literal begins anew: a reader reads it as a function.
func nesting(node ast.Node) int {
	deepest := 0
	visitChildren(node, func(child ast.Node) {
		depth := 0
		switch statement := child.(type) {
		case *ast.IfStmt:
			depth = 1 + nesting(statement.Body)
			for next := statement.Else; next != nil; {
				elseIf, ok := next.(*ast.IfStmt)
				if !ok {
					depth = max(depth, 1+nesting(next))
					break
				}
				depth = max(depth, 1+nesting(elseIf.Body))
				next = elseIf.Else
			}
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			depth = 1 + nesting(child)
		case *ast.FuncLit:
			// It is measured by itself.
		default:
			depth = nesting(child)
		}
		deepest = max(deepest, depth)
	})
	return deepest
}

// visitChildren calls visit for each direct child of a node.
func visitChildren(node ast.Node, visit func(child ast.Node)) {
	isRoot := true
	ast.Inspect(node, func(child ast.Node) bool {
		if child == nil {
			return true
		}
		if isRoot {
			isRoot = false
			return true
		}
		visit(child)
		return false
	})
}

func TestFoldedStatementsAreSeen(t *testing.T) {
	src := `package p

func effects(m map[string]int, next func() (int, bool)) {
	if delete(m, "a"); len(m) > 0 {
	}
	if n, ok := next(); ok {
		_ = n
	}
	switch n := len(m); n {
	}
	switch m["a"]++; {
	case len(m) > 1:
	}
}

func deep(list [][][]int) {
	for _, a := range list {
		for _, b := range a {
			if len(b) == 0 {
			} else if len(b) > 1 {
				for range b {
					if len(b) > 2 {
					}
				}
			}
		}
	}
	run := func() {
		for {
			if len(list) > 0 {
			}
		}
	}
	run()
}
`
	require.Equal(t, []string{
		"p.go:4:2: the condition does not read what the head does",
		"p.go:11:2: the switch does not read what its head does",
		"p.go:16:1: deep has 5 levels of control statements, want at most 4",
	}, foldedStatements(t, "p.go", []byte(src)))
}
