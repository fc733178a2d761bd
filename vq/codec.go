package vq

import (
	"encoding/json"
	"fmt"

	"unmask/model"
)

func init() {
	model.RegisterCodec(model.CodecFormat{
		Name:  "llamagen-vq",
		Match: func(src *model.Source) bool { return src.Has("encoder.conv_blocks.0.res.0.conv1.weight") },
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			var f struct {
				Grid int `json:"grid"`
			}
			if err := json.Unmarshal(src.Config, &f); err != nil {
				return nil, fmt.Errorf("config.json: %w", err)
			}
			return load(src, f.Grid, f.Grid, o)
		},
	})
}

// Open loads the image tokenizer in a folder of a generator of side x side codes of a codebook.
func Open(src *model.Source, folder string, side, codes int, o model.Options) (*Model, error) {
	sub, err := src.Sub(folder, "config.json and the weights of the image tokenizer")
	if err != nil {
		return nil, err
	}
	defer sub.Set.Close()
	m, err := Load(sub, side, side, o)
	if err != nil {
		return nil, err
	}
	if m.Codes() != codes {
		return nil, fmt.Errorf("%s: the image tokenizer has %d codes, want %d as the generator", sub.Name,
			m.Codes(), codes)
	}
	return m, nil
}
