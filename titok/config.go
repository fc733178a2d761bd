package titok

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"unmask/model"
	"unmask/weights"
)

// file is config.json of TiTok, TA-TiTok and MaskGen, the repository's YAML as JSON. Only what
// the tensors do not tell is read; numbers may be written as references
// (`${model.vq_model.num_latent_tokens}`).
type file struct {
	Model struct {
		Tokenizer struct {
			UnitLength   bool   `json:"use_l2_norm"`
			EncoderSize  string `json:"vit_enc_model_size"`
			DecoderSize  string `json:"vit_dec_model_size"`
			Legacy       *bool  `json:"is_legacy"`
			QuantizeMode string `json:"quantize_mode"`
		} `json:"vq_model"`
		Generator *struct {
			Heads   json.RawMessage `json:"num_attention_heads"`
			Classes json.RawMessage `json:"condition_num_classes"`
		} `json:"generator"`
	} `json:"model"`
}

// heads of the tokenizer's transformers by their size's name (TiTok, modules/blocks.py).
var heads = map[string]int{"small": 8, "base": 12, "large": 16}

const maxSize = 1 << 20

// number reads a whole number, 0 for one that is left out or a reference.
func number(key string, raw json.RawMessage) (int, error) {
	if raw == nil || raw[0] == '"' {
		return 0, nil
	}
	var n int
	if err := json.Unmarshal(raw, &n); err != nil || n < 1 || n > maxSize {
		return 0, fmt.Errorf("config.json: %s is %.20s, want 1 to %d", key, raw, maxSize)
	}
	return n, nil
}

// shapes reads sizes off tensors and keeps the first error.
type shapes struct {
	set *weights.Set
	err error
}

// dim returns dimension i of a tensor with `dims` of them.
func (s *shapes) dim(name string, dims, i int) int {
	t, ok := s.set.Get(name)
	switch {
	case s.err != nil:
		return 1
	case !ok:
		s.err = fmt.Errorf("tensor %q is missing", name)
		return 1
	case len(t.Shape) != dims || slices.Contains(t.Shape, 0) || slices.Max(t.Shape) > maxSize:
		s.err = fmt.Errorf("tensor %q has shape %v, want %d dimensions of 1 to %d", name, t.Shape, dims, maxSize)
		return 1
	}
	return t.Shape[i]
}

// count returns how many of name0suffix, name1suffix, ... there are.
func (s *shapes) count(name, suffix string) int {
	n := 0
	for {
		if _, ok := s.set.Get(fmt.Sprintf("%s%d%s", name, n, suffix)); !ok {
			return n
		}
		n++
	}
}

func (s *shapes) has(name string) bool {
	_, ok := s.set.Get(name)
	return ok
}

// side is the root of a square.
func (s *shapes) side(name string, n int) int {
	r := int(math.Round(math.Sqrt(float64(n))))
	if r*r != n && s.err == nil {
		s.err = fmt.Errorf("%s is %d, want a square", name, n)
	}
	return max(r, 1)
}

// divides notes heads that do not divide a width.
func (s *shapes) divides(name string, heads, width int) {
	if s.err == nil && (heads < 1 || width%heads != 0) {
		s.err = fmt.Errorf("config.json: %s is %d, want a divisor of the width %d", name, heads, width)
	}
}

func readFile(src *model.Source) (f file, err error) {
	return f, model.DecodeConfig(src, &f)
}
