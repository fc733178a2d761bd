package pytorch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// shapes reads sizes from a state dict's tensors.
type shapes struct {
	prefix string
	of     map[string][]int
	err    error
}

// dim returns a dimension of a tensor, or records that it is missing.
func (s *shapes) dim(name string, i int) int {
	shape, ok := s.of[s.prefix+name]
	if (!ok || i >= len(shape)) && s.err == nil {
		s.err = fmt.Errorf("tensor %q has shape %v, want at least %d dimensions",
			s.prefix+name, shape, i+1)
	}
	if !ok || i >= len(shape) {
		return 0
	}
	return shape[i]
}

// count returns how many consecutive tensors name0suffix, name1suffix, ... there are.
func (s *shapes) count(name, suffix string) int {
	n := 0
	for s.of[s.prefix+name+strconv.Itoa(n)+suffix] != nil {
		n++
	}
	return n
}

// Tensors by which networks are recognised.
const (
	mageAnchor = "token_emb.word_embeddings.weight"
	sdttAnchor = "vocab_embed.embedding"
	// of Halton-MaskGIT, and of LlamaGen's image tokenizer
	haltonAnchor   = "last_norm.norm_final.weight"
	llamagenAnchor = "encoder.conv_blocks.0.res.0.conv1.weight"
)

var anchors = []string{mageAnchor, sdttAnchor, haltonAnchor, llamagenAnchor, fairseqAnchor}

// errUnknown is the error of a checkpoint of no known network.
var errUnknown = errors.New("the tensors are of no known network")

// config derives config.json from the tensors and settings.
func (c *Checkpoint) config(o Options) (any, error) {
	s := &shapes{of: map[string][]int{}}
	anchor := ""
	for _, t := range c.tensors {
		// torch.compile puts _orig_mod into names; loading removes it.
		name := strings.ReplaceAll(t.Name, "_orig_mod.", "")
		s.of[name] = append(make([]int, 0, 4), t.Shape...)
		for _, a := range anchors {
			p, ok := strings.CutSuffix(name, a)
			if !ok || p != "" && !strings.HasSuffix(p, ".") {
				continue
			}
			if anchor != "" {
				return nil, fmt.Errorf("tensors %q and %q: the checkpoint holds two networks, "+
					"want one", s.prefix+anchor, name)
			}
			s.prefix, anchor = p, a
		}
	}
	var config any
	var err error
	switch anchor {
	case mageAnchor:
		config, err = mageConfig(s, c.Args(), o)
	case sdttAnchor:
		config, err = sdttConfig(s, c.Args(), o)
	case haltonAnchor:
		config, err = haltonConfig(s, o)
	case llamagenAnchor:
		config, err = llamagenConfig(s, o), nil
	case fairseqAnchor:
		config, err = fairseqConfig(s, c.Args(), o)
	default:
		return nil, fmt.Errorf("%w, want one named %q (MAGE), %q (SDTT, MDLM), %q (Halton-MaskGIT), "+
			"%q (LlamaGen's tokenizer) or %q (fairseq's RoBERTa), or a config.json beside it", errUnknown,
			mageAnchor, sdttAnchor, haltonAnchor, llamagenAnchor, fairseqAnchor)
	}
	if err = cmp.Or(s.err, err); err != nil {
		return nil, err
	}
	return config, nil
}

// mageFile is the config.json of a MAGE model; its authors do not publish one.
type mageFile struct {
	ModelType       string    `json:"model_type"`
	EmbedDim        int       `json:"embed_dim"`
	Depth           int       `json:"depth"`
	Heads           int       `json:"num_heads"`
	DecoderEmbedDim int       `json:"decoder_embed_dim"`
	DecoderDepth    int       `json:"decoder_depth"`
	DecoderHeads    int       `json:"decoder_num_heads"`
	Grid            int       `json:"grid"`
	Codebook        int       `json:"codebook_size"`
	VQGAN           vqganFile `json:"vqgan"`
}

type vqganFile struct {
	Ch        int   `json:"ch"`
	ChMult    []int `json:"ch_mult"`
	ResBlocks int   `json:"num_res_blocks"`
	ZChannels int   `json:"z_channels"`
	EmbedDim  int   `json:"embed_dim"`
	Codes     int   `json:"n_embed"`
	OutCh     int   `json:"out_ch"`
}

// mageHeads are the encoder's and decoder's heads of the published models, by the name in the
// checkpoint's args and by width (MAGE's models_mage.py).
var mageHeads = map[string][2]int{
	"mage_vit_base_patch16": {12, 16}, "mage_vit_large_patch16": {16, 16}, "768": {12,
		16}, "1024": {16, 16},
}

