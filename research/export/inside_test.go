package export_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/model"
	"unmask/research/export"
	"unmask/testkit/parity"
	"unmask/weights"
)

// insideOf exports what the model of a pack computes for its first two sequences.
func insideOf(t *testing.T, pack string, with ...export.Quantity) *weights.Set {
	p := parity.Open(t, pack)
	m, err := unmask.LoadFS(p.Source.Files, pack, unmask.Options{Threads: 2})
	require.NoError(t, err)
	tokens, shape := p.Ints("tokens")
	in := filepath.Join(t.TempDir(), "tokens.safetensors")
	length := shape[1]
	list := []weights.Tensor{{Name: "tokens", DType: weights.I64, Shape: []int{2, length},
		Data: longs(tokens[:2*length])}}
	if m.Spec().Classes > 0 {
		list = append(list, weights.Tensor{Name: "labels", DType: weights.I64, Shape: []int{2},
			Data: longs([]int32{1, 0})})
	}
	require.NoError(t, weights.WriteFile(in, list, nil))
	out := filepath.Join(t.TempDir(), "inside.safetensors")
	require.NoError(t, export.WriteLogits(t.Context(), m, in, out, with...))
	set, err := weights.Open(out)
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	return set
}

func longs(list []int32) (data []byte) {
	for _, n := range list {
		data = binary.LittleEndian.AppendUint64(data, uint64(int64(n)))
	}
	return data
}

func valuesOf(t *testing.T, set *weights.Set, name string) ([]float32, []int) {
	x, ok := set.Get(name)
	require.True(t, ok, "%s of %v", name, set.Names())
	v := make([]float32, x.Numel())
	for i := range v { // x.Float32s returns an error for NaN
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
	}
	return v, x.Shape
}

// SDTT's values equal PyTorch's.
func TestInsideParity(t *testing.T) {
	got := insideOf(t, "sdtt-tiny", export.Hidden, export.Attention, export.KV)
	want, err := weights.Open("testdata/inside.safetensors")
	require.NoError(t, err)
	defer want.Close()
	for _, name := range want.Names() {
		x, _ := valuesOf(t, want, name)
		y, shape := valuesOf(t, got, name)
		require.Equal(t, 2*len(x), len(y), "%s is %v", name, shape)
		for i := range x {
			require.InDelta(t, x[i], y[i], 1e-4, "%s, element %d", name, i)
		}
	}
	for _, name := range []string{"logits", "hidden.0", "hidden.3", "attention.0", "attention.2",
		"keys.2", "values.2"} {
		_, ok := got.Get(name)
		require.True(t, ok, name)
	}
	_, ok := got.Get("hidden.4")
	require.False(t, ok)
}

// In every network attention is a distribution over the rows that a row sees.
func TestInsideOfEveryNetwork(t *testing.T) {
	for _, pack := range []string{"sdtt-tiny", "mage-tiny", "llada-tiny", "dream-tiny",
		"titok-bert-tiny", "titok-uvit-tiny"} {
		t.Run(pack, func(t *testing.T) {
			set := insideOf(t, pack, export.Attention, export.Hidden, export.KV)
			logits, ok := set.Get("logits")
			if !ok {
				logits, _ = set.Get("logits_cond")
			}
			last := 0
			for ; ; last++ {
				if _, ok := set.Get(fmt.Sprint("attention.", last)); !ok {
					break
				}
				a, shape := valuesOf(t, set, fmt.Sprint("attention.", last))
				rows := shape[3]
				require.Contains(t, []int{logits.Shape[1], logits.Shape[1] + 1}, rows)
				for i := 0; i < len(a); i += rows {
					sum := 0.0
					for _, p := range a[i:][:rows] {
						sum += float64(p)
					}
					if !math.IsNaN(sum) || pack != "mage-tiny" || last != 2 {
						require.InDelta(t, 1, sum, 1e-5)
					}
				}
				_, hidden := valuesOf(t, set, fmt.Sprint("hidden.", last))
				require.Equal(t, []int{2, rows}, hidden[:2])
				_, keys := valuesOf(t, set, fmt.Sprint("keys.", last))
				_, values := valuesOf(t, set, fmt.Sprint("values.", last))
				require.Equal(t, keys, values)
				require.Equal(t, rows, keys[2])
				require.Zero(t, shape[1]%keys[1])
			}
			require.GreaterOrEqual(t, last, 2)
			_, ok = set.Get(fmt.Sprint("hidden.", last))
			require.True(t, ok)
		})
	}
}

// Local layers see no rows beyond their window: row 20 of layer 1 by transformers 5 (eager). Its
// local_attention of 16 is 8 rows on both sides.
func TestInsideOfAWindow(t *testing.T) {
	a, shape := valuesOf(t, insideOf(t, "modernbert-tiny", export.Attention), "attention.1")
	require.Equal(t, []int{2, 4, 37, 37}, shape)
	want := make([]float32, 37)
	copy(want[12:], []float32{.0084, .022, .2722, .3958, .1073, .0097, .0115, .0027, .0037,
		.0149, .0224, .0035, .0073, .0037, .0038, .0051, .1059})
	require.InDeltaSlice(t, want, a[((4+3)*37+20)*37:][:37], 1e-4)
}

