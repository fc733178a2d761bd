package gguf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"unmask/param"
	"unmask/weights"
)

// family is a kind of model with its names in llama.cpp's files and in the authors' config.json and
// safetensors.
type family struct {
	// kind is the model_type of config.json.
	kind string

	// interleaved says that the file's rows of Q and K are ordered for interleaved rotary embedding.
	interleaved bool

	// sizeNames maps the keys of sizeKeys to the authors' keys in config.json.
	sizeNames map[string]string

	// writeConfig returns the other keys of config.json.
	writeConfig func(k *modelKeys) map[string]any

	// blockPrefix is what the authors' names of a block's tensors begin with, with a %s for its
	// number; the file's begin with "blk.N.".
	blockPrefix string

	// tensorNames maps the rest of the file's names to the rest of the authors' names, both without
	// a suffix.
	tensorNames map[string]string

	// wholeNames maps names of a block's tensors, with their ends, to the authors' whole names.
	wholeNames map[string]string

	// suffixes are the possible ends of a tensor's name, with the dot.
	suffixes []string
}

// sizeKeys are the keys of sizes, after the architecture's name. The last three are of experts.
var sizeKeys = []string{"block_count", "context_length", "embedding_length", "feed_forward_length",
	"attention.head_count", "attention.head_count_kv", "expert_count", "expert_used_count",
	expertWidth}

// llada is LLaDA-8B and LLaDA-1.5 (config.json and modeling_llada.py of GSAI-ML/LLaDA-8B-Base).
var llada = family{
	kind:        "llada",
	interleaved: true,
	sizeNames: map[string]string{
		"embedding_length":        "d_model",
		"block_count":             "n_layers",
		"attention.head_count":    "n_heads",
		"attention.head_count_kv": "n_kv_heads",
		"feed_forward_length":     "mlp_hidden_size",
		"context_length":          "max_sequence_length",
	},
	writeConfig: func(k *modelKeys) map[string]any {
		return map[string]any{
			"vocab_size":           k.vocabularySize(),
			"embedding_size":       k.vocabularySize(),
			"rope":                 true,
			"rope_theta":           k.positiveFloat("rope.freq_base", 500000),
			"rope_full_precision":  true,
			"rms_norm_eps":         k.positiveFloat("attention.layer_norm_rms_epsilon", 1e-5),
			"layer_norm_type":      "rms",
			"block_type":           "llama",
			"activation_type":      "silu",
			"weight_tying":         k.tiedHead,
			"include_bias":         false,
			"include_qkv_bias":     false,
			"attention_layer_norm": false,
			"scale_logits":         false,
			"input_emb_norm":       false,
			"block_group_size":     1,
			"mask_token_id":        k.maskToken(126336),
			"eos_token_id":         k.endTokens(126081),
			"pad_token_id":         k.specialToken("padding", k.specialToken("eos", 126081)),
		}
	},
	blockPrefix: "model.transformer.blocks.%s.",
	tensorNames: map[string]string{
		"token_embd":  "model.transformer.wte",
		"output_norm": "model.transformer.ln_f",
		"output":      "model.transformer.ff_out",
		"attn_norm":   "attn_norm",
		"attn_q":      "q_proj",
		"attn_k":      "k_proj",
		"attn_v":      "v_proj",
		"attn_output": "attn_out",
		"ffn_norm":    "ff_norm",
		"ffn_gate":    "ff_proj",
		"ffn_up":      "up_proj",
		"ffn_down":    "ff_out",
	},
	suffixes: []string{".weight"},
}

// blockSizes and qwenSizes are the names of sizes in the config.json of Qwen2, Qwen3 and Llama, the
// first ones without the width of dense layers.
var (
	blockSizes = map[string]string{
		"embedding_length":        "hidden_size",
		"block_count":             "num_hidden_layers",
		"attention.head_count":    "num_attention_heads",
		"attention.head_count_kv": "num_key_value_heads",
		"context_length":          "max_position_embeddings",
	}
	qwenSizes = mergeNames(blockSizes, map[string]string{"feed_forward_length": "intermediate_size"})
)

// mergeNames returns both maps in one.
func mergeNames(names, added map[string]string) map[string]string {
	merged := maps.Clone(names)
	maps.Copy(merged, added)
	return merged
}

