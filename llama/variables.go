package llama

import (
	"strings"

	"unmask/model"
)

// variables returns those of the chat template that the authors' programs set: dLLM's tokenizer of
// its Qwens turns thinking off where a caller does not say (dllm/utils/models.py, get_tokenizer).
func variables(src *model.Source) map[string]any {
	var config struct {
		Type string `json:"model_type"`
	}
	err := model.DecodeConfig(src, &config)
	if err != nil || !strings.HasPrefix(config.Type, "a2d-qwen") {
		return nil
	}
	return map[string]any{"enable_thinking": false}
}
