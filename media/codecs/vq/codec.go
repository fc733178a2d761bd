package vq

import (
	"cmp"
	"fmt"

	"unmask/backend"
	"unmask/model"
	"unmask/nn/picture"
)

func init() {
	model.RegisterCodec(model.CodecFormat{
		Name:  "llamagen-vq",
		Match: isLlamaGen,
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			grid, err := gridSide(src, llamagenSettings)
			if err != nil {
				return nil, err
			}
			return Load(src, grid, o)
		},
	})
	model.RegisterCodec(model.CodecFormat{
		Name: "diffusers-vq",
		Match: func(src *model.Source) bool {
			return src.ConfigValues().Text("_class_name") == "VQModel"
		},
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			grid, err := gridSide(src, diffusersSettings)
			if err != nil {
				return nil, err
			}
			grid = cmp.Or(grid, loneGrid)
			// In a coarser precision the decoder overflows (force_upcast in its config.json).
			o.Precision = backend.F32
			return Load(src, grid, o)
		},
	})
}

// isLlamaGen reports whether a file is LlamaGen's tokenizer, which has no config.json to tell it
// by.
func isLlamaGen(src *model.Source) bool {
	return src.HasTensor("encoder.conv_blocks.0.res.0.conv1.weight")
}

// llamagenSettings are the arguments of LlamaGen's VQModel, which publishes no config.json.
var llamagenSettings = model.Settings{KnownKeys: `grid codebook_size codebook_embed_dim
	codebook_show_usage commit_loss_beta entropy_loss_ratio encoder_ch_mult decoder_ch_mult z_channels
	dropout_p`, RequiredValues: map[string]any{"codebook_l2_norm": true}}

// diffusersSettings are the keys of diffusers' VQModel.
var diffusersSettings = model.Settings{KnownKeys: `_class_name _diffusers_version grid down_block_types
	up_block_types block_out_channels layers_per_block latent_channels sample_size num_vq_embeddings
	vq_embed_dim scaling_factor mid_block_add_attention force_upcast in_channels out_channels
	lookup_from_codebook`, RequiredValues: map[string]any{
	"act_fn":          "silu",
	"norm_num_groups": float64(picture.Groups),
	"norm_type":       "group",
}}

// gridSide returns the number of codes along a side, 0 where config.json does not have it.
func gridSide(src *model.Source, settings model.Settings) (int, error) {
	var f struct {
		Grid int `json:"grid"`
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return f.Grid, err
	}
	return f.Grid, src.CheckKeys(settings)
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
	sub, err := src.OpenSub(folder, "config.json and the weights of the image tokenizer")
	if err != nil {
		return nil, err
	}
	m, err := Load(sub, side, o)
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