// qwenNames returns the names of tensors in checkpoints of Qwen2, Qwen3 and Llama; those outside
// the blocks are given.
func qwenNames(embedding, norm, head string) map[string]string {
	return map[string]string{
		"token_embd":  embedding,
		"output_norm": norm,
		"output":      head,
		"attn_norm":   "input_layernorm",
		"attn_q":      "self_attn.q_proj",
		"attn_k":      "self_attn.k_proj",
		"attn_v":      "self_attn.v_proj",
		"attn_output": "self_attn.o_proj",
		"attn_q_norm": "self_attn.q_norm",
		"attn_k_norm": "self_attn.k_norm",
		"ffn_norm":    "post_attention_layernorm",
		"ffn_gate":    "mlp.gate_proj",
		"ffn_up":      "mlp.up_proj",
		"ffn_down":    "mlp.down_proj",
	}
}

// qwenConfig returns what the config.json of Qwen2, Qwen3 and Llama has beside sizes, with this
// mask and end where the file has none.
func (k *modelKeys) qwenConfig(mask, eos int) map[string]any {
	values := map[string]any{
		"vocab_size":          k.vocabularySize(),
		"rope_theta":          k.positiveFloat("rope.freq_base", 1000000),
		"rope_scaling":        k.ropeScalingConfig(),
		"rms_norm_eps":        k.positiveFloat("attention.layer_norm_rms_epsilon", 1e-6),
		"tie_word_embeddings": k.tiedHead,
		"hidden_act":          "silu",
		"use_sliding_window":  false,
		"attention_dropout":   0.0,
		"mask_token_id":       k.maskToken(mask),
		"eos_token_id":        k.endTokens(eos),
		"pad_token_id":        k.specialToken("padding", eos),
	}
	if k.Has("tokenizer.ggml.bos_token_id") {
		values["bos_token_id"] = k.specialToken("bos", 0)
	}
	return values
}

// dream is Dream-7B and DiffuCoder-7B (config.json of apple/DiffuCoder-7B-Instruct), and with
// expandKey DreamOn-7B.
var dream = family{
	kind:      "Dream",
	sizeNames: qwenSizes,
	writeConfig: func(k *modelKeys) map[string]any {
		values := k.qwenConfig(151666, 151643)
		if k.Has(expandKey) {
			values["expand_token_id"] = k.naturalInt(expandKey)
		}
		return values
	},
	blockPrefix: "model.layers.%s.",
	tensorNames: qwenNames("model.embed_tokens", "model.norm", "lm_head"),
	suffixes:    []string{".weight", ".bias"},
}

// wedlm is WeDLM-7B and -8B, whose networks are those of Qwen2.5 and Qwen3.
var wedlm = family{
	kind:      "wedlm",
	sizeNames: qwenSizes,
	writeConfig: func(k *modelKeys) map[string]any {
		values := k.qwenConfig(151665, 151643)
		_, values["attention_bias"] = k.Set.Get("blk.0.attn_q.bias")
		_, values["qk_norm"] = k.Set.Get("blk.0.attn_q_norm.weight")
		return values
	},
	blockPrefix: dream.blockPrefix,
	tensorNames: dream.tensorNames,
	suffixes:    dream.suffixes,
}

// nemotron is Nemotron-Labs-Diffusion-3B, -8B and -14B, whose network is that of Ministral 3.
var nemotron = family{
	kind:        "nemotron_labs_diffusion",
	interleaved: true,
	sizeNames:   qwenSizes,
	writeConfig: func(k *modelKeys) map[string]any {
		values := k.qwenConfig(100, 11)
		if k.Has(blockKey) {
			values["block_size"] = k.naturalInt(blockKey)
		}
		return values
	},
	blockPrefix: "encoder.layers.%s.",
	tensorNames: qwenNames("encoder.embed_tokens", "encoder.norm", "diffusion_head"),
	suffixes:    []string{".weight"},
}

// expertNames maps the tensors of all experts of a block, [experts, rows, columns], to the authors'
// names of one expert's, with %d for its number.
var expertNames = map[string]string{
	"ffn_gate_exps": "mlp.experts.%d.gate_proj",
	"ffn_up_exps":   "mlp.experts.%d.up_proj",
	"ffn_down_exps": "mlp.experts.%d.down_proj",
}

const (
	expertWidth = "expert_feed_forward_length"
	maxExperts  = 1 << 12 // of a block
)

