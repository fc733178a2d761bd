package llama_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
)

const readAdapterConfig = "linear_spec_lora/adapter_config.json"

// withAdapter loads nemotron-labs-tiny with another adapter_config.json, or with a file removed.
func withAdapter(t *testing.T, set map[string]any, without string) error {
	t.Helper()
	p := parity.Open(t, "nemotron-labs-tiny")
	files := fstest.MapFS{}
	for _, name := range []string{readAdapterConfig, "linear_spec_lora/adapter_model.safetensors"} {
		data, err := fs.ReadFile(p.Files, name)
		require.NoError(t, err)
		if name != without {
			files[name] = &fstest.MapFile{Data: data}
		}
	}
	if f := files[readAdapterConfig]; f != nil {
		var config map[string]any
		require.NoError(t, json.Unmarshal(f.Data, &config))
		maps.Copy(config, set)
		var err error
		f.Data, err = json.Marshal(config)
		require.NoError(t, err)
	}
	src := *p.Source
	src.Files = files
	_, err := model.Load(&src, model.Options{Backend: plain.New()})
	return err
}

// An adapter that this network does not compute is refused with its file and key; a model without
// one drafts without it.
func TestAdapter(t *testing.T) {
	require.NoError(t, withAdapter(t, nil, ""))
	require.NoError(t, withAdapter(t, nil, readAdapterConfig))
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"target_modules", []string{"q_proj", "o_proj"}, `target_modules is ["q_proj","o_proj"], want`},
		{"use_rslora", true, "use_rslora is true, want false"},
		{"use_dora", true, "use_dora is true, want false"},
		{"bias", "all", `bias is "all", want "none"`},
		{"r", 0, "r is 0, want 1 to"},
		{"r", 5, "misshaped"},
		{"lora_alpha", "x", `lora_alpha is "x", want a number`},
	} {
		err := withAdapter(t, map[string]any{c.key: c.value}, "")
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "linear_spec_lora")
		require.NotContains(t, err.Error(), "config.json: config.json")
	}
	err := withAdapter(t, nil, "linear_spec_lora/adapter_model.safetensors")
	require.ErrorContains(t, err, "linear_spec_lora/adapter_model.safetensors: ")
}
