package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"unmask/backend"
	"unmask/internal/float16"
	"unmask/internal/quant"
	"unmask/model"
	"unmask/weights"
	"unmask/weights/gguf"
)

// Of the published models two layers are timed, over so many positions, with so many tokens: the
// head does not run.
const (
	llamaLayers = 2
	llamaLength = 256
	llamaWindow = 160 // a prompt of 128 and a block, as decoders with a suffix window see them
	llamaVocab  = 1024

	llamaWidth   = 4096 // of LLaDA-8B
	llamaMLP     = 12288
	llamaWeights = 4*llamaWidth*llamaWidth + 3*llamaWidth*llamaMLP // of one of its layers
)

// decoder is a model whose layers are timed, in one type of weights.
type decoder struct {
	// name is that in measurements, arch the architecture for WriteGGUF.
	name string
	arch string

	Sizes
	dtype weights.DType

	// precision is the one whose ceiling limits products with such weights.
	precision backend.Precision
}

var decoders = []decoder{
	{"llama8b/q4_k", "llada", LLaDA8B, weights.Q4_K, backend.Int8},
	{"llama8b/q8_0", "llada", LLaDA8B, weights.Q8_0, backend.Int8},
	{"llama8b/bf16", "llada", LLaDA8B, weights.BF16, backend.BF16},
	{"llada-moe/q4_k", "llada-moe", LLaDAMoE, weights.Q4_K, backend.Int8},
}

// layerMeasurements returns measurements of two layers of each decoder: full passes over 256 and
// 160 positions, and one over a block of 32 of 256 with the other keys and values in the cache.
func layerMeasurements() []Measurement {
	var out []Measurement
	for _, d := range decoders {
		out = append(out,
			Measurement{"forward/" + d.name,
				func(s *Suite) (work, error) { return s.measureLayers(d, llamaLength, llamaLength) }},
			Measurement{"window160/" + d.name,
				func(s *Suite) (work, error) { return s.measureLayers(d, llamaWindow, llamaWindow) }},
			Measurement{"block32/" + d.name,
				func(s *Suite) (work, error) { return s.measureLayers(d, llamaLength, 32) }})
	}
	return out
}

// measureLayers measures passes over the last rows of one sequence of a length; the head does not
// run.
func (s *Suite) measureLayers(d decoder, length, count int) (work, error) {
	m, err := s.loadNetwork(d.name, d.precision)
	if err != nil {
		return work{}, err
	}
	refiner := m.Denoiser.(model.Refiner)
	b := maskedBatch(m, 1)
	b.Length = length
	b.Tokens = b.Tokens[:length]
	b.Cache = refiner.NewCache(1, b.Length)
	full := func() error {
		_, err := refiner.Forward(context.Background(), b)
		return err
	}
	used, total := d.countWeights()
	c := cost{precision: d.precision, ops: float64(count) * llamaLayers *
		(2*used + 4*float64(length*d.Heads*d.HeadDim))}
	if count == length {
		return work{run: full, cost: c}, nil
	}
	if err := full(); err != nil {
		return work{}, err
	}
	rows := make([]int32, count)
	for i := range rows {
		rows[i] = int32(b.Length - count + i)
		b.Tokens[rows[i]] = int32(i)
	}
	values, size := d.dtype.Block()
	c.bytes = llamaLayers * total / float64(values) * float64(size)
	return work{run: func() error {
		_, err := refiner.Refine(context.Background(), b, rows)
		return err
	}, cost: c}, nil
}

// randomSource returns the model's files.
func (d decoder) randomSource() (*model.Source, error) {
	sizes := d.Sizes
	sizes.Layers = llamaLayers
	sizes.Vocab = llamaVocab
	sizes.Length = llamaLength
	return RandomSource(d.arch, sizes, d.dtype)
}

// Sizes are those of a decoder in Llama's form. With experts, MLP is the width of one.
type Sizes struct {
	Layers, Width, MLP, Heads, KV, HeadDim, Vocab, Length int
	Experts, PerToken                                     int
}

// The published sizes of LLaDA-8B, Dream-7B, Nemotron-Labs-Diffusion-3B and LLaDA-MoE-7B-A1B.
var (
	LLaDA8B    = Sizes{32, llamaWidth, llamaMLP, 32, 32, 128, 126464, 4096, 0, 0}
	Dream7B    = Sizes{28, 3584, 18944, 28, 4, 128, 152064, 131072, 0, 0}
	Nemotron3B = Sizes{26, 3072, 9216, 32, 8, 128, 131072, 262144, 0, 0}
	LLaDAMoE   = Sizes{16, 2048, 1024, 16, 16, 128, 157184, 8192, 64, 8}
)

