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

	"unmask/weights"
)

// family is a kind of model with its names in llama.cpp's files and in the authors' config.json and
// safetensors.
type family struct {
	kind        string            // model_type of config.json
	interleaved bool              // the rows of Q and K are written for interleaved rotary embedding
	sizes       map[string]string // names of the keys of sizeKeys in config.json
	config      func(k *keys) map[string]any
	// names maps the file's "blk.N." + key, and its other tensors, to the authors' names.
	blocks string // with a %s for the number
	names  map[string]string
	ends   []string // possible ends of a tensor's name, with the dot
}

// sizeKeys are the keys of sizes, after the architecture's name. The last three are of experts.
var sizeKeys = []string{"block_count", "context_length", "embedding_length", "feed_forward_length",
	"attention.head_count", "attention.head_count_kv", "expert_count", "expert_used_count",
	expertWidth}

// llada is LLaDA-8B and LLaDA-1.5 (config.json and modeling_llada.py of GSAI-ML/LLaDA-8B-Base).
var llada = family{
	kind:        "llada",
	interleaved: true,
	sizes: map[string]string{"embedding_length": "d_model", "block_count": "n_layers",
		"attention.head_count": "n_heads", "attention.head_count_kv": "n_kv_heads",
		"feed_forward_length": "mlp_hidden_size", "context_length": "max_sequence_length"},
	config: func(k *keys) map[string]any {
		return map[string]any{
			"vocab_size": k.vocabulary(), "embedding_size": k.vocabulary(),
			"rope": true, "rope_theta": k.float("rope.freq_base", 500000),
			"rope_full_precision": true,
			"rms_norm_eps":        k.float("attention.layer_norm_rms_epsilon", 1e-5),
			"layer_norm_type":     "rms",
			"block_type":          "llama", "activation_type": "silu", "weight_tying": k.tied,
			"include_bias":     false,
			"include_qkv_bias": false, "attention_layer_norm": false, "scale_logits": false,
			"input_emb_norm":   false,
			"block_group_size": 1, "mask_token_id": k.mask(126336), "eos_token_id": k.ends(126081),
			"pad_token_id": k.token("padding", k.token("eos", 126081)),
		}
	},
	blocks: "model.transformer.blocks.%s.",
	names: map[string]string{
		"token_embd": "model.transformer.wte", "output_norm": "model.transformer.ln_f",
		"output":    "model.transformer.ff_out",
		"attn_norm": "attn_norm", "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj",
		"attn_output": "attn_out",
		"ffn_norm":    "ff_norm", "ffn_gate": "ff_proj", "ffn_up": "up_proj", "ffn_down": "ff_out",
	},
	ends: []string{".weight"},
}

// blockSizes and qwenSizes are the names of sizes in the config.json of Qwen2, Qwen3 and Llama, the
// first ones without the width of dense layers.
var (
	blockSizes = map[string]string{"embedding_length": "hidden_size",
		"block_count": "num_hidden_layers", "attention.head_count": "num_attention_heads",
		"attention.head_count_kv": "num_key_value_heads", "context_length": "max_position_embeddings"}
	qwenSizes = also(blockSizes, map[string]string{"feed_forward_length": "intermediate_size"})
)

// also returns names with more of them.
func also(names, more map[string]string) map[string]string {
	all := maps.Clone(names)
	maps.Copy(all, more)
	return all
}

// qwenNames returns the names of tensors in checkpoints of Qwen2, Qwen3 and Llama; those outside
// the blocks are given.
func qwenNames(embedding, norm, head string) map[string]string {
	return map[string]string{
		"token_embd": embedding, "output_norm": norm, "output": head,
		"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
		"attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
		"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
		"ffn_down": "mlp.down_proj",
	}
}

// qwen returns what the config.json of Qwen2, Qwen3 and Llama has beside sizes, with this mask and
// end where the file has none.
func (k *keys) qwen(mask, eos int) map[string]any {
	values := map[string]any{
		"vocab_size": k.vocabulary(), "rope_theta": k.float("rope.freq_base", 1000000),
		"rope_scaling": k.scaling(), "rms_norm_eps": k.float("attention.layer_norm_rms_epsilon", 1e-6),
		"tie_word_embeddings": k.tied, "hidden_act": "silu", "use_sliding_window": false,
		"attention_dropout": 0.0, "mask_token_id": k.mask(mask),
		"eos_token_id": k.ends(eos), "pad_token_id": k.token("padding", eos),
	}
	if k.Has("tokenizer.ggml.bos_token_id") {
		values["bos_token_id"] = k.token("bos", 0)
	}
	return values
}

