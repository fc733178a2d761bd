package gguf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/internal/parallel"
	"unmask/internal/quant"
	"unmask/param"
	"unmask/weights"
)

// Mixtures returns the names of the mixtures of types that Convert writes: q8_0 has Q8_0 for all
// matrices; q4_k_m is llama.cpp's Q4_K_M: Q4_K, except Q6_K for the head and for half of attn_v and
// ffn_down (llama-quant.cpp). Rows that are not whole blocks have Q5_0 for Q4_K and Q8_0 for Q6_K,
// as there, or, if that does not fit either, F16.
func Mixtures() []string { return []string{"q8_0", "q4_k_m"} }

// Convert writes the model in folder dir, in its authors' layout, as a GGUF file of llama.cpp's
// dialect: with its names and keys, the rows of Q and K in its order, and the vocabulary of
// tokenizer.json. See Model for the kinds. The adapter for drafts of Nemotron-Labs-Diffusion has no
// place in the file. The file appears whole or not at all; memory does not grow with the model.
func Convert(ctx context.Context, dir, file, recipe string) error {
	if !slices.Contains(Mixtures(), recipe) {
		return fmt.Errorf("quantize is %.40q, want %s", recipe, strings.Join(Mixtures(), " or "))
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
	var tensors []Tensor
	if err == nil {
		tensors, err = c.tensors()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return param.AtPlace(file, atomicfile.WriteFile(file,
		func(w io.Writer) error { return Write(w, keys, tensors) }))
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
	err = c.spread()
	arch, inKind := c.kind()
	if err := cmp.Or(err, inKind); err != nil {
		return nil, err
	}
	keys := []Key{{architectureKey, arch}, {"general.name", filepath.Base(c.dir)}}
	names := c.family.sizes
	for _, name := range sizeKeys {
		if names[name] != "" {
			keys = append(keys, Key{arch + "." + name, uint32(c.size(names[name]))})
		}
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
	head := width / heads
	if c.has("head_dim") {
		head = c.size("head_dim")
		keys = append(keys, Key{arch + ".attention.key_length", uint32(head)},
			Key{arch + ".attention.value_length", uint32(head)})
	}
	keys = append(keys, Key{arch + ".attention.layer_norm_rms_epsilon", float32(eps)},
		Key{arch + ".rope.freq_base", float32(theta)},
		Key{arch + ".rope.dimension_count", uint32(head)})
	keys = append(append(keys, c.scaling(arch)...), c.diffusion(arch)...)
	c.mixture()
	return c.tokens(keys)
}

// tokens returns keys with those of the vocabulary and of what ends a text.
func (c *converter) tokens(keys []Key) ([]Key, error) {
	words, err := vocabulary(c.dir)
	if err != nil {
		return nil, err
	}
	ends, bos := c.ends(), false
	for _, k := range words { // the first end is the tokenizer's, which chat templates write
		bos = bos || k.Name == "tokenizer.ggml.bos_token_id"
		if id, ok := k.Value.(uint32); ok && k.Name == endKeys[0] {
			ends = append([]uint32{id}, slices.DeleteFunc(ends, func(e uint32) bool { return e == id })...)
		}
	}
	if len(ends) > len(endKeys) && c.err == nil {
		c.err = fmt.Errorf("eos_token_id has %d tokens, want %d at most in a GGUF file", len(ends),
			len(endKeys))
	}
	for _, id := range [][2]string{{"mask", "mask_token_id"}, {"bos", "bos_token_id"},
		{"padding", "pad_token_id"}} {
		if c.has(id[1]) && (id[0] != "bos" || !bos) {
			keys = append(keys, Key{"tokenizer.ggml." + id[0] + "_token_id", c.ids(id[1])[0]})
		}
	}
	for i, id := range ends[:min(len(ends), len(endKeys))] {
		keys = append(keys, Key{endKeys[i], id})
	}
	for _, k := range words { // what config.json says of the model's tokens counts more
		if !slices.ContainsFunc(keys, func(have Key) bool { return have.Name == k.Name }) {
			keys = append(keys, k)
		}
	}
	return keys, c.err
}

// has reports whether config.json has a key with a value other than null.
func (c *converter) has(name string) bool {
	raw, ok := c.config[name]
	return ok && string(raw) != "null"
}

// ids returns the ids of tokens: a number or a list that is not empty.
func (c *converter) ids(name string) []uint32 {
	var list []float64
	if raw := c.config[name]; json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		list = []float64{c.number(name)}
	}
	ids := make([]uint32, len(list))
	for i, v := range list {
		if c.err == nil && !(v >= 0 && v <= 1<<30 && v == float64(int(v))) {
			c.err = fmt.Errorf("config.json: %s is %v, want an integer from 0 to %d", name, v, 1<<30)
		}
		ids[i] = uint32(v)
	}
	return ids
}

// ends returns the tokens that end a text: those of config.json, and then those that
// generation_config.json adds.
func (c *converter) ends() (ends []uint32) {
	const name = "eos_token_id"
	data, err := atomicfile.ReadFile(filepath.Join(c.dir, "generation_config.json"))
	generation := &converter{}
	if err == nil {
		err = json.Unmarshal(data, &generation.config)
	}
	if c.err == nil && err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.err = fmt.Errorf("generation_config.json: %w", err)
	}
	for _, from := range []*converter{c, generation} {
		if !from.has(name) {
			continue
		}
		for _, id := range from.ids(name) {
			if !slices.Contains(ends, id) {
				ends = append(ends, id)
			}
		}
	}
	c.err = cmp.Or(c.err, generation.err)
	return ends
}

// spread adds the keys of rope_scaling or, if that has none, of rope_parameters to those of
// config.json, in the order of transformers 5: original_max_position_embeddings counts more outside
// them, others less.
func (c *converter) spread() error {
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		var inner map[string]json.RawMessage
		if string(c.config[name]) == "false" { // RND1's word for null
			delete(c.config, name)
		}
		if err := json.Unmarshal(c.config[name], &inner); c.has(name) && err != nil {
			return fmt.Errorf("config.json: %s is %.40s, want an object", name, c.config[name])
		}
		if original := "original_max_position_embeddings"; c.has(original) {
			delete(inner, original)
		}
		if maps.Copy(c.config, inner); len(inner) > 0 {
			break
		}
	}
	return nil
}

