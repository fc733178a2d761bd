package encoders_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
)

// loadWith loads a pack with keys of its config.json replaced, or removed where the value is nil.
func loadWith(t *testing.T, pack string, set map[string]any) (*model.Loaded, error) {
	t.Helper()
	p := parity.Open(t, pack)
	var config map[string]any
	require.NoError(t, json.Unmarshal(p.Config, &config))
	for key, v := range set {
		if config[key] = v; v == nil {
			delete(config, key)
		}
	}
	src := *p.Source
	var err error
	src.Config, err = json.Marshal(config)
	require.NoError(t, err)
	return model.Load(&src, model.Options{Backend: plain.New()})
}

type object = map[string]any

// Every key of a family's class is read, refused or known to be harmless; others are said.
func TestConfigKeys(t *testing.T) {
	data, err := os.ReadFile("../../model/testdata/config_keys.json")
	require.NoError(t, err)
	var classes map[string]map[string]any
	require.NoError(t, json.Unmarshal(data, &classes))
	for pack, class := range map[string]string{"bert-tiny": "bert", "roberta-tiny": "roberta",
		"albert-tiny": "albert", "esm-tiny": "esm", "modernbert-tiny": "modernbert"} {
		t.Run(class, func(t *testing.T) {
			more := maps.Clone(classes[class])
			require.NotEmpty(t, more)
			var config map[string]any
			require.NoError(t, json.Unmarshal(parity.Open(t, pack).Config, &config))
			for key := range config {
				delete(more, key)
			}
			delete(more, "layer_types") // one for each layer, tested below
			delete(more, "tie_word_embeddings")
			l, err := loadWith(t, pack, more)
			require.NoError(t, err)
			require.NotContains(t, strings.Join(l.Info.Notes, "; "), "not known, and without effect")
			l, err = loadWith(t, pack, object{"logit_bend": 0.5})
			require.NoError(t, err)
			require.Contains(t, l.Info.Notes, "config.json: logit_bend not known, and without effect")
		})
	}
}

// Settings that no network here computes are refused with the names of their keys.
func TestUnknownConfigurations(t *testing.T) {
	for _, c := range []struct {
		pack, key string
		value     any
		want      string
	}{
		{"bert-tiny", "model_type", "distilbert", `model_type is "distilbert", want CoDA, Dream, `},
		{"bert-tiny", "model_type", "roberta", `tensor "roberta.`},
		{"bert-tiny", "is_decoder", true, "is_decoder is true, want false"},
		{"bert-tiny", "add_cross_attention", true, "add_cross_attention is true, want false"},
		{"bert-tiny", "position_embedding_type", "relative_key", `want "absolute"`},
		{"bert-tiny", "hidden_act", "gelu_10", "hidden_act is \"gelu_10\", want gelu, "},
		{"bert-tiny", "num_attention_heads", nil, "config.json: num_attention_heads is missing, want 1 to"},
		{"bert-tiny", "num_attention_heads", false, "config.json: num_attention_heads is false, want a"},
		{"bert-tiny", "num_attention_heads", 0, "config.json: num_attention_heads is 0, want 1 to"},
		{"esm-tiny", "position_embedding_type", nil, `position_embedding_type is "absolute", want rotary`},
		{"esm-tiny", "emb_layer_norm_before", true, "emb_layer_norm_before is true, want false"},
		{"esm-tiny", "vocab_size", 8229, "vocab_size is 8229: it is DPLM-2"},
		{"esm-tiny", "architectures", []string{"EsmForDPLM2"}, "DPLM-2 is not read"},
		{"esm-tiny", "model_type", "esmc", `tensor "esmc.embed.weight"`},
		{"esm-tiny", "model_type", "ESMplusplus", "ESM++ is not read"},
		{"esmc-tiny", "model_type", "esm3", "ESM3 is not read"},
		{"esmc-tiny", "tie_word_embeddings", true, "tie_word_embeddings is true, want false"},
		{"esmc-tiny", "n_heads", nil, "num_attention_heads is missing"},
		{"esmc-transformers-tiny", "attention_bias", true, "attention_bias is true, want false"},
		{"esmc-transformers-tiny", "hidden_act", "gelu", `hidden_act is "gelu", want "silu"`},
		{"esmc-transformers-tiny", "num_key_value_heads", 1, "num_key_value_heads is 1, want 2"},
		{"esm-tiny", "model_type", "esm3", "ESM3 is not read"},
		{"esm-tiny", "rope_parameters", object{"rope_type": "linear", "factor": 2},
			`rope_type is "linear", want "default"`},
		{"modernbert-tiny", "attention_bias", true, "attention_bias is true, want false"},
		{"modernbert-tiny", "mlp_bias", true, "mlp_bias is true, want false"},
		{"modernbert-tiny", "classifier_bias", true, "classifier_bias is true, want false"},
		{"modernbert-tiny", "decoder_bias", false, "decoder_bias is false, want true"},
		{"modernbert-tiny", "layer_types", []string{"full_attention"}, "layer_types has 1 layers, want "},
		{"modernbert-tiny", "rope_parameters", object{"rope_theta": 10000.0},
			"rope_parameters has a rope_theta of its own"},
		{"modernbert-tiny", "rope_parameters",
			object{"full_attention": object{"rope_type": "yarn", "factor": 4}},
			`rope_type is "yarn", want "default"`},
		{"modernbert-tiny", "rope_scaling", object{"type": "linear", "factor": 2}, `type is "linear"`},
	} {
		t.Run(c.pack+"/"+c.key, func(t *testing.T) {
			_, err := loadWith(t, c.pack, object{c.key: c.value})
			require.ErrorContains(t, err, c.want)
		})
	}
}

