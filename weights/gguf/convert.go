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
// ffn_down (llama-quant.cpp), to which the text is most sensitive. Rows that are not whole blocks
// have Q5_0 for Q4_K and Q8_0 for Q6_K, as there, or, if that does not fit either, F16.
func Mixtures() []string { return []string{"q8_0", "q4_k_m"} }

// Convert writes the model in folder dir, in its authors' layout, as a GGUF file of llama.cpp's
// dialect: with its names and keys, the rows of Q and K in its order, and the vocabulary of
// tokenizer.json. See Model for the kinds, and Mixtures for mixture. The adapter for drafts of
// Nemotron-Labs-Diffusion has no place in the file. The file appears whole or not at all; memory
// does not grow with the model.
func Convert(ctx context.Context, dir, file, mixture string) error {
	if !slices.Contains(Mixtures(), mixture) {
		return fmt.Errorf("quantize is %.40q, want %s", mixture, strings.Join(Mixtures(), " or "))
	}
	if err := atomicfile.CheckPlace(file); err != nil {
		return err
	}
	set, err := weights.Open(dir)
	if err != nil {
		return err
	}
	defer set.Close()

	c := &converter{set: set, dir: dir, mixture: mixture, pool: parallel.New(0), ctx: ctx}
	keys, err := c.buildKeys()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	tensors, err := c.listTensors()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	write := func(w io.Writer) error { return Write(w, keys, tensors) }
	return param.AtPlace(file, atomicfile.WriteFile(file, write))
}

// converter writes one model. The functions that read config.json keep the first error, so that
// buildKeys can read many values and check once.
type converter struct {
	set     *weights.Set
	dir     string
	mixture string // one of Mixtures
	pool    *parallel.Pool
	ctx     context.Context

	// config has the keys of config.json, with those of its object of rotary scaling among them.
	config map[string]json.RawMessage

	// family and blocks are known once buildKeys has read config.json.
	family family
	blocks int

	err error
}

// configNumber returns a number of config.json, 0 if it is missing.
func (c *converter) configNumber(name string) (v float64) {
	raw, ok := c.config[name]
	if err := json.Unmarshal(raw, &v); ok && err != nil && c.err == nil {
		c.err = fmt.Errorf("config.json: %s is %.40s, want a number", name, raw)
	}
	return v
}

// configSize returns a size in config.json; a missing one is an error.
func (c *converter) configSize(name string) int {
	v := c.configNumber(name)
	if c.err == nil && !(v >= 1 && v <= 1<<30 && v == float64(int(v))) {
		c.err = fmt.Errorf("config.json: %s is %v, want an integer from 1 to %d", name, v, 1<<30)
	}
	return int(v)
}