// routedNames are those of qwen with the experts' and the router's.
var routedNames = mergeNames(mergeNames(dream.tensorNames, expertNames),
	map[string]string{"ffn_gate_inp": "mlp.gate"})

// lladaMoE is LLaDA-MoE-7B-A1B (modeling_lladamoe.py). Its files have no feed_forward_length.
var lladaMoE = family{
	kind: "lladamoe",
	sizeNames: mergeNames(blockSizes, map[string]string{
		"expert_count":      "num_experts",
		"expert_used_count": "num_experts_per_tok",
		expertWidth:         "expert_intermediate_size",
	}),
	writeConfig: func(k *modelKeys) map[string]any { return k.qwenConfig(lladaMoEMask, 156892) },
	blockPrefix: dream.blockPrefix,
	tensorNames: routedNames,
	suffixes:    []string{".weight"},
}

const lladaMoEMask = 156895

// rnd1 is RND1-Base-0910, a Qwen3-MoE whose experts' weights sum to 1.
var rnd1 = family{
	kind: "rnd1",
	sizeNames: mergeNames(qwenSizes, map[string]string{
		"expert_count":      "num_experts",
		"expert_used_count": "num_experts_per_tok",
		expertWidth:         "moe_intermediate_size",
	}),
	writeConfig: func(k *modelKeys) map[string]any {
		values := k.qwenConfig(151669, 151645)
		values["norm_topk_prob"] = true
		return values
	},
	blockPrefix: dream.blockPrefix,
	tensorNames: routedNames,
	suffixes:    []string{".weight"},
}

// Keys that several functions read.
const (
	architectureKey = "general.architecture"
	diffuseKey      = "diffuse.model_type"
	shiftKey        = "diffusion.shift_logits"
	kindKey         = "diffusion.model_type" // for architectures that are not diffusion alone
	blockKey        = "diffusion.block_size"
	expandKey       = "diffusion.expand_token_id"
	answerKey       = "diffusion.answer_length" // which llama.cpp does not read
	tokensKey       = "tokenizer.ggml.tokens"
)

// answerName is the name in config.json of what answerKey says.
const answerName = "unmask_answer_length"

// endKeys have the tokens at any of which llama.cpp ends a text: of the text, of a turn and of a
// message (llama-vocab.cpp, special_eog_ids).
var endKeys = []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
	"tokenizer.ggml.eom_token_id"}

// familyByArchitecture has the kinds of models by general.architecture in llama.cpp's dialect, but
// for those of guestFamilies. lfm2 is also that of models that are not diffusion: the file says
// with attention.causal that it is.
var familyByArchitecture = map[string]family{
	"llada":     llada,
	"dream":     dream,
	"llada-moe": lladaMoE,
	"rnd1":      rnd1,
	"lfm2":      lfm2,
	"llada2":    llada2,
}

// Model returns the config.json that this model has in its authors' layout, and the tensors under
// the authors' names. Block formats stay as they are. With that, a network's loader needs no second
// path for GGUF. Two dialects are known:
//
//   - llama.cpp's, general.architecture llada, dream, llada-moe, rnd1, lfm2, or llada2 as nurllama
//     writes it; and, with the key diffusion.model_type, which Convert writes and llama.cpp does
//     not read, those of guestFamilies: mistral3, qwen2, qwen3, qwen3moe and llama. Its converter
//     writes the rows of Q and K of LLaDA, Llama and Ministral 3 for interleaved rotary; the
//     tensors returned are views in half-split order. Its tensors of all experts of a block are
//     returned as one of each.
//   - diffuse-cpp's (https://github.com/iafiscal1212/diffuse-cpp, tools/convert-llada.py),
//     architecture diffuse with key diffuse.model_type. Q and K are as the authors have them, and
//     there is no tokenizer.
//
// Other architectures are errors, and so are keys that change the arithmetic to another than the
// kind's, such as diffusion.shift_logits. Unknown keys of the architecture are in the config.json.
func (f *File) Model() (config []byte, set *weights.Set, err error) {
	config, set, err = f.readModel()
	if err != nil {
		return nil, nil, f.addName(err)
	}
	return config, set, nil
}

