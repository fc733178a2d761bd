package llama_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/internal/quant"
	"unmask/internal/simd"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
	"unmask/weights/gguf"
)

// A network whose rows have 256 values and more, which the formats with blocks of 256 need.
const (
	blockHidden, blockMLP, blockVocab = 256, 512, 300
	blockLength, blockMask            = 24, 290
)

// blockKind is a kind of model: its tensors' names outside the blocks and within, and its
// config.json without sizes.
type blockKind struct {
	outer, inner, config string
	biased, normed       bool
	experts              int // 0: a plain MLP
}

const (
	qwenOuter = "model.embed_tokens model.norm lm_head model.layers."
	qwenInner = "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj " +
		"self_attn.o_proj post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.down_proj"
	qwenConfig = `"num_hidden_layers":%d,"hidden_size":%d,"num_attention_heads":4,
		"num_key_value_heads":2,"intermediate_size":%d,"vocab_size":%d,"mask_token_id":%d,
		"rms_norm_eps":1e-6,"max_position_embeddings":64,"eos_token_id":280}`
)

var blockKinds = map[string]blockKind{
	"llada": {outer: "model.transformer.wte model.transformer.ln_f model.transformer.ff_out " +
		"model.transformer.blocks.",
		inner: "attn_norm q_proj k_proj v_proj attn_out ff_norm ff_proj up_proj ff_out",
		config: `{"model_type":"llada","n_layers":%d,"d_model":%d,"n_heads":4,"n_kv_heads":2,
		"mlp_hidden_size":%d,"vocab_size":%d,"max_sequence_length":64,"rms_norm_eps":1e-5,
		"rope_theta":5e5,"mask_token_id":%d,"eos_token_id":280,"embedding_size":300}`},
	"Dream": {outer: qwenOuter, inner: qwenInner, biased: true,
		config: `{"model_type":"Dream","rope_theta":1e6,` + qwenConfig},
	"DreamOn": {outer: qwenOuter, inner: qwenInner, biased: true,
		config: `{"model_type":"Dream","rope_theta":1e6,"expand_token_id":281,` + qwenConfig},
	"WeDLM-7B": {outer: qwenOuter, inner: qwenInner, biased: true,
		config: `{"model_type":"wedlm","rope_theta":1e6,` + qwenConfig},
	"WeDLM-8B": {outer: qwenOuter, inner: qwenInner, normed: true,
		config: `{"model_type":"wedlm","rope_theta":1e6,"attention_bias":false,"qk_norm":true,` +
			qwenConfig},
	"LLaDA-MoE": {outer: qwenOuter, inner: qwenInner, normed: true, experts: 4,
		config: `{"model_type":"llada","rope_theta":5e4,"num_experts":4,"num_experts_per_tok":2,
		"expert_intermediate_size":512,"qk_layernorm":true,` + qwenConfig},
	"Nemotron": {outer: "encoder.embed_tokens encoder.norm diffusion_head encoder.layers.",
		inner: qwenInner,
		config: `{"model_type":"nemotron_labs_diffusion","block_size":8,"rope_parameters":
		{"rope_type":"yarn","rope_theta":1e4,"factor":4,"original_max_position_embeddings":16,
		"mscale":1,"mscale_all_dim":1,"llama_4_scaling_beta":0.1},` + qwenConfig},
}