// buildKeys reads config.json and returns the file's keys.
func (c *converter) buildKeys() ([]Key, error) {
	data, err := atomicfile.ReadFile(filepath.Join(c.dir, "config.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &c.config); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if err := c.mergeRopeScaling(); err != nil {
		return nil, err
	}
	arch, err := c.findFamily()
	if err != nil {
		return nil, err
	}

	if c.family.kind == lfm2.kind {
		c.prepareLFM2()
	}
	keys := []Key{{architectureKey, arch}, {"general.name", filepath.Base(c.dir)}}
	sizeNames := c.family.sizeNames
	for _, name := range sizeKeys {
		if sizeNames[name] != "" {
			keys = append(keys, Key{arch + "." + name, uint32(c.configSize(sizeNames[name]))})
		}
	}
	c.blocks = c.configSize(sizeNames["block_count"])
	heads := c.configSize(sizeNames["attention.head_count"])
	width := c.configSize(sizeNames["embedding_length"])
	eps := c.configNumber("rms_norm_eps")
	theta := c.configNumber("rope_theta")
	if c.err == nil && (!(eps > 0) || !(theta > 0) || width%heads != 0) {
		c.err = fmt.Errorf("config.json: rms_norm_eps is %v and rope_theta %v, want positive numbers, "+
			"and %d heads dividing %d", eps, theta, heads, width)
	}
	if c.err != nil {
		return nil, c.err
	}

	headDim := width / heads
	if c.hasConfig("head_dim") {
		headDim = c.configSize("head_dim")
		keys = append(keys,
			Key{arch + ".attention.key_length", uint32(headDim)},
			Key{arch + ".attention.value_length", uint32(headDim)})
	}
	rotary := headDim
	if c.family.kind == llada2.kind && c.hasConfig("partial_rotary_factor") {
		rotary = int(float64(headDim) * c.configNumber("partial_rotary_factor"))
	}
	keys = append(keys,
		Key{arch + ".attention.layer_norm_rms_epsilon", float32(eps)},
		Key{arch + ".rope.freq_base", float32(theta)},
		Key{arch + ".rope.dimension_count", uint32(rotary)})
	keys = append(keys, c.ropeScalingKeys(arch)...)
	keys = append(keys, c.diffusionKeys(arch)...)
	c.checkExperts()
	c.findMask()
	return c.addTokenKeys(keys)
}

// addTokenKeys returns keys with those of the vocabulary and of special tokens. What config.json
// says of the model's tokens counts more than what its tokenizer says.
func (c *converter) addTokenKeys(keys []Key) ([]Key, error) {
	vocabulary, err := vocabularyKeys(c.dir)
	if err != nil {
		return nil, err
	}
	endTokens := c.endTokens()
	hasBOS := false
	for _, k := range vocabulary {
		if k.Name == "tokenizer.ggml.bos_token_id" {
			hasBOS = true
		}
		// The first end token is the tokenizer's, because that is the one chat templates write.
		if eos, ok := k.Value.(uint32); ok && k.Name == endKeys[0] {
			endTokens = slices.DeleteFunc(endTokens, func(id uint32) bool { return id == eos })
			endTokens = slices.Insert(endTokens, 0, eos)
		}
	}
	if len(endTokens) > len(endKeys) && c.err == nil {
		c.err = fmt.Errorf("eos_token_id has %d tokens, want %d at most in a GGUF file", len(endTokens),
			len(endKeys))
	}

	for i, k := range vocabulary {
		// the name of the pattern that its readers know
		if k.Name == "tokenizer.ggml.pre" && k.Value == "bailingmoe" && c.family.kind == llada2.kind {
			vocabulary[i].Value = "bailingmoe2"
		}
	}
	if c.hasConfig(answerName) {
		keys = append(keys, Key{answerKey, uint32(c.configSize(answerName))})
	}
	if c.hasConfig("mask_token_id") {
		keys = append(keys, Key{"tokenizer.ggml.mask_token_id", c.configIDs("mask_token_id")[0]})
	}
	if c.hasConfig("bos_token_id") && !hasBOS {
		keys = append(keys, Key{"tokenizer.ggml.bos_token_id", c.configIDs("bos_token_id")[0]})
	}
	if c.hasConfig("pad_token_id") {
		keys = append(keys, Key{"tokenizer.ggml.padding_token_id", c.configIDs("pad_token_id")[0]})
	}
	for i, id := range endTokens[:min(len(endTokens), len(endKeys))] {
		keys = append(keys, Key{endKeys[i], id})
	}
	for _, k := range vocabulary {
		isThere := slices.ContainsFunc(keys, func(present Key) bool { return present.Name == k.Name })
		if !isThere {
			keys = append(keys, k)
		}
	}
	return keys, c.err
}

// hasConfig reports whether config.json has a key with a value other than null.
func (c *converter) hasConfig(name string) bool {
	raw, ok := c.config[name]
	return ok && string(raw) != "null"
}

// configIDs returns the ids of tokens: a number or a list that is not empty.
func (c *converter) configIDs(name string) []uint32 {
	var list []float64
	if json.Unmarshal(c.config[name], &list) != nil || len(list) == 0 {
		list = []float64{c.configNumber(name)}
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

// endTokens returns the tokens that end a text: those of config.json, and then those that
// generation_config.json adds.
func (c *converter) endTokens() (tokens []uint32) {
	data, err := atomicfile.ReadFile(filepath.Join(c.dir, "generation_config.json"))
	generation := &converter{}
	if err == nil {
		err = json.Unmarshal(data, &generation.config)
	}
	if c.err == nil && err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.err = fmt.Errorf("generation_config.json: %w", err)
	}
	for _, file := range []*converter{c, generation} {
		if !file.hasConfig("eos_token_id") {
			continue
		}
		for _, id := range file.configIDs("eos_token_id") {
			if !slices.Contains(tokens, id) {
				tokens = append(tokens, id)
			}
		}
	}
	c.err = cmp.Or(c.err, generation.err)
	return tokens
}

// mergeRopeScaling adds the keys of rope_scaling or, if that has none, of rope_parameters to those
// of config.json, in the order of transformers 5: original_max_position_embeddings counts more
// outside them, others less.
func (c *converter) mergeRopeScaling() error {
	const original = "original_max_position_embeddings"
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		if string(c.config[name]) == "false" { // RND1's word for null
			delete(c.config, name)
		}
		var scaling map[string]json.RawMessage
		err := json.Unmarshal(c.config[name], &scaling)
		if c.hasConfig(name) && err != nil {
			return fmt.Errorf("config.json: %s is %.40s, want an object", name, c.config[name])
		}
		if c.hasConfig(original) {
			delete(scaling, original)
		}
		if len(scaling) > 0 {
			maps.Copy(c.config, scaling)
			return nil
		}
	}
	return nil
}

// configText returns a text of config.json, "" if it is missing.
func (c *converter) configText(name string) (text string) {
	err := json.Unmarshal(c.config[name], &text)
	if c.hasConfig(name) && err != nil && c.err == nil {
		c.err = fmt.Errorf("config.json: %s is %.40s, want a text", name, c.config[name])
	}
	return text
}

// findFamily finds the model's family and returns its architecture in llama.cpp.
func (c *converter) findFamily() (arch string, err error) {
	kind := c.configText("model_type")
	if c.err != nil {
		return "", c.err
	}
	if kind == llada.kind && c.hasConfig("expert_intermediate_size") { // with the same type
		kind = lladaMoE.kind
	}
	for arch, family := range familyByArchitecture {
		if family.kind == kind {
			c.family = family
			return arch, nil
		}
	}
	arch, c.family = findGuest(kind, func(f family) bool {
		_, hasBias := c.set.Get(f.authorName("blk.0.attn_q.bias"))
		return hasBias
	})
	if arch == "" {
		return "", fmt.Errorf("config.json: model_type is %.40q, want llada, Dream, rnd1, %s, %s, %s, "+
			"%s, sdar, sdar_moe, a2d-qwen2, a2d-qwen3 or a2d-llama", kind, llada2.kind, lfm2.kind,
			nemotron.kind, wedlm.kind)
	}
	return arch, nil
}

// require keeps an error, unless ok, about a key of config.json whose value a file of llama.cpp
// cannot say.
func (c *converter) require(ok bool, name, want string) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("config.json: %s is %.60s, want %s in a GGUF file", name, c.config[name], want)
	}
}

