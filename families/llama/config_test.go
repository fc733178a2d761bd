package llama_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
)

// loadWith loads a pack with keys of its config.json replaced, or removed where the value is nil.
func loadWith(t *testing.T, pack string, set map[string]any) (*model.Loaded, error) {
	p := parity.Open(t, pack)
	var config map[string]any
	require.NoError(t, json.Unmarshal(p.Config, &config))
	for key, v := range set {
		if v == nil {
			delete(config, key)
		} else {
			config[key] = v
		}
	}
	src := *p.Source
	var err error
	src.Config, err = json.Marshal(config)
	require.NoError(t, err)
	return model.Load(&src, model.Options{Backend: plain.New()})
}

// loadMissing loads a pack with those keys that its config.json does not have.
func loadMissing(t *testing.T, pack string, keys map[string]any) (*model.Loaded, error) {
	var config map[string]any
	require.NoError(t, json.Unmarshal(parity.Open(t, pack).Config, &config))
	more := maps.Clone(keys)
	for key := range config {
		delete(more, key)
	}
	return loadWith(t, pack, more)
}

// nemotron is the kind of nemotron-labs-tiny.
const nemotron = "nemotron_labs_diffusion"

// Unsupported settings are refused with the name of their key.
func TestUnknownConfigurations(t *testing.T) {
	for _, c := range []struct {
		pack, key string
		value     any
		want      string
	}{
		{"llada-tiny", "block_type", "sequential",
			`block_type is "sequential", want "llama": this network computes no other`},
		{"llada-tiny", "multi_query_attention", true, "multi_query_attention is true, want false"},
		{"llada-tiny", "quantization_config", map[string]any{"quant_method": "fp8"},
			`quantization_config is {"quant_method":"fp8"}, want {}: this network computes no other`},
		{"llada-tiny", "model_type", "llada_x", `config.json: model_type is "llada_x", want CoDA, Dream, `},
		{"sdar-tiny", "model_type", nil, "model_type is missing, want CoDA, Dream, "},
		{"sdar-tiny", "model_type", "qwen2", `model_type is "qwen2": it is an autoregressive model`},
		{"sdar-tiny", "model_type", "llama", `model_type is "llama": it is an autoregressive model`},
		{"sdar-tiny", "model_type", "qwen3", `(model_type "qwen3", SDARForCausalLM): it is an autoreg`},
		{"sdar-tiny", "model_type", "bd3lm", "BD3-LM is not read"},
		{"sdar-tiny", "model_type", "diffusion_gemma", "DiffusionGemma is not read"},
		{"sdar-tiny", "architectures", []string{"ReFusionForCausalLM"}, "slots are filled left to right"},
		{"sdar-tiny", "architectures", []string{"DiffEncoderModel"}, "Nemotron-Diffusion-Research"},
		{"dream-tiny", "layer_types", []string{"full_attention", "sliding_attention"},
			`layer_types has "sliding_attention", want full_attention`},
		{"dream-tiny", "partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5, want 1"},
		{"llada2-moe-tiny", "rope_scaling", map[string]any{"type": "yarn"}, "want null"},
		{"llada2-moe-tiny", "rope_parameters", map[string]any{"rope_type": "yarn", "factor": 4},
			`rope_scaling is {"factor":4,"rope_type":"yarn"}, want null`},
		{"llada-tiny", "rope_scaling", map[string]any{"type": "linear", "factor": 4}, "want null"},
		{"dream-tiny", "rope_parameters", map[string]any{"full_attention": map[string]any{
			"rope_theta": 1e6}}, `rope_parameters.full_attention is {"rope_theta":1000000}, want null`},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "linear", "factor": 2, "foo": 1},
			"rope_scaling.foo is 1, want null"},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "linear", "factor": 2,
			"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, want 1"},
		{nemotron, "rope_parameters", map[string]any{"rope_theta": 1e4, "partial_rotary_factor": 0.5},
			"partial_rotary_factor is 0.5, want 1"},
		{"llada2-moe-tiny", "using_split_qkv_in_self_attention", true, "is true, want false"},
		{"llada-tiny", "alibi", true, "alibi is true, want false"},
		{"llada-tiny", "rope", false, "rope is false, want true"},
		{"llada-tiny", "block_group_size", 2, "block_group_size is 2, want 1"},
		{"llada-tiny", "n_heads", 0, "n_heads is 0, want 1 to 1048576"},
		{"llada-tiny", "n_heads", 3, "3 heads of a width of 64, want a divisor"},
		{"llada-tiny", "n_kv_heads", 3, "3 key heads for 4 query heads, want a divisor"},
		{"llada-tiny", "n_layers", nil, "n_layers is missing, want 1 to 1024"},
		{"llada-tiny", "n_layers", 5, "missing"},
		{"llada-tiny", "vocab_size", 161, "vocab_size is 161, want 1 to 160"},
		{"llada-tiny", "mask_token_id", 158, "mask_token_id is 158, want 0 to 157"},
		{"llada-tiny", "mask_token_id", nil, "mask_token_id is missing, want 0 to 157"},
		{"llada-tiny", "rope_theta", -1, "rope_theta is -1, want a finite number above 0"},
		{"llada-tiny", "d_model", "64", `d_model is "64", want a whole number`},
		{"llada-tiny", "d_model", 32, "misshaped"},
		{"dream-tiny", "hidden_act", "gelu", `hidden_act is "gelu", want "silu"`},
		{"dream-tiny", "use_sliding_window", true, "use_sliding_window is true, want false"},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "dynamic", "factor": 4},
			`rope_type is "dynamic", want default or linear, llama3, yarn`},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "longrope"}, `rope_type is "longrope"`},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "yarn"},
			"factor is 0, want a finite number above 0"},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "yarn", "factor": 4, "beta_fast": -1},
			"beta_fast is -1, want a finite number above 0"},
		{"dream-tiny", "rope_scaling", map[string]any{"type": "llama3", "factor": 8,
			"low_freq_factor": 4}, "high_freq_factor is 4, want more than low_freq_factor, 4"},
		{nemotron, "attention_bias", true, "attention_bias is true, want false"},
		{nemotron, "mlp_bias", true, "mlp_bias is true, want false"},
		{nemotron, "sliding_window", 4096, "sliding_window is 4096, want null"},
		{nemotron, "hidden_act", "relu2", `hidden_act is "relu2", want "silu"`},
		{nemotron, "dlm_paradigm", "block", `dlm_paradigm is "block", want bidirectional or autoregressive`},
		{nemotron, "rope_parameters", map[string]any{"rope_type": "llama3", "rope_theta": 1e4},
			`rope_type is "llama3", want default or yarn`},
		{nemotron, "model_type", nemotron + "_vlm", "pictures are not read"},
		{"wedlm-7b-tiny", "qk_norm", true, "qk_norm is true, want false, as the tensors have it"},
		{"wedlm-7b-tiny", "attention_bias", false, "attention_bias is false, want true"},
		{"wedlm-8b-tiny", "attention_bias", nil, "attention_bias is true, want false"},
		{"wedlm-8b-tiny", "qk_norm", nil, "qk_norm is false, want true, as the tensors have it"},
		{"wedlm-8b-tiny", "use_sliding_window", true, "use_sliding_window is true, want false"},
		{"wedlm-8b-tiny", "rope_scaling", map[string]any{"type": "yarn", "factor": 4},
			"rope_scaling is {\"factor\":4,\"type\":\"yarn\"}, want null"},
		{"wedlm-8b-tiny", "mask_token_id", nil, "mask_token_id is 151665, want 0 to 159"},
		{"dreamon-tiny", "expand_token_id", 160, "expand_token_id is 160, want 0 to 159"},
		{"dream-tiny", "eos_token_id", []int{1, 1000}, "eos_token_id is 1000, want 0 to 159"},
		{"sdar-tiny", "block_size", 3, "blocks have 3 positions, want a power of two"},
		{"sdar-tiny", "head_dim", 15, "heads have 15 numbers, want an even number"},
		{"llada2-moe-tiny", "n_group", 3,
			"n_group is 3, want a divisor of 8 experts that leaves two a group"},
		{"llada2-moe-tiny", "topk_group", 9,
			"experts a token of 9 of 4 groups, want no more than these have"},
		{"llada2-moe-tiny", "use_qkv_bias", true, "use_qkv_bias is true, want false"},
		{"llada2-moe-tiny", "partial_rotary_factor", 0.01, "0 of the 16 numbers of a head turn"},
		{"llada-moe-tiny", "num_hidden_layers", 9007199254740993,
			"num_hidden_layers is 9007199254740993, want 1 to 1024"},
		{"llada2-moe-tiny", "num_hidden_layers", 1 << 32,
			"num_hidden_layers is 4294967296, want 1 to 1024"},
		{"llada2-moe-tiny", "num_hidden_layers", -1, "num_hidden_layers is -1, want 1 to 1024"},
		{"llada2-moe-tiny", "first_k_dense_replace", 4, "first_k_dense_replace is 4, want 0 to 3"},
	} {
		if c.pack == nemotron {
			c.pack = "nemotron-labs-tiny"
		}
		_, err := loadWith(t, c.pack, map[string]any{c.key: c.value})
		require.ErrorContains(t, err, c.want, "%s of %s", c.key, c.pack)
		require.NotContains(t, err.Error(), "\n")
	}
}

