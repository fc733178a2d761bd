package encoders

import (
	"maps"
	"slices"
	"strings"

	"unmask/weights"
)

// names are the names of a Model's tensors in published checkpoints, by the tags of its fields
// (weights.BindOptions).
type names = map[string]string

// transformersNames are those of BERT in the library transformers, below a prefix. A family has
// another head; further names are added, or stand in place of those of the same key.
func transformersNames(prefix, head string, further names) names {
	tensorNames := names{
		"words":       prefix + ".embeddings.word_embeddings.weight",
		"positions":   prefix + ".embeddings.position_embeddings.weight",
		"types":       prefix + ".embeddings.token_type_embeddings.weight",
		"embedNorm":   prefix + ".embeddings.LayerNorm",
		"blocks":      prefix + ".encoder.layer",
		"q":           "attention.self.query",
		"k":           "attention.self.key",
		"v":           "attention.self.value",
		"out":         "attention.output.dense",
		"norm1":       "attention.output.LayerNorm",
		"up":          "intermediate.dense",
		"down":        "output.dense",
		"norm2":       "output.LayerNorm",
		"final":       prefix + ".encoder.emb_layer_norm_after",
		"dense":       head + ".dense",
		"headNorm":    head + ".layer_norm",
		"decoder":     head + ".decoder.weight",
		"decoderBias": head + ".bias",
	}
	maps.Copy(tensorNames, further)
	return tensorNames
}

var (
	bertNames = transformersNames("bert", "cls.predictions",
		names{"dense": "cls.predictions.transform.dense",
			"headNorm": "cls.predictions.transform.LayerNorm"})
	robertaNames = transformersNames("roberta", "lm_head", nil)
	esmNames     = transformersNames("esm", "lm_head",
		names{"norm1": "attention.LayerNorm", "norm2": "LayerNorm"})
	albertNames = transformersNames("albert", "predictions", names{
		"widen":    "albert.encoder.embedding_hidden_mapping_in",
		"q":        "attention.query",
		"k":        "attention.key",
		"v":        "attention.value",
		"out":      "attention.dense",
		"norm1":    "attention.LayerNorm",
		"up":       "ffn",
		"down":     "ffn_output",
		"norm2":    "full_layer_layer_norm",
		"headNorm": "predictions.LayerNorm",
		"blocks":   "-",
	}) // they are in groups, see Model.root
	fairseqNames = names{
		"words":       "sentence_encoder.embed_tokens.weight",
		"positions":   "sentence_encoder.embed_positions.weight",
		"embedNorm":   "sentence_encoder.emb_layer_norm",
		"blocks":      "sentence_encoder.layers",
		"q":           "self_attn.q_proj",
		"k":           "self_attn.k_proj",
		"v":           "self_attn.v_proj",
		"out":         "self_attn.out_proj",
		"norm1":       "self_attn_layer_norm",
		"up":          "fc1",
		"down":        "fc2",
		"norm2":       "final_layer_norm",
		"dense":       "lm_head.dense",
		"headNorm":    "lm_head.layer_norm",
		"decoder":     "lm_head.weight",
		"decoderBias": "lm_head.bias",
	}
	modernbertNames = names{
		"words":       "model.embeddings.tok_embeddings.weight",
		"embedNorm":   "model.embeddings.norm",
		"blocks":      "model.layers",
		"norm1":       "attn_norm",
		"q":           "attn.Wqkv",
		"out":         "attn.Wo",
		"norm2":       "mlp_norm",
		"gated":       "mlp.Wi.weight",
		"down":        "mlp.Wo",
		"final":       "model.final_norm",
		"dense":       "head.dense",
		"headNorm":    "head.norm",
		"decoder":     "decoder.weight",
		"decoderBias": "decoder.bias",
	}
)

// esmcNames are those of ESM-C's first two layouts: its trunk's below a prefix, the head's below
// another, and a block's.
func esmcNames(prefix, head string, block names) names {
	tensorNames := names{
		"words":       prefix + "embed.weight",
		"blocks":      prefix + "transformer.blocks",
		"qNorm":       "attn.q_ln",
		"kNorm":       "attn.k_ln",
		"out":         "attn.out_proj",
		"final":       prefix + "transformer.norm",
		"dense":       head + ".0",
		"headNorm":    head + ".2",
		"decoder":     head + ".3.weight",
		"decoderBias": head + ".3.bias",
	}
	maps.Copy(tensorNames, block)
	return tensorNames
}

