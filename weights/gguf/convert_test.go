package gguf

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/tokenizers"
	"unmask/weights"
)

// lladaFolder returns a LLaDA of random weights as its authors publish it: width 256, 2 blocks, 4
// heads, 2 for keys.
func lladaFolder(t *testing.T) (dir string, values map[string][]float32) {
	dir, values = t.TempDir(), map[string][]float32{}
	const h, mlp, vocab, kv = 256, 512, 470, 128
	var all []weights.Tensor
	r := rand.New(rand.NewPCG(1, 2))
	add := func(name string, shape ...int) {
		n := shape[0] * shape[len(shape)-1]
		if len(shape) == 1 {
			n = shape[0]
		}
		w := weights.Tensor{Name: "model.transformer." + name + ".weight", DType: weights.F32,
			Shape: shape}
		for range n {
			v := float32(r.NormFloat64())
			values[w.Name] = append(values[w.Name], v)
			w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(v))
		}
		all = append(all, w)
	}
	add("wte", vocab, h)
	add("ln_f", h)
	add("ff_out", vocab, h)
	for _, b := range []string{"blocks.0.", "blocks.1."} {
		add(b+"attn_norm", h)
		add(b+"q_proj", h, h)
		add(b+"k_proj", kv, h)
		add(b+"v_proj", kv, h)
		add(b+"attn_out", h, h)
		add(b+"ff_norm", h)
		add(b+"ff_proj", mlp, h)
		add(b+"up_proj", mlp, h)
		add(b+"ff_out", h, mlp)
	}
	require.NoError(t, weights.WriteFile(filepath.Join(dir, "model.safetensors"), all, nil))
	config := `{"model_type":"llada","d_model":256,"n_layers":2,"n_heads":4,"n_kv_heads":2,"mlp_hidden_size":512,"vocab_size":470,
		"max_sequence_length":64,"rms_norm_eps":1e-5,"rope_theta":5e5,"mask_token_id":464,"eos_token_id":461,
		"unmask_answer_length":24}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	return dir, values
}

// A folder and the GGUF file made from it have the same names, shapes and values, up to the types'
// rounding.
func TestConvert(t *testing.T) {
	dir, values := lladaFolder(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokenizer(t), 0o600))
	template := []byte(`{"chat_template":"{{ x }}"}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), template, 0o600))
	for recipe, c := range map[string]struct {
		bound float64
		types map[string]weights.DType
	}{
		"q8_0": {0.01, map[string]weights.DType{"blk.0.attn_q.weight": "Q8_0", "output.weight": "Q8_0",
			"output_norm.weight": "F32"}},
		"q4_k_m": {0.1, map[string]weights.DType{"blk.0.attn_q.weight": "Q4_K", "output.weight": "Q6_K",
			"blk.1.ffn_down.weight": "Q6_K", "blk.0.attn_v.weight": "Q4_K"}},
	} {
		name := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, Convert(context.Background(), dir, name, recipe))
		f, err := Open(name)
		require.NoError(t, err)
		for tensor, want := range c.types {
			got, ok := f.Set.Get(tensor)
			require.True(t, ok, tensor)
			require.Equal(t, want, got.DType, "%s of %s", tensor, recipe)
		}
		config, set, err := f.Model()
		require.NoError(t, err)
		require.Contains(t, string(config), `"n_kv_heads":2`)
		require.Contains(t, string(config), `"mask_token_id":464`)
		require.Contains(t, string(config), `"unmask_answer_length":24`)
		require.Len(t, set.Names(), len(values))
		for name, want := range values {
			got, ok := set.Get(name)
			require.True(t, ok, name)
			x, err := got.Floats()
			require.NoError(t, err)
			var e, all float64
			for i, v := range want {
				e, all = e+math.Pow(float64(v-x[i]), 2), all+math.Pow(float64(v), 2)
			}
			require.Less(t, math.Sqrt(e/all), c.bound, "%s of %s", name, recipe)
		}
		words, _, err := tokenizers.ParseFS(f.CompanionFS())
		require.NoError(t, err)
		plain, err := tokenizers.Parse(tokenizer(t))
		require.NoError(t, err)
		for _, text := range []string{"It's 12 kilometers, they'd say.", "a\n\n b <|mdm_mask|>"} {
			want, err := plain.Encode(text)
			require.NoError(t, err)
			got, err := words.Encode(text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		chat, err := fs.ReadFile(f.CompanionFS(), "tokenizer_config.json")
		require.NoError(t, err)
		require.Contains(t, string(chat), `"chat_template":"{{ x }}"`)
		require.NoError(t, f.Set.Close())
	}
}