// Newer config.json files have the rotary keys in one object.
func TestRopeParameters(t *testing.T) {
	l, err := loadWith(t, "dream-tiny",
		map[string]any{"rope_theta": nil,
			"rope_parameters": map[string]any{"rope_theta": 1e6, "rope_type": "default"}})
	require.NoError(t, err)
	p := parity.Open(t, "dream-tiny")
	parity.CheckFullPass(t, p, l.Denoiser.(model.Refiner), "", 1e-4)
	_, err = loadWith(t, "dream-tiny",
		map[string]any{"rope_parameters": map[string]any{"rope_type": "su"}})
	require.ErrorContains(t, err, `rope_type is "su", want default`)
}

// A head in the files counts, whatever tie_word_embeddings says. So it is in transformers 5.24,
// where a Qwen3 with both gives the logits of its head.
func TestTiedWithHead(t *testing.T) {
	l, err := loadWith(t, "dream-tiny", map[string]any{"tie_word_embeddings": true})
	require.NoError(t, err)
	parity.CheckFullPass(t, parity.Open(t, "dream-tiny"), l.Denoiser.(model.Refiner), "", 1e-4)
}

// Families that share a kind or a table of names are told apart.
func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		pack    string
		set     map[string]any
		name    string
		block   int
		shifted bool
		recipe  string
	}{
		{"dream-tiny", nil, "", 0, true, "entropy "},
		{"dream-tiny", map[string]any{"block_size": 32}, "", 32, false,
			"dynamic schedule=llada steps=32 reuse=blocks"},
		{"dream-tiny", map[string]any{"model_type": "a2d-qwen2"}, "", 0, false,
			"semi-ar(low-confidence) "},
		{"dream-tiny", map[string]any{"model_type": "a2d-qwen3"},
			"dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", 32, false, "low-confidence schedule=dllm "},
		{"dream-tiny", map[string]any{"model_type": "a2d-qwen3"},
			"dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1", 0, false, "semi-ar(low-confidence) "},
		{"dream-tiny", map[string]any{"model_type": "CoDA"}, "", 0, true, "greedy(entropy) "},
		{"sdar-tiny", nil, "Gen-Verse/TraDo-8B-Instruct", 4, false,
			"dynamic(theta=0.9, temperature=1) schedule=llada steps=4 reuse=blocks"},
		{"llada-tiny", nil, "", 0, false, "semi-ar(low-confidence) schedule=llada steps=128"},
		{"llada2-moe-tiny", nil, "inclusionAI/LLaDA2.1-mini", 32, false, "edit reuse=blocks"},
		{"llada2-moe-tiny", nil, "inclusionAI/LLaDA2.0-mini", 32, false, "dynamic(theta=0.95) "},
		{"sdar-tiny", nil, "", 4, false, "dynamic(theta=0.85) schedule=llada steps=4 reuse=blocks"},
		{"fast-dllm-v2-tiny", nil, "", 8, true, "fast-dllm-v2(block=8) reuse=blocks"},
		{"nemotron-labs-tiny", map[string]any{"eos_token_id": 140}, "", 8, false,
			"self-speculation reuse=causal"},
		{"nemotron-labs-tiny", map[string]any{"eos_token_id": 140, "dlm_paradigm": "autoregressive"}, "",
			1, false, "low-confidence reuse=causal block-size=1"},
		{"wedlm-7b-tiny", nil, "", 0, false, "wedlm(temperature=0.2) reuse=causal"},
		{"dreamon-tiny", nil, "", 0, true, "dreamon temperature=0.2 top-p=0.9"},
		{"dreamon-tiny", map[string]any{"expand_token_id": nil}, "", 0, true, "entropy "},
	} {
		p := parity.Open(t, c.pack)
		var config map[string]any
		require.NoError(t, json.Unmarshal(p.Config, &config))
		for key, v := range c.set {
			config[key] = v
		}
		src := *p.Source
		src.Config, _ = json.Marshal(config)
		src.Repo = c.name
		l, err := model.Load(&src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		spec := l.Spec()
		require.Equal(t, c.block, spec.Block, "%+v", c)
		require.Equal(t, c.shifted, spec.Shifted, "%+v", c)
		require.True(t, strings.HasPrefix(l.Recipe, c.recipe), "%s of %+v", l.Recipe, c)
		require.Equal(t, []int32{140}, spec.EndTokens)
	}
}

