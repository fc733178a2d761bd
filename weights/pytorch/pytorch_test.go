package pytorch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

type wanted struct {
	DType  string    `json:"dtype"`
	Shape  []int     `json:"shape"`
	Values []float64 `json:"values"`
}

// expected is the content of each fixture according to PyTorch.
func expected(t *testing.T) map[string]map[string]wanted { return expectedIn(t, "expected.json") }

func expectedIn(t *testing.T, name string) map[string]map[string]wanted {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var e map[string]map[string]wanted
	require.NoError(t, json.Unmarshal(b, &e))
	return e
}

var torchNames = map[weights.DType]string{weights.F32: "torch.float32",
	weights.F64: "torch.float64", weights.F16: "torch.float16",
	weights.BF16: "torch.bfloat16", weights.I64: "torch.int64", weights.I32: "torch.int32",
	weights.I16: "torch.int16",
	weights.U64: "torch.uint64", weights.U32: "torch.uint32", weights.U16: "torch.uint16",
	weights.I8: "torch.int8", weights.U8: "torch.uint8", weights.BOOL: "torch.bool"}

// values converts a tensor's bytes.
func values(t *testing.T, d weights.DType, shape []int, data []byte) []float64 {
	t.Helper()
	x := weights.Tensor{Name: "x", DType: d, Shape: shape, Data: data}
	out := make([]float64, x.Numel())
	switch {
	case d == weights.F64:
		for i := range out {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
	case d.IsFloat():
		f := make([]float32, x.Numel())
		require.NoError(t, x.Float32s(f))
		for i, v := range f {
			out[i] = float64(v)
		}
	default:
		n, err := x.Int64s()
		require.NoError(t, err)
		for i, v := range n {
			out[i] = float64(v)
		}
	}
	return out
}

// Shared storage, transposed and strided views, bfloat16 and float16 are read.
func TestViewsOfOneStorage(t *testing.T) {
	for _, name := range []string{"views2.pth", "views4.pth", "nested.pth", "legacy.pth"} {
		c, err := Open(filepath.Join("testdata", name))
		require.NoError(t, err, name)
		want := expected(t)[strings.Replace(name, "legacy", "views2", 1)]
		require.Len(t, c.Tensors(), len(want))
		for _, x := range c.Tensors() {
			w, ok := want[x.Name]
			require.True(t, ok, x.Name)
			require.Equal(t, w.DType, torchNames[x.DType], x.Name)
			require.Equal(t, w.Shape, x.Shape, x.Name)
			r, err := x.Open()
			require.NoError(t, err, x.Name)
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, w.Values, values(t, x.DType, x.Shape, b), x.Name)
		}
		require.NoError(t, c.Close())
	}
}

// What PyTorch 2 can save is read, but for negated views: expanding and overlapping ones, objects
// of other packages and of Python itself, classes within classes and tensors of other types beside
// the model, an optimizer's state, and files without CRCs.
func TestModern(t *testing.T) {
	for name, want := range expectedIn(t, "modern.json") {
		c, err := Open(filepath.Join("testdata", name))
		require.NoError(t, err, name)
		require.Len(t, c.Tensors(), len(want), name)
		for _, x := range c.Tensors() {
			w, ok := want[x.Name]
			require.True(t, ok, x.Name)
			require.Equal(t, w.DType, torchNames[x.DType], x.Name)
			require.Equal(t, w.Shape, x.Shape, x.Name)
			r, err := x.Open()
			require.NoError(t, err, x.Name)
			b, err := io.ReadAll(iotest.OneByteReader(r))
			require.NoError(t, err)
			require.Equal(t, w.Values, values(t, x.DType, x.Shape, b), "%s: %s", name, x.Name)
		}
		require.NoError(t, c.Close())
	}
	_, err := Open("testdata/signs.pth")
	require.ErrorContains(t, err, "a negated view")
}

