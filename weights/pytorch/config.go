package pytorch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"

	"unmask/weights"
)

// Tensors by which networks are recognised.
const (
	mageAnchor = "token_emb.word_embeddings.weight"
	sdttAnchor = "vocab_embed.embedding"
	// of Halton-MaskGIT, and of LlamaGen's image tokenizer
	haltonAnchor   = "last_norm.norm_final.weight"
	llamagenAnchor = "encoder.conv_blocks.0.res.0.conv1.weight"
	fairseqAnchor  = "sentence_encoder.embed_tokens.weight"
	esmcAnchor     = "sequence_head.3.weight" // of ESM-C's first files
	bertAnchor     = "bert.embeddings.word_embeddings.weight"
)

// configByAnchor derive config.json, which the networks' authors do not publish or have in another
// form, from a network's tensors, whose names are without the prefix, and the settings saved with
// them. The key is the tensor by which the network is recognised. One that returns nil does not
// recognise it by what is saved with the tensors.
var configByAnchor = map[string]func(s *weights.Sizes, args object, o Options) object{
	mageAnchor:     mageConfig,
	sdttAnchor:     sdttConfig,
	haltonAnchor:   haltonConfig,
	llamagenAnchor: llamagenConfig,
	fairseqAnchor:  fairseqConfig,
	esmcAnchor:     esmcConfig,
	bertAnchor:     genmolConfig,
}

type object = map[string]any

// errUnknown is the error of a checkpoint of no known network.
var errUnknown = errors.New("the tensors are of no known network")

// deriveConfig derives config.json from the tensors and settings. errUnknown is the error of a
// checkpoint of no known network.
func (c *Checkpoint) deriveConfig(o Options) (object, error) {
	var list []*weights.Tensor
	for _, t := range c.tensors {
		list = append(list, &weights.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape})
	}
	whole, err := weights.NewSet(list, nil)
	if err != nil {
		return nil, err
	}

	anchor := ""
	sizes := &weights.Sizes{}
	for a := range configByAnchor {
		set, err := whole.Rebase(a)
		if err != nil {
			return nil, err
		}
		if _, ok := set.Get(a); !ok {
			continue
		}
		if anchor != "" {
			return nil, fmt.Errorf("tensors %q and %q: the checkpoint holds two networks, want one",
				min(a, anchor), max(a, anchor))
		}
		anchor = a
		sizes.Set = set
	}
	var config object
	if anchor != "" {
		config = configByAnchor[anchor](sizes, c.Args(), o)
	}
	if config == nil {
		return nil, fmt.Errorf("%w, want one named %q (MAGE), %q (SDTT, MDLM, PGM), %q (Halton-MaskGIT), "+
			"%q (LlamaGen's tokenizer), %q (fairseq's RoBERTa), %q (ESM-C) or %q with the settings of a "+
			"BERT (GenMol), or a config.json beside it", errUnknown, mageAnchor, sdttAnchor, haltonAnchor,
			llamagenAnchor, fairseqAnchor, esmcAnchor, bertAnchor)
	}
	return config, sizes.Err
}

// checkHeads returns heads, and keeps an error where they are unknown or do not divide the width.
// The tensors do not show the number of heads: another number has matrices of the same shapes.
func checkHeads(s *weights.Sizes, what string, width, heads int) int {
	switch {
	case heads < 1:
		s.Fail("the checkpoint does not say how many heads the %s of width %d has: give them", what,
			width)
	case width%heads != 0:
		s.Fail("%d heads do not divide the %s's width %d", heads, what, width)
	}
	return heads
}

// mageHeads are the encoder's and decoder's heads of the published models, by the name in the
// checkpoint's args and by width (MAGE's models_mage.py).
var mageHeads = map[string][2]int{
	"mage_vit_base_patch16": {12, 16}, "mage_vit_large_patch16": {16, 16},
	"768": {12, 16}, "1024": {16, 16},
}