// tokenizer returns a small tokenizer.json with added tokens.
func tokenizer(t *testing.T) []byte {
	data, err := os.ReadFile("../../tokenizers/testdata/llada.json")
	require.NoError(t, err)
	return data
}

func TestConvertRefuses(t *testing.T) {
	dir, _ := lladaFolder(t)
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.EqualError(t, Convert(context.Background(), dir, out, "q2"),
		`quantize is "q2", want q8_0 or q4_k_m`)
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Convert(stopped, dir, out, "q8_0"), context.Canceled)
	for config, want := range map[string]string{
		`{`:                    "config.json: unexpected end",
		`{"model_type":3}`:     "config.json: model_type is 3, want a text",
		`{"model_type":"gpt"}`: `config.json: model_type is "gpt", want llada, Dream,`,
		`{"model_type":"Dream","rope_scaling":3}`: "config.json: rope_scaling is 3, want an object",
		nemotronWith(`{"rope_type":"llama3","factor":8}`): `rope_type is "llama3", want default, linear ` +
			"or yarn in a GGUF file",
		nemotronWith(`{"rope_type":"yarn","attention_factor":1}`): "attention_factor is 1, want null",
		nemotronWith(`{"rope_type":"yarn","truncate":false}`):     "truncate is false, want true",
		nemotronWith(`{"rope_type":"yarn","mscale":2,"mscale_all_dim":1}`): "mscale is 2, want 1 in a " +
			"GGUF file",
		nemotronWith(`{"rope_type":"yarn","beta_fast":"x"}`): `beta_fast is "x", want a number`,
		nemotronWith(`{"rope_type":3}`):                      "rope_type is 3, want a text",
		nemotronWith(`null,"block_size":0.5`):                "block_size is 0.5, want an integer",
		nemotronWith(`null,"dlm_paradigm":3`):                "dlm_paradigm is 3, want a text",
		nemotronWith(`null,"eos_token_id":[-1]`):             "eos_token_id is -1, want an integer from 0",
		nemotronWith(`null,"eos_token_id":[1,2,3,4]`):        "eos_token_id has 4 tokens, want 3 at most",
		nemotronWith(`null`):                                 "has no place in a GGUF file of this kind", // LLaDA's tensors
		`{"model_type":"llada","n_layers":"x"}`:              `config.json: n_layers is "x", want a number`,
		`{"model_type":"llada","n_layers":0.5}`:              "want an integer from 1 to",
		`{"model_type":"Dream","num_hidden_layers":2}`: "config.json: max_position_embeddings is 0, " +
			"want an integer",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		require.ErrorContains(t, Convert(context.Background(), dir, out, "q8_0"), want)
	}
	_, err := os.Stat(out)
	require.ErrorIs(t, err, fs.ErrNotExist)

	dir, _ = lladaFolder(t)
	words := bytes.ReplaceAll(tokenizer(t), []byte(`[sdmt]`), []byte(`[sdm]`))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), words, 0o600))
	require.ErrorContains(t, Convert(context.Background(), dir, out, "q8_0"),
		"want that of LLaDA, LFM2, Qwen2 or Tekken")
}

// nemotronWith returns a config.json of Nemotron-Labs-Diffusion with these rope_parameters.
func nemotronWith(rope string) string {
	return `{"model_type":"nemotron_labs_diffusion","num_hidden_layers":1,"hidden_size":8,
		"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,"intermediate_size":8,
		"max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":1e6,"rope_parameters":` + rope + `}`
}

