package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var targets = flag.String("targets", "",
	"systems such as windows/386, with a comma between them: TestTargets checks the types for each")

// The module has no type errors on other systems, nor have its tests on those of 64 bits. Checking
// all types from the sources takes ten seconds for each, compiling them minutes.
func TestTargets(t *testing.T) {
	if *targets == "" {
		t.Skip("without -targets: the gate's step vet gives them")
	}
	for target := range strings.SplitSeq(*targets, ",") {
		t.Run(target, func(t *testing.T) {
			system, processor, _ := strings.Cut(target, "/")
			c := checked{
				files:      token.NewFileSet(),
				sizes:      types.SizesFor("gc", processor),
				packages:   map[string]*types.Package{"unsafe": types.Unsafe},
				modulePath: modulePath(t),
			}
			require.NotNil(t, c.sizes, "processor")
			own := 0
			for _, p := range listed(t, system, processor, c.sizes.Sizeof(types.Typ[types.Int]) == 8) {
				for _, err := range c.check(p) {
					t.Error(err)
				}
				if strings.HasPrefix(p.ImportPath, c.modulePath) {
					own++
				}
			}
			require.Greater(t, own, 90)
		})
	}
}

// listedPackage is a package as go list describes it.
type listedPackage struct {
	Dir, ImportPath string
	GoFiles, SFiles []string
	ImportMap       map[string]string
	Error           *struct{ Err string }
}

// listed returns the module's packages, with their tests or without, and all that they need, each
// after its imports.
func listed(t *testing.T, system, processor string, tests bool) (list []listedPackage) {
	command := exec.Command("go", "list", "-deps", "-test="+strconv.FormatBool(tests), "-e",
		"-json=Dir,ImportPath,GoFiles,SFiles,ImportMap,Error", "./...")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	out, err := command.Output()
	require.NoError(t, err)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else {
			require.NoError(t, err)
		}
		switch {
		case p.Error != nil && strings.Contains(p.Error.Err, "build constraints exclude all"):
		case p.Error != nil:
			t.Error(p.Error.Err)
		case !strings.HasSuffix(p.ImportPath, ".test") && p.ImportPath != "unsafe":
			list = append(list, p)
		}
	}
}

// checked are the packages of a system whose types are known.
type checked struct {
	files    *token.FileSet
	sizes    types.Sizes
	packages map[string]*types.Package

	modulePath string
}

// check adds a package, and returns what is wrong in it if it is the module's.
func (c *checked) check(p listedPackage) (errs []error) {
	own := strings.HasPrefix(p.ImportPath, c.modulePath)
	config := types.Config{Sizes: c.sizes, IgnoreFuncBodies: !own, FakeImportC: true,
		Importer: importerFunc(func(path string) (*types.Package, error) {
			if found := c.packages[cmp.Or(p.ImportMap[path], path)]; found != nil {
				return found, nil
			}
			return nil, errors.New("no package " + path)
		}),
		Error: func(err error) {
			if own {
				errs = append(errs, err)
			}
		}}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files = append(files, f)
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && own && f.Body == nil && len(p.SFiles) == 0 {
				errs = append(errs, errors.New(c.files.Position(f.Pos()).String()+": missing function body"))
			}
		}
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.packages[p.ImportPath], _ = config.Check(path, c.files, files, nil)
	return errs
}

type importerFunc func(path string) (*types.Package, error)

// Import implements types.Importer.
func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