// mageConfig returns the form of families/vit for MAGE and its VQGAN.
func mageConfig(s *weights.Sizes, args object, o Options) object {
	positions := s.Dim("token_emb.position_embeddings.weight", 2, 0)
	grid := int(math.Round(math.Sqrt(float64(positions - 1))))
	if grid < 1 || grid*grid != positions-1 {
		s.Fail("%d positions are no square and a class token", positions)
	}

	width := s.Dim(mageAnchor, 2, 1)
	decoderWidth := s.Dim("decoder_embed.weight", 2, 0)
	name, _ := args["model"].(string)
	heads, ok := mageHeads[name]
	if !ok {
		heads = mageHeads[strconv.Itoa(width)]
	}

	codes := s.Dim("vqgan.quantize.embedding.weight", 2, 0)
	channels := s.Dim("vqgan.encoder.conv_in.weight", 4, 0)
	var factors []int
	for i := range s.Count("vqgan.encoder.down.", ".block.0.conv1.weight") {
		level := s.Dim(fmt.Sprintf("vqgan.encoder.down.%d.block.0.conv1.weight", i), 4, 0)
		factors = append(factors, level/channels)
	}
	return object{
		"model_type":        "mage",
		"grid":              grid,
		"codebook_size":     codes,
		"embed_dim":         width,
		"depth":             s.Count("blocks.", ".norm1.weight"),
		"num_heads":         checkHeads(s, "encoder", width, cmp.Or(o.Heads, heads[0])),
		"decoder_embed_dim": decoderWidth,
		"decoder_depth":     s.Count("decoder_blocks.", ".norm1.weight"),
		"decoder_num_heads": checkHeads(s, "decoder", decoderWidth, cmp.Or(o.DecoderHeads, heads[1])),
		"vqgan": object{
			"ch":             channels,
			"ch_mult":        factors,
			"n_embed":        codes,
			"num_res_blocks": s.Count("vqgan.encoder.down.0.block.", ".conv1.weight"),
			"z_channels":     s.Dim("vqgan.decoder.conv_in.weight", 4, 1),
			"embed_dim":      s.Dim("vqgan.quantize.embedding.weight", 2, 1),
			"out_ch":         s.Dim("vqgan.decoder.conv_out.weight", 4, 0),
		},
	}
}

// sdttConfig returns the form of the published SDTT students, or that of PGM's networks, which have
// SDTT's anchor too.
func sdttConfig(s *weights.Sizes, args object, o Options) object {
	if s.Has("decoder.group_swap.base_embedding") {
		return pgmConfig(s, args, o)
	}
	if constructor, ok := args["config"].(object); ok {
		args = constructor // as Lightning saves it for MDLM and SDTT
	}
	model, _ := args["model"].(object)
	modelNumber := func(key string) int {
		n, _ := model[key].(int64)
		return int(n)
	}
	width := s.Dim(sdttAnchor, 2, 1)
	blocks := s.Count("blocks.", ".norm1.weight")
	if blocks == 0 {
		s.Fail("the checkpoint has no blocks")
	}
	tokenizerName := "gpt2"
	if tokenizer, ok := args["tokenizer"].(object); ok {
		if name, ok := tokenizer["name"].(string); ok {
			tokenizerName = name
		}
	}

	heads := cmp.Or(o.Heads, modelNumber("n_heads"))
	if heads == 0 && s.Has("rotary_emb.inv_freq") {
		// A frequency is for two numbers of a head.
		heads = width / (2 * s.Dim("rotary_emb.inv_freq", 1, 0))
	}
	if heads == 0 && width%64 == 0 {
		heads = width / 64 // as in every published size
	}
	conditioned, _ := args["time_conditioning"].(bool)
	return object{
		"time_conditioning": conditioned,
		"tokenizer":         object{"name": tokenizerName},
		"vocab_size":        s.Dim(sdttAnchor, 2, 0),
		"model": object{
			"type":        "ddit-orig",
			"hidden_size": width,
			"n_blocks":    blocks,
			"cond_dim":    s.Dim("sigma_map.mlp.0.weight", 2, 0),
			"length":      cmp.Or(modelNumber("length"), 1024),
			"n_heads":     checkHeads(s, "network", width, heads),
		},
	}
}

// pgmConfig has what the tensors of a PGM do not show: of a text's network the settings of its
// training that change the arithmetic, which Lightning saves with it; of images the grid, which no
// file has. The published one is of 32 x 32 codes.
func pgmConfig(s *weights.Sizes, args object, o Options) object {
	width := s.Dim(sdttAnchor, 2, 1)
	heads := o.Heads
	if heads == 0 && s.Has("rotary_emb.inv_freq") {
		heads = width / (2 * s.Dim("rotary_emb.inv_freq", 1, 0))
	}
	config := object{
		"model_type": "pgm",
		"n_heads":    checkHeads(s, "network", width, heads),
	}
	if s.Has("cls_embed.embedding_table.weight") {
		config["grid"] = cmp.Or(o.Grid, 32)
		return config
	}

	settings, _ := args["config"].(object)
	part := func(key string) object {
		inner, _ := settings[key].(object)
		return inner
	}
	model := part("model")
	length, _ := model["length"].(int64)
	config["length"] = cmp.Or(int(length), 1024)
	swap, _ := model["swap"].(object)
	for _, key := range []string{"pre_query_mode", "query_process_mode", "normalize_mode"} {
		if value, ok := swap[key]; ok {
			config[key] = value
		}
	}
	if value, ok := part("algo")["time_conditioning"]; ok {
		config["time_conditioning"] = value
	}
	config["tokenizer"] = "gpt2"
	if name, ok := part("data")["tokenizer_name_or_path"].(string); ok {
		config["tokenizer"] = name
	}
	return config
}

