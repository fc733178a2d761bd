package encoders

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// Config is the network's sizes and what distinguishes the families.
type Config struct {
	Hidden, Embed int // widths; in ALBERT the embedding's is another
	Layers        int // blocks that are computed
	Groups, Inner int // groups of Inner blocks with own weights (ALBERT); Layers and 1 elsewhere
	Heads         int
	MLP           int // width inside the MLPs
	Rows          int // of the embedding and the head
	Length        int // positions of a sequence, with its first and last token

	Positions, Types int // rows of the learned tables; 0: rotary positions, no token types
	Offset           int // row of the first position
	Eps              float32
	Act, HeadAct     backend.Activation

	Pre                 bool // norms come before the branches
	EmbedNorm, Widened  bool // embeddings have a norm, a projection (ALBERT)
	Gated               bool // ModernBERT's MLP and attention
	NormBiased          bool
	HeadBiased          bool
	Tied, DecoderBiased bool
	Dropout             bool // ESM-2's scale of embeddings, token_dropout

	Theta, LocalTheta float64 // bases of the rotary frequencies
	// blocks whose number Every does not divide attend to Window positions on both sides
	Window, Every int

	Mask  int32
	Notes []string

	family *family
	tokens tokens
}

func (c *Config) norm(width int) nn.LayerNorm {
	if c.NormBiased {
		return nn.NewLayerNorm(width, c.Eps)
	}
	return nn.NewLayerNormNoBias(width, c.Eps)
}

// family is a kind of checkpoint, recognised by a tensor.
type family struct {
	name   string
	words  string // name of the word embedding
	blocks string // names of blocks are this and a number
	mlp    string // name within block 0 of the MLP's first matrix
	unused []string
	names  func(*Model) any
	set    func(c *Config, f *file, set *weights.Set) // what distinguishes it
}

var families = []*family{
	{name: "bert", words: "bert.embeddings.word_embeddings.weight", blocks: "bert.encoder.layer.",
		mlp: "intermediate.dense.weight", names: bert, set: (*Config).bert,
		unused: []string{"bert.embeddings.position_ids", "bert.pooler.*", "cls.*",
			"cls.predictions.decoder.bias"}},
	{name: "roberta", words: "roberta.embeddings.word_embeddings.weight",
		blocks: "roberta.encoder.layer.", mlp: "intermediate.dense.weight", names: roberta,
		set: (*Config).roberta, unused: []string{"roberta.embeddings.position_ids", "roberta.pooler.*",
			"lm_head.decoder.bias"}},
	{name: "roberta-fairseq", words: "sentence_encoder.embed_tokens.weight",
		blocks: "sentence_encoder.layers.", mlp: "fc1.weight", names: fairseq,
		set: (*Config).roberta, unused: []string{"*.version", "*._float_tensor",
			"classification_heads.*"}},
	{name: "albert", words: "albert.embeddings.word_embeddings.weight",
		blocks: "albert.encoder.albert_layer_groups.", mlp: "albert_layers.0.ffn.weight", names: albert,
		set: (*Config).albert, unused: []string{"albert.embeddings.position_ids", "albert.pooler.*",
			"predictions.decoder.bias", "sop_classifier.*"}},
	{name: "esm", words: "esm.embeddings.word_embeddings.weight", blocks: "esm.encoder.layer.",
		mlp: "intermediate.dense.weight", names: esm, set: (*Config).esm,
		unused: []string{"esm.embeddings.position_ids", "esm.embeddings.position_embeddings.*",
			"*inv_freq", "esm.contact_head.*", "esm.pooler.*", "lm_head.decoder.bias"}},
	{name: "modernbert", words: "model.embeddings.tok_embeddings.weight", blocks: "model.layers.",
		mlp: "mlp.Wi.weight", names: modernbert, set: (*Config).modernbert,
		unused: []string{"*inv_freq"}},
}

// familyOf returns the family of a set of tensors.
func familyOf(set *weights.Set) (*family, bool) {
	for _, f := range families {
		for _, name := range set.Names() {
			if name == f.words || strings.HasSuffix(name, "."+f.words) {
				return f, true
			}
		}
	}
	return nil, false
}