// dream is Dream-7B and DiffuCoder-7B (config.json of apple/DiffuCoder-7B-Instruct), and with
// expandKey DreamOn-7B.
var dream = family{
	kind:  "Dream",
	sizes: qwenSizes,
	config: func(k *keys) map[string]any {
		values := k.qwen(151666, 151643)
		if k.Has(expandKey) {
			values["expand_token_id"] = k.whole(expandKey)
		}
		return values
	},
	blocks: "model.layers.%s.",
	names:  qwenNames("model.embed_tokens", "model.norm", "lm_head"),
	ends:   []string{".weight", ".bias"},
}

// wedlm is WeDLM-7B and -8B, whose networks are those of Qwen2.5 and Qwen3.
var wedlm = family{
	kind:  "wedlm",
	sizes: qwenSizes,
	config: func(k *keys) map[string]any {
		values := k.qwen(151665, 151643)
		_, values["attention_bias"] = k.Set.Get("blk.0.attn_q.bias")
		_, values["qk_norm"] = k.Set.Get("blk.0.attn_q_norm.weight")
		return values
	},
	blocks: dream.blocks,
	names:  dream.names,
	ends:   dream.ends,
}

// nemotron is Nemotron-Labs-Diffusion-3B, -8B and -14B, whose network is that of Ministral 3.
var nemotron = family{
	kind:        "nemotron_labs_diffusion",
	interleaved: true,
	sizes:       qwenSizes,
	config: func(k *keys) map[string]any {
		values := k.qwen(100, 11)
		if k.Has(blockKey) {
			values["block_size"] = k.whole(blockKey)
		}
		return values
	},
	blocks: "encoder.layers.%s.",
	names:  qwenNames("encoder.embed_tokens", "encoder.norm", "diffusion_head"),
	ends:   []string{".weight"},
}

// expertNames maps the tensors of all experts of a block, [experts, rows, columns], to the authors'
// names of one expert's, with %d for its number.
var expertNames = map[string]string{"ffn_gate_exps": "mlp.experts.%d.gate_proj",
	"ffn_up_exps": "mlp.experts.%d.up_proj", "ffn_down_exps": "mlp.experts.%d.down_proj"}

const (
	expertWidth = "expert_feed_forward_length"
	maxExperts  = 1 << 12 // of a block
)

// routedNames are those of qwen with the experts' and the router's.
var routedNames = also(also(dream.names, expertNames),
	map[string]string{"ffn_gate_inp": "mlp.gate"})

// lladaMoE is LLaDA-MoE-7B-A1B (modeling_lladamoe.py). Its files have no feed_forward_length.
var lladaMoE = family{
	kind: "lladamoe",
	sizes: also(blockSizes, map[string]string{"expert_count": "num_experts",
		"expert_used_count": "num_experts_per_tok", expertWidth: "expert_intermediate_size"}),
	config: func(k *keys) map[string]any { return k.qwen(lladaMoEMask, 156892) },
	blocks: dream.blocks,
	names:  routedNames,
	ends:   []string{".weight"},
}

const lladaMoEMask = 156895

// rnd1 is RND1-Base-0910, a Qwen3-MoE whose experts' weights sum to 1.
var rnd1 = family{
	kind: "rnd1",
	sizes: also(qwenSizes, map[string]string{"expert_count": "num_experts",
		"expert_used_count": "num_experts_per_tok", expertWidth: "moe_intermediate_size"}),
	config: func(k *keys) map[string]any {
		values := k.qwen(151669, 151645)
		values["norm_topk_prob"] = true
		return values
	},
	blocks: dream.blocks,
	names:  routedNames,
	ends:   []string{".weight"},
}

// Keys that several functions read.
const (
	architectureKey = "general.architecture"
	diffuseKey      = "diffuse.model_type"
	shiftKey        = "diffusion.shift_logits"
	kindKey         = "diffusion.model_type" // for architectures that are not diffusion alone
	blockKey        = "diffusion.block_size"
	expandKey       = "diffusion.expand_token_id"
	tokensKey       = "tokenizer.ggml.tokens"
)

