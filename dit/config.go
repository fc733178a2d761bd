package dit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"unmask/model"
	"unmask/weights"
)

// Config is the network's sizes.
type Config struct {
	Hidden int // width of the residual stream
	Heads  int // attention heads of a block
	Blocks int // transformer blocks
	Cond   int // width of the conditioning vector
	MLP    int // width inside the MLPs, 4*Hidden as published
	Length int // positions of the sequences that it was trained on
	Vocab  int // outcomes and, last, the mask token

	// TimeConditioned networks take the noise level. Published SDTT students do not: sigma is 0 in
	// every call, so all modulations are constants.
	TimeConditioned bool

	// Begin is the first token of every text, and nil if there is none. It is not shown.
	Begin *int32

	// Pad is the token that fills up a text, and nil if there is none. It is not shown.
	Pad *int32
}

// Presets are the published sizes (Deschenaux & Gulcehre 2025, and the hub's jdeschena/sdtt);
// small is also MDLM's (Sahoo et al. 2024, kuleshov-group/mdlm-owt), and large is that of
// configs/model/dit-orig-large.yaml. Vocabulary: GPT-2's and the mask token.
var Presets = map[string]Config{
	"small":  {Hidden: 768, Heads: 12, Blocks: 12, Cond: 128, MLP: 3072, Length: 1024, Vocab: 50258},
	"medium": {Hidden: 1024, Heads: 16, Blocks: 24, Cond: 128, MLP: 4096, Length: 1024, Vocab: 50258},
	"large":  {Hidden: 1536, Heads: 16, Blocks: 24, Cond: 128, MLP: 6144, Length: 1024, Vocab: 50258},
}

// sizes are the sizes of config.json: nested in SDTT's file, flat in MDLM's. A size that the file
// does not have is nil.
type sizes struct {
	HiddenSize  *int `json:"hidden_size"`
	HiddenDim   *int `json:"hidden_dim"`
	Heads       *int `json:"n_heads"`
	Blocks      *int `json:"n_blocks"`
	Cond        *int `json:"cond_dim"`
	Length      *int `json:"length"`
	ModelLength *int `json:"model_length"`
	Vocab       *int `json:"vocab_size"`

	Type string `json:"type"`
}

// networkTypes are the networks of this shape, as model.type names them in SDTT's and MDLM's code.
var networkTypes = []string{"", "ddit", "ddit-orig", "dit"}

// file is config.json.
type file struct {
	sizes
	Model           *sizes `json:"model"`
	TimeConditioned bool   `json:"time_conditioning"`
	MaskIndex       *int   `json:"mask_index"`

	// Parametrization says what the head's numbers are.
	Parametrization namedSetting `json:"parameterization"`

	Backbone string `json:"backbone"`

	// Graph is set in SEDD's files only.
	Graph any `json:"graph"`

	// Noise is the schedule of noise levels.
	Noise namedSetting `json:"noise"`

	Begin     *int32 `json:"bos_token_id"`
	Pad       *int32 `json:"pad_token_id"`
	Tokenizer struct {
		Name string `json:"name"`
	} `json:"tokenizer"`
}

// namedSetting is a part of the authors' settings. Their files have its name alone, or an object
// with the name and more.
type namedSetting struct{ name string }

// UnmarshalJSON implements json.Unmarshaler.
func (n *namedSetting) UnmarshalJSON(data []byte) error {
	var object struct{ Type, Name string }
	if err := json.Unmarshal(data, &n.name); err == nil {
		return nil
	}
	err := json.Unmarshal(data, &object)
	n.name = cmp.Or(object.Type, object.Name)
	return err
}

// parametrizations are those of the same head: MDLM's, and SDTT's distillation of it.
var parametrizations = []string{"", "subs", "multi-round-sdtt"}

// knownKeys are those of the flat file of MDLM's class, and of the settings of MDLM's and SDTT's
// programs with the network's own in an object. Most are for training.
var knownKeys = []model.Settings{
	{KnownKeys: `hidden_size hidden_dim n_heads n_blocks cond_dim length model_length vocab_size type model
		time_conditioning mask_index parameterization backbone graph noise tokenizer scale_by_sigma
		tie_word_embeddings T subs_masking cfg_num_classes mode seed compile eval_every data
		data_preprocess loader optim trainer wandb hydra checkpointing eval sampling callbacks strategy
		lr_scheduler hf repo revision`,
		RequiredValues: map[string]any{
			"causal":       false,
			"cfg":          false,
			"diffusion":    "absorbing_state",
			"shift_logits": false,
		}},
	{Path: "model", KnownKeys: `type hidden_size hidden_dim cond_dim length model_length n_blocks n_heads
		vocab_size scale_by_sigma tie_word_embeddings`,
		// configs/model/dit-orig-large.yaml of SDTT has causal: True, so the files of its large students
		// and teachers do too; the class DIT asks for no causal attention whatever it says
		UnreadKeys: "causal"},
}

const (
	maxSize   = 1 << 20 // largest dimension in config.json
	maxLength = 1 << 17 // largest number of positions
)

