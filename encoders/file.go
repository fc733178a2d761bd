package encoders

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"unmask/backend"
)

// file is what the families' config.json files say; nil where they do not.
type file struct {
	Heads       *int     `json:"num_attention_heads"`
	Layers      *int     `json:"num_hidden_layers"`
	Groups      *int     `json:"num_hidden_groups"`
	Inner       *int     `json:"inner_group_num"`
	Hidden      *int     `json:"hidden_size"`
	MLP         *int     `json:"intermediate_size"`
	Positions   *int     `json:"max_position_embeddings"`
	Vocab       *int     `json:"vocab_size"`
	Pad         *int     `json:"pad_token_id"`
	Mask        *int32   `json:"mask_token_id"`
	First       *int32   `json:"cls_token_id"`
	Last        *int32   `json:"sep_token_id"`
	Eps         *float64 `json:"layer_norm_eps"`
	NormEps     *float64 `json:"norm_eps"`
	Act         *string  `json:"hidden_act"`
	Activation  *string  `json:"hidden_activation"`
	HeadAct     *string  `json:"classifier_activation"`
	Position    *string  `json:"position_embedding_type"`
	Dropout     *bool    `json:"token_dropout"`
	NormBefore  *bool    `json:"emb_layer_norm_before"`
	Folding     *bool    `json:"is_folding_model"`
	Every       *int     `json:"global_attn_every_n_layers"`
	Local       *int     `json:"local_attention"`
	GlobalTheta *float64 `json:"global_rope_theta"`
	LocalTheta  *float64 `json:"local_rope_theta"`
	Theta       *float64 `json:"rope_theta"`
	Rope        *ropes   `json:"rope_parameters"`
	Scaling     *rope    `json:"rope_scaling"`
	LayerTypes  []string `json:"layer_types"`
	Embed       *int     `json:"embedding_size"`
	Types       *int     `json:"type_vocab_size"`
	Tied        *bool    `json:"tie_word_embeddings"`
	AttnBias    *bool    `json:"attention_bias"`
	MLPBias     *bool    `json:"mlp_bias"`
	NormBias    *bool    `json:"norm_bias"`
	DenseBias   *bool    `json:"classifier_bias"`
	OutBias     *bool    `json:"decoder_bias"`

	err error
}

// rope are the parameters of rotary embeddings as transformers 5 writes them.
type rope struct {
	Theta   *float64 `json:"rope_theta"`
	Type    *string  `json:"rope_type"`
	OldType *string  `json:"type"`
	Partial *float64 `json:"partial_rotary_factor"`
	Factor  *float64 `json:"factor"`
}

// ropes are those of all layers, or of each kind of layer.
type ropes struct {
	rope
	Full  *rope `json:"full_attention"`
	Local *rope `json:"sliding_attention"`
}

// theta returns the base that parameters have, otherwise an older key's. Scaled ones are refused.
func (f *file) theta(r *rope, name string, old *float64, otherwise float64) float64 {
	for _, r := range []*rope{r, f.Scaling} {
		if r != nil {
			same(f, "rope_type", r.Type, "default")
			same(f, "rope_scaling type", r.OldType, "default")
			same(f, "partial_rotary_factor", r.Partial, 1)
			same(f, "factor of rotary embeddings", r.Factor, 1)
		}
	}
	if r != nil && r.Theta != nil {
		return f.positive("rope_theta", r.Theta, otherwise)
	}
	return f.positive(name, old, otherwise)
}

// ignored are keys that these networks' own classes do not read, or for other tasks only.
var ignored = strings.Fields(`classifier_dropout_prob classifier_pooling deterministic_flash_attn
	down_scale_factor esmfold_config gap_size initializer_cutoff_factor layers_to_keep
	net_structure_type num_memory_blocks output_past reference_compile repad_logits_with_grad
	sparse_pred_ignore_index sparse_prediction vocab_list directionality pooler_fc_size
	pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
	num_attention_heads_pooler`)

func (f *file) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("config.json: "+format, args...)
	}
}

// value returns *p, or otherwise if the file lacks it.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// whole checks a number.
func (f *file) whole(name string, p *int, otherwise, least, most int) int {
	n := value(p, otherwise)
	switch {
	case p == nil && otherwise < least:
		f.fail("%s is missing, want %d to %d", name, least, most)
	case n < least || n > most:
		f.fail("%s is %d, want %d to %d", name, n, least, most)
	}
	return n
}

// positive checks a number above 0.
func (f *file) positive(name string, p *float64, otherwise float64) float64 {
	x := value(p, otherwise)
	if !(x > 0 && x < 1e9) {
		f.fail("%s is %v, want a number above 0 and below 1e9", name, x)
	}
	return x
}

var activations = map[string]backend.Activation{"gelu": backend.GELUErf,
	"gelu_new": backend.GELUTanh, "gelu_pytorch_tanh": backend.GELUTanh,
	"gelu_fast": backend.GELUTanh, "relu": backend.ReLU, "silu": backend.SiLU, "swish": backend.SiLU}

func (f *file) activation(name string, p *string, otherwise backend.Activation) backend.Activation {
	if p == nil {
		return otherwise
	}
	a, ok := activations[*p]
	if !ok {
		f.fail("%s is %.40q, want %s", name, *p,
			strings.Join(slices.Sorted(maps.Keys(activations)), ", "))
	}
	return a
}

// same checks a setting that must have one value if the file has it.
func same[T comparable](f *file, name string, p *T, want T) {
	if p != nil && *p != want {
		f.fail("%s is %v, want %v: this network computes no other", name, *p, want)
	}
}