// The objects of argparse (Namespace), Lightning and OmegaConf are kept as data.
func TestObjects(t *testing.T) {
	c, err := Open("testdata/mage.pth")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"model": "mage_vit_base_patch16", "lr": 1e-3,
		"betas": []any{0.9, 0.95}, "resume": nil}, c.Args())
	require.NoError(t, c.Close())

	c, err = Open("testdata/python.pth")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"model": "m", "path": "/data/\xed\xb3\xa9",
		"nested": map[string]any{"a": int64(1)}}, c.Args())
	require.NoError(t, c.Close())

	c, err = Open("testdata/lightning.ckpt")
	require.NoError(t, err)
	require.Len(t, c.Tensors(), 4) // the optimizer's are left out
	require.Equal(t, map[string]any{"model": map[string]any{"length": int64(48),
		"n_heads": int64(2), "hidden_size": int64(8)},
		"time_conditioning": false, "tokenizer": map[string]any{"name": "gpt2"}}, c.Args()["config"])
	require.NoError(t, c.Close())
}

func TestConvert(t *testing.T) {
	for name, want := range map[string]string{
		"mage.pth": `{"model_type":"mage","embed_dim":8,"depth":2,"num_heads":4,"decoder_embed_dim":16,"decoder_depth":1,"decoder_num_heads":16,
			"grid":2,"codebook_size":4,"vqgan":{"ch":4,"ch_mult":[1,2],"num_res_blocks":2,"z_channels":6,"embed_dim":6,"n_embed":4,"out_ch":3}}`,
		"lightning.ckpt": `{"model":{"type":"ddit-orig","hidden_size":8,"cond_dim":4,"length":48,"n_blocks":1,"n_heads":4},
			"time_conditioning":false,"tokenizer":{"name":"gpt2"},"vocab_size":11}`,
	} {
		dir := filepath.Join(t.TempDir(), "model")
		src := filepath.Join("testdata", name)
		o := Options{Heads: 4}
		require.NoError(t, Convert(context.Background(), src, dir, o))
		config, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		require.JSONEq(t, want, string(config))
		set, err := weights.Open(dir)
		require.NoError(t, err)
		for key, w := range expected(t)[name] {
			x, ok := set.Get(key)
			require.True(t, ok, key)
			require.Equal(t, w.DType, torchNames[x.DType])
			require.Equal(t, w.Values, values(t, x.DType, x.Shape, x.Data), key)
		}
		require.Len(t, set.Names(), len(expected(t)[name]))
		require.NoError(t, set.Close())

		require.ErrorContains(t, Convert(context.Background(), src, dir, o), "is there already")
		o.Overwrite = true
		require.NoError(t, Convert(context.Background(), src, dir, o))
		again, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		require.Equal(t, config, again)
	}
}

// A failed conversion leaves nothing.
func TestConvertFails(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	dir := t.TempDir()
	require.ErrorIs(t, Convert(ctx, "testdata/lightning.ckpt", dir, Options{}), context.Canceled)
	require.ErrorContains(t, Convert(context.Background(), "testdata/nested.pth", dir, Options{}),
		"the tensors are of no known network")
	require.ErrorContains(t, Convert(context.Background(), "testdata/mage.pth", dir,
		Options{Heads: 3}), "3 heads do not divide the encoder's width 8")
	bad, err := os.ReadFile("testdata/lightning.ckpt")
	require.NoError(t, err)
	i := bytes.Index(bad, []byte("lightning/data/0")) + 200
	bad[i] ^= 1
	require.ErrorContains(t, Convert(context.Background(), written(t, bad), dir, Options{}),
		"is damaged")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Views of one storage are each written in full, up to a limit.
func TestConvertSharedStorage(t *testing.T) {
	c, err := Open("testdata/lightning.ckpt")
	require.NoError(t, err)
	defer c.Close()
	c.size = -maxExpanded / maxShared
	dir := t.TempDir()
	require.ErrorContains(t, c.writeConverted(context.Background(), "x", dir, Options{}),
		"the tensors have more than 8 times the file's")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