// readModel returns the config.json and the tensors that the authors' format has in place of the
// file's.
func (f *File) readModel() (config []byte, set *weights.Set, err error) {
	arch, err := f.Text(architectureKey)
	if err != nil {
		return nil, nil, err
	}
	family, err := f.findFamily(arch)
	if err != nil {
		return nil, nil, err
	}

	// A file without a head uses the embedding's matrix for it; no key says so.
	k := &modelKeys{File: f, arch: arch, readNames: slices.Clone(harmlessKeys)}
	_, hasHead := f.Set.Get("output.weight")
	k.tiedHead = !hasHead
	values := k.readSizes(family)
	maps.Copy(values, family.writeConfig(k))
	if k.Has(answerKey) {
		values[answerName] = k.naturalInt(answerKey)
	}
	k.checkOtherKeys(family, values)
	if k.err != nil {
		return nil, nil, k.err
	}
	if config, err = json.Marshal(values); err != nil {
		return nil, nil, err
	}

	// llama.cpp rotates neighbouring numbers of a head, the authors' programs those a half apart, and
	// its converter sorts the rows of these matrices for that. diffuse-cpp's files keep the authors'.
	isInterleaved := family.interleaved && arch != diffuseArch
	set, err = f.Set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		authorName := family.authorName(name)
		if strings.HasSuffix(name, ".shortconv.conv.weight") {
			return authorName, convFilter(t), nil
		}
		var err error
		if isInterleaved && strings.HasSuffix(authorName, ".q_proj.weight") {
			t, err = t.HalfSplit(k.positiveInt("attention.head_count"))
		} else if isInterleaved && strings.HasSuffix(authorName, ".k_proj.weight") {
			t, err = t.HalfSplit(k.keyValueHeads())
		}
		return authorName, t, err
	})
	if err != nil {
		return nil, nil, err
	}
	if family.sizeNames["expert_count"] != "" {
		experts := k.positiveInt("expert_count")
		set, err = set.SplitTensors(func(name string, _ *weights.Tensor) []string {
			return numberNames(name, experts)
		})
	}
	return config, set, err
}

// numberNames returns the names of the experts whose weights are in one tensor, which has %d in its
// own name; none for another tensor.
func numberNames(name string, experts int) (names []string) {
	prefix, suffix, ok := strings.Cut(name, "%d")
	if !ok {
		return nil
	}
	for e := range experts {
		names = append(names, prefix+strconv.Itoa(e)+suffix)
	}
	return names
}

// diffuseArch is the architecture of diffuse-cpp's files.
const diffuseArch = "diffuse"

// findFamily returns the kind of model.
func (f *File) findFamily(arch string) (family, error) {
	name := arch
	if arch == diffuseArch {
		var err error
		if name, err = f.Text(diffuseKey); err != nil {
			return family{}, err
		}
	}
	if guestFamilies[arch] != nil {
		return f.guestFamily(arch)
	}
	match, ok := familyByArchitecture[name]
	if !ok || arch == diffuseArch && name != "llada" && name != "dream" {
		return family{}, fmt.Errorf("architecture is %.40q, want llada, dream, llada-moe, llada2, rnd1, "+
			"lfm2, diffuse with %s llada or dream, or with %s %s", name, diffuseKey, kindKey,
			param.JoinOr(slices.Sorted(maps.Keys(guestFamilies))))
	}
	return match, nil
}

// authorName returns the authors' name of a tensor; an unknown one is returned unchanged, so that
// the network's loader reports it.
func (m family) authorName(name string) string {
	if inBlock, ok := strings.CutPrefix(name, "blk."); ok {
		number, key, _ := strings.Cut(inBlock, ".")
		if author := m.wholeNames[key]; author != "" {
			return fmt.Sprintf(m.blockPrefix, number) + author
		}
	}
	for _, suffix := range m.suffixes {
		base, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		inBlock, ok := strings.CutPrefix(base, "blk.")
		if !ok {
			if author := m.tensorNames[base]; author != "" {
				return author + suffix
			}
			continue
		}
		number, key, ok := strings.Cut(inBlock, ".")
		if author := m.tensorNames[key]; ok && author != "" {
			return fmt.Sprintf(m.blockPrefix, number) + author + suffix
		}
	}
	return name
}

// modelKeys reads the keys of an architecture and keeps the first error.
type modelKeys struct {
	*File
	arch string

	// tiedHead says that the file has no head of its own: it is the embedding.
	tiedHead bool

	// readNames are the names, without the architecture, of keys that were read. checkOtherKeys
	// looks at all others.
	readNames []string

	err error
}

