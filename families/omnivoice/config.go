package omnivoice

import (
	"encoding/json"
	"fmt"
	"maps"

	"unmask/families/llama"
	"unmask/model"
	"unmask/weights"
)

// Recipe is the published run (k2-fsa/OmniVoice, OmniVoiceGenerationConfig), and fastRecipe the one
// of half the steps that its README recommends for speed.
const (
	Recipe     = "omnivoice schedule=omnivoice steps=32 guidance=2"
	fastRecipe = "omnivoice schedule=omnivoice steps=16 guidance=2"
)

// codecFolder has the sound codec.
const codecFolder = "audio_tokenizer"

func init() {
	model.Register(model.Format{
		Name:  "omnivoice",
		Kinds: []string{"omnivoice"},
		Match: func(src *model.Source) bool {
			return src.HasTensor("audio_embeddings.weight") && src.HasTensor("audio_heads.weight")
		},
		Load: loadModel,
	})
}

// newModel returns the network without weights, and notes about config.json.
func newModel(src *model.Source) (*Model, []string, error) {
	var f struct {
		Classes int             `json:"audio_vocab_size"`
		Mask    *int            `json:"audio_mask_id"`
		Books   int             `json:"num_audio_codebook"`
		Trunk   json.RawMessage `json:"llm_config"`

		// Weights are of training; the key is known and not read.
		Weights any `json:"audio_codebook_weights"`
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return nil, nil, err
	}
	z := &weights.Sizes{Set: src.Set}
	rows := z.Dim("audio_heads.weight", 2, 0)
	hidden := z.Dim("audio_heads.weight", 2, 1)
	switch {
	case z.Err != nil:
		return nil, nil, z.Err
	case len(f.Trunk) == 0:
		return nil, nil, fmt.Errorf("config.json: llm_config is missing, want that of a Qwen3")
	case f.Books < 1 || f.Books > 64:
		return nil, nil, fmt.Errorf("config.json: num_audio_codebook is %d, want 1 to 64", f.Books)
	case f.Classes < 2 || f.Classes*f.Books != rows:
		return nil, nil, fmt.Errorf("config.json: audio_vocab_size is %d, want %d: the heads have %d "+
			"rows for %d codebooks", f.Classes, rows/f.Books, rows, f.Books)
	case f.Mask == nil || *f.Mask != f.Classes-1:
		return nil, nil, fmt.Errorf("config.json: audio_mask_id is not %d, want the last class",
			f.Classes-1)
	}
	trunkSource := *src
	trunkSource.Config = f.Trunk
	trunkSource.Files = nil // generation_config.json there is not about the trunk
	trunk, err := llama.NewTrunk(&trunkSource, "llm")
	if err != nil {
		return nil, nil, fmt.Errorf("llm_config: %w", err)
	}
	if trunk.Hidden() != hidden {
		return nil, nil, fmt.Errorf("config.json: llm_config has hidden_size %d, want %d, that of the "+
			"heads", trunk.Hidden(), hidden)
	}
	table := weights.Param{Shape: []int{rows, hidden}}
	m := &Model{
		Trunk:      trunk,
		Embeddings: table,
		Heads:      table,
		codebooks:  f.Books,
		codes:      f.Classes - 1,
	}
	m.spec = model.Spec{
		Shape:    []int{MaxFrames, m.codebooks},
		Outcomes: m.codes,
		Mask:     int32(m.codes),
		Ragged:   true,
		Prompt:   true,
	}
	var notes []string
	if n := src.NoteUnknownKeys(model.JSONKeys(f)...); n != "" {
		notes = []string{n}
	}
	return m, notes, nil
}

// describeSizes adds sizes of this network to those of its trunk.
func (m *Model) describeSizes(sizes map[string]int) map[string]int {
	described := maps.Clone(sizes)
	delete(described, "mask") // the trunk's, which no sequence has
	delete(described, "length")
	described["codebooks"] = m.codebooks
	described["codes"] = m.codes
	described["frames"] = MaxFrames
	return described
}
