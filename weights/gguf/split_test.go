package gguf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

// writePart writes a part of a split file with one tensor of ones.
func writePart(t *testing.T, name string, number, count int, more ...Key) {
	file, err := os.Create(name)
	require.NoError(t, err)
	defer file.Close()
	keys := append([]Key{
		{Name: "split.no", Value: uint32(number)},
		{Name: "split.count", Value: uint32(count)},
	}, more...)
	one := Tensor{Name: fmt.Sprintf("blk.%d.w", number), DType: weights.F32, Shape: []int{1},
		Write: func(w io.Writer) error {
			_, err := w.Write([]byte{0, 0, 0x80, 0x3f})
			return err
		}}
	require.NoError(t, Write(file, keys, []Tensor{one}))
}

// The parts of a split file are one file, whichever of them is named.
func TestSplit(t *testing.T) {
	dir := t.TempDir()
	part := func(i int) string {
		return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i+1))
	}
	for i := range 3 {
		var more []Key
		if i == 0 {
			more = []Key{{Name: "general.architecture", Value: "llada"}}
		}
		writePart(t, part(i), i, 3, more...)
	}
	for i := range 3 {
		f, err := Open(part(i))
		require.NoError(t, err)
		require.Equal(t, []string{"blk.0.w", "blk.1.w", "blk.2.w"}, f.Set.Names())
		architecture, err := f.Text("general.architecture")
		require.NoError(t, err)
		require.Equal(t, "llada", architecture)
		require.Equal(t, []string{part(0), part(1), part(2)}, f.Parts)
		last, _ := f.Set.Get("blk.2.w")
		values, err := last.Floats()
		require.NoError(t, err)
		require.Equal(t, []float32{1}, values)
		require.NoError(t, f.Set.Close())
	}

	writePart(t, part(1), 2, 3)
	_, err := Open(part(0))
	require.ErrorContains(t, err, "part 2 of 3: split.no is 2 of 3, want 1 of 3")
	require.NoError(t, os.Remove(part(1)))
	_, err = Open(part(0))
	require.ErrorContains(t, err, "part 2 of 3: ")
	require.ErrorContains(t, err, "no such file")
	other := filepath.Join(dir, "m.gguf")
	require.NoError(t, os.Rename(part(2), other))
	_, err = Open(other)
	require.ErrorContains(t, err, "the file is a part of a split one, want a name that ends in "+
		"00001-of-00003.gguf")
}