// Tokens that generation_config.json adds end a text too.
func TestEnds(t *testing.T) {
	p := parity.Open(t, "nemotron-labs-tiny")
	src := *p.Source
	for generation, want := range map[string][]int32{`{"eos_token_id":[11,2]}`: {11, 2}, `{}`: {11},
		`{"eos_token_id":7}`: {11, 7}} {
		src.Files = fstest.MapFS{"generation_config.json": {Data: []byte(generation)}}
		l, err := model.Load(&src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		require.Equal(t, want, l.Spec().EndTokens, generation)
	}
	src.Files = fstest.MapFS{"generation_config.json": {Data: []byte(`{"eos_token_id":[-1]}`)}}
	_, err := model.Load(&src, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, "generation_config.json: eos_token_id is -1, want 0 to ")
}

// LLaDA's embedding has vocab_size rows where embedding_size is null or missing, as in its class;
// the tensors count more than both.
func TestRowsOfLLaDAsEmbedding(t *testing.T) {
	p := parity.Open(t, "llada-tiny")
	want, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	for _, missing := range [][]string{{"embedding_size"}, {"embedding_size", "vocab_size"}} {
		for _, isNull := range []bool{false, true} {
			var config map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(p.Config, &config))
			for _, key := range missing {
				delete(config, key)
				if isNull {
					config[key] = json.RawMessage("null")
				}
			}
			src := *p.Source
			src.Config, err = json.Marshal(config)
			require.NoError(t, err)
			got, err := model.Load(&src, model.Options{Backend: plain.New()})
			require.NoError(t, err, "without %v", missing)
			require.Equal(t, want.Info.Parameters, got.Info.Parameters)
			parity.CheckFullPass(t, p, got.Denoiser.(model.Refiner), "", 1e-4)
		}
	}
}

