package gguf

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/internal/parallel"
	"unmask/internal/quant"
	"unmask/weights"
)

// Recipes returns the names of the mixtures of types that Convert writes: q8_0 has Q8_0 for all
// matrices; q4_k_m is llama.cpp's Q4_K_M: Q4_K, except Q6_K for the head and for half of attn_v and
// ffn_down (llama-quant.cpp). Rows that are not whole blocks have Q8_0 or, if that does not fit
// either, F16.
func Recipes() []string { return []string{"q8_0", "q4_k_m"} }

// Convert writes the model in folder dir, LLaDA or Dream in their authors' layout, as a GGUF file
// of llama.cpp's dialect: with its names and keys, LLaDA's Q and K ordered for interleaved rotary
// embedding, and the vocabulary of tokenizer.json. The file appears whole or not at all; memory
// does not grow with the model.
func Convert(ctx context.Context, dir, file, recipe string) error {
	if !slices.Contains(Recipes(), recipe) {
		return fmt.Errorf("quantize is %.40q, want %s", recipe, strings.Join(Recipes(), " or "))
	}
	if err := atomicfile.CheckPlace(file); err != nil {
		return err
	}
	set, err := weights.Open(dir)
	if err != nil {
		return err
	}
	defer set.Close()
	c := &converter{set: set, dir: dir, recipe: recipe, pool: parallel.New(0), ctx: ctx}
	keys, err := c.keys()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	tensors, err := c.tensors()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := atomicfile.WriteFile(file,
		func(w io.Writer) error { return Write(w, keys, tensors) }); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

type converter struct {
	set    *weights.Set
	dir    string
	recipe string
	pool   *parallel.Pool
	ctx    context.Context

	family family
	config map[string]json.RawMessage
	blocks int
	err    error
}

// number returns a number of config.json, 0 if it is missing or not a number.
func (c *converter) number(name string) (v float64) {
	raw, ok := c.config[name]
	if err := json.Unmarshal(raw, &v); ok && err != nil && c.err == nil {
		c.err = fmt.Errorf("config.json: %s is %.40s, want a number", name, raw)
	}
	return v
}

func (c *converter) size(name string) int {
	v := c.number(name)
	if c.err == nil && !(v >= 1 && v <= 1<<30 && v == float64(int(v))) {
		c.err = fmt.Errorf("config.json: %s is %v, want an integer from 1 to %d", name, v, 1<<30)
	}
	return int(v)
}

// keys returns the file's keys.
func (c *converter) keys() ([]Key, error) {
	data, err := atomicfile.ReadFile(filepath.Join(c.dir, "config.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &c.config); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	kind, arch := "", "llada"
	names := map[string]string{"embedding_length": "d_model", "block_count": "n_layers",
		"attention.head_count":    "n_heads",
		"attention.head_count_kv": "n_kv_heads", "feed_forward_length": "mlp_hidden_size",
		"context_length": "max_sequence_length"}
	if err := json.Unmarshal(c.config["model_type"], &kind); err != nil {
		return nil, fmt.Errorf("config.json: model_type is %.40s, want a text", c.config["model_type"])
	}
	switch kind {
	case "llada":
		c.family = llada
	case "Dream":
		c.family, arch = dream, "dream"
		names = map[string]string{"embedding_length": "hidden_size", "block_count": "num_hidden_layers",
			"attention.head_count":    "num_attention_heads",
			"attention.head_count_kv": "num_key_value_heads", "feed_forward_length": "intermediate_size",
			"context_length": "max_position_embeddings"}
	default:
		return nil, fmt.Errorf("config.json: model_type is %.40q, want llada or Dream", kind)
	}
	keys := []Key{{architectureKey, arch}, {"general.name", filepath.Base(c.dir)}}
	for _, name := range []string{"block_count", "context_length", "embedding_length",
		"feed_forward_length", "attention.head_count", "attention.head_count_kv"} {
		keys = append(keys, Key{arch + "." + name, uint32(c.size(names[name]))})
	}
	c.blocks = c.size(names["block_count"])
	heads, width := c.size(names["attention.head_count"]), c.size(names["embedding_length"])
	eps, theta := c.number("rms_norm_eps"), c.number("rope_theta")
	if c.err == nil && (!(eps > 0) || !(theta > 0) || width%heads != 0) {
		c.err = fmt.Errorf("config.json: rms_norm_eps is %v and rope_theta %v, want positive numbers, "+
			"and %d heads dividing %d", eps, theta, heads, width)
	}
	if c.err != nil {
		return nil, c.err
	}
	keys = append(keys, Key{arch + ".attention.layer_norm_rms_epsilon", float32(eps)},
		Key{arch + ".rope.freq_base", float32(theta)},
		Key{arch + ".rope.dimension_count", uint32(width / heads)},
		Key{arch + ".attention.causal", false})
	if kind == "llada" {
		keys = append(keys, Key{"diffusion.shift_logits", false})
	}
	for _, id := range [][2]string{{"mask", "mask_token_id"}, {"bos", "bos_token_id"},
		{"eos", "eos_token_id"}, {"padding", "pad_token_id"}} {
		if _, ok := c.config[id[1]]; ok {
			keys = append(keys, Key{"tokenizer.ggml." + id[0] + "_token_id", uint32(c.number(id[1]))})
		}
	}
	words, err := vocabulary(c.dir, kind)
	if err != nil {
		return nil, err
	}
	return append(keys, words...), c.err
}

// tensors returns the file's tensors: those outside blocks first, then block by block.
func (c *converter) tensors() ([]Tensor, error) {
	theirs := map[string]string{} // maps the authors' names to the file's
	var names []string
	add := func(name string) {
		for _, end := range c.family.ends {
			if _, ok := c.set.Get(c.family.name(name + end)); ok {
				theirs[c.family.name(name+end)] = name + end
				names = append(names, name+end)
			}
		}
	}
	for _, name := range []string{"token_embd", "output_norm", "output"} {
		add(name)
	}
	for n := range c.blocks {
		for _, key := range []string{"attn_norm", "attn_q", "attn_q_norm", "attn_k", "attn_k_norm",
			"attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"} {
			add("blk." + strconv.Itoa(n) + "." + key)
		}
	}
	for _, name := range c.set.Names() {
		if theirs[name] == "" {
			return nil, fmt.Errorf("tensor %q has no place in a GGUF file of this kind", name)
		}
	}
	var all []Tensor
	_, headed := theirs[c.family.name("output.weight")]
	for _, name := range names {
		t, _ := c.set.Get(c.family.name(name))
		if !t.DType.IsFloat() || len(t.Shape) < 1 || len(t.Shape) > 2 {
			return nil, fmt.Errorf("tensor %q: %v of %s, want a float vector or matrix", t.Name, t.Shape,
				t.DType)
		}
		d := c.typeOf(name, t.Shape, headed)
		all = append(all, Tensor{Name: name, DType: d, Shape: t.Shape,
			Write: func(w io.Writer) error { return c.write(w, t, d, c.order(name, t)) }})
	}
	return all, nil
}

// typeOf returns the type that the recipe has for a tensor.
func (c *converter) typeOf(name string, shape []int, headed bool) weights.DType {
	if len(shape) == 1 {
		return weights.F32
	}
	want := weights.Q8_0
	if c.recipe == "q4_k_m" {
		want = weights.Q4_K
		_, key, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
		n, _ := strconv.Atoi(strings.Split(strings.TrimPrefix(name, "blk."), ".")[0])
		eighth := c.blocks / 8
		more := n < eighth || n >= 7*c.blocks/8 || (n-eighth)%3 == 2
		if name == "output.weight" || name == "token_embd.weight" && !headed ||
			more && (key == "attn_v.weight" || key == "ffn_down.weight") {
			want = weights.Q6_K
		}
	}
	for _, d := range []weights.DType{want, weights.Q8_0} {
		if values, _ := d.Block(); shape[1]%values == 0 {
			return d
		}
	}
	return weights.F16
}

// order returns, for row i of the file, the row of t: LLaDA's Q and K are interleaved.
func (c *converter) order(name string, t *weights.Tensor) func(i int) int {
	heads := 0
	if _, ok := c.config["n_heads"]; ok && strings.HasSuffix(name, ".attn_q.weight") {
		heads = c.size("n_heads")
	} else if ok && strings.HasSuffix(name, ".attn_k.weight") {
		heads = c.size("n_kv_heads")
	}
	if heads == 0 {
		return func(i int) int { return i }
	}
	dim := t.Shape[0] / heads
	return func(i int) int { return i/dim*dim + i%dim%2*(dim/2) + i%dim/2 }
}

const rowsAtATime = 256

// write writes rows of t in a type.
func (c *converter) write(w io.Writer, t *weights.Tensor, as weights.DType,
	from func(i int) int) error {
	width := t.Shape[len(t.Shape)-1]
	rows := t.Numel() / width
	values, size := as.Block()
	bytes := width / values * size
	x, data := make([][]float32, c.pool.Threads()), make([]byte, min(rows, rowsAtATime)*bytes)
	for i := range x {
		x[i] = make([]float32, width)
	}
	for first := 0; first < rows; first += rowsAtATime {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n := min(rowsAtATime, rows-first)
		failed := make([]error, n)
		c.pool.For(n, func(worker, i int) {
			row := x[worker]
			if failed[i] = t.ReadFloat32s(row, from(first+i)*width); failed[i] == nil {
				encode(as, data[i*bytes:(i+1)*bytes], row)
				if q, ok := quant.Parse(string(as)); ok && !quant.Finite(q, data[i*bytes:(i+1)*bytes]) {
					failed[i] = fmt.Errorf("row %d is beyond what %s holds", first+i, as)
				}
			}
		})
		for _, err := range failed {
			if err != nil {
				return err
			}
		}
		if _, err := w.Write(data[:n*bytes]); err != nil {
			return err
		}
	}
	return t.Release()
}