// countWeights returns the numbers of weights of a layer: those that a row uses, and all.
func (s Sizes) countWeights() (used, total float64) {
	attention := float64(2 * s.Width * s.HeadDim * (s.Heads + s.KV))
	expert := float64(3 * s.Width * s.MLP)
	used = attention + expert*float64(max(s.PerToken, 1))
	total = attention + expert*float64(max(s.Experts, 1))
	return used, total
}

// WriteGGUF writes a GGUF file with random weights: one type for matrices, another for the head and
// the embeddings. The architecture is llada, dream, mistral3 for Nemotron-Labs-Diffusion,
// llada-moe, or llama, which decodes from left to right in other programs. Its tokenizer has a
// token for each character.
func WriteGGUF(w io.Writer, arch string, s Sizes, matrices, head weights.DType) error {
	return gguf.Write(w, s.ggufKeys(arch), s.ggufTensors(arch, matrices, head))
}

// ggufKeys returns what a file of an architecture says of the model.
func (s Sizes) ggufKeys(arch string) []gguf.Key {
	mask := s.Vocab - 1
	end := s.Vocab - 2

	// keys that begin with the architecture's name, and others
	archValues := map[string]any{
		"rope.freq_base":                   float32(5e5),
		"attention.layer_norm_rms_epsilon": float32(1e-5),
	}
	values := map[string]any{"general.architecture": arch}

	sizes := map[string]int{
		"vocab_size":              s.Vocab,
		"rope.dimension_count":    s.HeadDim,
		"block_count":             s.Layers,
		"context_length":          s.Length,
		"embedding_length":        s.Width,
		"feed_forward_length":     s.MLP,
		"attention.head_count":    s.Heads,
		"attention.head_count_kv": s.KV,
		"attention.key_length":    s.HeadDim,
		"attention.value_length":  s.HeadDim,
	}
	if s.Experts > 0 {
		sizes["expert_count"] = s.Experts
		sizes["expert_used_count"] = s.PerToken
	}
	switch arch {
	case "llada", "dream", "llada-moe":
		archValues["attention.causal"] = false
		values["diffusion.shift_logits"] = arch == "dream"
		if arch == "llada-moe" {
			sizes["expert_feed_forward_length"] = s.MLP
		}
	case "mistral3":
		mask = 100
		end = 11
		values["diffusion.model_type"] = "nemotron_labs_diffusion"
		values["diffusion.block_size"] = uint32(32)
	}

	for name, n := range sizes {
		archValues[name] = uint32(n)
	}
	for name, value := range archValues {
		values[arch+"."+name] = value
	}
	keys := vocabularyKeys(s.Vocab, mask, end)
	for name, value := range values {
		keys = append(keys, gguf.Key{Name: name, Value: value})
	}
	return keys
}

// ggufTensors returns the tensors of a file, with random values: all matrices in one type, the head
// and the embeddings in another.
func (s Sizes) ggufTensors(arch string, matrices, head weights.DType) (tensors []gguf.Tensor) {
	add := func(name string, dtype weights.DType, shape ...int) {
		tensors = append(tensors, gguf.Tensor{
			Name:  name,
			DType: dtype,
			Shape: shape,
			Write: func(w io.Writer) error { return writeRandom(w, dtype, shape) },
		})
	}
	add("token_embd.weight", head, s.Vocab, s.Width)
	add("output_norm.weight", weights.F32, s.Width)
	add("output.weight", head, s.Vocab, s.Width)
	queries := s.Heads * s.HeadDim
	keys := s.KV * s.HeadDim
	for i := range s.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		add(b+"attn_norm.weight", weights.F32, s.Width)
		add(b+"ffn_norm.weight", weights.F32, s.Width)
		add(b+"attn_q.weight", matrices, queries, s.Width)
		add(b+"attn_k.weight", matrices, keys, s.Width)
		add(b+"attn_v.weight", matrices, keys, s.Width)
		add(b+"attn_output.weight", matrices, s.Width, queries)
		switch arch {
		case "dream":
			add(b+"attn_q.bias", weights.F32, queries)
			add(b+"attn_k.bias", weights.F32, keys)
			add(b+"attn_v.bias", weights.F32, keys)
		case "llada-moe":
			add(b+"attn_q_norm.weight", weights.F32, s.HeadDim)
			add(b+"attn_k_norm.weight", weights.F32, s.HeadDim)
		}

		// the matrices of all experts are one tensor
		suffix := ""
		var experts []int
		if s.Experts > 0 {
			add(b+"ffn_gate_inp.weight", weights.F32, s.Experts, s.Width)
			suffix = "_exps"
			experts = []int{s.Experts}
		}
		add(b+"ffn_gate"+suffix+".weight", matrices, append(experts, s.MLP, s.Width)...)
		add(b+"ffn_up"+suffix+".weight", matrices, append(experts, s.MLP, s.Width)...)
		add(b+"ffn_down"+suffix+".weight", matrices, append(experts, s.Width, s.MLP)...)
	}
	return tensors
}

