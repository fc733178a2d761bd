package pytorch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// NumPy arrays among the tensors are named, whatever becomes of the rest.
func TestArraysAreNamed(t *testing.T) {
	array := name("numpy._core.multiarray", "_reconstruct") + tup() + "R"
	refused(t, checkpoint(state(array)),
		`the checkpoint holds no tensors: "w" is a NumPy array, want a tensor`)
	entries := "\x80\x02}"
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		entries += str(key) + array + "s"
	}
	refused(t, checkpoint(entries+"."), `"a", "b", "c" and 2 more are NumPy arrays, want tensors`)

	c := accepted(t, checkpoint("\x80\x02}"+str("w")+goodTensor+"s"+str("mean")+array+"s"+
		str("scale")+array+"s."))
	require.Len(t, c.Tensors(), 1)
	require.Equal(t, []string{"mean", "scale"}, c.arrays)
	require.ErrorContains(t, c.writeConverted(t.Context(), "x", t.TempDir(), Options{}),
		`; "mean", "scale" are NumPy arrays, want tensors`)

	c, err := Open("testdata/lightning.ckpt")
	require.NoError(t, err)
	defer c.Close()
	require.Empty(t, c.arrays)
	c.arrays = []string{"mean"}
	var said []string
	require.NoError(t, c.writeConverted(t.Context(), "x", t.TempDir(),
		Options{Logf: func(format string,
			args ...any) {
			said = append(said, fmt.Sprintf(format, args...))
		}}))
	require.Equal(t, []string{`left out: "mean" is a NumPy array, want a tensor`}, said)
}
