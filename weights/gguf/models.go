package gguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"unmask/weights"
)

// family is a kind of model with its names in the authors' config.json and safetensors.
type family struct {
	config func(k *keys) map[string]any
	// names maps the file's "blk.N." + key, and its other tensors, to the authors' names.
	blocks string // with a %s for the number
	names  map[string]string
	ends   []string // possible ends of a tensor's name, with the dot
}

// llada is LLaDA-8B and LLaDA-1.5 (config.json and modeling_llada.py of GSAI-ML/LLaDA-8B-Base).
var llada = family{
	config: func(k *keys) map[string]any {
		return map[string]any{
			"model_type": "llada", "d_model": k.int("embedding_length"), "n_layers": k.int("block_count"),
			"n_heads": k.int("attention.head_count"), "n_kv_heads": k.heads(),
			"mlp_hidden_size": k.int("feed_forward_length"),
			"vocab_size":      k.vocabulary(), "embedding_size": k.vocabulary(),
			"max_sequence_length": k.int("context_length"),
			"rope":                true, "rope_theta": k.float("rope.freq_base", 500000),
			"rope_full_precision": true,
			"rms_norm_eps":        k.float("attention.layer_norm_rms_epsilon", 1e-5),
			"layer_norm_type":     "rms",
			"block_type":          "llama", "activation_type": "silu", "weight_tying": k.tied,
			"include_bias":     false,
			"include_qkv_bias": false, "attention_layer_norm": false, "scale_logits": false,
			"input_emb_norm":   false,
			"block_group_size": 1, "mask_token_id": k.mask(126336), "eos_token_id": k.token("eos", 126081),
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

// dream is Dream-7B and DiffuCoder-7B (config.json of apple/DiffuCoder-7B-Instruct).
var dream = family{
	config: func(k *keys) map[string]any {
		return map[string]any{
			"model_type": "Dream", "hidden_size": k.int("embedding_length"),
			"num_hidden_layers":   k.int("block_count"),
			"num_attention_heads": k.int("attention.head_count"), "num_key_value_heads": k.heads(),
			"intermediate_size": k.int("feed_forward_length"), "vocab_size": k.vocabulary(),
			"max_position_embeddings": k.int("context_length"),
			"rope_theta":              k.float("rope.freq_base", 1000000),
			"rope_scaling":            nil,
			"rms_norm_eps":            k.float("attention.layer_norm_rms_epsilon", 1e-6),
			"tie_word_embeddings":     k.tied, "hidden_act": "silu", "use_sliding_window": false,
			"attention_dropout": 0.0,
			"mask_token_id":     k.mask(151666), "bos_token_id": k.token("bos", 151643),
			"eos_token_id": k.token("eos", 151643),
			"pad_token_id": k.token("padding", 151643),
		}
	},
	blocks: "model.layers.%s.",
	names: map[string]string{
		"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
		"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
		"attn_v":      "self_attn.v_proj",
		"attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
		"attn_k_norm": "self_attn.k_norm",
		"ffn_norm":    "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
		"ffn_down": "mlp.down_proj",
	},
	ends: []string{".weight", ".bias"},
}

// Keys that several functions read.
const (
	architectureKey = "general.architecture"
	diffuseKey      = "diffuse.model_type"
	tokensKey       = "tokenizer.ggml.tokens"
)

// Model returns the config.json that this model has in its authors' layout, and the tensors under
// the authors' names. Block formats stay as they are. Two dialects are known:
//
//   - llama.cpp's, general.architecture llada or dream. Its converter writes the rows of LLaDA's Q
//     and K for interleaved rotary; the tensors returned are views in the order of halves.
//   - diffuse-cpp's (https://github.com/iafiscal1212/diffuse-cpp, tools/convert-llada.py),
//     architecture diffuse with key diffuse.model_type. Q and K are as the authors have them, and
//     there is no tokenizer.
//
// Other architectures are errors, and so is a diffusion.shift_logits that contradicts the kind.
func (f *File) Model() (config []byte, set *weights.Set, err error) {
	arch, err := f.Text(architectureKey)
	if err != nil {
		return nil, nil, f.failed(err)
	}
	kind := arch
	if arch == "diffuse" {
		if kind, err = f.Text(diffuseKey); err != nil {
			return nil, nil, f.failed(err)
		}
	}
	family, shift := llada, false
	switch kind {
	case "llada":
	case "dream":
		family, shift = dream, true
	default:
		return nil, nil, fmt.Errorf("%s: architecture is %.40q, want llada, dream, or diffuse with %s "+
			"llada or dream", f.Name, kind, diffuseKey)
	}
	k := &keys{File: f, arch: arch}
	_, headed := f.Set.Get("output.weight")
	k.tied = !headed
	values := family.config(k)
	if k.err == nil && f.Has("diffusion.shift_logits") {
		var shifted bool
		if shifted, k.err = f.Bool("diffusion.shift_logits"); k.err == nil && shifted != shift {
			k.err = fmt.Errorf("key diffusion.shift_logits is %v, want %v for %s", shifted, shift, kind)
		}
	}
	if k.err != nil {
		return nil, nil, f.failed(k.err)
	}
	if config, err = json.Marshal(values); err != nil {
		return nil, nil, f.failed(err)
	}
	permuted := arch == "llada"
	set, err = f.Set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		theirs := family.name(name)
		if permuted && strings.HasSuffix(theirs, ".q_proj.weight") {
			t, err = t.HalfSplit(k.int("attention.head_count"))
		} else if permuted && strings.HasSuffix(theirs, ".k_proj.weight") {
			t, err = t.HalfSplit(k.heads())
		}
		return theirs, t, err
	})
	if err != nil {
		return nil, nil, f.failed(err)
	}
	return config, set, nil
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
	err  error
}

func (k *keys) note(err error) {
	if k.err == nil {
		k.err = err
	}
}

func (k *keys) int(name string) int {
	n, err := k.Int(k.arch + "." + name)
	if err == nil && (n < 1 || n > 1<<30) {
		err = fmt.Errorf("key %s.%s is %d, want 1 to %d", k.arch, name, n, 1<<30)
	}
	k.note(err)
	return n
}

// float returns a number; a missing one is `otherwise`.
func (k *keys) float(name string, otherwise float64) float64 {
	key := k.arch + "." + name
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
	n, err := k.Int(key)
	if err == nil && (n < 0 || n > 1<<30) {
		err = fmt.Errorf("key %s is %d, want 0 to %d", key, n, 1<<30)
	}
	k.note(err)
	return n
}

// mask returns the mask token's id, which LLaDA files may lack.
func (k *keys) mask(otherwise int) int {
	if k.arch == "diffuse" {
		return k.int("mask_token_id")
	}
	return k.token("mask", otherwise)
}
