// Package parity reads the packs in testdata/packs: small random weights in the published formats,
// inputs, and the results of a plain PyTorch reference in float64.
package parity

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/nn"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// Pack is a model's directory and its cases.
type Pack struct {
	*model.Source
	t     testing.TB
	cases *weights.Set
	dir   string
}

// Open opens a pack by name. UNMASK_PACKS is another folder of packs, such as the reference's packs
// at the published sizes, which are too large for the repository. If the pack is in neither place
// the test is skipped.
func Open(t testing.TB, name string) *Pack {
	t.Helper()
	p := OpenCases(t, name)
	return p.loadModel(p.dir)
}

// loadModel reads the model in a folder.
func (p *Pack) loadModel(dir string) *Pack {
	p.t.Helper()
	src, err := model.Open(dir)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { src.Set.Close() })
	p.Source = src
	return p
}

// moduleRoot returns the root of the module, above the working directory, which is a test's
// package.
func moduleRoot() string {
	dir := "."
	for range 8 {
		if _, err := os.Stat(filepath.Join(dir, "testdata", "packs")); err == nil {
			return dir
		}
		dir = filepath.Join("..", dir)
	}
	return dir
}

// Folder returns the pack's folder.
func (p *Pack) Folder() string { return p.dir }

// Full reports whether the pack has a published size.
func (p *Pack) Full() bool {
	n := 0
	for _, name := range p.Set.Names() {
		v, _ := p.Set.Get(name)
		n += v.Numel()
	}
	return n > 10_000_000
}

// Has reports whether there is a case of this name.
func (p *Pack) Has(name string) bool {
	_, ok := p.cases.Get(name)
	return ok
}

// Ints returns an integer case and its shape.
func (p *Pack) Ints(name string) ([]int32, []int) {
	p.t.Helper()
	v, ok := p.cases.Get(name)
	require.True(p.t, ok, "case %s", name)
	long, err := v.Int64s()
	require.NoError(p.t, err)
	ints := make([]int32, len(long))
	for i, x := range long {
		ints[i] = int32(x)
	}
	return ints, v.Shape
}

// Floats returns a float case and its shape.
func (p *Pack) Floats(name string) ([]float32, []int) {
	p.t.Helper()
	v, ok := p.cases.Get(name)
	require.True(p.t, ok, "case %s", name)
	floats := make([]float32, v.Numel())
	require.NoError(p.t, v.Float32s(floats))
	return floats, v.Shape
}

// RequireClose requires max |got-want| <= tolerance * max |want|.
func RequireClose(t testing.TB, want, got []float32, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want))
	worst := 0.0   // the largest difference
	worstAt := 0   // where it is
	largest := 0.0 // |want|
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		difference := math.Abs(float64(got[i]) - float64(want[i]))
		if !(difference <= worst) { // also true for NaN
			worst = difference
			worstAt = i
		}
	}
	require.Truef(t, worst <= tolerance*largest,
		"difference %g of %g allowed, at %d: %g, wanted %g",
		worst, tolerance*largest, worstAt, got[worstAt], want[worstAt])
}

// Logits returns the logits of rows, all columns, as the network computed them.
func Logits(t testing.TB, m model.Marginals, rows []int32, columns int) []float32 {
	t.Helper()
	if r, ok := m.(model.Raw); ok {
		m = r.Raw()
	}
	out := make([]float32, len(rows)*columns)
	require.NoError(t, m.Visit(rows, func(i int, logits []float32) {
		copy(out[i*columns:(i+1)*columns], logits)
	}))
	return out
}

// Count returns 0..n-1.
func Count(n int) []int32 { return nn.RowRange(0, n) }

// OpenConverted is Open for a pack whose weights are a PyTorch checkpoint, which it converts first.
func OpenConverted(t testing.TB, name, file string, o pytorch.Options) *Pack {
	t.Helper()
	p := OpenCases(t, name)
	converted := t.TempDir()
	require.NoError(t, pytorch.Convert(context.Background(), p.Dir(file), converted, o))
	return p.loadModel(converted)
}

// packsFolder returns the folder that has a pack; it skips the test if there is none.
func packsFolder(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(moduleRoot(), "testdata", "packs")
	if other := os.Getenv("UNMASK_PACKS"); other != "" { // where the pack is there
		if _, err := os.Stat(filepath.Join(other, name)); err == nil {
			dir = other
		}
	}
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		t.Skipf("no pack %s: UNMASK_PACKS names a folder with it", name)
	}
	return dir
}

// OpenCases is Open for a pack of several folders; it reads the cases only.
func OpenCases(t testing.TB, name string) *Pack {
	t.Helper()
	dir := filepath.Join(packsFolder(t, name), name)
	cases, err := weights.Open(filepath.Join(dir, "cases.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { cases.Close() })
	return &Pack{t: t, cases: cases, dir: dir}
}

// Dir returns a folder of the pack.
func (p *Pack) Dir(name string) string { return filepath.Join(p.dir, name) }

// OpenFolder is Open for a pack of several folders; it reads the cases and the model of one folder.
func OpenFolder(t testing.TB, name, dir string) *Pack {
	t.Helper()
	p := OpenCases(t, name)
	return p.loadModel(p.Dir(dir))
}
