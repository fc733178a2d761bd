package llama

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/weights"
)

// Sizes of published files, with the rest of a config.json to follow.
const (
	moe7B = `"hidden_size":2048,"num_hidden_layers":16,"num_attention_heads":16,"num_experts":64,
		"num_experts_per_tok":8,"expert_intermediate_size":1024,"vocab_size":157184,
		"rope_theta":50000,"rms_norm_eps":1e-5,"max_position_embeddings":8192,"eos_token_id":156892,`
	qwen30B = `"hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":32,
		"num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,"num_experts":128,
		"num_experts_per_tok":8,"moe_intermediate_size":768,"norm_topk_prob":true,"vocab_size":151936,`
	qwen = `"hidden_size":2048,"num_hidden_layers":28,"num_attention_heads":16,
		"num_key_value_heads":8,"intermediate_size":6144,"vocab_size":151936,"eos_token_id":151643,`
	llama8B = `"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
		"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":155136,"eos_token_id":2,
		"bos_token_id":0,"pad_token_id":1,"rope_theta":500000.0,`
)

// Each published model is told by the facts of its config.json, its tokenizer's files and, where
// these leave it open, its repository's name.
func TestPublishedKinds(t *testing.T) {
	marked := func(id, token string) fstest.MapFS {
		return fstest.MapFS{"tokenizer_config.json": {Data: []byte(
			`{"mask_token":"` + token + `","added_tokens_decoder":{"` + id + `":{"content":"` + token +
				`","special":true}}}`)}}
	}
	maskMoE := marked("156895", "<|mask|>")
	for _, c := range []struct {
		name, repo, config string
		files              fstest.MapFS
		kind               string
		shifted            bool
		block              int
		mask               int32
		ends               []int32
	}{
		{"LLaDA-MoE by its class", "inclusionAI/LLaDA-MoE-7B-A1B-Instruct", moe7B +
			`"model_type":"llada","architectures":["LLaDAMoEModelLM"]`, maskMoE, "lladamoe", false, 0,
			156895, []int32{156892}},
		{"LLaDA-MoE by a key", "inclusionAI/LLaDA-MoE-7B-A1B-Base", moe7B + `"model_type":"llada"`,
			maskMoE, "lladamoe", false, 0, 156895, []int32{156892}},
		{"LLaDA-MoE-TD", "inclusionAI/LLaDA-MoE-7B-A1B-Instruct-TD", moe7B + `"model_type":"lladamoe"`,
			maskMoE, "llada-moe-td", false, 0, 156895, []int32{156892}},
		{"SDAR-30B-A3B", "JetLM/SDAR-30B-A3B-Chat", qwen30B + `"model_type":"sdar_moe"`, nil, "sdar_moe",
			false, 4, 151669, nil},
		{"RND1", "radicalnumerics/RND1-Base-0910", qwen30B + `"model_type":"rnd1","rope_scaling":false,
			"sliding_window":false,"mask_token_id":151669`, nil, "rnd1", true, 0, 151669, []int32{151645}},
		{"CoDA", "Salesforce/CoDA-v0-Instruct", qwen + `"model_type":"CoDA","mask_token_id":151669`, nil,
			"CoDA", true, 0, 151669, []int32{151643}},
		{"Open-dCoder", "fredzzp/open-dcoder-0.5B", qwen + `"model_type":"qwen2"`,
			marked("151665", "<M>"), "open-dcoder", true, 0, 151665, []int32{151643}},
		{"Stable-DiffCoder", "ByteDance-Seed/Stable-DiffCoder-8B-Instruct", llama8B +
			`"model_type":"llama","architectures":["StableDiffcoderForCausalLM"]`, nil, "stable-diffcoder",
			false, 4, 5, []int32{2}},
		{"Stable-DiffCoder by its file", "", llama8B + `"model_type":"llama","auto_map":
			{"AutoModelForCausalLM":"modeling_stable_diffcoder.X"}`, nil, "stable-diffcoder", false, 4, 5,
			[]int32{2}},
		{"TraDo", "Gen-Verse/TraDo-8B-Thinking", qwen + `"model_type":"sdar","mask_token_id":151669`, nil,
			"trado", false, 4, 151669, []int32{151643}},
		{"bd3lm", "dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", qwen + `"model_type":"a2d-qwen3"`,
			marked("151669", "<|mask|>"), "a2d-bd3lm", false, 32, 151669, []int32{151643}},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := weights.NewSet(nil, nil)
			require.NoError(t, err)
			src := &model.Source{Name: "folder", Repo: c.repo, Config: []byte("{" + c.config + "}"),
				Set: set, Files: c.files}
			got, err := readConfig(src)
			require.NoError(t, err)
			require.Equal(t, c.kind, got.kind.name)
			require.Equal(t, []any{c.shifted, c.block, c.mask, c.ends},
				[]any{got.Shift, got.Block, got.Mask, got.EndTokens})
			var tail []int32 // of RND1's config.json without a padding token
			if c.kind == "rnd1" {
				tail = []int32{151643}
			}
			require.Equal(t, tail, got.Tail)
		})
	}
}

// The weights of a row's experts, by each family's routing.
func TestRouting(t *testing.T) {
	logits := []float32{2, 1, 0, -1}
	for _, c := range []struct {
		name string
		e    Experts
		bias []float32
		want []choice
	}{
		{"LLaDA-MoE", Experts{Softmax: true, Scale: 1}, nil,
			[]choice{{expert: 0, weight: 0.6439142}, {expert: 1, weight: 0.2368828}}},
		{"LLaDA-MoE with a bias", Experts{Softmax: true, BiasInWeights: true, Scale: 1},
			[]float32{0, 0, 0.5, 0},
			[]choice{{expert: 0, weight: 0.6439142}, {expert: 2, weight: 0.5871443}}},
		{"Qwen3-MoE", Experts{Softmax: true, Normalize: true, Scale: 1}, nil,
			[]choice{{expert: 0, weight: 0.7310586}, {expert: 1, weight: 0.2689414}}},
		{"LLaDA2", Experts{Normalize: true, Scale: 2.5}, []float32{0, 0, 1, 0},
			[]choice{{expert: 2, weight: 0.9052742}, {expert: 0, weight: 1.5947258}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.Count, c.e.PerToken, c.e.Groups, c.e.TopGroups = 4, 2, 1, 1
			e := &experts{cfg: &c.e, bias: make([]float32, 4)}
			copy(e.bias, c.bias)
			got := make([]choice, 2)
			e.chooseExperts(new(expertWork), logits, got)
			for i, want := range c.want {
				require.Equal(t, want.expert, got[i].expert)
				require.InDelta(t, want.weight, got[i].weight, 1e-6)
			}
		})
	}
}
