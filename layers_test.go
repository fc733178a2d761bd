package unmask_test

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows are the layers of ARCHITECTURE.md, top to bottom: a package imports only rows below its
// own, or packages inside its own folder. What stands in one row does not import each other.
var rows = [][]string{
	{"cmd/unmask"},
	{"cli"},
	{"bench", "judges"},
	{"."},
	{"experiments", "theory", "traces"},
	{"generate", "metrics"},
	{"vit", "dit", "llama", "titok", "halton", "maskgen", "amused"},
	{"latents"},
	{"vqgan", "vq", "clip"},
	{"samplers", "guide"},
	{"model"},
	{"nn"},
	{"attention", "kvcache"},
	{"weights", "tokenizers", "images"},
	{"backend/cpu", "backend/cuda", "backend/backendtest"},
	{"backend/plain"},
	{"backend", "demo"},
	{"param"},
	{"internal"},
}

// apart are rows that must not meet although one is below the other: networks and samplers
// know marginals only.
var apart = map[string][]string{
	"samplers": {"vit", "dit", "llama", "titok", "halton", "maskgen", "amused", "latents", "vqgan", "vq", "clip", "nn", "attention", "weights", "backend/cpu", "backend/cuda", "internal/simd"},
	"vit":      {"samplers"}, "dit": {"samplers"}, "llama": {"samplers"}, "vqgan": {"samplers"}, "vq": {"samplers"}, "clip": {"samplers"}, "latents": {"samplers"}, "titok": {"samplers"}, "halton": {"samplers"}, "maskgen": {"samplers"}, "amused": {"samplers"},
	"internal": {"backend"},
}

func row(pkg string) int {
	for i, names := range rows {
		for _, name := range names {
			if pkg == name || strings.HasPrefix(pkg, name+"/") && name != "." {
				return i
			}
		}
	}
	return -1
}

func folder(pkg string) string {
	for _, names := range rows {
		for _, name := range names {
			if pkg == name || strings.HasPrefix(pkg, name+"/") && name != "." {
				return name
			}
		}
	}
	return pkg
}

func TestLayers(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := filepath.Base(path); path != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if err != nil {
			return nil // no Go files here
		}
		from := filepath.ToSlash(path)
		if from == "internal/parity" || strings.HasPrefix(from, "internal/parity/") { // the tests' own
			return nil
		}
		require.GreaterOrEqual(t, row(from), 0, "package %s is in no row", from)
		seen++
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, "unmask/")
			if imported == "unmask" {
				to, ours = ".", true
			}
			if !ours || folder(to) == folder(from) {
				continue
			}
			require.Greaterf(t, row(to), row(from), "%s imports %s, which is not below it", from, to)
			for _, other := range apart[folder(from)] {
				require.Falsef(t, to == other || strings.HasPrefix(to, other+"/"), "%s imports %s", from, to)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, seen, 10)
}