// blockFolder returns a folder with a random model of 4 query heads and 2 key heads, as its authors
// publish it.
func blockFolder(t *testing.T, kind string, layers int) string {
	t.Helper()
	dir, r := t.TempDir(), rand.New(rand.NewPCG(11, 12))
	var all []weights.Tensor
	add := func(name string, mean, std float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]byte, 0, 4*n)
		for range n {
			v := float32(mean + std*r.NormFloat64())
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		all = append(all, weights.Tensor{Name: name, DType: weights.F32, Shape: shape, Data: data})
	}
	matrix := func(name string, gain float64, out, in int) {
		add(name+".weight", 0, gain/math.Sqrt(float64(in)), out, in)
	}
	const h, kv, mlp = blockHidden, blockHidden / 2, blockMLP
	k := blockKinds[kind]
	names := append(strings.Fields(k.outer), strings.Fields(k.inner)...)
	add(names[0]+".weight", 0, 1, blockVocab, h)
	add(names[1]+".weight", 1, 0.1, h)
	matrix(names[2], 4, blockVocab, h)
	for i := range layers {
		in := func(name int) string { return fmt.Sprint(names[3], i, ".", names[name]) }
		add(in(4)+".weight", 1, 0.1, h)
		add(in(9)+".weight", 1, 0.1, h)
		matrix(in(5), 2, h, h)
		matrix(in(6), 2, kv, h)
		matrix(in(7), 1, kv, h)
		matrix(in(8), 1, h, h)
		gated := []string{in(10), in(11), in(12)}
		for e := range k.experts {
			for _, name := range gated[:3] {
				gated = append(gated, strings.Replace(name, "mlp.", fmt.Sprintf("mlp.experts.%d.", e), 1))
			}
		}
		if k.experts > 0 {
			matrix(fmt.Sprint(names[3], i, ".mlp.gate"), 40, k.experts, h) // far from ties
			gated = gated[3:]
		}
		for j := 0; j < len(gated); j += 3 {
			matrix(gated[j], 1.4, mlp, h)
			matrix(gated[j+1], 1.4, mlp, h)
			matrix(gated[j+2], 1, h, mlp)
		}
		if k.biased {
			add(in(5)+".bias", 0, 0.3, h)
			add(in(6)+".bias", 0, 0.3, kv)
			add(in(7)+".bias", 0, 0.3, kv)
		}
		if k.normed {
			add(fmt.Sprint(names[3], i, ".self_attn.q_norm.weight"), 1, 0.1, h/4)
			add(fmt.Sprint(names[3], i, ".self_attn.k_norm.weight"), 1, 0.1, h/4)
		}
	}
	require.NoError(t, weights.WriteFile(filepath.Join(dir, "model.safetensors"), all, nil))
	config := fmt.Sprintf(k.config, layers, h, mlp, blockVocab, blockMask)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	return dir
}

