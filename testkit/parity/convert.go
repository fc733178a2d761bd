package parity

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
	"unmask/weights/pytorch"
)

// OpenConverted is Open for a pack whose weights are a PyTorch checkpoint, which it converts first.
func OpenConverted(t testing.TB, name, file string, o pytorch.Options) *Pack {
	t.Helper()
	p, to := OpenCases(t, name), t.TempDir()
	require.NoError(t, pytorch.Convert(context.Background(), p.Dir(file), to, o))
	return p.load(to)
}

// folder returns the folder of a pack; it skips the test if there is none.
func folder(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(root(), "testdata", "packs")
	if other := os.Getenv("UNMASK_PACKS"); other != "" {
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
	dir := filepath.Join(folder(t, name), name)
	cases, err := weights.Open(filepath.Join(dir, "cases.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { cases.Close() })
	return &Pack{t: t, cases: cases, dir: dir}
}

// Dir returns a folder of the pack.
func (p *Pack) Dir(name string) string { return filepath.Join(p.dir, name) }

// OpenIn is Open for a pack of several folders; it reads the cases and the model of one folder.
func OpenIn(t testing.TB, name, of string) *Pack {
	t.Helper()
	p := OpenCases(t, name)
	return p.load(p.Dir(of))
}