// What a Nemotron-Labs-Diffusion's config.json says of its positions is in the keys that llama.cpp
// has for Ministral 3, and comes back from them.
func TestConvertYaRN(t *testing.T) {
	for given, want := range map[string]string{
		`{"rope_type":"yarn","factor":16,"original_max_position_embeddings":16,"beta_fast":32,
			"beta_slow":1,"mscale":1,"mscale_all_dim":1,"llama_4_scaling_beta":0.25}`: `{"beta_fast":32,
			"beta_slow":1,"factor":16,"llama_4_scaling_beta":0.25,"mscale":1,"mscale_all_dim":1,
			"original_max_position_embeddings":16,"rope_type":"yarn"}`,
		`{"type":"linear","factor":2}`: `{"rope_type":"linear","factor":2}`,
		`{"rope_type":"default"}`:      `null`,
		// as in transformers
		`{"rope_type":"default"},"rope_scaling":{"type":"linear","factor":2}`: `{"rope_type":"linear",
			"factor":2}`,
		`{"type":"yarn","factor":2,"original_max_position_embeddings":16},"rope_scaling":{},
			"original_max_position_embeddings":32`: `{"rope_type":"yarn","factor":2,
			"original_max_position_embeddings":32}`,
	} {
		c := &converter{set: new(weights.Set)}
		require.NoError(t, json.Unmarshal([]byte(nemotronWith(given)), &c.config))
		require.NoError(t, c.mergeRopeScaling())
		arch, err := c.findFamily()
		require.NoError(t, err)
		require.Equal(t, "mistral3", arch)
		values := map[string]any{}
		for _, k := range append(c.ropeScalingKeys(arch), c.diffusionKeys(arch)...) {
			values[k.Name] = k.Value
		}
		require.NoError(t, c.err)
		config, _, err := model(arch, values).Model()
		require.NoError(t, err)
		var got struct {
			Kind string          `json:"model_type"`
			Rope json.RawMessage `json:"rope_scaling"`
		}
		require.NoError(t, json.Unmarshal(config, &got))
		require.Equal(t, nemotron.kind, got.Kind)
		require.JSONEq(t, want, string(got.Rope))
	}
}

// Several tokens that end a text, in either file, are in the keys that llama.cpp has for them, and
// come back.
func TestConvertEnds(t *testing.T) {
	for _, c := range []struct {
		config, generation string
		want               []float64
	}{
		{`"eos_token_id":11`, `{"eos_token_id":[11,2]}`, []float64{11, 2}},
		{`"eos_token_id":[3,1,3,2]`, `{"temperature":1}`, []float64{3, 1, 2}},
		{`"eos_token_id":null`, `{"eos_token_id":7}`, []float64{7}},
		{`"bos_token_id":1`, "", nil},
	} {
		dir := t.TempDir()
		if c.generation != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"),
				[]byte(c.generation), 0o600))
		}
		from := &converter{set: new(weights.Set), dir: dir}
		require.NoError(t, json.Unmarshal([]byte(nemotronWith(`null,`+c.config)), &from.config))
		_, err := from.findFamily()
		require.NoError(t, err)
		values := map[string]any{kindKey: nemotron.kind,
			tokensKey: join(uint32(9), uint32(8), uint64(0))}
		for i, id := range from.endTokens() {
			values[endKeys[i]] = id
		}
		require.NoError(t, from.err)
		f := model("mistral3", values)
		config, _, err := f.Model()
		require.NoError(t, err)
		generation, err := fs.ReadFile(f.CompanionFS(), "generation_config.json")
		require.NoError(t, err)
		var got [2]struct {
			Ends []float64 `json:"eos_token_id"`
		}
		require.NoError(t, json.Unmarshal(config, &got[0]))
		require.NoError(t, json.Unmarshal(generation, &got[1]))
		require.ElementsMatch(t, c.want, got[1].Ends)
		if c.want == nil {
			c.want = []float64{11} // the family's own
		}
		require.Equal(t, c.want, got[0].Ends)
	}
}

