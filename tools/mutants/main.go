// Mutants asks whether tests notice a change: it changes one operator of a package at a time, as a
// slip of the hand would, and runs tests on each changed copy. A change that all tests pass, a
// survivor, is a line whose meaning nothing checks.
//
//	go run ./tools/mutants -package ./attention -count 10 -seed 1
//	go run ./tools/mutants -package ./samplers -tests ./samplers,./generate
//
// Packages of tests run one after another, until one notices: what costs little stands first.
//
// Nothing in the tree is written: the go command reads the changed file in the place of the real
// one (-overlay). It ends with 1 if there are survivors.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// replacements have for each operator the one that takes its place.
var replacements = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.REM: token.QUO, token.SHL: token.SHR, token.SHR: token.SHL,
	token.AND: token.OR, token.OR: token.AND, token.LAND: token.LOR, token.LOR: token.LAND,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.INC: token.DEC, token.DEC: token.INC,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
}

// mutant is a change of one operator.
type mutant struct {
	file   string
	offset int // of the operator in the file, in bytes
	line   int
	from   token.Token
	to     token.Token
}

// String returns the change on one line.
func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s becomes %s", filepath.Base(m.file), m.line, m.from, m.to)
}

// findMutants returns all changes of a package's files, but not of its tests.
func findMutants(folder string) (list []mutant, err error) {
	files, err := build.ImportDir(folder, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range files.GoFiles {
		path := filepath.Join(folder, name)
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return nil, err
		}
		add := func(pos token.Pos, from token.Token) {
			if to, ok := replacements[from]; ok {
				place := set.Position(pos)
				list = append(list, mutant{path, place.Offset, place.Line, from, to})
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				add(n.OpPos, n.Op)
			case *ast.IncDecStmt:
				add(n.TokPos, n.Tok)
			case *ast.AssignStmt:
				add(n.TokPos, n.Tok)
			}
			return true
		})
	}
	return list, nil
}

// apply returns the changed text of the mutant's file.
func (m *mutant) apply() ([]byte, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	after := m.offset + len(m.from.String())
	return bytes.Join([][]byte{text[:m.offset], []byte(m.to.String()), text[after:]}, nil), nil
}

// runner runs the go command on changed copies.
type runner struct {
	folder  string // for the changed file
	target  string // the package that is changed
	tests   []string
	timeout time.Duration
}

// try reports whether a mutant compiles and, if so, whether the tests notice it.
func (r *runner) try(ctx context.Context, m *mutant) (compiles, noticed bool, err error) {
	text, err := m.apply()
	if err != nil {
		return false, false, err
	}
	changed := filepath.Join(r.folder, "changed.go")
	if err := os.WriteFile(changed, text, 0o666); err != nil {
		return false, false, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
	if err != nil {
		return false, false, err
	}
	overlayFile := filepath.Join(r.folder, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o666); err != nil {
		return false, false, err
	}

	if exec.CommandContext(ctx, "go", "build", "-overlay", overlayFile, r.target).Run() != nil {
		return false, false, ctx.Err()
	}
	for _, tests := range r.tests {
		err := exec.CommandContext(ctx, "go", "test", "-overlay", overlayFile, "-count=1",
			"-failfast", "-timeout="+r.timeout.String(), tests).Run()
		if err != nil {
			return true, true, ctx.Err()
		}
	}
	return true, false, nil
}

// run tries so many mutants, and returns how many survived.
func run(ctx context.Context, target, tests string, count int, seed uint64,
	timeout time.Duration) (survivors int, err error) {
	path, err := filepath.Abs(target)
	if err != nil {
		return 0, err
	}
	list, err := findMutants(path)
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)

	r := &runner{folder: folder, target: target, timeout: timeout}
	r.tests = strings.Split(tests, ",")
	if tests == "" {
		r.tests = []string{target}
	}
	args := append([]string{"test"}, r.tests...)
	if err := exec.CommandContext(ctx, "go", args...).Run(); err != nil {
		return 0, fmt.Errorf("the tests fail without a change: %w", err)
	}
	draw := rand.New(rand.NewPCG(seed, 0))
	draw.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	tried := 0
	for i := 0; i < len(list) && tried < count; i++ {
		compiles, noticed, err := r.try(ctx, &list[i])
		if err != nil {
			return survivors, err
		}
		if !compiles { // such as a difference of texts
			continue
		}
		tried++
		verdict := "noticed"
		if !noticed {
			survivors++
			verdict = "SURVIVES"
		}
		fmt.Printf("%s %s\n", verdict, &list[i])
	}
	fmt.Printf("%s: %d of %d noticed\n", target, tried-survivors, tried)
	return survivors, nil
}

func main() {
	target := flag.String("package", "", "the folder of the package that is changed")
	tests := flag.String("tests", "", "packages whose tests run, with commas; the package itself")
	count := flag.Int("count", 10, "changes")
	seed := flag.Uint64("seed", 1, "of the draw")
	timeout := flag.Duration("timeout", 5*time.Minute, "of the tests; a change that lasts is noticed")
	flag.Parse()
	if *target == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survivors, err := run(ctx, *target, *tests, *count, *seed, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}