// ropeScalingKeys returns the keys of the scaling of rotary frequencies. What a file of llama.cpp
// cannot say is an error.
func (c *converter) ropeScalingKeys(arch string) []Key {
	kind := cmp.Or(c.configText("rope_type"), c.configText("type"))
	if kind == "" || kind == "default" {
		return nil
	}
	if kind != "linear" && kind != "yarn" {
		c.err = cmp.Or(c.err, fmt.Errorf("config.json: rope_type is %.40q, want default, linear or yarn "+
			"in a GGUF file", kind))
		return nil
	}
	prefix := arch + "." + ropeScaling
	keys := []Key{
		{prefix + "type", kind},
		{prefix + "factor", float32(c.configNumber("factor"))},
	}
	if kind == "linear" {
		return keys
	}

	// Readers compute the attention's factor from the others, and round the ends of the ramp.
	c.require(!c.hasConfig("attention_factor"), "attention_factor", "null")
	c.require(!c.hasConfig("truncate") || string(c.config["truncate"]) == "true", "truncate", "true")
	c.require(c.configNumber("mscale") == 1 || c.configNumber("mscale_all_dim") == 0, "mscale", "1")
	if c.hasConfig("original_max_position_embeddings") {
		length := uint32(c.configSize("original_max_position_embeddings"))
		keys = append(keys, Key{prefix + "original_context_length", length})
	}
	for _, name := range slices.Sorted(maps.Keys(scalingNames)) {
		if v := c.configNumber(scalingNames[name]); v != 0 {
			keys = append(keys, Key{arch + "." + name, float32(v)})
		}
	}
	return keys
}

