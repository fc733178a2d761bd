package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func f32(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestWriteRoundTrip(t *testing.T) {
	dtypes := []DType{F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, "C64",
		"F8_E4M3"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "n")
		var tensors []Tensor
		seen := map[string]bool{metadataKey: true}
		for range n {
			name := rapid.StringMatching(`[a-zé"<]{1,5}(\.[0-9a-z]{1,3}){0,2}`).Draw(t, "name")
			if seen[name] {
				continue
			}
			seen[name] = true
			dtype := rapid.SampledFrom(dtypes).Draw(t, "dtype")
			shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
			count, _ := countElements(shape)
			data := rapid.SliceOfN(rapid.Byte(), count*dtype.Bits()/8, count*dtype.Bits()/8).Draw(t, "data")
			tensors = append(tensors, Tensor{Name: name, DType: dtype, Shape: shape, Data: data})
		}
		meta := map[string]string{"format": "pt", "b": "<&>"}
		var first, second bytes.Buffer
		require.NoError(t, Write(&first, tensors, meta))
		slices.Reverse(tensors)
		require.NoError(t, Write(&second, tensors, meta))
		require.Equal(t, first.Bytes(), second.Bytes())

		set, err := Parse(first.Bytes(), "memory")
		require.NoError(t, err)
		require.Equal(t, meta, set.Metadata())
		require.Len(t, set.Names(), len(tensors))
		for _, want := range tensors {
			got, ok := set.Get(want.Name)
			require.True(t, ok)
			require.Equal(t, want.DType, got.DType)
			require.Equal(t, append([]int{}, want.Shape...), got.Shape)
			require.True(t, bytes.Equal(want.Data, got.Data))
		}
		requireLibraryReads(t, first.Bytes(), tensors, meta)
	})
}

// requireLibraryReads checks that github.com/nlpodyssey/safetensors, whose whole reader is stricter
// on sizes than the decoder that Parse uses, reads a file as it was written. It takes no file with
// a type that it does not know.
func requireLibraryReads(t require.TestingT, file []byte, tensors []Tensor,
	meta map[string]string) {
	for _, x := range tensors {
		if _, err := safetensors.ParseDType(string(x.DType)); err != nil {
			return
		}
	}
	st, err := safetensors.Deserialize(file)
	require.NoError(t, err)
	require.Equal(t, len(tensors), st.Len())
	_, header, err := safetensors.ReadMetadata(file)
	require.NoError(t, err)
	require.Equal(t, meta, header.Metadata())
	for _, want := range tensors {
		got, ok := st.Tensor(want.Name)
		require.True(t, ok, want.Name)
		require.Equal(t, string(want.DType), got.DType().String())
		require.Len(t, got.Shape(), len(want.Shape))
		for i, d := range got.Shape() {
			require.EqualValues(t, want.Shape[i], d)
		}
		require.True(t, bytes.Equal(want.Data, got.Data()), want.Name)
	}
}

// The metadata's "format" is no second name of a tensor that is called as its value is.
func TestFormatIsNoName(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Write(&b, []Tensor{{Name: "pt", DType: F32, Shape: []int{1}, Data: f32(1)}},
		map[string]string{"format": "pt", "tied": "pt"}))
	set, err := Parse(b.Bytes(), "memory")
	require.NoError(t, err)
	require.Equal(t, []string{"pt", "tied"}, set.Names())
}

func TestWriteIsReadByTheLibrary(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Write(&b, []Tensor{
		{Name: "w", DType: F32, Shape: []int{2, 1}, Data: f32(1, 2)},
		{Name: "half", DType: BF16, Shape: []int{3}, Data: make([]byte, 6)},
	}, nil))
	st, err := safetensors.Deserialize(b.Bytes())
	require.NoError(t, err)
	w, ok := st.Tensor("w")
	require.True(t, ok)
	require.Equal(t, f32(1, 2), w.Data())
	length := binary.LittleEndian.Uint64(b.Bytes())
	require.Zero(t, (8+length)%8)
}

func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		tensor Tensor
		want   string
	}{
		{Tensor{Name: "", DType: F32}, "empty"},
		{Tensor{Name: metadataKey, DType: U8, Data: []byte{1}}, "taken"},
		{Tensor{Name: "a\xff", DType: F32}, "UTF-8"},
		{Tensor{Name: "a", DType: "WHAT"}, "no size"},
		{Tensor{Name: "a", DType: "F4", Shape: []int{3}}, "no size"},
		{Tensor{Name: "a", DType: F32, Shape: []int{-1}}, "negative"},
		{Tensor{Name: "a", DType: F32, Shape: []int{math.MaxInt, 2}}, "too large"},
		{Tensor{Name: "a", DType: F32, Shape: []int{2}, Data: f32(1)}, `tensor "a": 4 bytes of data`},
		{Tensor{Name: "a", DType: F32, Shape: []int{1}, Data: f32(1, 2)}, `tensor "a": more data`},
	} {
		err := Write(io.Discard, []Tensor{c.tensor}, nil)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	twice := Tensor{Name: "a", DType: U8, Data: []byte{1}}
	require.ErrorContains(t, Write(io.Discard, []Tensor{twice, twice}, nil), "taken")
}

func TestWriteFileIsWholeOrAbsent(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "m.safetensors")
	good := []Tensor{{Name: "a", DType: F32, Shape: []int{2}, Data: f32(1, 2)}}
	require.NoError(t, WriteFile(name, good, nil))
	before, err := os.ReadFile(name)
	require.NoError(t, err)

	broken := []Stream{{Name: "a", DType: F32, Shape: []int{2}, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("1234"), failing{})), nil
	}}}
	require.ErrorContains(t, WriteFileStreams(name, broken, nil), "disk on fire")
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, before, after)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }
