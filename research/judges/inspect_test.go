package judges_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/judges"
)

// sparse writes a folder with a model's tensors in bfloat16, whose values take no disk.
func sparse(t *testing.T, config string, shapes map[string][]int) string {
	dir := t.TempDir()
	header, end := map[string]any{}, 0
	for name, shape := range shapes {
		size := 2
		for _, d := range shape {
			size *= d
		}
		header[name] = map[string]any{"dtype": "BF16", "shape": shape,
			"data_offsets": []int{end, end + size}}
		end += size
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(8+len(text)+end)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	return dir
}

// llada8B is a model of 16 GB with the sizes of LLaDA-8B.
func llada8B(t *testing.T) string {
	const hidden, mlp, vocab = 4096, 12288, 126464
	shapes := map[string][]int{"model.transformer.wte.weight": {vocab, hidden},
		"model.transformer.ff_out.weight": {vocab, hidden}, "model.transformer.ln_f.weight": {hidden}}
	for i := range 32 {
		at := fmt.Sprintf("model.transformer.blocks.%d.", i)
		for _, name := range []string{"q_proj", "k_proj", "v_proj", "attn_out"} {
			shapes[at+name+".weight"] = []int{hidden, hidden}
		}
		shapes[at+"ff_proj.weight"], shapes[at+"up_proj.weight"] = []int{mlp, hidden}, []int{mlp, hidden}
		shapes[at+"ff_out.weight"] = []int{hidden, mlp}
		shapes[at+"attn_norm.weight"], shapes[at+"ff_norm.weight"] = []int{hidden}, []int{hidden}
	}
	return sparse(t, fmt.Sprintf(`{"model_type": "llada", "d_model": %[1]d, "n_layers": 32,
		"n_heads": 32, "mlp_hidden_size": %[2]d, "vocab_size": %[3]d, "embedding_size": %[3]d,
		"mask_token_id": 126336, "eos_token_id": 126081}`, hidden, mlp, vocab), shapes)
}

// llada2Mini is a model of 32 GB with the sizes of LLaDA2.0-mini, whose config.json has no mask.
func llada2Mini(t *testing.T) string {
	const hidden, mlp, expert, experts, vocab = 2048, 5120, 512, 256, 157184
	shapes := map[string][]int{"model.word_embeddings.weight": {vocab, hidden},
		"lm_head.weight": {vocab, hidden}, "model.norm.weight": {hidden}}
	gated := func(at string, width int) {
		shapes[at+"gate_proj.weight"], shapes[at+"up_proj.weight"] = []int{width, hidden},
			[]int{width, hidden}
		shapes[at+"down_proj.weight"] = []int{hidden, width}
	}
	for i := range 20 {
		at := fmt.Sprintf("model.layers.%d.", i)
		shapes[at+"attention.query_key_value.weight"] = []int{(16 + 2*4) * 128, hidden}
		shapes[at+"attention.dense.weight"] = []int{hidden, 16 * 128}
		for _, name := range []string{"query", "key"} {
			shapes[at+"attention."+name+"_layernorm.weight"] = []int{128}
		}
		for _, name := range []string{"input", "post_attention"} {
			shapes[at+name+"_layernorm.weight"] = []int{hidden}
		}
		if i == 0 {
			gated(at+"mlp.", mlp)
			continue
		}
		for e := range experts {
			gated(fmt.Sprintf("%smlp.experts.%d.", at, e), expert)
		}
		gated(at+"mlp.shared_experts.", expert)
		shapes[at+"mlp.gate.weight"] = []int{experts, hidden}
		shapes[at+"mlp.gate.expert_bias"] = []int{experts}
	}
	return sparse(t, `{"model_type": "llada2_moe", "hidden_size": 2048, "num_hidden_layers": 20,
		"num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "hidden_act": "silu",
		"intermediate_size": 5120, "moe_intermediate_size": 512, "num_experts": 256,
		"num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1,
		"n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "partial_rotary_factor": 0.5,
		"max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "rope_theta": 600000,
		"pad_token_id": 156892, "vocab_size": 157184}`, shapes)
}

// Large models are inspected by their headers.
func TestInspectReadsHeaders(t *testing.T) {
	for _, c := range []struct {
		name             string
		dir              string
		parameters, mask int
		allocated        uint64
	}{
		{"LLaDA-8B", llada8B(t), 8_015_581_184, 126336, 60 << 20},
		{"LLaDA2.0-mini", llada2Mini(t), 16_255_643_392, 156895, 100 << 20},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := judges.Inspect(context.Background(), c.dir, "", nil)
		require.NoError(t, err, c.name)
		runtime.ReadMemStats(&after)
		require.Equal(t, c.parameters, r.Parameters, c.name)
		require.Equal(t, 2*r.Parameters, r.Bytes, c.name)
		require.Equal(t, c.mask, r.Sizes["mask"], c.name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, c.allocated, "%s: bytes allocated", c.name)
	}
}