// The tokenizer of Nemotron-Labs-Diffusion's pack comes back from a file.
func TestConvertTekken(t *testing.T) {
	dir, _ := lladaFolder(t)
	data, err := os.ReadFile("../../testdata/packs/tokenizer-nemotron-labs-tiny/tokenizer.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o600))
	name := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, Convert(context.Background(), dir, name, "q8_0"))
	f, err := Open(name)
	require.NoError(t, err)
	defer f.Set.Close()
	pre, err := f.Text("tokenizer.ggml.pre")
	require.NoError(t, err)
	require.Equal(t, "tekken", pre)
	got, _, err := tokenizers.ParseFS(f.CompanionFS())
	require.NoError(t, err)
	want, err := tokenizers.Parse(data)
	require.NoError(t, err)
	for _, text := range []string{"CamelCase and 123 words, l'été\n\n x<|im_end|>", "a/b\r\n  c"} {
		a, err := want.Encode(text)
		require.NoError(t, err)
		b, err := got.Encode(text)
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

func TestWriteRefuses(t *testing.T) {
	none := func(io.Writer) error { return nil }
	for want, tensor := range map[string]Tensor{
		"want 1 to 4 dimensions of F32": {Name: "a", DType: "IQ2_S", Shape: []int{256},
			Write: none},
		"rows have 33 values, want a multiple of 32": {Name: "a", DType: "Q8_0", Shape: []int{33},
			Write: none},
		`tensor "a": 0 bytes were written, want 16`: {Name: "a", DType: "F32", Shape: []int{4},
			Write: none},
		`tensor "a": no`: {Name: "a", DType: "F32", Shape: []int{4},
			Write: func(io.Writer) error { return errors.New("no") }},
	} {
		require.ErrorContains(t, Write(io.Discard, nil, []Tensor{tensor}), want)
	}
	require.Panics(t, func() { _ = Write(io.Discard, []Key{{"a", 1}}, nil) })
}

// The template comes from a file of its own, or from tokenizer_config.json as a text or as the one
// named default.
func TestChatTemplate(t *testing.T) {
	dir := t.TempDir()
	for _, c := range [][2]string{{"", ""},
		{"tokenizer_config.json", `{"chat_template":"a"}`},
		{"tokenizer_config.json", `{"chat_template":[{"name":"tool","template":"b"},` +
			`{"name":"default","template":"a"}]}`},
		{"tokenizer_config.json", `{"chat_template":3}`},
		{"chat_template.jinja", "a"}} {
		if c[0] != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, c[0]), []byte(c[1]), 0o600))
		}
		config, err := readTokenizerConfig(dir)
		require.NoError(t, err)
		got, err := readChatTemplate(dir, config)
		switch c[1] {
		case "":
			require.Empty(t, got)
		case `{"chat_template":3}`:
			require.ErrorContains(t, err, "tokenizer_config.json: ")
			continue
		default:
			require.Equal(t, "a", got)
		}
		require.NoError(t, err)
	}
}

// An embedding that is the head's other name, as safetensors.torch.save_model has it, is in the
// file once, where llama.cpp looks for both.
func TestConvertTied(t *testing.T) {
	dir, values := lladaFolder(t)
	const words, head = "model.transformer.wte.weight", "model.transformer.ff_out.weight"
	name := filepath.Join(dir, "model.safetensors")
	set, err := weights.Open(dir)
	require.NoError(t, err)
	defer set.Close()
	var all []weights.Tensor
	for _, n := range set.Names() {
		if v, _ := set.Get(n); n != words {
			all = append(all, *v)
		}
	}
	require.NoError(t, weights.WriteFile(name, all, map[string]string{words: head}))
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, Convert(context.Background(), dir, out, "q8_0"))
	f, err := Open(out)
	require.NoError(t, err)
	defer f.Set.Close()
	_, headed := f.Set.Get("output.weight")
	require.False(t, headed)
	got, ok := f.Set.Get("token_embd.weight")
	require.True(t, ok)
	x, err := got.Floats()
	require.NoError(t, err)
	require.InDeltaSlice(t, values[head][:256], x[:256], 0.05)
}

// Rows that are not whole blocks of 256, such as Qwen2.5-0.5B's 896, have the types that llama.cpp
// puts in their place.
func TestTypesOfRows(t *testing.T) {
	c := &converter{mixture: "q4_k_m", blocks: 8}
	for width, want := range map[int][2]weights.DType{512: {"Q4_K", "Q6_K"}, 896: {"Q5_0", "Q8_0"},
		100: {"F16", "F16"}} {
		got := [2]weights.DType{c.chooseType("blk.3.attn_q.weight", []int{32, width}, true),
			c.chooseType("output.weight", []int{32, width}, true)}
		require.Equal(t, want, got, "%d values", width)
	}
}