// harmlessKeys are names of keys of an architecture that change no arithmetic.
var harmlessKeys = []string{"vocab_size", "model_type", "feed_forward_length",
	"rope.scaling.finetuned"}

// fixedValues are names of keys that do change it, with the value that all of these networks have.
// A file with another value would be computed wrongly without an error.
var fixedValues = map[string]any{
	"attention.causal":              false,
	"attention.sliding_window":      0.0,
	"attention.scale":               0.0,
	"attention.clamp_kqv":           0.0,
	"attention.max_alibi_bias":      0.0,
	"attn_logit_softcapping":        0.0,
	"final_logit_softcapping":       0.0,
	"logit_scale":                   1.0,
	"residual_scale":                1.0,
	"embedding_scale":               1.0,
	"expert_group_count":            1.0,
	"expert_weights_scale":          1.0,
	"expert_gating_func":            1.0, // a softmax
	"rope.scale_linear":             1.0,
	"rope.scaling.type":             `"none"`,
	"rope.scaling.factor":           1.0,
	"rope.scaling.attn_factor":      1.0,
	"rope.scaling.yarn_attn_factor": 1.0,
	"rope.scaling.yarn_ext_factor":  1.0,
}

// checkOtherKeys refuses keys with another value than the family's, and adds unknown keys of the
// architecture to the values, so that a note names them.
func (k *modelKeys) checkOtherKeys(m family, values map[string]any) {
	headDim, ok := values["head_dim"].(int)
	if !ok {
		headDim = k.positiveInt("embedding_length") / max(k.positiveInt("attention.head_count"), 1)
	}
	wants := maps.Clone(fixedValues)
	wants[shiftKey] = m.kind == dream.kind || m.kind == rnd1.kind
	normsExperts := []string{rnd1.kind, llada2.kind, sdarMoE.kind}
	wants["expert_weights_norm"] = slices.Contains(normsExperts, m.kind)
	if m.kind == llada2.kind {
		wants["expert_gating_func"] = float64(sigmoidGating)
	}
	wants["rope.dimension_count"] = float64(headDim)
	wants["attention.value_length"] = float64(headDim)

	for _, key := range k.Keys() {
		name, isOfArchitecture := strings.CutPrefix(key, k.arch+".")
		if slices.Contains(k.readNames, name) {
			continue
		}
		var got any
		var err error
		switch wants[name].(type) {
		case bool:
			got, err = k.Bool(key)
		case float64:
			got, err = k.Float(key)
		case string:
			got, err = k.Text(key)
			got = fmt.Sprintf("%.40q", got)
		case nil:
			if isOfArchitecture {
				values[key] = true
			}
		}
		if err != nil {
			k.keepError(err)
		} else if got != wants[name] {
			k.keepError(fmt.Errorf("key %s is %v, want %v for %s", key, got, wants[name], m.kind))
		}
	}
}

// fullName returns the whole name of a key of the architecture and notes that it is read.
func (k *modelKeys) fullName(name string) string {
	k.readNames = append(k.readNames, name)
	return k.arch + "." + name
}

// keepError keeps an error unless there was one before.
func (k *modelKeys) keepError(err error) {
	k.err = cmp.Or(k.err, err)
}

// positiveInt returns an integer of 1 and more.
func (k *modelKeys) positiveInt(name string) int {
	n, err := k.intInRange(k.fullName(name), 1, 1<<30)
	k.keepError(err)
	return n
}

// readSizes returns the values of sizeKeys by their names in config.json.
func (k *modelKeys) readSizes(m family) map[string]any {
	values := map[string]any{"model_type": m.kind}
	for _, name := range slices.Sorted(maps.Keys(m.sizeNames)) {
		key := k.fullName(name)
		authorKey := m.sizeNames[name]
		switch {
		case name == "expert_count" && k.positiveInt(name) > maxExperts:
			k.keepError(fmt.Errorf("key %s is %d, want 1 to %d", key, k.positiveInt(name), maxExperts))
		case name == "attention.head_count_kv":
			values[authorKey] = k.keyValueHeads()
		case name == expertWidth && !k.Has(key):
			// Early converters wrote the width of all used experts together.
			used := max(k.positiveInt("expert_used_count"), 1)
			values[authorKey] = k.positiveInt("feed_forward_length") / used
		default:
			values[authorKey] = k.positiveInt(name)
		}
	}
	if k.Has(k.arch + ".attention.key_length") {
		values["head_dim"] = k.positiveInt("attention.key_length")
	}
	return values
}

