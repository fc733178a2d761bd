package hub

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The adapter for drafts comes with a model; other folders do not.
func TestPullAdapter(t *testing.T) {
	h := newHub(t)
	files := chatModel(h)
	files["linear_spec_lora/adapter_config.json"] = "{}"
	files["linear_spec_lora/adapter_model.safetensors"] = "low rank"
	dir, err := h.client(t).PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	require.Equal(t, "low rank", read(t, dir+"/linear_spec_lora/adapter_model.safetensors"))
	require.NoDirExists(t, dir+"/onnx")
}