// readConfig reads config.json. Where it is silent or disagrees with the tensors, the tensors
// decide, and the notes say so. Only config.json knows the number of heads, unless the rotary
// frequencies are stored: no other tensor's shape depends on it.
func readConfig(src *model.Source, set *weights.Set) (c Config, tokenizer string, notes []string,
	err error) {
	var f file
	if err := model.DecodeConfig(src, &f); err != nil {
		return c, "", nil, err
	}
	s := f.sizes
	typeKey := "type"
	if f.Model != nil {
		s = *f.Model
		s.Vocab = cmp.Or(s.Vocab, f.Vocab)
		typeKey = "model.type"
	}
	if err := f.checkMeaning(typeKey, s.Type); err != nil {
		return c, "", nil, err
	}
	if err := src.CheckKeys(knownKeys...); err != nil {
		return c, "", nil, err
	}

	if c, err = sizesFromTensors(set); err != nil {
		return c, "", nil, err
	}
	if notes, err = s.fillSizes(&c); err != nil {
		return c, "", nil, err
	}
	c.TimeConditioned = f.TimeConditioned
	c.Begin = f.Begin
	c.Pad = f.Pad

	if f.MaskIndex != nil && *f.MaskIndex != c.Vocab-1 {
		return c, "", nil, fmt.Errorf("config.json: mask_index is %d, want %d, the embedding's last row",
			*f.MaskIndex, c.Vocab-1)
	}
	if err := c.checkToken("bos_token_id", c.Begin); err != nil {
		return c, "", nil, err
	}
	if err := c.checkToken("pad_token_id", c.Pad); err != nil {
		return c, "", nil, err
	}
	return c, cmp.Or(f.Tokenizer.Name, "gpt2"), notes, c.checkSizes()
}

// checkToken returns an error for an id that is no outcome. A nil id is allowed.
func (c Config) checkToken(key string, id *int32) error {
	if id == nil || *id >= 0 && int(*id) <= c.Vocab-2 {
		return nil
	}
	return fmt.Errorf("config.json: %s is %d, want 0 to %d", key, *id, c.Vocab-2)
}

// checkMeaning returns an error for networks with the same tensors whose numbers mean something
// else: they would load, and generate nonsense. networkType is the value of typeKey.
func (f *file) checkMeaning(typeKey, networkType string) error {
	switch {
	case f.Graph != nil:
		return fmt.Errorf("config.json: graph is there, want none: it is SEDD, whose network computes " +
			"ratios of probabilities")
	case !slices.Contains(parametrizations, f.Parametrization.name):
		return fmt.Errorf("config.json: parameterization is %q, want subs", f.Parametrization.name)
	case !slices.Contains(networkTypes, networkType):
		return fmt.Errorf("config.json: %s is %q, want one of %s", typeKey, networkType,
			strings.Join(networkTypes[1:], ", "))
	case f.TimeConditioned && f.Noise.name != "" && f.Noise.name != "loglinear":
		return fmt.Errorf("config.json: noise is %q, want loglinear with time_conditioning", f.Noise.name)
	case f.Backbone != "" && f.Backbone != "dit":
		return fmt.Errorf("config.json: backbone is %q, want dit", f.Backbone)
	}
	return nil
}

// fillSizes fills in the sizes that the tensors do not have, and notes where they have others.
func (s *sizes) fillSizes(c *Config) (notes []string, err error) {
	var d model.ConfigSizes
	hidden := cmp.Or(s.HiddenSize, s.HiddenDim)
	d.CompleteSize("hidden_size", hidden, &c.Hidden, maxSize)
	d.CompleteSize("n_heads", s.Heads, &c.Heads, maxSize)
	if d.Err == nil && s.Heads != nil {
		// The file's own sizes must fit each other, whatever the tensors say.
		d.Err = Config{Hidden: *cmp.Or(hidden, &c.Hidden), Heads: *s.Heads}.checkHeads()
	}
	d.CompleteSize("n_blocks", s.Blocks, &c.Blocks, maxSize)
	d.CompleteSize("cond_dim", s.Cond, &c.Cond, maxSize)
	d.CompleteSize("length", cmp.Or(s.Length, s.ModelLength), &c.Length, maxLength)
	d.CompleteSize("vocab_size", s.Vocab, &c.Vocab, maxSize)
	return d.Notes, d.Err
}

// checkSizes returns an error for sizes that neither config.json nor a tensor has, and for those
// that do not fit each other.
func (c Config) checkSizes() error {
	switch {
	case c.Heads < 1:
		return fmt.Errorf("config.json: n_heads is missing, want the divisors of hidden_size %d",
			c.Hidden)
	case c.Length < 1:
		return fmt.Errorf("config.json: length is missing, want 1 to %d", maxLength)
	case c.Vocab < 2:
		return fmt.Errorf("vocab_embed.embedding has %d rows, want an outcome and the mask token at least", c.Vocab)
	}
	return c.checkHeads()
}

// checkHeads returns an error for heads of odd width: rotary positions turn a head's first half
// against its second.
func (c Config) checkHeads() error {
	if c.Hidden%(2*c.Heads) != 0 {
		return fmt.Errorf("config.json: n_heads is %d, want those that cut hidden_size %d into heads of "+
			"even width", c.Heads, c.Hidden)
	}
	return nil
}

// sizesFromTensors reads the sizes that the shapes of tensors show; others stay 0.
func sizesFromTensors(set *weights.Set) (c Config, err error) {
	embedding, err := model.TensorShape(set, anchor, 2)
	if err != nil {
		return c, err
	}
	c.Vocab = embedding[0]
	c.Hidden = embedding[1]
	c.MLP = 4 * c.Hidden // as published, where its tensor is missing
	if sigma, err := model.TensorShape(set, "sigma_map.mlp.2.weight", 2); err == nil {
		c.Cond = sigma[0]
	}
	if mlp, err := model.TensorShape(set, "blocks.0.mlp.0.weight", 2); err == nil {
		c.MLP = mlp[0]
	}
	if freq, err := model.TensorShape(set, "rotary_emb.inv_freq", 1); err == nil &&
		c.Hidden%(2*freq[0]) == 0 {
		c.Heads = c.Hidden / (2 * freq[0])
	}
	c.Blocks = max(c.Blocks, set.CountBlocks("blocks."))
	return c, nil
}