// file is what the families' config.json files say; nil where they do not.
type file struct {
	Heads       *int     `json:"num_attention_heads"`
	Layers      *int     `json:"num_hidden_layers"`
	Groups      *int     `json:"num_hidden_groups"`
	Inner       *int     `json:"inner_group_num"`
	Hidden      *int     `json:"hidden_size"`
	MLP         *int     `json:"intermediate_size"`
	Positions   *int     `json:"max_position_embeddings"`
	Vocab       *int     `json:"vocab_size"`
	Pad         *int     `json:"pad_token_id"`
	Mask        *int32   `json:"mask_token_id"`
	First       *int32   `json:"cls_token_id"`
	Last        *int32   `json:"sep_token_id"`
	Eps         *float64 `json:"layer_norm_eps"`
	NormEps     *float64 `json:"norm_eps"`
	Act         *string  `json:"hidden_act"`
	Activation  *string  `json:"hidden_activation"`
	HeadAct     *string  `json:"classifier_activation"`
	Position    *string  `json:"position_embedding_type"`
	Dropout     *bool    `json:"token_dropout"`
	NormBefore  *bool    `json:"emb_layer_norm_before"`
	Folding     *bool    `json:"is_folding_model"`
	Decoder     *bool    `json:"is_decoder"`
	Every       *int     `json:"global_attn_every_n_layers"`
	Local       *int     `json:"local_attention"`
	GlobalTheta *float64 `json:"global_rope_theta"`
	LocalTheta  *float64 `json:"local_rope_theta"`

	err error
}

func (f *file) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("config.json: "+format, args...)
	}
}

// value returns *p, or otherwise if the file lacks it.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// whole checks a number.
func (f *file) whole(name string, p *int, otherwise, least, most int) int {
	n := value(p, otherwise)
	switch {
	case p == nil && otherwise < least:
		f.fail("%s is missing, want %d to %d", name, least, most)
	case n < least || n > most:
		f.fail("%s is %d, want %d to %d", name, n, least, most)
	}
	return n
}

// positive checks a number above 0.
func (f *file) positive(name string, p *float64, otherwise float64) float64 {
	x := value(p, otherwise)
	if !(x > 0 && x < 1e9) {
		f.fail("%s is %v, want a number above 0 and below 1e9", name, x)
	}
	return x
}

var activations = map[string]backend.Activation{"gelu": backend.GELUErf,
	"gelu_new": backend.GELUTanh, "gelu_pytorch_tanh": backend.GELUTanh,
	"gelu_fast": backend.GELUTanh, "relu": backend.ReLU, "silu": backend.SiLU, "swish": backend.SiLU}

func (f *file) activation(name string, p *string, otherwise backend.Activation) backend.Activation {
	if p == nil {
		return otherwise
	}
	a, ok := activations[*p]
	if !ok {
		f.fail("%s is %.40q, want %s", name, *p,
			strings.Join(slices.Sorted(maps.Keys(activations)), ", "))
	}
	return a
}

// same checks a setting that must have one value if the file has it.
func same[T comparable](f *file, name string, p *T, want T) {
	if p != nil && *p != want {
		f.fail("%s is %v, want %v: this network computes no other", name, *p, want)
	}
}

// Limits of config.json.
const (
	maxSize   = 1 << 20 // of any dimension
	maxLayers = 1 << 10
	maxLength = 1 << 20
)

// readConfig reads config.json and the shapes of tensors, and returns the tensors under the names
// of the family's table.
func readConfig(src *model.Source) (c Config, set *weights.Set, err error) {
	c.family, _ = familyOf(src.Set)
	if set, err = plainNames(src.Set); err != nil {
		return c, nil, err
	}
	if set, err = set.Rebase(c.family.words); err != nil {
		return c, nil, err
	}
	f := &file{}
	if err := model.DecodeConfig(src, f); err != nil {
		return c, nil, err
	}
	words, err := model.TensorShape(set, c.family.words, 2)
	if err != nil {
		return c, nil, err
	}
	mlp, err := model.TensorShape(set, c.family.blocks+"0."+c.family.mlp, 2)
	if err != nil {
		return c, nil, err
	}
	c.Rows, c.Embed, c.MLP, c.Hidden = words[0], words[1], mlp[0], mlp[1]
	c.Layers, c.Inner = set.Count(c.family.blocks), 1
	c.Groups = c.Layers
	c.Heads = f.whole("num_attention_heads", f.Heads, 0, 1, maxSize)
	c.NormBiased, c.HeadBiased, c.DecoderBiased, c.EmbedNorm = true, true, true, true
	c.Act, c.HeadAct = f.activation("hidden_act", f.Act, backend.GELUErf), backend.GELUErf
	c.Eps = float32(f.positive("layer_norm_eps", f.Eps, 1e-12))
	same(f, "is_decoder", f.Decoder, false)
	c.family.set(&c, f, set)
	c.compare(f)
	if err := cmp.Or(f.err, c.consistent()); err != nil {
		return c, nil, err
	}
	c.tokens, err = readTokens(src, f, &c)
	return c, set, err
}