// Rows, columns, keys and values are by position also where masks are fed last (WeDLM): a row sees
// what is fed before it, and equal tokens have equal values in block 0.
func TestInsideByPosition(t *testing.T) {
	set := insideOf(t, "wedlm-7b-tiny", export.Attention, export.KV)
	a, shape := valuesOf(t, set, "attention.0")
	n, heads := shape[3], shape[1]
	values, shape := valuesOf(t, set, "values.0")
	width := shape[3]
	tokens, _ := parity.Open(t, "wedlm-7b-tiny").Ints("tokens")
	masked := func(i int) bool { return tokens[i] == 150 }
	for i := range n {
		for j := range n {
			before := j <= i && masked(j) == masked(i) || masked(i) && !masked(j)
			for h := range heads {
				require.Equal(t, before, a[(h*n+i)*n+j] > 0, "row %d, column %d", i, j)
			}
			same := slices.Equal(values[i*width:][:width], values[j*width:][:width])
			require.Equal(t, tokens[i] == tokens[j], same, "values %d and %d", i, j)
		}
	}
}

// A pass with a cache stores the keys and values that are exported.
func TestInsideKVAreTheCaches(t *testing.T) {
	set := insideOf(t, "sdtt-tiny", export.KV)
	_, ok := set.Get("hidden.0")
	require.False(t, ok)
	p := parity.Open(t, "sdtt-tiny")
	m, err := unmask.LoadFS(p.Source.Files, "sdtt-tiny", unmask.Options{Threads: 1})
	require.NoError(t, err)
	tokens, shape := p.Ints("tokens")
	refiner := m.Denoiser.(model.Refiner)
	b := &model.Batch{Size: 2, Length: shape[1], Tokens: tokens[:2*shape[1]]}
	b.Cache = refiner.NewCache(2, shape[1])
	_, err = refiner.Forward(t.Context(), b)
	require.NoError(t, err)
	for i := range b.Cache.K {
		for name, x := range map[string][]float32{
			fmt.Sprint("keys.", i):   b.Cache.K[i].Float32s(),
			fmt.Sprint("values.", i): b.Cache.V[i].Float32s()} {
			got, _ := valuesOf(t, set, name)
			require.Equal(t, x, got, name)
		}
	}
}

func TestInsideRefuses(t *testing.T) {
	list, err := export.ParseQuantities("kv,hidden")
	require.NoError(t, err)
	require.Equal(t, []export.Quantity{export.KV, export.Hidden}, list)
	for _, text := range []string{"", "hiden", "hidden,", "kv, hidden"} {
		_, err := export.ParseQuantities(text)
		require.ErrorContains(t, err, "want hidden, attention or kv")
	}
	m, err := unmask.Load(t.Context(), "oracle:markov:length=4,tokens=3", unmask.Options{})
	require.NoError(t, err)
	in := filepath.Join(t.TempDir(), "tokens.safetensors")
	require.NoError(t, weights.WriteFile(in, []weights.Tensor{{Name: "tokens", DType: weights.I64,
		Shape: []int{1, 4}, Data: longs([]int32{0, 1, 2, 0})}}, nil))
	err = export.WriteLogits(t.Context(), m, in, filepath.Join(t.TempDir(), "x"), export.KV)
	require.ErrorContains(t, err, "want one that shows what it computes inside")
}

// The commands in the documentation read the exported file.
func TestInsideFromPython(t *testing.T) {
	python := ""
	for _, name := range []string{os.Getenv("UNMASK_PYTHON"), "python3"} {
		if name != "" && exec.Command(name, "-c", "import safetensors.numpy").Run() == nil {
			python = name
			break
		}
	}
	if python == "" {
		t.Skip("no Python with safetensors; UNMASK_PYTHON names one")
	}
	page, err := os.ReadFile("../../docs/inside.md")
	require.NoError(t, err)
	code := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(page, -1)
	require.Len(t, code, 2)
	dir := t.TempDir()
	run := func(code []byte) string {
		cmd := exec.Command(python, "-c", string(code))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	run(code[1][1])
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	require.NoError(t, export.WriteLogits(t.Context(), m, filepath.Join(dir, "tokens.safetensors"),
		filepath.Join(dir, "inside.safetensors"), export.Hidden, export.Attention, export.KV))
	require.Regexp(t, `^\(1, 64, \d+\) (1\.0|0\.9999|1\.0000)\d* float32\n$`, run(code[0][1]))
}

// The logits and states of texts are those of their tokens, one text after the other.
func TestTextLogits(t *testing.T) {
	m, err := unmask.LoadFS(os.DirFS("../../testdata/packs/bert-tiny"), "bert-tiny",
		unmask.Options{Threads: 2})
	require.NoError(t, err)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "tokens.safetensors"), filepath.Join(dir, "texts.safetensors")
	var texts [][]int32
	for _, text := range []string{"EVQ", "DVQLLES"} {
		ids, err := m.Text.Tokens(text)
		require.NoError(t, err)
		texts = append(texts, ids)
	}
	names := []string{"a", "b"}
	require.NoError(t, export.WriteTextLogits(t.Context(), m, names, texts, out, export.Hidden))
	set, err := weights.Open(out)
	require.NoError(t, err)
	defer set.Close()
	for i, ids := range texts {
		list := []weights.Tensor{{Name: "tokens", DType: weights.I64, Shape: []int{1, len(ids)},
			Data: longs(ids)}}
		require.NoError(t, weights.WriteFile(in, list, nil))
		alone := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, export.WriteLogits(t.Context(), m, in, alone, export.Hidden))
		one, err := weights.Open(alone)
		require.NoError(t, err)
		defer one.Close()
		for _, name := range []string{"logits", "hidden.0", "hidden.1"} {
			want, shape := valuesOf(t, one, name)
			got, of := valuesOf(t, set, fmt.Sprint(i, ".", name))
			require.Equal(t, want, got, name)
			require.Equal(t, shape[1:], of, name)
		}
		x, ok := set.Get(fmt.Sprint(i, ".tokens"))
		require.True(t, ok)
		require.Equal(t, longs(ids), x.Data)
	}
}