// diffusionKeys returns the keys that say how the network writes.
func (c *converter) diffusionKeys(arch string) []Key {
	notCausal := Key{arch + ".attention.causal", false}
	switch c.family.kind {
	case llada.kind, lladaMoE.kind:
		return []Key{notCausal, {shiftKey, false}}
	case dream.kind:
		keys := []Key{notCausal}
		if c.hasConfig("expand_token_id") {
			keys = append(keys, Key{expandKey, c.configIDs("expand_token_id")[0]})
		}
		return keys
	case rnd1.kind:
		return []Key{notCausal}
	case llada2.kind:
		return c.llada2Keys(arch)
	case lfm2.kind:
		return c.lfm2Keys(arch)
	}

	keys := []Key{{kindKey, c.family.kind}}
	if c.family.kind == nemotron.kind {
		block := 1
		if c.configText("dlm_paradigm") != "autoregressive" && c.hasConfig("block_size") {
			block = c.configSize("block_size")
		}
		keys = append(keys, Key{blockKey, uint32(block)})
	} else if c.family.kind != wedlm.kind && c.hasConfig("block_size") {
		keys = append(keys, Key{blockKey, uint32(c.configSize("block_size"))})
	}
	return keys
}

// checkExperts refuses what a file of llama.cpp cannot say of a mixture of experts.
func (c *converter) checkExperts() {
	countName := c.family.sizeNames["expert_count"]
	if countName == "" || c.err != nil {
		return
	}
	c.require(c.configSize(countName) <= maxExperts, countName, fmt.Sprintf("1 to %d", maxExperts))

	// Of these, readers make the weights of a token's experts sum to 1, whatever the file says.
	isNormed := c.family.kind == rnd1.kind || c.family.kind == sdarMoE.kind
	c.require(!isNormed || string(c.config["norm_topk_prob"]) == "true", "norm_topk_prob", "true")
}

// findMask finds the mask token of a mixture of experts whose config.json has none: LLaDA-MoE names
// it only in its tokenizer's settings.
func (c *converter) findMask() {
	if c.family.sizeNames["expert_count"] == "" {
		return
	}
	c.findTokenizerMask()
}

// findTokenizerMask sets the mask to the token of the tokenizer's settings, where config.json has
// none.
func (c *converter) findTokenizerMask() {
	if c.hasConfig("mask_token_id") {
		return
	}
	var tokenizer struct {
		Added map[string]struct{ Content string } `json:"added_tokens_decoder"`
	}
	data, err := atomicfile.ReadFile(filepath.Join(c.dir, "tokenizer_config.json"))
	if err != nil || json.Unmarshal(data, &tokenizer) != nil {
		return
	}
	for id, token := range tokenizer.Added {
		if token.Content == "<|mask|>" {
			c.config["mask_token_id"] = json.RawMessage(id)
		}
	}
}

// unusedSuffixes are the ends of tensors that no network needs: a table that loaders compute, and
// scales of quantised caches.
var unusedSuffixes = []string{".rotary_emb.inv_freq", ".k_scale", ".v_scale"}