// text returns a text of config.json, "" if it is missing.
func (c *converter) text(name string) (s string) {
	if err := json.Unmarshal(c.config[name], &s); c.has(name) && err != nil && c.err == nil {
		c.err = fmt.Errorf("config.json: %s is %.40s, want a text", name, c.config[name])
	}
	return s
}

// kind finds the model's family and returns its architecture in llama.cpp.
func (c *converter) kind() (arch string, err error) {
	kind := c.text("model_type")
	if c.err != nil {
		return "", c.err
	}
	if kind == llada.kind && c.has("expert_intermediate_size") {
		kind = lladaMoE.kind
	}
	for arch, family := range architectures {
		if family.kind == kind && arch != "qwen2" { // WeDLM has both
			c.family = family
			if _, biased := c.set.Get(family.name("blk.0.attn_q.bias")); kind == wedlm.kind && biased {
				arch = "qwen2"
			}
			return arch, nil
		}
	}
	return "", fmt.Errorf("config.json: model_type is %.40q, want llada, Dream, rnd1, %s or %s",
		kind, nemotron.kind, wedlm.kind)
}

// require notes a key of config.json whose value a file of llama.cpp cannot say, unless ok.
func (c *converter) require(ok bool, name, want string) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("config.json: %s is %.60s, want %s in a GGUF file", name, c.config[name], want)
	}
}

