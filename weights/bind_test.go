package weights

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

type linear struct {
	Weight Param `weight:"weight"`
	Bias   Param `weight:"bias"`
}

type block struct {
	Attn linear  `weight:"attn.qkv"`
	MLP  *linear `weight:"mlp"`
}

type Head struct {
	Out linear `weight:"out"`
}

type network struct {
	Head   `weight:""`
	Blocks []*block `weight:"blocks"`
	Embed  Param    `weight:"vocab_embed.embedding"`
	Width  int
}

func newNetwork() *network {
	lin := func() linear { return linear{Weight: Param{Shape: []int{2, 3}}} }
	mlp := linear{Weight: Param{Shape: []int{1}}, Bias: Param{Shape: []int{}}}
	return &network{
		Head:   Head{lin()},
		Blocks: []*block{{Attn: lin()}, {Attn: lin(), MLP: &mlp}},
		Embed:  Param{Shape: []int{4}},
	}
}

// model returns a set in memory; every tensor is float32 of the given shape.
func model(shapes map[string][]int) *Set {
	s := newSet()
	for name, shape := range shapes {
		n, _ := countElements(shape)
		s.tensors[name] = &Tensor{Name: name, DType: F32, Shape: shape, Data: make([]byte, 4*n)}
	}
	return s
}

func fitting(prefix string) map[string][]int {
	return map[string][]int{
		prefix + "out.weight":               {2, 3},
		prefix + "blocks.0.attn.qkv.weight": {2, 3},
		prefix + "blocks.1.attn.qkv.weight": {2, 3},
		prefix + "blocks.1.mlp.weight":      {1},
		prefix + "blocks.1.mlp.bias":        {},
		prefix + "vocab_embed.embedding":    {4},
	}
}

// The prefixes of published checkpoints.
func TestPrefixes(t *testing.T) {
	for _, prefix := range []string{"", "backbone.", "backbone.backbone.", "_orig_mod.",
		"backbone._orig_mod.", "_orig_mod.backbone.backbone._orig_mod."} {
		n := newNetwork()
		var report Report
		require.NoError(t, Bind(n, model(fitting(prefix)),
			BindOptions{Anchor: "vocab_embed.embedding", Report: &report}), prefix)
		require.Equal(t, prefix+"blocks.1.mlp.bias", n.Blocks[1].MLP.Bias.Name)
		require.Equal(t, []int{4}, n.Embed.Tensor.Shape)
		require.Nil(t, n.Head.Out.Bias.Tensor)
		require.Len(t, report.Bound, 6)
		require.Equal(t, dropCompiledParts(prefix+"x"), report.Prefix+"x")
	}
	shapes := fitting("net.")
	delete(shapes, "net.blocks.1.mlp.bias")
	shapes["net.blocks.1._orig_mod.mlp.bias"] = []int{}
	require.NoError(t, Bind(newNetwork(), model(shapes), BindOptions{Anchor: "vocab_embed.embedding"}))
}

// One error lists everything that is wrong, sorted.
func TestAllFaultsAtOnce(t *testing.T) {
	shapes := fitting("backbone.")
	delete(shapes, "backbone.out.weight")
	delete(shapes, "backbone.blocks.0.attn.qkv.weight")
	shapes["backbone.blocks.1.attn.qkv.weight"] = []int{3, 2}
	shapes["backbone.blocks.1.mlp.weight"] = []int{1, 1}
	shapes["backbone.zebra"] = []int{1}
	shapes["apple"] = []int{1}
	shapes["noise.sigma.0"] = []int{1}
	var report Report
	o := BindOptions{Anchor: "vocab_embed.embedding", Ignore: []string{"noise.*"}, Report: &report}
	err := Bind(newNetwork(), model(shapes), o)
	require.EqualError(t, err, `weights do not fit the network: `+
		`2 missing: "blocks.0.attn.qkv.weight", "out.weight"; `+
		`2 unexpected: "apple", "backbone.zebra"; `+
		`2 misshaped: "blocks.1.attn.qkv.weight" is [3 2], want [2 3], "blocks.1.mlp.weight" is [1 1], want [1]`)
	var e *BindError
	require.ErrorAs(t, err, &e)
	require.Equal(t, []string{"noise.sigma.0"}, report.Unused)
}

func TestBindAnchorIsAmbiguous(t *testing.T) {
	shapes := fitting("student.")
	for name, shape := range fitting("teacher.") {
		shapes[name] = shape
	}
	o := BindOptions{Anchor: "vocab_embed.embedding", Ignore: []string{"teacher.*", "ema.*"}}
	require.ErrorContains(t, Bind(newNetwork(), model(shapes), o),
		`under the prefixes ["student." "teacher."]`)
	o.Prefixes = []string{"backbone.", "student."}
	n := newNetwork()
	require.NoError(t, Bind(n, model(shapes), o))
	require.Equal(t, "student.out.weight", n.Head.Out.Weight.Name)

	// Averaged weights are never left out in silence; counters of the average are.
	shapes["ema.num_updates"] = nil
	require.NoError(t, Bind(n, model(shapes), o))
	shapes["ema.out.weight"] = []int{2, 3}
	require.ErrorContains(t, Bind(n, model(shapes), o), `1 unexpected: "ema.out.weight"`)
}

