package vq

import (
	"cmp"
	"encoding/json"
	"fmt"

	"unmask/backend"
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
	model.RegisterCodec(model.CodecFormat{
		Name: "diffusers-vq",
		Match: func(src *model.Source) bool {
			var f struct {
				Class string `json:"_class_name"`
			}
			return json.Unmarshal(src.Config, &f) == nil && f.Class == "VQModel"
		},
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			var f struct {
				Grid int `json:"grid"`
			}
			if err := json.Unmarshal(src.Config, &f); err != nil {
				return nil, fmt.Errorf("config.json: %w", err)
			}
			f.Grid = cmp.Or(f.Grid, loneGrid)
			// in a coarser precision the decoder overflows (force_upcast in its config.json)
			o.Precision = backend.F32
			return load(src, f.Grid, f.Grid, o)
		},
	})
}

// loneGrid is the grid, in codes along a side, of a VQModel outside a pipeline and without a grid
// in its config.json: that of amused-256. (The published sample_size, 32, is neither codes nor
// pixels.)
const loneGrid = 16

// Open loads the image tokenizer in a folder of a generator with side x side codes from a codebook
// of this size.
func Open(src *model.Source, folder string, side, codes int, o model.Options) (_ *Model,
	err error) {
	defer backend.Recover(&err)
	sub, err := src.Sub(folder, "config.json and the weights of the image tokenizer")
	if err != nil {
		return nil, err
	}
	m, err := load(sub, side, side, o)
	if err == nil && m.Codes() != codes {
		err = fmt.Errorf("the image tokenizer has %d codes, want %d as the generator", m.Codes(), codes)
	}
	if err == nil {
		err = sub.Set.ReleaseAll()
	}
	if err != nil {
		sub.Set.Close()
		return nil, fmt.Errorf("%s: %w", sub.Name, err)
	}
	return m, nil
}