// endKeys have the tokens at any of which llama.cpp ends a text: of the text, of a turn and of a
// message (llama-vocab.cpp, special_eog_ids).
var endKeys = []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
	"tokenizer.ggml.eom_token_id"}

// architectures are the kinds of models by general.architecture in llama.cpp's dialect. The last
// three are also those of models that are not diffusion, so the file says with kindKey that it is.
var architectures = map[string]family{"llada": llada, "dream": dream, "llada-moe": lladaMoE,
	"rnd1": rnd1, "mistral3": nemotron, "qwen2": wedlm, "qwen3": wedlm}

// Model returns the config.json that this model has in its authors' layout, and the tensors under
// the authors' names. Block formats stay as they are. Two dialects are known:
//
//   - llama.cpp's, general.architecture llada, dream, llada-moe or rnd1; and, with the key
//     diffusion.model_type, which Convert writes and llama.cpp does not read, mistral3
//     (nemotron_labs_diffusion), qwen2 and qwen3 (wedlm). Its converter writes the rows of Q and K
//     of LLaDA and Ministral 3 for interleaved rotary; the tensors returned are views in halves'
//     order. Its tensors of all experts of a block are returned as one of each.
//   - diffuse-cpp's (https://github.com/iafiscal1212/diffuse-cpp, tools/convert-llada.py),
//     architecture diffuse with key diffuse.model_type. Q and K are as the authors have them, and
//     there is no tokenizer.
//
// Other architectures are errors, and so are keys that change the arithmetic to another than the
// kind's, such as diffusion.shift_logits. Unknown keys of the architecture are in the config.json.
func (f *File) Model() (config []byte, set *weights.Set, err error) {
	arch, err := f.Text(architectureKey)
	if err != nil {
		return nil, nil, f.failed(err)
	}
	family, err := f.family(arch)
	if err != nil {
		return nil, nil, f.failed(err)
	}
	k := &keys{File: f, arch: arch, seen: slices.Clone(idle)}
	_, headed := f.Set.Get("output.weight")
	k.tied = !headed
	values := k.sizes(family)
	maps.Copy(values, family.config(k))
	if k.rest(family, values); k.err != nil {
		return nil, nil, f.failed(k.err)
	}
	if config, err = json.Marshal(values); err != nil {
		return nil, nil, f.failed(err)
	}
	permuted := family.interleaved && arch != diffuseArch
	set, err = f.Set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		theirs := family.name(name)
		if permuted && strings.HasSuffix(theirs, ".q_proj.weight") {
			t, err = t.HalfSplit(k.int("attention.head_count"))
		} else if permuted && strings.HasSuffix(theirs, ".k_proj.weight") {
			t, err = t.HalfSplit(k.heads())
		}
		return theirs, t, err
	})
	if err == nil && family.sizes["expert_count"] != "" {
		experts := k.int("expert_count")
		set, err = set.SplitTensors(func(name string, _ *weights.Tensor) []string {
			return parts(name, experts)
		})
	}
	if err != nil {
		return nil, nil, f.failed(err)
	}
	return config, set, nil
}

// parts returns the names of the experts whose weights are in one tensor, which has %d in its own.
func parts(name string, experts int) (all []string) {
	before, after, ok := strings.Cut(name, "%d")
	for e := 0; ok && e < experts; e++ {
		all = append(all, before+strconv.Itoa(e)+after)
	}
	return all
}

// diffuseArch is the architecture of diffuse-cpp's files.
const diffuseArch = "diffuse"

// family returns the kind of model.
func (f *File) family(arch string) (family, error) {
	kind := arch
	if arch == diffuseArch {
		var err error
		if kind, err = f.Text(diffuseKey); err != nil {
			return family{}, err
		}
	}
	named, known := architectures[kind]
	if !known || arch == diffuseArch && kind != "llada" && kind != "dream" {
		return family{}, fmt.Errorf("architecture is %.40q, want llada, dream, llada-moe, rnd1, diffuse "+
			"with %s llada or dream, or with %s mistral3, qwen2 or qwen3", kind, diffuseKey, kindKey)
	}
	if named.kind != nemotron.kind && named.kind != wedlm.kind {
		return named, nil
	}
	if !f.Has(kindKey) {
		return family{}, fmt.Errorf("architecture is %s without key %s, want %s there: other models of "+
			"this architecture write from left to right", arch, kindKey, named.kind)
	}
	if kind, err := f.Text(kindKey); err != nil || kind != named.kind {
		return family{}, cmp.Or(err, fmt.Errorf("key %s is %.40s, want %s with architecture %s", kindKey,
			kind, named.kind, arch))
	}
	return named, nil
}