// listTensors returns the file's tensors: those outside blocks first, then block by block.
func (c *converter) listTensors() ([]Tensor, error) {
	names, experts, err := c.placeTensors()
	if err != nil {
		return nil, err
	}
	embedding, _ := c.set.Get(c.family.authorName("token_embd.weight"))
	head, hasHead := c.set.Get(c.family.authorName("output.weight"))
	hasHead = hasHead && head != embedding // a tied head is a second name of the embedding

	var list []Tensor
	for _, name := range names {
		if parts := experts[name]; parts != nil {
			first := parts[0]
			if len(first.Shape) != 2 {
				return nil, fmt.Errorf("tensor %q: %v, want a matrix", first.Name, first.Shape)
			}
			dtype := c.chooseType(name, first.Shape, hasHead)
			list = append(list, Tensor{
				Name:  name,
				DType: dtype,
				Shape: append([]int{len(parts)}, first.Shape...),
				Write: func(w io.Writer) error { return c.writeExperts(w, parts, dtype) },
			})
			continue
		}

		t, _ := c.set.Get(c.family.authorName(name))
		if name == "output.weight" && !hasHead {
			continue
		}
		if c.isFilter(name, t) {
			list = append(list, c.filterTensor(name, t))
			continue
		}
		if !t.DType.IsFloat() || len(t.Shape) < 1 || len(t.Shape) > 2 {
			return nil, fmt.Errorf("tensor %q: %v of %s, want a float vector or matrix", t.Name, t.Shape,
				t.DType)
		}
		dtype := c.chooseType(name, t.Shape, hasHead)
		list = append(list, Tensor{
			Name:  name,
			DType: dtype,
			Shape: t.Shape,
			Write: func(w io.Writer) error {
				return c.writeTensor(w, t, dtype, c.fileRowOrder(name, t))
			},
		})
	}
	return list, nil
}

// placeTensors returns the names of the tensors in the file's order, and, of those that hold all
// experts, the parts. It returns an error for a tensor that has no place: to leave it out would be
// another model.
func (c *converter) placeTensors() (names []string, experts map[string][]*weights.Tensor,
	err error) {
	fileNames := map[string]string{} // by the authors' names
	place := func(base string) {
		for _, suffix := range c.family.suffixes {
			name := base + suffix
			authorName := c.family.authorName(name)
			if _, ok := c.set.Get(authorName); ok {
				fileNames[authorName] = name
				names = append(names, name)
			}
		}
	}
	for _, base := range []string{"token_embd", "token_embd_norm", "output_norm", "output"} {
		place(base)
	}

	experts = map[string][]*weights.Tensor{}
	for n := range c.blocks {
		block := "blk." + strconv.Itoa(n) + "."
		for _, key := range slices.Sorted(maps.Keys(expertNames)) {
			_, isDense := c.set.Get(c.family.authorName(block + "ffn_gate.weight"))
			if c.family.tensorNames[key] == "" || isDense {
				continue
			}
			name := block + key + ".weight"
			count := c.configSize(c.family.sizeNames["expert_count"])
			for _, authorName := range numberNames(c.family.authorName(name), count) {
				t, ok := c.set.Get(authorName)
				if !ok {
					return nil, nil, fmt.Errorf("tensor %q is missing", authorName)
				}
				fileNames[authorName] = name
				experts[name] = append(experts[name], t)
			}
			names = append(names, name)
		}
		for _, key := range []string{"attn_norm", "attn_q", "attn_q_norm", "attn_k", "attn_k_norm",
			"attn_v", "attn_qkv", "attn_output", "shortconv.in_proj", "shortconv.conv",
			"shortconv.out_proj", "ffn_norm", "ffn_gate_inp", "exp_probs_b", "ffn_gate", "ffn_up",
			"ffn_down", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"} {
			place(block + key)
		}
	}

	for _, authorName := range c.set.Names() {
		isUnused := slices.ContainsFunc(unusedSuffixes, func(suffix string) bool {
			return strings.HasSuffix(authorName, suffix)
		})
		if fileNames[authorName] == "" && !isUnused {
			return nil, nil, fmt.Errorf("tensor %q has no place in a GGUF file of this kind", authorName)
		}
	}
	return names, experts, nil
}