// compare notes where config.json has another size than the tensors.
func (c *Config) compare(f *file) {
	sizes := model.ConfigSizes{}
	layers := c.Layers / c.Inner
	sizes.Decide("hidden_size", f.Hidden, &c.Hidden, maxSize)
	sizes.Decide("num_hidden_layers", f.Layers, &layers, maxLayers)
	sizes.Decide("vocab_size", f.Vocab, &c.Rows, maxSize)
	if !c.Gated {
		sizes.Decide("intermediate_size", f.MLP, &c.MLP, maxSize)
	}
	if c.Positions > 0 {
		sizes.Decide("max_position_embeddings", f.Positions, &c.Positions, maxLength)
	}
	c.Notes = sizes.Notes
	f.err = cmp.Or(f.err, sizes.Err)
}

func (c *Config) consistent() error {
	switch {
	case c.Layers < 1 || c.Layers > maxLayers:
		return fmt.Errorf("there are %d layers, want 1 to %d", c.Layers, maxLayers)
	case c.Hidden%c.Heads != 0:
		return fmt.Errorf("config.json: num_attention_heads is %d, want a divisor of the width %d",
			c.Heads, c.Hidden)
	case c.Positions == 0 && c.Hidden/c.Heads%2 != 0:
		return fmt.Errorf("heads have %d numbers, want an even number", c.Hidden/c.Heads)
	case c.Length < 1:
		return fmt.Errorf("the table of positions has %d rows, want more than %d", c.Positions, c.Offset)
	case c.Layers%c.Inner != 0 || c.Groups > c.Layers/c.Inner:
		return fmt.Errorf("config.json: num_hidden_groups is %d for %d layers of %d blocks, want at "+
			"most one a layer", c.Groups, c.Layers/c.Inner, c.Inner)
	}
	return nil
}

// learned reads the tables of positions and types; the first position is in row offset.
func (c *Config) learned(f *file, set *weights.Set, positions, types string, offset int) {
	if t, ok := set.Get(positions); ok && len(t.Shape) == 2 {
		c.Positions = t.Shape[0]
	} else {
		f.fail("tensor %q with 2 dimensions is missing", positions)
	}
	if t, ok := set.Get(types); ok && len(t.Shape) == 2 {
		c.Types = t.Shape[0]
	}
	c.Offset, c.Length = offset, c.Positions-offset
	same(f, "position_embedding_type", f.Position, "absolute")
}

func (c *Config) tied(set *weights.Set, decoder string) {
	_, own := set.Get(decoder)
	c.Tied = !own
}

// bert reads that of google-bert/bert-*, of antiberty and their relatives.
func (c *Config) bert(f *file, set *weights.Set) {
	const e = "bert.embeddings."
	c.learned(f, set, e+"position_embeddings.weight", e+"token_type_embeddings.weight", 0)
	c.tied(set, "cls.predictions.decoder.weight")
	c.HeadAct = c.Act
}

// roberta reads that of FacebookAI/roberta-*, and what convert writes for a checkpoint of fairseq
// such as sapiens. Positions begin after the padding's id.
func (c *Config) roberta(f *file, set *weights.Set) {
	pad := f.whole("pad_token_id", f.Pad, 1, 0, 1<<20)
	if f.Eps == nil {
		c.Eps = 1e-5
	}
	if c.family.name == "roberta" {
		const e = "roberta.embeddings."
		c.learned(f, set, e+"position_embeddings.weight", e+"token_type_embeddings.weight", pad+1)
		c.tied(set, "lm_head.decoder.weight")
		return
	}
	c.learned(f, set, "sentence_encoder.embed_positions.weight", "", pad+1)
	c.tied(set, "lm_head.weight")
	_, c.EmbedNorm = set.Get("sentence_encoder.emb_layer_norm.weight")
}