// inFormat returns a folder as a GGUF file: one of the mixtures that Convert writes, or one format
// for all matrices.
func inFormat(t *testing.T, dir, format string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.gguf")
	q, one := quant.Parse(format)
	if !one {
		require.NoError(t, gguf.Convert(context.Background(), dir, file, format))
		return file
	}
	// the keys and names that Convert writes, with every matrix encoded again
	require.NoError(t, gguf.Convert(context.Background(), dir, file, "q8_0"))
	made, err := gguf.Open(file)
	require.NoError(t, err)
	defer made.Set.Close()
	var tensors []gguf.Tensor
	for _, name := range made.Set.Names() {
		from, _ := made.Set.Get(name)
		x, err := from.Floats()
		require.NoError(t, err)
		to := gguf.Tensor{Name: name, DType: weights.F32, Shape: from.Shape}
		data := make([]byte, 0, 4*len(x))
		for _, v := range x {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		if len(from.Shape) > 1 && !strings.Contains(name, "gate_inp") {
			to.DType = weights.DType(format)
			data = make([]byte, q.RowBytes(len(x)))
			quant.Encode(q, data, x)
		}
		to.Write = func(w io.Writer) error { _, err := w.Write(data); return err }
		tensors = append(tensors, to)
	}
	f, err := os.Create(file + ".again")
	require.NoError(t, err)
	require.NoError(t, gguf.Write(f, keysOf(t, made), tensors))
	require.NoError(t, f.Close())
	require.NoError(t, os.Rename(f.Name(), file))
	return file
}

// keysOf returns the keys of a file that Convert wrote without a tokenizer: texts, bools, whole
// numbers and floats.
func keysOf(t *testing.T, f *gguf.File) (keys []gguf.Key) {
	t.Helper()
	for _, name := range f.Keys() {
		if v, err := f.Text(name); err == nil {
			keys = append(keys, gguf.Key{Name: name, Value: v})
		} else if v, err := f.Bool(name); err == nil {
			keys = append(keys, gguf.Key{Name: name, Value: v})
		} else if v, err := f.Int(name); err == nil {
			keys = append(keys, gguf.Key{Name: name, Value: uint32(v)})
		} else {
			v, err := f.Float(name)
			require.NoError(t, err, name)
			keys = append(keys, gguf.Key{Name: name, Value: float32(v)})
		}
	}
	return keys
}

// unpacked returns a folder with a GGUF file's weights as float32 safetensors, which the block
// products have no part in.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	f, err := gguf.Open(file)
	require.NoError(t, err)
	defer f.Set.Close()
	config, set, err := f.Model()
	require.NoError(t, err)
	var all []weights.Tensor
	for _, name := range set.Names() {
		from, _ := set.Get(name)
		x, err := from.Floats()
		require.NoError(t, err)
		data := make([]byte, 0, 4*len(x))
		for _, v := range x {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		all = append(all, weights.Tensor{Name: name, DType: weights.F32, Shape: from.Shape, Data: data})
	}
	dir := t.TempDir()
	require.NoError(t, weights.WriteFile(filepath.Join(dir, "model.safetensors"), all, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	return dir
}

// passesOf returns the logits of a full pass over two sequences, and then those of partial passes
// over some rows of the first whose tokens changed: 1, and sums of the heights that kernels have.
func passesOf(t *testing.T, name string, b backend.Backend) (full, partial []float32) {
	t.Helper()
	return passesIn(t, name, b, backend.F32)
}

func passesIn(t *testing.T, name string, b backend.Backend, as backend.Precision) (full,
	partial []float32) {
	t.Helper()
	src, err := model.Open(name)
	require.NoError(t, err)
	defer src.Set.Close()
	l, err := model.Load(src, model.Options{Backend: b, Precision: as})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	tokens := make([]int32, 2*blockLength)
	for i := range tokens {
		if tokens[i] = int32(r.IntN(280)); i%5 > 2 {
			tokens[i] = blockMask
		}
	}
	got, err := l.Denoiser.Forward(context.Background(),
		parity.Batch(slices.Clone(tokens), []int{2, blockLength}))
	require.NoError(t, err)
	full = parity.Logits(t, got, parity.Count(len(tokens)), blockVocab)
	if f, ok := l.Denoiser.(model.Feeder); ok && f.Spec().Causal != model.NotCausal {
		return full, feeds(t, f, tokens[:blockLength])
	}
	m := l.Denoiser.(model.Refiner)
	for _, n := range []int{1, 7, 10} {
		batch := parity.Batch(tokens[:blockLength:blockLength], []int{1, blockLength})
		batch.Cache = m.NewCache(1, blockLength)
		_, err := m.Forward(context.Background(), batch)
		require.NoError(t, err)
		var rows []int32
		for i := range n {
			rows = append(rows, int32((7*i+3)%blockLength))
		}
		again, err := m.Refine(context.Background(), batch, rows)
		require.NoError(t, err)
		for i, row := range rows {
			require.Equal(t, full[int(row)*blockVocab:][:blockVocab],
				parity.Logits(t, again, rows[i:i+1], blockVocab), "row %d of %d unchanged ones", row, n)
		}
		batch.Tokens = append([]int32(nil), batch.Tokens...)
		for _, row := range rows {
			batch.Tokens[row] = (batch.Tokens[row] + 17) % 280
		}
		some, err := m.Refine(context.Background(), batch, rows)
		require.NoError(t, err)
		partial = append(partial, parity.Logits(t, some, rows, blockVocab)...)
	}
	return full, partial
}

// feeds returns the logits of passes of each kind over the last rows, on top of the kept ones.
func feeds(t *testing.T, m model.Feeder, tokens []int32) (logits []float32) {
	for _, n := range []int{1, 7, 10} {
		at := len(tokens) - n
		batch := parity.Batch(slices.Clone(tokens), []int{1, len(tokens)})
		for i := range at { // only masks of the last rows
			batch.Tokens[i] = int32(100 + i)
		}
		batch.Cache, batch.Lengths = m.NewCache(1, len(tokens)), []int{at}
		_, err := m.Feed(context.Background(), batch, parity.Count(at), model.Commit)
		require.NoError(t, err)
		batch.Lengths[0] = len(tokens)
		for _, how := range []model.Feeding{model.Fill, model.Draft, model.Commit} {
			rows := parity.Count(len(tokens))[at:]
			got, err := m.Feed(context.Background(), batch, rows, how)
			require.NoError(t, err)
			logits = append(logits, parity.Logits(t, got, rows, blockVocab)...)
		}
	}
	return logits
}

// rounded is a device whose products take rows rounded to 255 levels for 256 values, as those of
// block formats do, but by float32 arithmetic.
type rounded struct{ backend.Backend }

func (r rounded) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	r.Backend.Linear(dst, r.round(x, rows), rows, w, e)
}

func (r rounded) HeadVisit(x *tensor.Dense, rows int, h backend.Head, visit func(int, []float32)) {
	r.Backend.HeadVisit(r.round(x, rows), rows, h, visit)
}

func (r rounded) round(x *tensor.Dense, rows int) *tensor.Dense {
	to := r.New(x.Shape()...)
	from, y := x.Float32s(), to.Float32s()
	for at := 0; at < rows*x.Shape()[1]; at += 256 {
		most := float32(0)
		for _, v := range from[at:][:256] {
			most = max(most, float32(math.Abs(float64(v))))
		}
		for i, v := range from[at:][:256] {
			if most > 0 {
				y[at+i] = float32(math.RoundToEven(float64(v*(127/most)))) * (most / 127)
			}
		}
	}
	return to
}

// errorsOf returns the largest difference over the largest value, and the same of the root mean
// squares.
func errorsOf(want, got []float32) (largest, mean float64) {
	var most, worst, e, all float64
	for i, v := range want {
		d := math.Abs(float64(got[i]) - float64(v))
		most, worst = max(most, math.Abs(float64(v))), max(worst, d)
		e, all = e+d*d, all+float64(v)*float64(v)
	}
	return worst / most, math.Sqrt(e / all)
}

// blockCases are the formats that are tested in a whole network. q4_k_m has Q4_K and Q6_K.
var blockCases = []struct{ kind, format string }{{"llada", "q4_k_m"}, {"llada", "Q5_K"},
	{"llada", "Q6_K"}, {"llada", "Q4_0"}, {"llada", "Q5_0"}, {"Dream", "q4_k_m"}, {"Dream", "q8_0"},
	{"DreamOn", "q4_k_m"}, {"WeDLM-7B", "q4_k_m"}, {"WeDLM-8B", "q8_0"}, {"Nemotron", "q4_k_m"}}

// A model whose rows are whole blocks of 256 values gives, from a GGUF file of each format, in full
// and partial passes, the logits of the same weights unpacked to float32: to 1e-5 of the largest if
// the device gets the values of the blocks, and, if it multiplies the blocks, to 8 % of the largest
// and 5 % in the mean square, because rows are rounded to 255 levels for 256 values. All
// instruction sets give the same bits.
func TestBlockFormats(t *testing.T) {
	for _, c := range blockCases {
		t.Run(c.kind+"/"+c.format, func(t *testing.T) {
			file := inFormat(t, blockFolder(t, c.kind, 2), c.format)
			var exact, first [2][]float32
			exact[0], exact[1] = passesOf(t, unpacked(t, file), cpu.New(cpu.Options{}))
			full, partial := passesOf(t, file, valued{cpu.New(cpu.Options{})})
			parity.RequireClose(t, exact[0], full, 1e-5)
			parity.RequireClose(t, exact[1], partial, 1e-5)
			for _, level := range simd.Available() {
				if level.ISA == simd.Generic && c.kind+c.format != "lladaq4_k_m" {
					continue // slow; package gemm compares its kernels of every format
				}
				full, partial := passesOf(t, file, cpu.New(cpu.Options{ISA: level.String()}))
				for i, got := range [][]float32{full, partial} {
					largest, mean := errorsOf(exact[i], got)
					t.Logf("%s: %.4f of the largest, %.4f in the mean square", level, largest, mean)
					require.Less(t, largest, 8e-2, level)
					require.Less(t, mean, 5e-2, level)
					switch {
					case level.ISA == simd.Generic: // computes functions in float64
					case first[i] == nil:
						first[i] = got
					default:
						require.Equal(t, first[i], got, level)
					}
				}
			}
		})
	}
}

// The error of block products is that of the rounded rows alone: the unpacked weights behind rows
// that are rounded likewise give the same logits to 1e-5, in three quarters of the rows. In the
// others a value between two levels is rounded the other way, which changes what follows; so the
// network has one layer, in which few rows have such a value.
func TestBlockFormatsRoundRowsAlone(t *testing.T) {
	for _, c := range blockCases {
		t.Run(c.kind+"/"+c.format, func(t *testing.T) {
			file := inFormat(t, blockFolder(t, c.kind, 1), c.format)
			full, partial := passesOf(t, file, cpu.New(cpu.Options{}))
			wantFull, wantPartial := passesOf(t, unpacked(t, file), rounded{cpu.New(cpu.Options{})})
			want, got := append(wantFull, wantPartial...), append(full, partial...)
			var worst []float64
			for at := 0; at < len(want); at += blockVocab {
				largest, _ := errorsOf(want[at:][:blockVocab], got[at:][:blockVocab])
				worst = append(worst, largest)
			}
			slices.Sort(worst)
			t.Logf("%.2g, %.2g, %.2g", worst[len(worst)/2], worst[len(worst)*3/4], worst[len(worst)-1])
			require.Less(t, worst[len(worst)*3/4], 1e-5)
		})
	}
}

// In int8 and bfloat16 every kind gives the logits of float32, in full and partial passes: to 6 %
// in the mean square in int8, and 1.5 % in bfloat16.
func TestPrecisions(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(blockKinds)) {
		t.Run(kind, func(t *testing.T) {
			dir := blockFolder(t, kind, 2)
			want, wantPartial := passesIn(t, dir, cpu.New(cpu.Options{}), backend.F32)
			for precision, bound := range map[backend.Precision]float64{backend.Int8: 6e-2,
				backend.BF16: 1.5e-2} {
				full, partial := passesIn(t, dir, cpu.New(cpu.Options{}), precision)
				_, mean := errorsOf(want, full)
				_, some := errorsOf(wantPartial, partial)
				t.Logf("%v: %.4f, %.4f in the mean square", precision, mean, some)
				require.Less(t, max(mean, some), bound, precision)
				require.Positive(t, min(mean, some), precision)
			}
		})
	}
}