var (
	// esmcHubNames are those of biohub/ESMC-*.
	esmcHubNames = names{
		"norm1": "attn.layernorm_qkv.layer_norm",
		"q":     "attn.layernorm_qkv",
		"norm2": "ffn.layer_norm",
		"gated": "ffn.fc1_weight",
		"down":  "ffn.fc2",
	}

	// esmcFileNames are those of the first files, esmc_*.pth.
	esmcFileNames = names{
		"norm1": "attn.layernorm_qkv.0",
		"q":     "attn.layernorm_qkv.1",
		"norm2": "ffn.0",
		"gated": "ffn.1.weight",
		"down":  "ffn.3",
	}

	// esmcTransformersNames are those of EsmcForMaskedLM in the library transformers.
	esmcTransformersNames = names{
		"words":       "esmc.embed_tokens.weight",
		"blocks":      "esmc.layers",
		"norm1":       "input_layernorm",
		"q":           "self_attn.q_proj",
		"k":           "self_attn.k_proj",
		"v":           "self_attn.v_proj",
		"qNorm":       "self_attn.q_norm",
		"kNorm":       "self_attn.k_norm",
		"out":         "self_attn.o_proj",
		"norm2":       "post_attention_layernorm",
		"gate":        "mlp.gate_proj",
		"up":          "mlp.up_proj",
		"down":        "mlp.down_proj",
		"final":       "esmc.norm",
		"dense":       "lm_head.dense",
		"headNorm":    "lm_head.layer_norm",
		"decoder":     "lm_head.decoder.weight",
		"decoderBias": "lm_head.decoder.bias",
	}
)

// esmcKeys are the keys of ESM-C's first layouts.
var esmcKeys = map[string]string{
	"hidden_size":         "d_model",
	"num_attention_heads": "n_heads",
	"num_hidden_layers":   "n_layers",
}

// bindRoot returns what weights.Bind walks: the network, and the groups of ALBERT's blocks.
func (m *Model) bindRoot() any {
	type group struct {
		Blocks []block `weight:"albert_layers"`
	}
	root := &struct {
		*Model `weight:""`
		Groups []group `weight:"albert.encoder.albert_layer_groups"`
	}{Model: m}
	if m.cfg.family.names["blocks"] == "-" {
		for inner := range slices.Chunk(m.Blocks, m.cfg.GroupBlocks) {
			root.Groups = append(root.Groups, group{inner})
		}
	}
	return root
}

// plainNames returns the set with the names of norms as later checkpoints have them: the first
// ones of BERT call a norm's weight gamma and its bias beta, and Transformer Engine, with which
// ESM-C was trained, ends names in _weight and _bias. A network that was saved without its head
// leaves out the part that `words`, the name of the embedding, begins with; its names get it
// back.
func plainNames(set *weights.Set, words string) (*weights.Set, error) {
	trunk, anchor, _ := strings.Cut(words, ".")
	withoutTrunk := !slices.ContainsFunc(set.Names(), func(name string) bool {
		return name == words || strings.HasSuffix(name, "."+words)
	})
	prefix := ""
	for _, name := range set.Names() {
		start, ok := strings.CutSuffix(name, anchor)
		if ok && (start == "" || start == "encoder.") {
			prefix = start
		}
	}
	return set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		if suffix, ok := strings.CutPrefix(name, prefix); ok && withoutTrunk {
			name = trunk + "." + suffix
		}
		if short, ok := strings.CutSuffix(name, ".gamma"); ok {
			return short + ".weight", t, nil
		}
		if short, ok := strings.CutSuffix(name, ".beta"); ok {
			return short + ".bias", t, nil
		}
		for _, module := range []string{".layer_norm", ".fc2"} {
			for _, part := range []string{"weight", "bias"} {
				if start, ok := strings.CutSuffix(name, module+"_"+part); ok {
					return start + module + "." + part, t, nil
				}
			}
		}
		return name, t, nil
	})
}