// name returns the authors' name of a tensor; an unknown one is returned unchanged.
func (m family) name(name string) string {
	for _, end := range m.ends {
		base, ok := strings.CutSuffix(name, end)
		if !ok {
			continue
		}
		if rest, ok := strings.CutPrefix(base, "blk."); ok {
			n, key, ok := strings.Cut(rest, ".")
			if theirs := m.names[key]; ok && theirs != "" {
				return fmt.Sprintf(m.blocks, n) + theirs + end
			}
		} else if theirs := m.names[base]; theirs != "" {
			return theirs + end
		}
	}
	return name
}

// keys reads the keys of an architecture and keeps the first error.
type keys struct {
	*File
	arch string
	tied bool
	seen []string // names of keys of the architecture that are read
	err  error
}

// idle are names of keys of an architecture that change no arithmetic.
var idle = []string{"vocab_size", "model_type", "feed_forward_length", "rope.scaling.finetuned"}

// fixed are names of keys that do, with the value that all of these networks have.
var fixed = map[string]any{"attention.causal": false, "attention.sliding_window": 0.0,
	"attention.scale": 0.0, "attention.clamp_kqv": 0.0, "attention.max_alibi_bias": 0.0,
	"attn_logit_softcapping": 0.0, "final_logit_softcapping": 0.0, "logit_scale": 1.0,
	"residual_scale": 1.0, "embedding_scale": 1.0, "expert_group_count": 1.0,
	"expert_weights_scale": 1.0, "expert_gating_func": 1.0, // a softmax
	"rope.scale_linear": 1.0, "rope.scaling.type": `"none"`, "rope.scaling.factor": 1.0,
	"rope.scaling.attn_factor": 1.0, "rope.scaling.yarn_attn_factor": 1.0,
	"rope.scaling.yarn_ext_factor": 1.0}

// rest refuses keys with another value than the family's, and adds unknown keys of the architecture
// to the values, so that a note names them.
func (k *keys) rest(m family, values map[string]any) {
	head, ok := values["head_dim"].(int)
	if !ok {
		head = k.int("embedding_length") / max(k.int("attention.head_count"), 1)
	}
	wants := maps.Clone(fixed)
	maps.Copy(wants, map[string]any{shiftKey: m.kind == dream.kind || m.kind == rnd1.kind,
		"expert_weights_norm": m.kind == rnd1.kind, "rope.dimension_count": float64(head),
		"attention.value_length": float64(head)})
	for _, key := range k.Keys() {
		name, own := strings.CutPrefix(key, k.arch+".")
		if slices.Contains(k.seen, name) {
			continue
		}
		got, err := any(nil), error(nil)
		switch wants[name].(type) {
		case bool:
			got, err = k.Bool(key)
		case float64:
			got, err = k.Float(key)
		case string:
			got, err = k.Text(key)
			got = fmt.Sprintf("%.40q", got)
		case nil:
			if own {
				values[key] = true
			}
		}
		if err != nil || got != wants[name] {
			k.note(cmp.Or(err, fmt.Errorf("key %s is %v, want %v for %s", key, got, wants[name], m.kind)))
		}
	}
}

// key returns the whole name of a key of the architecture, which is then one that is read.
func (k *keys) key(name string) string {
	k.seen = append(k.seen, name)
	return k.arch + "." + name
}

func (k *keys) note(err error) {
	k.err = cmp.Or(k.err, err)
}

func (k *keys) int(name string) int {
	n, err := k.within(k.key(name), 1, 1<<30)
	k.note(err)
	return n
}