// The bases of rotary frequencies and the layers that see a window only are read under the keys of
// transformers 4 and 5 alike.
func TestRotaryKeys(t *testing.T) {
	logits := func(pack string, set object) []float32 {
		l, err := loadWith(t, pack, set)
		require.NoError(t, err)
		tokens, shape := parity.Open(t, pack).Ints("tokens")
		got, err := l.Forward(context.Background(), parity.Batch(tokens, shape))
		require.NoError(t, err)
		return parity.Logits(t, got, parity.Count(len(tokens)), l.Spec().Outcomes)
	}
	l, err := loadWith(t, "modernbert-tiny", nil)
	require.NoError(t, err)
	all := make([]string, l.Info.Sizes["blocks"])
	for i := range all {
		all[i] = "full_attention"
	}
	thetas := func(full, local float64) object {
		return object{"full_attention": object{"rope_theta": full, "rope_type": "default"},
			"sliding_attention": object{"rope_theta": local}}
	}
	for _, c := range []struct {
		name, pack string
		old, now   object
	}{
		{"ESM", "esm-tiny", object{"rope_theta": 500.0},
			object{"rope_parameters": object{"rope_theta": 500.0}}},
		{"ModernBERT", "modernbert-tiny", object{"global_rope_theta": 700.0, "local_rope_theta": 900.0},
			object{"rope_parameters": thetas(700, 900)}},
		{"layers", "modernbert-tiny", object{"global_attn_every_n_layers": 1},
			object{"layer_types": all}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := logits(c.pack, c.old)
			require.Equal(t, old, logits(c.pack, c.now))
			require.NotEqual(t, old, logits(c.pack, nil))
		})
	}
}

// A decoder's own bias is used where there is one, as in transformers 5, but for ESM
// (from_pretrained of 5.24 with these tensors; row 1, columns 7 and 20).
func TestDecoderBias(t *testing.T) {
	for pack, c := range map[string]struct {
		decoder string
		want    [2]float32
	}{
		"bert-tiny":    {"cls.predictions.decoder.", [2]float32{-1.5402186, 8.5875683}},
		"roberta-tiny": {"lm_head.decoder.", [2]float32{1.4156773, 2.2071877}},
		"albert-tiny":  {"predictions.decoder.", [2]float32{-1.7695179, -2.5282869}},
		"esm-tiny":     {"lm_head.decoder.", [2]float32{-1.0027735, 9.9391117}},
	} {
		for _, tied := range []bool{true, false} {
			p := parity.Open(t, pack)
			set := p.Source.Set
			var list []*weights.Tensor
			bias := &weights.Tensor{Name: c.decoder + "bias", DType: weights.F32}
			_, has := set.Get(c.decoder + "weight")
			for _, name := range set.Names() {
				one, _ := set.Get(name)
				if list = append(list, one); strings.HasSuffix(name, "word_embeddings.weight") {
					bias.Shape = one.Shape[:1]
					if own := *one; !tied && !has {
						own.Name = c.decoder + "weight"
						list = append(list, &own)
					}
				}
			}
			for i := range bias.Shape[0] {
				bias.Data = binary.LittleEndian.AppendUint32(bias.Data, math.Float32bits(float32(i)/8))
			}
			src, err := *p.Source, error(nil)
			src.Set, err = weights.NewSet(append(list, bias), nil)
			require.NoError(t, err)
			src.Config = []byte(strings.Replace(string(src.Config), "{",
				fmt.Sprintf(`{"tie_word_embeddings": %v, `, tied), 1))
			l, err := model.Load(&src, model.Options{Backend: plain.New()})
			require.NoError(t, err, pack)
			require.NotContains(t, strings.Join(l.Info.Notes, "; "), "tie_word_embeddings")
			tokens, shape := p.Ints("tokens")
			m, err := l.Forward(context.Background(), parity.Batch(tokens[:shape[1]], []int{1, shape[1]}))
			require.NoError(t, err)
			got := parity.Logits(t, m, []int32{1}, l.Spec().Outcomes)
			require.InDelta(t, c.want[0], got[7], 1e-4, pack)
			require.InDelta(t, c.want[1], got[20], 1e-4, pack)
		}
	}
}