// naturalInt returns an integer of 0 and more.
func (k *modelKeys) naturalInt(key string) int {
	n, err := k.intInRange(key, 0, 1<<30)
	k.keepError(err)
	return n
}

// ropeScalingConfig returns the scaling of rotary frequencies as config.json has it, nil for none.
// In llama.cpp's files mscale is always 1, and mscale_all_dim is the key yarn_log_multiplier
// (Ministral 3).
func (k *modelKeys) ropeScalingConfig() any {
	key := k.fullName(ropeScaling + "type")
	if !k.Has(key) {
		return nil
	}
	kind, err := k.Text(key)
	if err == nil && kind != "none" && kind != "linear" && kind != "yarn" {
		err = fmt.Errorf("key %s is %.40q, want none, linear or yarn", key, kind)
	}
	k.keepError(err)
	values := map[string]any{"rope_type": kind, "factor": k.positiveFloat(ropeScaling+"factor", 1)}
	if kind == "none" {
		return nil
	}
	if kind != "yarn" {
		return values
	}

	for name, authorKey := range scalingNames {
		if k.Has(k.arch + "." + name) {
			values[authorKey] = k.positiveFloat(name, 0)
		}
	}
	if _, ok := values["mscale_all_dim"]; ok { // their quotient counts, which wants both
		values["mscale"] = 1
	}
	name := ropeScaling + "original_context_length"
	if k.Has(k.arch + "." + name) {
		values["original_max_position_embeddings"] = k.positiveInt(name)
	}
	return values
}

const ropeScaling = "rope.scaling."

// scalingNames maps the keys of YaRN, beside its factor and its length, to their names in
// config.json.
var scalingNames = map[string]string{
	ropeScaling + "yarn_beta_fast":      "beta_fast",
	ropeScaling + "yarn_beta_slow":      "beta_slow",
	ropeScaling + "yarn_log_multiplier": "mscale_all_dim",
	"attention.temperature_scale":       "llama_4_scaling_beta",
}

// positiveFloat returns a number, absent for a missing one.
func (k *modelKeys) positiveFloat(name string, absent float64) float64 {
	key := k.fullName(name)
	if !k.Has(key) {
		return absent
	}
	v, err := k.Float(key)
	if err == nil && !(v > 0 && v < 1e12) { // false for NaN too
		err = fmt.Errorf("key %s is %v, want a positive number below 1e12", key, v)
	}
	k.keepError(err)
	return v
}

// keyValueHeads returns the number of key and value heads; if it is missing, that of the query
// heads.
func (k *modelKeys) keyValueHeads() int {
	if k.Has(k.arch + ".attention.head_count_kv") {
		return k.positiveInt("attention.head_count_kv")
	}
	return k.positiveInt("attention.head_count")
}

// vocabularySize returns the number of embeddings: the rows of their table, which may be more than
// the tokens.
func (k *modelKeys) vocabularySize() int {
	t, ok := k.Set.Get("token_embd.weight")
	if !ok || len(t.Shape) != 2 {
		k.keepError(errors.New("tensor token_embd.weight is absent or not [tokens, width]"))
		return 0
	}
	return t.Shape[0]
}

// specialToken returns a special token's id, absent for a missing one.
func (k *modelKeys) specialToken(name string, absent int) int {
	key := "tokenizer.ggml." + name + "_token_id"
	if !k.Has(key) {
		return absent
	}
	return k.naturalInt(key)
}

// endTokens returns the tokens that end a text; where the file has no eos, the first is absentEOS.
func (k *modelKeys) endTokens(absentEOS int) []int {
	tokens, err := k.File.endTokens()
	k.keepError(err)
	if !k.Has(endKeys[0]) {
		tokens = slices.Insert(tokens, 0, absentEOS)
	}
	return tokens
}

// maskToken returns the mask token's id, absent where a file lacks it, as those of LLaDA may.
func (k *modelKeys) maskToken(absent int) int {
	if k.arch == diffuseArch {
		return k.positiveInt("mask_token_id")
	}
	return k.specialToken("mask", absent)
}
