package encoders

import (
	"maps"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/model"
)

// readTheta reads the base of rotary frequencies from their parameters, as transformers 5 writes
// them, otherwise from olderKey, otherwise it is fallback. Scaled frequencies are refused.
func readTheta(f, parameters *model.Values, olderKey string, fallback float64) float64 {
	for _, object := range []*model.Values{parameters, f.Object("rope_scaling")} {
		object.RequireValues(map[string]any{"rope_type": "default", "type": "default"})
		object.RequireValues(map[string]any{"partial_rotary_factor": 1.0, "factor": 1.0})
	}
	return parameters.PositiveNumber("rope_theta", f.PositiveNumber(olderKey, fallback))
}

// activations are the names of activations in config.json.
var activations = map[string]backend.Activation{
	"gelu":              backend.GELUErf,
	"gelu_new":          backend.GELUTanh,
	"gelu_pytorch_tanh": backend.GELUTanh,
	"gelu_fast":         backend.GELUTanh,
	"relu":              backend.ReLU,
	"silu":              backend.SiLU,
	"swish":             backend.SiLU,
}

// readActivation reads an activation, GELU where the key is missing.
func readActivation(f *model.Values, key string) backend.Activation {
	name := f.Text(key)
	if !f.Has(key) {
		return backend.GELUErf
	}
	a, ok := activations[name]
	if !ok {
		f.Fail("%s is %.40q, want %s", key, name,
			strings.Join(slices.Sorted(maps.Keys(activations)), ", "))
	}
	return a
}

// ignoredKeys are keys that these networks' own classes do not read, or read for other tasks only.
var ignoredKeys = strings.Fields(`mask_token_id classifier_dropout_prob classifier_pooling
	deterministic_flash_attn
	down_scale_factor esmfold_config gap_size initializer_cutoff_factor layers_to_keep
	net_structure_type num_memory_blocks output_past reference_compile repad_logits_with_grad
	sparse_pred_ignore_index sparse_prediction vocab_list directionality pooler_fc_size
	pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
	num_attention_heads_pooler`)