// scaling returns the keys of the scaling of rotary frequencies. What a file of llama.cpp cannot
// say is an error.
func (c *converter) scaling(arch string) []Key {
	kind := cmp.Or(c.text("rope_type"), c.text("type"))
	if kind == "" || kind == "default" {
		return nil
	}
	if kind != "linear" && kind != "yarn" {
		c.err = cmp.Or(c.err, fmt.Errorf("config.json: rope_type is %.40q, want default, linear or yarn "+
			"in a GGUF file", kind))
		return nil
	}
	keys := []Key{{arch + "." + ropeScaling + "type", kind},
		{arch + "." + ropeScaling + "factor", float32(c.number("factor"))}}
	if kind == "linear" {
		return keys
	}
	c.require(!c.has("attention_factor"), "attention_factor", "null")
	c.require(!c.has("truncate") || string(c.config["truncate"]) == "true", "truncate", "true")
	c.require(c.number("mscale") == 1 || c.number("mscale_all_dim") == 0, "mscale", "1")
	if c.has("original_max_position_embeddings") {
		keys = append(keys, Key{arch + "." + ropeScaling + "original_context_length",
			uint32(c.size("original_max_position_embeddings"))})
	}
	for _, name := range slices.Sorted(maps.Keys(scalingNames)) {
		if theirs := scalingNames[name]; c.number(theirs) != 0 {
			keys = append(keys, Key{arch + "." + name, float32(c.number(theirs))})
		}
	}
	return keys
}

// diffusion returns the keys that say how the network writes.
func (c *converter) diffusion(arch string) (keys []Key) {
	switch c.family.kind {
	case llada.kind, lladaMoE.kind:
		return []Key{{arch + ".attention.causal", false}, {shiftKey, false}}
	case dream.kind:
		keys = []Key{{arch + ".attention.causal", false}}
		if c.has("expand_token_id") {
			keys = append(keys, Key{expandKey, c.ids("expand_token_id")[0]})
		}
		return keys
	case rnd1.kind:
		return []Key{{arch + ".attention.causal", false}}
	}
	keys = []Key{{kindKey, c.family.kind}}
	if c.family.kind == nemotron.kind {
		block := 1
		if c.text("dlm_paradigm") != "autoregressive" && c.has("block_size") {
			block = c.size("block_size")
		}
		keys = append(keys, Key{blockKey, uint32(block)})
	}
	return keys
}

// mixture refuses what a file of llama.cpp cannot say of experts, and finds the mask of a model
// whose config.json has none.
func (c *converter) mixture() {
	count := c.family.sizes["expert_count"]
	if count == "" || c.err != nil {
		return
	}
	c.require(c.size(count) <= maxExperts, count, fmt.Sprintf("1 to %d", maxExperts))
	c.require(c.family.kind != rnd1.kind || string(c.config["norm_topk_prob"]) == "true",
		"norm_topk_prob", "true")
	if c.has("mask_token_id") {
		return
	}
	var t struct {
		Added map[string]struct{ Content string } `json:"added_tokens_decoder"`
	}
	data, err := atomicfile.ReadFile(filepath.Join(c.dir, "tokenizer_config.json"))
	if err == nil && json.Unmarshal(data, &t) == nil {
		for id, token := range t.Added {
			if token.Content == "<|mask|>" {
				c.config["mask_token_id"] = json.RawMessage(id)
			}
		}
	}
}

// unused are the ends of tensors that no network needs.
var unused = []string{".rotary_emb.inv_freq", ".k_scale", ".v_scale"}