// albert reads that of albert/albert-*-v* and of rxnmapper.
func (c *Config) albert(f *file, set *weights.Set) {
	const e = "albert.embeddings."
	c.learned(f, set, e+"position_embeddings.weight", e+"token_type_embeddings.weight", 0)
	c.Groups = set.Count(c.family.blocks)
	c.Inner = set.Count(c.family.blocks + "0.albert_layers.")
	c.Layers = c.Inner * f.whole("num_hidden_layers", f.Layers, 12, 1, maxLayers)
	c.Widened, c.HeadAct = true, c.Act
	if f.Act == nil {
		c.Act, c.HeadAct = backend.GELUTanh, backend.GELUTanh
	}
	c.tied(set, "predictions.decoder.weight")
	c.check(f, "num_hidden_groups", f.Groups, c.Groups)
	c.check(f, "inner_group_num", f.Inner, c.Inner)
}

// check requires a size of config.json to be that of the tensors.
func (c *Config) check(f *file, name string, have *int, want int) {
	if have != nil && *have != want {
		f.fail("%s is %d, want %d, as the tensors have", name, *have, want)
	}
}

// esm reads that of facebook/esm2_* and airkingbd/dplm_*.
func (c *Config) esm(f *file, set *weights.Set) {
	same(f, "position_embedding_type", f.Position, "rotary")
	same(f, "emb_layer_norm_before", f.NormBefore, false)
	same(f, "is_folding_model", f.Folding, false)
	if f.Eps == nil {
		c.Eps = 1e-5
	}
	c.Pre, c.EmbedNorm = true, false
	c.Theta, c.Length = 10000, f.whole("max_position_embeddings", f.Positions, 1026, 1, maxLength)
	c.Dropout = value(f.Dropout, true)
	c.tied(set, "lm_head.decoder.weight")
}

// modernbert reads that of answerdotai/ModernBERT-* and dllm-hub/ModernBERT-*-chat-*.
func (c *Config) modernbert(f *file, set *weights.Set) {
	c.Pre, c.Gated, c.MLP = true, true, c.MLP/2
	c.Act = f.activation("hidden_activation", f.Activation, backend.GELUErf)
	c.HeadAct = f.activation("classifier_activation", f.HeadAct, backend.GELUErf)
	c.Eps = float32(f.positive("norm_eps", f.NormEps, 1e-5))
	_, c.NormBiased = set.Get("model.final_norm.bias")
	_, c.HeadBiased = set.Get("head.dense.bias")
	_, c.DecoderBiased = set.Get("decoder.bias")
	c.tied(set, "decoder.weight")
	c.Length = f.whole("max_position_embeddings", f.Positions, 8192, 1, maxLength)
	c.Theta = f.positive("global_rope_theta", f.GlobalTheta, 160000)
	c.LocalTheta = f.positive("local_rope_theta", f.LocalTheta, 10000)
	c.Window = f.whole("local_attention", f.Local, 128, 2, maxLength) / 2
	c.Every = f.whole("global_attn_every_n_layers", f.Every, 3, 1, maxLayers)
}

// plainNames returns the set with the names of norms as later checkpoints have them: the first ones
// of BERT call a norm's weight gamma and its bias beta.
func plainNames(set *weights.Set) (*weights.Set, error) {
	return set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		for from, to := range map[string]string{".gamma": ".weight", ".beta": ".bias"} {
			if short, ok := strings.CutSuffix(name, from); ok {
				return short + to, t, nil
			}
		}
		return name, t, nil
	})
}

func (c *Config) sizes() map[string]int {
	return map[string]int{"hidden": c.Hidden, "embedding": c.Embed, "blocks": c.Layers,
		"heads": c.Heads, "mlp": c.MLP, "vocabulary": c.Rows, "length": c.Length, "mask": int(c.Mask)}
}

// recipe returns the published run of a model: DPLM's sampler has 500 steps (generate.py of the
// authors). The other encoders were published without one.
func (c *Config) recipe(name string) string {
	if c.family.name == "esm" && strings.Contains(strings.ToLower(filepath.Base(name)), "dplm") {
		return "dplm steps=500"
	}
	return ""
}