// RND1's tail is the padding token of generation_config.json, else of config.json, else that of the
// authors' program.
func TestTailIsThePad(t *testing.T) {
	p := parity.Open(t, "rnd1-tiny")
	for _, c := range []struct {
		generation, config string
		want               int32
	}{
		{`{"pad_token_id":7}`, `9`, 7},
		{`{"pad_token_id":[8,7]}`, `null`, 8},
		{`{}`, `9`, 9},
		{`{"pad_token_id":null}`, `9`, 9},
		{`{}`, `null`, 0}, // 151643, which this vocabulary does not have
	} {
		var config map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(p.Config, &config))
		config["pad_token_id"] = json.RawMessage(c.config)
		src := *p.Source
		var err error
		src.Config, err = json.Marshal(config)
		require.NoError(t, err)
		src.Files = fstest.MapFS{"generation_config.json": {Data: []byte(c.generation)}}
		l, err := model.Load(&src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		require.Equal(t, []int32{c.want}, l.Spec().Tail, "%+v", c)
	}
}

// Other keys of generation_config.json do not say which network it is.
func TestGenerationConfigIsNoConfig(t *testing.T) {
	for _, pack := range []string{"dream-tiny", "sdar-tiny"} {
		src := *parity.Open(t, pack).Source
		want, err := model.Load(&src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		src.Files = fstest.MapFS{"generation_config.json": {Data: []byte(
			`{"block_size":8,"rope_theta":3,"tie_word_embeddings":true,"rms_norm_eps":1}`)}}
		got, err := model.Load(&src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		require.Equal(t, want.Spec(), got.Spec())
		require.Equal(t, want.Recipe, got.Recipe)
		parity.CheckFullPass(t, parity.Open(t, pack), got.Denoiser.(model.Refiner), "", 1e-4)
	}
}

// A NaN weight is an error that names its tensor; for the embedding, when the row is read.
func TestBrokenWeights(t *testing.T) {
	broken := func(tensor string) (*model.Loaded, error) {
		p := parity.Open(t, "llada-tiny")
		set, err := p.Set.View(func(name string, v *weights.Tensor) (string, *weights.Tensor, error) {
			if name != tensor {
				return name, v, nil
			}
			data := make([]byte, len(v.Data))
			require.NoError(t, v.ReadBytes(data, 0))
			binary.LittleEndian.PutUint32(data, math.Float32bits(float32(math.NaN())))
			return name, &weights.Tensor{Name: v.Name, DType: v.DType, Shape: v.Shape, Data: data}, nil
		})
		require.NoError(t, err)
		src := *p.Source
		src.Set = set
		return model.Load(&src, model.Options{Backend: plain.New()})
	}
	for _, name := range []string{"model.transformer.blocks.1.up_proj.weight",
		"model.transformer.ln_f.weight"} {
		_, err := broken(name)
		require.ErrorContains(t, err, fmt.Sprintf("tensor %q: element 0 is NaN", name))
	}
	l, err := broken("model.transformer.wte.weight")
	require.NoError(t, err)
	_, err = l.Forward(context.Background(), parity.Batch([]int32{3, 0}, []int{1, 2}))
	require.EqualError(t, err, `embedding: tensor "model.transformer.wte.weight": element 0 is NaN`)
}

// A model without a tokenizer is read with tokens as numbers, and the note says what is wrong with
// the tokenizer's files if there are any.
func TestNotesOnTokenizers(t *testing.T) {
	vocab := &fstest.MapFile{Data: []byte(`{"a": 0, "b": 1}`)}
	for want, files := range map[string]fstest.MapFS{
		"there is no tokenizer.json beside config.json": {},
		"tokenizer.json: model.vocab: no tokens":        {"tokenizer.json": {Data: []byte("{}")}},
		"there is no merges.txt beside it":              {"vocab.json": vocab},
		`merges.txt: line 1 is "a", want two tokens`: {"vocab.json": vocab,
			"merges.txt": {Data: []byte("a")}},
		`merges[0] "a" "b": "ab" has 2 bytes`: {"vocab.json": vocab, "merges.txt": {Data: []byte("a b")}},
	} {
		src := *parity.Open(t, "sdar-tiny").Source
		src.Files = files
		l, err := model.Load(&src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		require.Contains(t, strings.Join(l.Info.Notes, "; "), want)
		require.Contains(t, strings.Join(l.Info.Notes, "; "), ": tokens are shown as numbers")
	}
}