func mageConfig(s *shapes, args map[string]any, o Options) (any, error) {
	positions := s.dim("token_emb.position_embeddings.weight", 0)
	grid := int(math.Round(math.Sqrt(float64(positions - 1))))
	if s.err == nil && (grid < 1 || grid*grid != positions-1) {
		return nil, fmt.Errorf("%d positions are no square and a class token", positions)
	}
	f := mageFile{ModelType: "mage", Grid: grid,
		EmbedDim: s.dim(mageAnchor, 1), Depth: s.count("blocks.", ".norm1.weight"),
		DecoderEmbedDim: s.dim("decoder_embed.weight", 0), DecoderDepth: s.count("decoder_blocks.",
			".norm1.weight"),
		Codebook: s.dim("vqgan.quantize.embedding.weight", 0)}
	name, _ := args["model"].(string)
	known, ok := mageHeads[name]
	if !ok {
		known = mageHeads[strconv.Itoa(f.EmbedDim)]
	}
	f.Heads, f.DecoderHeads = cmp.Or(o.Heads, known[0]), cmp.Or(o.DecoderHeads, known[1])
	f.VQGAN = vqganFile{Ch: s.dim("vqgan.encoder.conv_in.weight", 0),
		ResBlocks: s.count("vqgan.encoder.down.0.block.", ".conv1.weight"),
		ZChannels: s.dim("vqgan.decoder.conv_in.weight",
			1), EmbedDim: s.dim("vqgan.quantize.embedding.weight", 1),
		Codes: f.Codebook, OutCh: s.dim("vqgan.decoder.conv_out.weight", 0)}
	for i := range s.count("vqgan.encoder.down.", ".block.0.conv1.weight") {
		f.VQGAN.ChMult = append(f.VQGAN.ChMult,
			s.dim(fmt.Sprintf("vqgan.encoder.down.%d.block.0.conv1.weight", i), 0)/max(1,
				f.VQGAN.Ch))
	}
	if s.err != nil {
		return nil, s.err
	}
	if err := checkHeads("encoder", f.EmbedDim, f.Heads); err != nil {
		return nil, err
	}
	return f, checkHeads("decoder", f.DecoderEmbedDim, f.DecoderHeads)
}

// checkHeads returns an error for heads that are unknown or do not divide the width.
func checkHeads(what string, width, heads int) error {
	if heads < 1 {
		return fmt.Errorf("the checkpoint does not say how many heads the %s of width %d has: "+
			"give them", what, width)
	}
	if width%heads != 0 {
		return fmt.Errorf("%d heads do not divide the %s's width %d", heads, what, width)
	}
	return nil
}

// sdttFile is the config.json of the published SDTT students.
type sdttFile struct {
	Model struct {
		Type   string `json:"type"`
		Hidden int    `json:"hidden_size"`
		Cond   int    `json:"cond_dim"`
		Length int    `json:"length"`
		Blocks int    `json:"n_blocks"`
		Heads  int    `json:"n_heads"`
	} `json:"model"`
	TimeConditioning bool `json:"time_conditioning"`
	Tokenizer        struct {
		Name string `json:"name"`
	} `json:"tokenizer"`
	Vocab int `json:"vocab_size"`
}

func sdttConfig(s *shapes, args map[string]any, o Options) (any, error) {
	if inner, ok := args["config"].(map[string]any); ok {
		args = inner // the constructor's arguments, as saved by Lightning for MDLM and SDTT
	}
	saved, _ := args["model"].(map[string]any)
	number := func(key string) int {
		n, _ := saved[key].(int64)
		return int(n)
	}
	var f sdttFile
	f.Model.Type = "ddit-orig"
	f.Model.Hidden, f.Vocab = s.dim(sdttAnchor, 1), s.dim(sdttAnchor, 0)
	f.Model.Cond, f.Model.Blocks = s.dim("sigma_map.mlp.0.weight", 0), s.count("blocks.",
		".norm1.weight")
	f.Model.Length = cmp.Or(number("length"), 1024)
	f.TimeConditioning, _ = args["time_conditioning"].(bool)
	f.Tokenizer.Name = "gpt2"
	if t, ok := args["tokenizer"].(map[string]any); ok {
		if name, ok := t["name"].(string); ok {
			f.Tokenizer.Name = name
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	if f.Model.Blocks == 0 {
		return nil, errors.New("the checkpoint has no blocks")
	}
	heads := cmp.Or(o.Heads, number("n_heads"))
	if freq := s.of[s.prefix+"rotary_emb.inv_freq"]; heads == 0 && len(freq) == 1 && freq[0] > 0 {
		heads = f.Model.Hidden / (2 * freq[0]) // half as many frequencies as numbers of a head
	}
	if heads == 0 && f.Model.Hidden%64 == 0 {
		heads = f.Model.Hidden / 64 // as in every published size
	}
	f.Model.Heads = heads
	return f, checkHeads("network", f.Model.Hidden, heads)
}