// haltonHeads are the heads of the published models by width (Halton-MaskGIT,
// Network/transformer.py and Trainer/cls_trainer.py).
var haltonHeads = map[int]int{384: 6, 512: 6, 768: 12, 1024: 16}

// haltonConfig has what the tensors of Halton-MaskGIT do not show when they are read.
func haltonConfig(s *weights.Sizes, _ object, o Options) object {
	width := s.Dim("tok_emb.weight", 2, 1)
	attentionWidth := s.Dim("transformer.layers.0.attn.wq.weight", 2, 0)
	heads := cmp.Or(o.Heads, haltonHeads[width])
	return object{
		"model_type":          "halton-maskgit",
		"num_attention_heads": checkHeads(s, "attention", attentionWidth, heads),
	}
}

// llamagenConfig: both published networks make 256x256 pixels, vq_ds16_c2i.pt of 16x16 codes and
// vq_ds8_c2i.pt, which has one level less, of 32x32.
func llamagenConfig(s *weights.Sizes, _ object, o Options) object {
	grid := 16 // codes along a side
	if s.Count("encoder.conv_blocks.", ".res.0.conv1.weight") == 4 {
		grid = 32
	}
	return object{"model_type": "llamagen-vq", "grid": cmp.Or(o.Grid, grid)}
}

// fairseqConfig has transformers' words for a RoBERTa of fairseq.
func fairseqConfig(s *weights.Sizes, args object, o Options) object {
	activation, ok := args["activation_fn"].(string)
	if !ok {
		activation = "gelu"
	}
	width := s.Dim(fairseqAnchor, 2, 1)
	heads, _ := args["encoder_attention_heads"].(int64)
	return object{
		"model_type":              "roberta",
		"hidden_size":             width,
		"hidden_act":              activation,
		"num_hidden_layers":       s.Count("sentence_encoder.layers.", ".fc1.weight"),
		"num_attention_heads":     checkHeads(s, "encoder", width, cmp.Or(o.Heads, int(heads))),
		"intermediate_size":       s.Dim("sentence_encoder.layers.0.fc1.weight", 2, 0),
		"layer_norm_eps":          1e-5,
		"max_position_embeddings": s.Dim("sentence_encoder.embed_positions.weight", 2, 0),
		"vocab_size":              s.Dim(fairseqAnchor, 2, 0),
		"pad_token_id":            1,
	}
}

// esmcConfig has the keys of the later published files of ESM-C. Its heads have 64 numbers in every
// published size.
func esmcConfig(s *weights.Sizes, _ object, o Options) object {
	width := s.Dim("embed.weight", 2, 1)
	return object{
		"model_type":    "esmc",
		"d_model":       width,
		"n_heads":       checkHeads(s, "network", width, cmp.Or(o.Heads, width/64)),
		"n_layers":      s.Count("transformer.blocks.", ".attn.layernorm_qkv.1.weight"),
		"vocab_size":    s.Dim("embed.weight", 2, 0),
		"mask_token_id": 32,
	}
}

// genmolConfig has the keys of transformers' BERT, which GenMol's checkpoints hold as a setting of
// their training (NVIDIA-BioNeMo/genmol). Another BERT, which has no such settings, is none of
// GenMol's, and nil is returned.
func genmolConfig(_ *weights.Sizes, args object, _ Options) object {
	settings, _ := args["config"].(object)
	model, _ := settings["model"].(object)
	training, _ := settings["training"].(object)
	if model["model_type"] != "bert" || training == nil {
		return nil
	}
	config := maps.Clone(model)
	config["model_type"] = "genmol"
	config["bracket_safe"] = training["use_bracket_safe"] == true // the second version's
	config["cls_token_id"] = 1
	config["sep_token_id"] = 2
	config["pad_token_id"] = 3
	config["mask_token_id"] = 4
	return config
}