// vocabularyKeys returns the keys of a vocabulary, which other programs need: printable characters
// of ASCII, and texts that do not occur.
func vocabularyKeys(n, mask, end int) []gguf.Key {
	const normal, control = 1, 3 // types of tokens in GGUF
	tokens := make([]string, n)
	kinds := make([]int32, n)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("[%d]", i)
		if i < '~'-' ' {
			tokens[i] = string(rune('!' + i))
		}
		kinds[i] = normal
	}
	kinds[mask] = control
	kinds[end] = control
	return []gguf.Key{
		{Name: "tokenizer.ggml.model", Value: "gpt2"},
		{Name: "tokenizer.ggml.pre", Value: "qwen2"},
		{Name: "tokenizer.ggml.tokens", Value: tokens},
		{Name: "tokenizer.ggml.token_type", Value: kinds},
		{Name: "tokenizer.ggml.merges", Value: []string{}},
		{Name: "tokenizer.ggml.mask_token_id", Value: uint32(mask)},
		{Name: "tokenizer.ggml.eos_token_id", Value: uint32(end)},
		{Name: "tokenizer.ggml.add_bos_token", Value: false},
		{Name: "tokenizer.chat_template", Value: "{{ messages[0]['content'] }}"},
	}
}

// RandomSource returns a model with the weights that WriteGGUF writes, in memory.
func RandomSource(arch string, s Sizes, dtype weights.DType) (*model.Source, error) {
	var file bytes.Buffer
	if err := WriteGGUF(&file, arch, s, dtype, dtype); err != nil {
		return nil, err
	}
	f, err := gguf.Parse(file.Bytes(), arch)
	if err != nil {
		return nil, err
	}
	config, set, err := f.Model()
	return &model.Source{Name: arch, Config: config, Set: set, Files: f.CompanionFS()}, err
}

// writeRandom writes values of a size that keeps activations in range. Blocks repeat after a prime
// number of them.
func writeRandom(w io.Writer, dtype weights.DType, shape []int) error {
	width := shape[len(shape)-1]
	values, size := dtype.Block()
	left := size * width / values
	for _, n := range shape[:len(shape)-1] {
		left *= n
	}
	r := rand.New(rand.NewPCG(1, uint64(left)))
	chunk := make([]byte, chunkBlocks*size)
	q, isQuantised := quant.Parse(string(dtype))
	switch {
	case isQuantised:
		chunk = randomBlocks(q, r)
	case len(shape) == 1:
		for i := 0; i < len(chunk); i += size { // 1
			copy(chunk[i:], map[weights.DType]string{weights.F32: "\x00\x00\x80\x3f"}[dtype])
		}
	default:
		chunk = randomBF16(uint32(left), 65521, 0, 1.0/37)
		if dtype == weights.F32 {
			var wide []byte
			for half := range slices.Chunk(chunk, 2) {
				wide = append(wide, 0, 0, half[0], half[1])
			}
			chunk = wide
		}
	}
	for left > 0 {
		n, err := w.Write(chunk[:min(left, len(chunk))])
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// chunkBlocks is the prime number of blocks after which random ones repeat.
const chunkBlocks = 4093

// randomBlocks returns blocks of random levels, with scales that keep activations in range.
func randomBlocks(q quant.Type, r *rand.Rand) []byte {
	size := q.Bytes()
	chunk := make([]byte, chunkBlocks*size)
	for i := range chunk {
		chunk[i] = byte(r.Uint32())
	}
	// deviation for d 1, about
	levels := map[quant.Type]float32{quant.Q8_0: 74, quant.Q4_0: 4.6, quant.Q4_K: 170,
		quant.Q5_K: 340, quant.Q6_K: 1400}[q]
	d := float16.Round(1 / (64 * levels))
	for first := 0; first < len(chunk); first += size {
		scales := chunk[first:]
		if q == quant.Q6_K { // which has its scale at the end
			scales = chunk[first+size-2:]
		}
		binary.LittleEndian.PutUint16(scales, d)
		if q.Mins() {
			m := float16.Round(float16.Float32(d) * 7.5)
			binary.LittleEndian.PutUint16(scales[2:], m)
		}
	}
	return chunk
}