// tensors returns the file's tensors: those outside blocks first, then block by block.
func (c *converter) tensors() ([]Tensor, error) {
	names, experts, err := c.places()
	if err != nil {
		return nil, err
	}
	var all []Tensor
	words, _ := c.set.Get(c.family.name("token_embd.weight"))
	head, headed := c.set.Get(c.family.name("output.weight"))
	headed = headed && head != words
	for _, name := range names {
		if list := experts[name]; list != nil {
			one := list[0]
			if len(one.Shape) != 2 {
				return nil, fmt.Errorf("tensor %q: %v, want a matrix", one.Name, one.Shape)
			}
			d := c.typeOf(name, one.Shape, headed)
			all = append(all, Tensor{Name: name, DType: d, Shape: append([]int{len(list)}, one.Shape...),
				Write: func(w io.Writer) error { return c.writeAll(w, list, d) }})
			continue
		}
		t, _ := c.set.Get(c.family.name(name))
		if name == "output.weight" && !headed { // a second name of the embedding
			continue
		}
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

// places returns the names of the tensors in the file's order, and of those of all experts the
// parts. It returns an error for a tensor that has no place.
func (c *converter) places() (names []string, experts map[string][]*weights.Tensor, err error) {
	theirs := map[string]string{} // maps the authors' names to the file's
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
	experts = map[string][]*weights.Tensor{}
	for n := range c.blocks {
		for _, key := range slices.Sorted(maps.Keys(expertNames)) {
			if c.family.names[key] == "" {
				continue
			}
			name := "blk." + strconv.Itoa(n) + "." + key + ".weight"
			for _, one := range parts(c.family.name(name), c.size(c.family.sizes["expert_count"])) {
				t, ok := c.set.Get(one)
				if !ok {
					return nil, nil, fmt.Errorf("tensor %q is missing", one)
				}
				theirs[one] = name
				experts[name] = append(experts[name], t)
			}
			names = append(names, name)
		}
		for _, key := range []string{"attn_norm", "attn_q", "attn_q_norm", "attn_k", "attn_k_norm",
			"attn_v", "attn_output", "ffn_norm", "ffn_gate_inp", "ffn_gate", "ffn_up", "ffn_down"} {
			add("blk." + strconv.Itoa(n) + "." + key)
		}
	}
	for _, name := range c.set.Names() {
		if theirs[name] == "" && !slices.ContainsFunc(unused,
			func(end string) bool { return strings.HasSuffix(name, end) }) {
			return nil, nil, fmt.Errorf("tensor %q has no place in a GGUF file of this kind", name)
		}
	}
	return names, experts, nil
}

// typeOf returns the type that the recipe has for a tensor.
func (c *converter) typeOf(name string, shape []int, headed bool) weights.DType {
	if len(shape) == 1 || strings.HasSuffix(name, ".ffn_gate_inp.weight") { // as llama.cpp keeps it
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
			more && (key == "attn_v.weight" || key == "ffn_down.weight" || key == "ffn_down_exps.weight") {
			want = weights.Q6_K
		}
	}
	next := weights.Q8_0
	if want == weights.Q4_K {
		next = weights.Q5_0
	}
	for _, d := range []weights.DType{want, next} {
		if values, _ := d.Block(); shape[1]%values == 0 {
			return d
		}
	}
	return weights.F16
}

// order returns, for row i of the file, the row of t: Q and K may be interleaved.
func (c *converter) order(name string, t *weights.Tensor) func(i int) int {
	heads := 0
	if c.family.interleaved && strings.HasSuffix(name, ".attn_q.weight") {
		heads = c.size(c.family.sizes["attention.head_count"])
	} else if c.family.interleaved && strings.HasSuffix(name, ".attn_k.weight") {
		heads = c.size(c.family.sizes["attention.head_count_kv"])
	}
	if heads == 0 {
		return func(i int) int { return i }
	}
	dim := t.Shape[0] / heads
	return func(i int) int { return i/dim*dim + i%dim%2*(dim/2) + i%dim/2 }
}

// writeAll writes tensors of one shape, one after the other.
func (c *converter) writeAll(w io.Writer, list []*weights.Tensor, as weights.DType) error {
	for _, t := range list {
		if !slices.Equal(t.Shape, list[0].Shape) || !t.DType.IsFloat() {
			return fmt.Errorf("tensor %q: %v of %s, want floats %v", t.Name, t.Shape, t.DType,
				list[0].Shape)
		}
		if err := c.write(w, t, as, func(i int) int { return i }); err != nil {
			return err
		}
	}
	return nil
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
		if err := cmp.Or(failed...); err != nil {
			return err
		}
		if _, err := w.Write(data[:n*bytes]); err != nil {
			return err
		}
	}
	return t.Release()
}