// chooseType returns the type that the mixture has for a tensor. hasHead says whether the head is
// not the embedding.
func (c *converter) chooseType(name string, shape []int, hasHead bool) weights.DType {
	// Vectors and routers are small, and llama.cpp keeps them so.
	if len(shape) == 1 || strings.HasSuffix(name, ".ffn_gate_inp.weight") {
		return weights.F32
	}
	want := weights.Q8_0
	if c.mixture == "q4_k_m" {
		want = weights.Q4_K
		isHead := name == "output.weight" || name == "token_embd.weight" && !hasHead
		if isHead || c.isSensitive(name) {
			want = weights.Q6_K
		}
	}
	if want == weights.Q4_K && strings.HasSuffix(name, ".attn_qkv.weight") {
		want = weights.Q5_K // llama-quant.cpp, which looks at V among them
	}
	smallerBlocks := weights.Q8_0
	if want == weights.Q4_K {
		smallerBlocks = weights.Q5_0
	}
	for _, d := range []weights.DType{want, smallerBlocks} {
		if values, _ := d.Block(); shape[1]%values == 0 {
			return d
		}
	}
	return weights.F16
}

// isSensitive reports whether Q4_K_M has more bits for a tensor of a block: for attn_v and ffn_down
// of the first and the last eighth of the blocks, and of every third one between (llama-quant.cpp,
// use_more_bits).
func (c *converter) isSensitive(name string) bool {
	number, key, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
	switch key {
	case "attn_v.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight":
	default:
		return false
	}
	n, _ := strconv.Atoi(number)
	eighth := c.blocks / 8
	return n < eighth || n >= 7*c.blocks/8 || (n-eighth)%3 == 2
}

// fileRowOrder returns, for row i of the file, the row of t: Q and K may be interleaved.
func (c *converter) fileRowOrder(name string, t *weights.Tensor) func(i int) int {
	heads := 0
	if c.family.interleaved && strings.HasSuffix(name, ".attn_q.weight") {
		heads = c.configSize(c.family.sizeNames["attention.head_count"])
	} else if c.family.interleaved && strings.HasSuffix(name, ".attn_k.weight") {
		heads = c.configSize(c.family.sizeNames["attention.head_count_kv"])
	}
	if heads == 0 {
		return func(i int) int { return i }
	}
	headDim := t.Shape[0] / heads
	return func(i int) int {
		inHead := i % headDim
		return i - inHead + inHead%2*(headDim/2) + inHead/2
	}
}

// writeExperts writes the matrices of a block's experts, which must have one shape, one after the
// other.
func (c *converter) writeExperts(w io.Writer, experts []*weights.Tensor,
	dtype weights.DType) error {
	for _, t := range experts {
		if !slices.Equal(t.Shape, experts[0].Shape) || !t.DType.IsFloat() {
			return fmt.Errorf("tensor %q: %v of %s, want floats %v", t.Name, t.Shape, t.DType,
				experts[0].Shape)
		}
		if err := c.writeTensor(w, t, dtype, func(i int) int { return i }); err != nil {
			return err
		}
	}
	return nil
}

const rowsAtATime = 256

// writeTensor writes the rows of t in a type. sourceRow returns the row of t for row i of the file.
// A few rows at a time are encoded by all threads, so memory does not grow with the tensor.
func (c *converter) writeTensor(w io.Writer, t *weights.Tensor, dtype weights.DType,
	sourceRow func(i int) int) error {
	width := t.Shape[len(t.Shape)-1]
	rows := t.Numel() / width
	values, size := dtype.Block()
	rowBytes := width / values * size
	data := make([]byte, min(rows, rowsAtATime)*rowBytes)
	decoded := make([][]float32, c.pool.Threads()) // a row of each worker
	for i := range decoded {
		decoded[i] = make([]float32, width)
	}

	for first := 0; first < rows; first += rowsAtATime {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n := min(rowsAtATime, rows-first)
		errs := make([]error, n)
		c.pool.For(n, func(worker, i int) {
			row := decoded[worker]
			errs[i] = t.ReadFloat32s(row, sourceRow(first+i)*width)
			if errs[i] != nil {
				return
			}
			encoded := data[i*rowBytes : (i+1)*rowBytes]
			encodeValues(dtype, encoded, row)
			if q, ok := quant.Parse(string(dtype)); ok && !quant.Finite(q, encoded) {
				errs[i] = fmt.Errorf("row %d is beyond what %s holds", first+i, dtype)
			}
		})
		if err := cmp.Or(errs...); err != nil {
			return err
		}
		if _, err := w.Write(data[:n*rowBytes]); err != nil {
			return err
		}
	}
	return t.Release()
}
