package titok

import (
	"encoding/json"
	"fmt"

	"unmask/model"
)

// file is a generator's config.json, the repository's YAML as JSON. It is read only for what the
// tensors do not show. Numbers may be written as references
// (`${model.vq_model.num_latent_tokens}`).
type file struct {
	Model struct {
		Generator *struct {
			Heads   json.RawMessage `json:"num_attention_heads"`
			Classes json.RawMessage `json:"condition_num_classes"`
			publishedRun
		} `json:"generator"`
	} `json:"model"`
}

// publishedRun is the authors' run (1d-tokenizer, sample_imagenet_titok.py).
type publishedRun struct {
	Steps *int     `json:"num_steps"`
	Noise *float64 `json:"randomize_temperature"`
	Scale *float64 `json:"guidance_scale"`
	Decay string   `json:"guidance_decay"`
}

// generatorKeys are the keys of the generator, without model_type.
var generatorKeys = model.Settings{Path: "model.generator",
	KnownKeys: `hidden_size num_hidden_layers
	num_attention_heads intermediate_size attn_drop class_label_dropout image_seq_len
	condition_num_classes num_steps randomize_temperature guidance_scale guidance_decay`}

const maxSize = 1 << 20

// readNumber reads a whole number, 0 for a missing one or a reference.
func readNumber(key string, raw json.RawMessage) (int, error) {
	if raw == nil || raw[0] == '"' {
		return 0, nil
	}
	var n int
	if err := json.Unmarshal(raw, &n); err != nil || n < 1 || n > maxSize {
		return 0, fmt.Errorf("config.json: %s is %.20s, want 1 to %d", key, raw, maxSize)
	}
	return n, nil
}