// sizes returns the values of sizeKeys by their names in config.json.
func (k *keys) sizes(m family) map[string]any {
	values := map[string]any{"model_type": m.kind}
	for _, name := range slices.Sorted(maps.Keys(m.sizes)) {
		switch key := k.key(name); {
		case name == "expert_count" && k.int(name) > maxExperts:
			k.note(fmt.Errorf("key %s is %d, want 1 to %d", key, k.int(name), maxExperts))
		case name == "attention.head_count_kv":
			values[m.sizes[name]] = k.heads()
		case name == expertWidth && !k.Has(key): // as early converters wrote it
			values[m.sizes[name]] = k.int("feed_forward_length") / max(k.int("expert_used_count"), 1)
		default:
			values[m.sizes[name]] = k.int(name)
		}
	}
	if k.Has(k.arch + ".attention.key_length") {
		values["head_dim"] = k.int("attention.key_length")
	}
	return values
}

// whole returns an integer of 0 and more.
func (k *keys) whole(key string) int {
	n, err := k.within(key, 0, 1<<30)
	k.note(err)
	return n
}

// scaling returns the scaling of rotary frequencies as config.json has it, nil for none. In
// llama.cpp's files mscale is always 1, and mscale_all_dim is the key yarn_log_multiplier
// (Ministral 3).
func (k *keys) scaling() any {
	key := k.key(ropeScaling + "type")
	if !k.Has(key) {
		return nil
	}
	kind, err := k.Text(key)
	if err == nil && kind != "none" && kind != "linear" && kind != "yarn" {
		err = fmt.Errorf("key %s is %.40q, want none, linear or yarn", key, kind)
	}
	k.note(err)
	values := map[string]any{"rope_type": kind, "factor": k.float(ropeScaling+"factor", 1)}
	if kind == "none" {
		return nil
	}
	if kind != "yarn" {
		return values
	}
	for name, theirs := range scalingNames {
		if k.Has(k.arch + "." + name) {
			values[theirs] = k.float(name, 0)
		}
	}
	if _, ok := values["mscale_all_dim"]; ok {
		values["mscale"] = 1
	}
	if name := ropeScaling + "original_context_length"; k.Has(k.arch + "." + name) {
		values["original_max_position_embeddings"] = k.int(name)
	}
	return values
}

// The keys of YaRN beside its factor and its length, by their names in config.json.
const ropeScaling = "rope.scaling."

var scalingNames = map[string]string{ropeScaling + "yarn_beta_fast": "beta_fast",
	ropeScaling + "yarn_beta_slow": "beta_slow", ropeScaling + "yarn_log_multiplier": "mscale_all_dim",
	"attention.temperature_scale": "llama_4_scaling_beta"}

// float returns a number; a missing one is `otherwise`.
func (k *keys) float(name string, otherwise float64) float64 {
	key := k.key(name)
	if !k.Has(key) {
		return otherwise
	}
	v, err := k.Float(key)
	if err == nil && !(v > 0 && v < 1e12) {
		err = fmt.Errorf("key %s is %v, want a positive number below 1e12", key, v)
	}
	k.note(err)
	return v
}

// heads returns the number of key and value heads; if it is missing, that of the query heads.
func (k *keys) heads() int {
	if k.Has(k.arch + ".attention.head_count_kv") {
		return k.int("attention.head_count_kv")
	}
	return k.int("attention.head_count")
}

// vocabulary returns the number of embeddings: the rows of their table, which may be more than the
// tokens.
func (k *keys) vocabulary() int {
	t, ok := k.Set.Get("token_embd.weight")
	if !ok || len(t.Shape) != 2 {
		k.note(errors.New("tensor token_embd.weight is absent or not [tokens, width]"))
		return 0
	}
	return t.Shape[0]
}

// token returns a special token's id; a missing one is `otherwise`.
func (k *keys) token(name string, otherwise int) int {
	key := "tokenizer.ggml." + name + "_token_id"
	if !k.Has(key) {
		return otherwise
	}
	return k.whole(key)
}

// ends returns the tokens that end a text; where the file has no eos, the first is `otherwise`.
func (k *keys) ends(otherwise int) []int {
	ends, err := k.File.ends()
	k.note(err)
	if !k.Has(endKeys[0]) {
		ends = slices.Insert(ends, 0, otherwise)
	}
	return ends
}

// mask returns the mask token's id, which LLaDA files may lack.
func (k *keys) mask(otherwise int) int {
	if k.arch == diffuseArch {
		return k.int("mask_token_id")
	}
	return k.token("mask", otherwise)
}
