package latents

import (
	"math"

	"unmask/model"
	"unmask/weights"
)

// file is config.json of TiTok and TA-TiTok, the repository's YAML as JSON. It is read only for
// what the tensors do not show.
type file struct {
	Model struct {
		Tokenizer struct {
			UnitLength  bool   `json:"use_l2_norm"`
			EncoderSize string `json:"vit_enc_model_size"`
			DecoderSize string `json:"vit_dec_model_size"`
			Legacy      *bool  `json:"is_legacy"`
		} `json:"vq_model"`
	} `json:"model"`
}

// Settings are the keys of the repository's YAML that every network of it has: the image
// tokenizer's, whose sizes its tensors show, and those of training.
var Settings = []model.Settings{
	{KnownKeys: "experiment model dataset losses optimizer lr_scheduler training"},
	{Path: "model", KnownKeys: "vq_model generator maskgen"},
	{
		Path: "model.vq_model",
		KnownKeys: `codebook_size token_size use_l2_norm commitment_cost
		vit_enc_model_size vit_dec_model_size vit_enc_patch_size vit_dec_patch_size num_latent_tokens
		finetune_decoder is_legacy clustering_vq text_context_length text_embed_dim
		pretrained_tokenizer_weight`,
		RequiredValues: map[string]any{"quantize_mode": "vq"},
	},
}

// heads are the transformers' head counts by name of size (1d-tokenizer,
// modeling/modules/blocks.py).
var heads = map[string]int{"small": 8, "base": 12, "large": 16}

// squareSide returns the square root of n, which must be whole.
func squareSide(s *weights.Sizes, name string, n int) int {
	r := int(math.Round(math.Sqrt(float64(n))))
	if r*r != n {
		s.Fail("%s is %d, want a square", name, n)
	}
	return max(r, 1)
}