func TestBindWithoutPrefixDoesNotHideTensors(t *testing.T) {
	shapes := fitting("backbone.")
	shapes["out.weight"] = []int{2, 3} // the same name outside the prefix
	err := Bind(newNetwork(), model(shapes), BindOptions{Anchor: "vocab_embed.embedding"})
	require.EqualError(t, err, `weights do not fit the network: 1 unexpected: "out.weight"`)
	shapes["backbone._orig_mod.out.weight"] = []int{2, 3}
	err = Bind(newNetwork(), model(shapes), BindOptions{Anchor: "vocab_embed.embedding"})
	require.ErrorContains(t, err, `are both "backbone.out.weight"`)
}

func TestRebase(t *testing.T) {
	s := model(map[string][]int{"transformer.wte.weight": {1}, "transformer.h.0": {1},
		"lm_head.weight": {1}, "transformer.": {1}})
	r, err := s.Rebase("wte.weight")
	require.NoError(t, err)
	require.Equal(t, "transformer.", r.Prefix())
	require.Equal(t, []string{"h.0", "wte.weight"}, r.Names())
	wte, ok := r.Get("wte.weight")
	require.True(t, ok)
	require.Equal(t, "transformer.wte.weight", wte.Name)

	// An anchor must match whole parts of a name: nothing fits.
	r, err = s.Rebase("te.weight")
	require.NoError(t, err)
	require.Empty(t, r.Prefix())
	require.Len(t, r.Names(), 4)

	// Without an anchor the first prefix that occurs is used.
	r, err = s.Rebase("", "backbone.", "transformer.", "")
	require.NoError(t, err)
	require.Equal(t, "transformer.", r.Prefix())
	r, err = s.Rebase("")
	require.NoError(t, err)
	require.Equal(t, s.Names(), r.Names())
}

func TestBindRefusesOtherTypes(t *testing.T) {
	s := model(fitting(""))
	s.tensors["out.weight"].DType = "F8_E4M3"
	require.ErrorContains(t, Bind(newNetwork(), s, BindOptions{}),
		`"out.weight" is of F8_E4M3, want F32, F16, BF16 or F64`)
	require.ErrorContains(t, Bind(newNetwork(), s, BindOptions{Ignore: []string{"[x"}}),
		"ignore pattern")
}

func TestBindMisuse(t *testing.T) {
	s := model(fitting(""))
	require.Panics(t, func() { _ = Bind(network{}, s, BindOptions{}) })
	require.Panics(t, func() {
		_ = Bind(&struct {
			N int `weight:"n"`
		}{}, s, BindOptions{})
	})
	require.Panics(t, func() {
		_ = Bind(&struct {
			p Param `weight:"p"`
		}{}, s, BindOptions{})
	})
}

// A file of safetensors.torch.save_model has tied tensors once, and their other names in its
// metadata: Bind finds both, in one file and in shards, and what nobody uses is still told.
func TestTied(t *testing.T) {
	const tensors = `"out.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
		"blocks.0.attn.qkv.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]},
		"blocks.1.mlp.weight":{"dtype":"F32","shape":[1],"data_offsets":[48,52]},
		"blocks.1.mlp.bias":{"dtype":"F32","shape":[],"data_offsets":[52,56]},
		"vocab_embed.embedding":{"dtype":"F32","shape":[4],"data_offsets":[56,72]}`
	const tied = `{"__metadata__":{"blocks.1.attn.qkv.weight":"out.weight","format":"pt"},`
	for name, open := range map[string]func() (*Set, error){
		"file": func() (*Set, error) { return Parse(file(tied+tensors+"}", 72), "m") },
		"shards": func() (*Set, error) {
			return OpenFS(fstest.MapFS{indexName: {Data: []byte(`{"weight_map":{"other":"a.safetensors",
				"out.weight":"b.safetensors"}}`)},
				"a.safetensors": {Data: file(tied+`"other":{"dtype":"F32","shape":[1],
				"data_offsets":[0,4]}}`, 4)},
				"b.safetensors": {Data: file(tied+tensors+"}", 72)}},
				".")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open()
			require.NoError(t, err)
			n := newNetwork()
			var report Report
			require.NoError(t, Bind(n, s, BindOptions{Ignore: []string{"other"}, Report: &report}))
			require.Same(t, n.Out.Weight.Tensor, n.Blocks[1].Attn.Weight.Tensor)
			require.Len(t, report.Bound, 5)
			same := func(name string, t *Tensor) (string, *Tensor, error) { return name, t, nil }
			view, err := s.View(same)
			require.NoError(t, err)
			require.NoError(t, Bind(newNetwork(), view, BindOptions{Ignore: []string{"other"}}))
		})
	}
	s, err := Parse(file(strings.Replace(tied, "blocks.1.attn", "else", 1)+tensors+"}", 72), "m")
	require.NoError(t, err)
	require.EqualError(t, Bind(newNetwork(), s, BindOptions{}),
		`weights do not fit the network: 1 missing: "blocks.1.attn.qkv.weight"`)
}

// Missing metadata may be written as null, which the library reads.
func TestNullMetadata(t *testing.T) {
	for _, header := range []string{`{"__metadata__":null}`, "{\"__metadata__\" :\n null }"} {
		s, err := Parse(file(header, 0), "m")
		require.NoError(t, err, header)
		require.Empty(t, s.Metadata())
	}
}
