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

// sparse writes a folder with the sizes of LLaDA-8B, whose 16 GB of weights take no disk.
func sparse(t *testing.T) string {
	dir := t.TempDir()
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
	config := fmt.Sprintf(`{"model_type": "llada", "d_model": %[1]d, "n_layers": 32, "n_heads": 32,
		"mlp_hidden_size": %[2]d, "vocab_size": %[3]d, "embedding_size": %[3]d, "mask_token_id": 126336, "eos_token_id": 126081}`,
		hidden, mlp, vocab)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	return dir
}

// A model of 16 GB is inspected by its headers.
func TestInspectReadsHeaders(t *testing.T) {
	var before, after runtime.MemStats
	dir := sparse(t)
	runtime.ReadMemStats(&before)
	r, err := judges.Inspect(context.Background(), dir, nil)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Equal(t, 8_015_581_184, r.Parameters)
	require.Equal(t, 2*r.Parameters, r.Bytes)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(60<<20), "bytes allocated")
}
