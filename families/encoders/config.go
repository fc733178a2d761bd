package encoders

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// Config is the network's sizes and what distinguishes the families.
type Config struct {
	Hidden    int // width of the residual stream
	Embed     int // width of the embedding, which in ALBERT is smaller
	Layers    int // blocks that are computed
	Heads     int
	MLP       int // width inside the MLPs
	VocabRows int // rows of the embedding and the head
	Length    int // positions of a sequence, with its first and last token

	// Groups of GroupBlocks blocks have weights of their own, which ALBERT's layers share. Elsewhere
	// they are Layers and 1.
	Groups, GroupBlocks int

	// Positions and Types are the rows of the learned tables. Networks with rotary positions have
	// neither.
	Positions, Types int

	// Offset is the row of the first position. RoBERTa counts from the padding's id.
	Offset int

	Eps                        float32 // of the norms
	Activation, HeadActivation backend.Activation

	PreNorm       bool // norms come before the branches
	EmbedNorm     bool // embeddings have a norm
	Widened       bool // embeddings are projected to Hidden (ALBERT)
	Gated         bool // the MLP is gated
	Joined        bool // queries, keys and values are one tensor, and so are gate and up projection
	Unbiased      bool // the linear layers of blocks have no biases
	QKNorm        bool // queries and keys have norms over all heads together, without biases (ESM-C)
	NormBiased    bool // norms have biases
	FinalUnbiased bool // the last norm has no bias, though others have
	HeadBiased    bool // the head's dense layer has a bias
	DecoderBiased bool // the decoder has a bias

	// newerKeys says that config.json has keys that version 0.1.0 did not read.
	newerKeys bool

	Tied bool // the decoder is the embedding

	// BranchScale is multiplied to what attention and MLPs add to the residual stream; 0 means 1.
	BranchScale float64

	// TokenDropout scales embeddings by the share of masks (ESM-2's token_dropout).
	TokenDropout bool

	// Theta and LocalTheta are the bases of the rotary frequencies.
	Theta, LocalTheta float64

	// Window is the number of positions on both sides that local blocks attend to.
	Window int

	// Local says which blocks are local [blocks]; nil for none.
	Local []bool

	// Headless says that there is no head for tokens: the files have a network that embeds texts.
	Headless bool

	Mask int32

	// Chat says that it answers messages; padding ends an answer.
	Chat bool

	// BracketSafe says that attachment points may be written <1>, as the second GenMol reads them.
	BracketSafe bool

	Notes []string

	family *family
	tokens tokens
}

// newNorm returns a norm of rows of this width, with a bias if the family's norms have one.
func (c *Config) newNorm(width int) nn.LayerNorm {
	if c.NormBiased {
		return nn.NewLayerNorm(width, c.Eps)
	}
	return nn.NewLayerNormNoBias(width, c.Eps)
}

// family is a kind of checkpoint, recognised by model_type or, in older files without, by a tensor.
type family struct {
	name string

	// class is the tokenizer's class where its files name none.
	class string

	// kinds are the values of model_type, and names of kinds that it does not tell.
	kinds []string

	// blockPrefix and a number begin the names of a block's tensors.
	blockPrefix string

	// mlpTensor is the name within block 0 of the MLP's first matrix.
	mlpTensor string

	// keys are names in config.json that the family has in place of transformers', by these.
	keys map[string]string

	// unused are tensors of published files that inference does not need.
	unused []string

	names names

	// readKeys reads what distinguishes the family.
	readKeys func(c *Config, f *model.Values, set *weights.Set)
}

var families = []*family{
	{
		name:        "bert",
		class:       "BertTokenizer",
		kinds:       []string{"bert"},
		blockPrefix: "bert.encoder.layer.",
		mlpTensor:   "intermediate.dense.weight",
		names:       bertNames,
		readKeys:    (*Config).readBERT,
		unused: []string{"bert.embeddings.position_ids", "bert.pooler.*",
			"cls.*"},
	},
	{
		name:        genmol,
		kinds:       []string{genmol},
		blockPrefix: "bert.encoder.layer.",
		mlpTensor:   "intermediate.dense.weight",
		names:       bertNames,
		readKeys:    (*Config).readGenMol,
		unused:      []string{"bert.embeddings.position_ids", "cls.*"},
	},
	{
		name:        "roberta",
		class:       "RobertaTokenizer",
		kinds:       []string{"roberta", "xlm-roberta", "camembert"},
		blockPrefix: "roberta.encoder.layer.",
		mlpTensor:   "intermediate.dense.weight",
		names:       robertaNames,
		readKeys:    (*Config).readRoBERTa,
		unused: []string{"roberta.embeddings.position_ids",
			"roberta.pooler.*",
			"lm_head.bias"},
	},
	{
		name:        "roberta-fairseq",
		class:       "RobertaTokenizer",
		kinds:       []string{"roberta"},
		blockPrefix: "sentence_encoder.layers.",
		mlpTensor:   "fc1.weight",
		names:       fairseqNames,
		readKeys:    (*Config).readRoBERTa,
		unused: []string{"*.version", "*._float_tensor",
			"classification_heads.*"},
	},
	{
		name:        "albert",
		class:       "AlbertTokenizer",
		kinds:       []string{"albert"},
		blockPrefix: "albert.encoder.albert_layer_groups.",
		mlpTensor:   "albert_layers.0.ffn.weight",
		names:       albertNames,
		readKeys:    (*Config).readALBERT,
		unused: []string{"albert.embeddings.position_ids", "albert.pooler.*",
			"predictions.bias", "sop_classifier.*"},
	},
	{
		name:        "esm",
		class:       "EsmTokenizer",
		kinds:       []string{"esm", dplm},
		blockPrefix: "esm.encoder.layer.",
		mlpTensor:   "intermediate.dense.weight",
		names:       esmNames,
		readKeys:    (*Config).readESM,
		unused: []string{"esm.embeddings.position_ids", "esm.embeddings.position_embeddings.*",
			"*inv_freq", "esm.contact_head.*", "esm.pooler.*", "lm_head.decoder.bias"},
	},
	{
		name:        "esmc",
		class:       "EsmcTokenizer",
		kinds:       []string{"esmc"},
		blockPrefix: "esmc.transformer.blocks.",
		mlpTensor:   "ffn.fc1_weight",
		keys:        esmcKeys,
		names:       esmcNames("esmc.", "lm_head", esmcHubNames),
		readKeys:    (*Config).readESMC,
		unused:      []string{"*._extra_state", "*inv_freq"},
	},
	{
		name:        "esmc",
		class:       "EsmcTokenizer",
		kinds:       []string{"esmc"},
		blockPrefix: "transformer.blocks.",
		mlpTensor:   "ffn.1.weight",
		keys:        esmcKeys,
		names:       esmcNames("", "sequence_head", esmcFileNames),
		readKeys:    (*Config).readESMC,
		unused:      []string{"*inv_freq"},
	},
	{
		name:        "esmc",
		class:       "EsmcTokenizer",
		kinds:       []string{"esmc"},
		blockPrefix: "esmc.layers.",
		mlpTensor:   "mlp.gate_proj.weight",
		names:       esmcTransformersNames,
		readKeys:    (*Config).readESMC,
		unused:      []string{"*inv_freq"},
	},
	{
		name:        "modernbert",
		kinds:       []string{"modernbert", bertChat},
		blockPrefix: "model.layers.",
		mlpTensor:   "mlp.Wi.weight",
		names:       modernbertNames,
		readKeys:    (*Config).readModernBERT,
		unused:      []string{"*inv_freq"},
	},
}

// dplm is the kind of ESM-2's network that its authors trained for diffusion.
const dplm = "dplm"

// bertChat is the kind of dllm-hub/ModernBERT-base-chat-* and -large-chat-*, ModernBERTs that were
// trained to answer.
const bertChat = "modernbert-chat"

// familyOf returns the family of a source: that of its kind or, where config.json names none, that
// of its tensors. A kind may have several families; the tensors decide between them.
func familyOf(src *model.Source) (*family, bool) {
	kind := cmp.Or(src.KindOverride, src.Facts().Type)
	var fallback *family
	for _, f := range families {
		ofKind := slices.Contains(f.kinds, kind)
		if !ofKind && kind != "" {
			continue
		}
		for _, name := range src.Set.Names() {
			if words := f.names["words"]; name == words || strings.HasSuffix(name, "."+words) {
				return f, true
			}
		}
		if ofKind && fallback == nil { // with another's tensors: binding them reports which are missing
			fallback = f
		}
	}
	return fallback, fallback != nil
}

// kindNames returns the kinds of all families, sorted.
func kindNames() (names []string) {
	for _, f := range families {
		names = append(names, f.kinds...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Limits of config.json.
const (
	maxSize   = 1 << 20 // largest dimension
	maxLayers = 1 << 10 // most layers
	maxLength = 1 << 20 // most positions
)

// readConfig reads config.json and the shapes of tensors, and returns the tensors under the names
// of the family's table.
func readConfig(src *model.Source) (c Config, set *weights.Set, err error) {
	c.family, _ = familyOf(src)
	anchor := c.family.names["words"]
	if set, err = plainNames(src.Set, anchor); err != nil {
		return c, nil, err
	}
	if set, err = set.Rebase(anchor); err != nil {
		return c, nil, err
	}
	f := src.ConfigValues()
	if f.Err != nil {
		return c, nil, f.Err
	}
	for usual, key := range c.family.keys {
		if value, ok := f.Keys[key]; ok {
			f.Keys[usual] = value
			delete(f.Keys, key)
			f.Seen = append(f.Seen, key)
		}
	}
	words, err := model.TensorShape(set, anchor, 2)
	if err != nil {
		return c, nil, err
	}
	mlp, err := model.TensorShape(set, c.family.blockPrefix+"0."+c.family.mlpTensor, 2)
	if err != nil {
		return c, nil, err
	}
	c.VocabRows = words[0]
	c.Embed = words[1]
	c.MLP = mlp[0]
	c.Hidden = mlp[1]
	c.Layers = set.CountBlocks(c.family.blockPrefix)
	c.GroupBlocks = 1
	c.Groups = c.Layers
	c.Heads = f.BoundedInt("num_attention_heads", 0, 1, maxSize)
	c.NormBiased = true
	c.HeadBiased = true
	c.DecoderBiased = true
	c.EmbedNorm = true
	c.Activation = readActivation(f, "hidden_act")
	c.HeadActivation = backend.GELUErf
	c.Eps = float32(f.PositiveNumber("layer_norm_eps", 1e-12))
	if _, hasHead := set.Get(c.family.names["dense"] + ".weight"); !hasHead {
		c.Headless = true

		// These keys are about a head that is not there, and would fail its checks.
		for _, key := range []string{"tie_word_embeddings", "classifier_bias", "decoder_bias"} {
			delete(f.Keys, key)
		}
	}
	c.newerKeys = f.Has("rope_parameters") || f.Has("layer_types") ||
		c.family.name == "esm" && f.Has("rope_theta")
	c.family.readKeys(&c, f, set)
	c.compareSizes(f)
	if f.Err != nil {
		return c, nil, f.Err
	}
	if err := c.checkConsistent(); err != nil {
		return c, nil, err
	}
	if unknown := src.NoteUnknownKeys(append(f.Seen, ignoredKeys...)...); unknown != "" {
		c.Notes = append(c.Notes, unknown)
	}
	c.Chat = c.isChat(src)
	c.tokens, err = readTokens(src, f, &c)
	return c, set, err
}

// compareSizes notes where config.json has another size than the tensors.
func (c *Config) compareSizes(f *model.Values) {
	sizes := model.ConfigSizes{}
	layers := c.Layers / c.GroupBlocks
	compare := func(exists bool, key string, size *int, limit int) {
		configured := f.Int(key) // read in any case, so that the key is not reported as unknown
		if exists {
			sizes.CompleteSize(key, configured, size, limit)
		}
	}
	compare(true, "hidden_size", &c.Hidden, maxSize)
	compare(true, "num_hidden_layers", &layers, maxLayers)
	compare(true, "vocab_size", &c.VocabRows, maxSize)
	compare(c.Widened, "embedding_size", &c.Embed, maxSize)
	compare(c.Types > 0, "type_vocab_size", &c.Types, maxSize)
	compare(!c.Joined, "intermediate_size", &c.MLP, maxSize)
	compare(c.Positions > 0, "max_position_embeddings", &c.Positions, maxLength)
	c.Notes = append(c.Notes, sizes.Notes...)
	f.Err = cmp.Or(f.Err, sizes.Err)
}

// checkConsistent returns an error for sizes that do not fit each other.
func (c *Config) checkConsistent() error {
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
	case c.Layers%c.GroupBlocks != 0 || c.Groups > c.Layers/c.GroupBlocks:
		return fmt.Errorf("config.json: num_hidden_groups is %d for %d layers of %d blocks, want at "+
			"most one a layer", c.Groups, c.Layers/c.GroupBlocks, c.GroupBlocks)
	}
	return nil
}

// readPositions reads the tables of positions and types; the first position is in row offset.
func (c *Config) readPositions(f *model.Values, set *weights.Set, positions, types string,
	offset int) {
	if t, ok := set.Get(positions); ok && len(t.Shape) == 2 {
		c.Positions = t.Shape[0]
	} else {
		f.Fail("tensor %q with 2 dimensions is missing", positions)
	}
	if t, ok := set.Get(types); ok && len(t.Shape) == 2 {
		c.Types = t.Shape[0]
	}
	c.Offset = offset
	c.Length = c.Positions - offset
	f.RequireValues(map[string]any{"position_embedding_type": "absolute"})
}

// readTied sets Tied: a decoder in the files counts, whatever config.json says, as in transformers.
func (c *Config) readTied(f *model.Values, set *weights.Set, decoder string) {
	_, hasDecoder := set.Get(decoder)
	c.Tied = !hasDecoder
	if tied := f.Bool("tie_word_embeddings", true); !tied && c.Tied {
		f.Fail("tie_word_embeddings is false, want true: %s is missing", decoder)
	}
}

// readBias reports whether a bias exists, and fails if a key of config.json says otherwise.
func readBias(f *model.Values, set *weights.Set, key, tensor string) bool {
	_, exists := set.Get(tensor)
	if configured := f.Bool(key, exists); configured != exists {
		f.Fail("%s is %v, want %v, as the tensors have", key, configured, exists)
	}
	return exists
}

// readBERT reads the config.json of google-bert/bert-*, of antiberty and their relatives.
func (c *Config) readBERT(f *model.Values, set *weights.Set) {
	const e = "bert.embeddings."
	c.readPositions(f, set, e+"position_embeddings.weight", e+"token_type_embeddings.weight", 0)
	c.readTied(f, set, "cls.predictions.decoder.weight")
	c.HeadActivation = c.Activation
}

// readRoBERTa reads the config.json of FacebookAI/roberta-*, and what convert writes for a
// checkpoint of fairseq such as sapiens. Positions begin after the padding's id.
func (c *Config) readRoBERTa(f *model.Values, set *weights.Set) {
	pad := f.BoundedInt("pad_token_id", 1, 0, 1<<20)
	if c.family.name == "roberta" {
		const e = "roberta.embeddings."
		c.readPositions(f, set, e+"position_embeddings.weight", e+"token_type_embeddings.weight", pad+1)
		c.readTied(f, set, "lm_head.decoder.weight")
		return
	}
	if !f.Has("layer_norm_eps") {
		c.Eps = 1e-5
	}
	c.readPositions(f, set, "sentence_encoder.embed_positions.weight", "", pad+1)
	c.readTied(f, set, "lm_head.weight")
	_, c.EmbedNorm = set.Get("sentence_encoder.emb_layer_norm.weight")
}

// readALBERT reads the config.json of albert/albert-*-v* and of rxnmapper.
func (c *Config) readALBERT(f *model.Values, set *weights.Set) {
	const e = "albert.embeddings."
	c.readPositions(f, set, e+"position_embeddings.weight", e+"token_type_embeddings.weight", 0)
	c.Groups = set.CountBlocks(c.family.blockPrefix)
	c.GroupBlocks = set.CountBlocks(c.family.blockPrefix + "0.albert_layers.")
	c.Layers = c.GroupBlocks * f.BoundedInt("num_hidden_layers", 12, 1, maxLayers)
	c.Widened = true
	c.HeadActivation = c.Activation
	if !f.Has("hidden_act") {
		c.Activation = backend.GELUTanh
		c.HeadActivation = backend.GELUTanh
	}
	c.readTied(f, set, "predictions.decoder.weight")
	checkSize(f, "num_hidden_groups", c.Groups)
	checkSize(f, "inner_group_num", c.GroupBlocks)
}

// checkSize requires a size of config.json to be that of the tensors.
func checkSize(f *model.Values, key string, want int) {
	if have := f.Int(key); have != nil && *have != want {
		f.Fail("%s is %d, want %d, as the tensors have", key, *have, want)
	}
}

// readESM reads the config.json of facebook/esm2_* and airkingbd/dplm_*.
func (c *Config) readESM(f *model.Values, set *weights.Set) {
	if kind := f.Text("position_embedding_type"); kind != "rotary" {
		f.Fail("position_embedding_type is %.40q, want rotary: this network computes no other",
			cmp.Or(kind, "absolute"))
	}
	if n := f.Int("vocab_size"); n != nil && *n == dplm2Vocab {
		f.Fail("vocab_size is %d: it is DPLM-2, which has tokens of structure beside residues",
			dplm2Vocab)
	}
	f.RequireValues(map[string]any{"emb_layer_norm_before": false, "is_folding_model": false})
	c.PreNorm = true
	c.EmbedNorm = false
	c.Activation = backend.GELUErf
	c.HeadActivation = backend.GELUErf // whatever hidden_act is
	c.Theta = readTheta(f, f.Object("rope_parameters"), "rope_theta", 10000)
	c.Length = f.BoundedInt("max_position_embeddings", 1026, 1, maxLength)
	c.TokenDropout = f.Bool("token_dropout", false)
	c.readTied(f, set, "lm_head.decoder.weight")
}

// readModernBERT reads the config.json of answerdotai/ModernBERT-* and
// dllm-hub/ModernBERT-*-chat-*.
func (c *Config) readModernBERT(f *model.Values, set *weights.Set) {
	c.PreNorm = true
	c.Gated = true
	c.Joined = true
	c.Unbiased = true
	c.MLP = c.MLP / 2
	c.Activation = readActivation(f, "hidden_activation")
	c.HeadActivation = readActivation(f, "classifier_activation")
	c.Eps = float32(f.PositiveNumber("norm_eps", 1e-5))
	c.NormBiased = readBias(f, set, "norm_bias", "model.final_norm.bias")
	c.HeadBiased = readBias(f, set, "classifier_bias", "head.dense.bias")
	c.DecoderBiased = readBias(f, set, "decoder_bias", "decoder.bias")
	f.RequireValues(map[string]any{"attention_bias": false, "mlp_bias": false})
	c.readTied(f, set, "decoder.weight")
	c.Length = f.BoundedInt("max_position_embeddings", 8192, 1, maxLength)
	parameters := f.Object("rope_parameters")
	if parameters.Has("rope_theta") {
		parameters.Fail("rope_parameters has a rope_theta of its own, want one of full_attention and " +
			"one of sliding_attention")
	}
	parametersOf := func(layerType string) *model.Values {
		object := parameters.Object(layerType)
		if parameters.Has(layerType) {
			return object
		}
		return parameters
	}
	c.Theta = readTheta(f, parametersOf("full_attention"), "global_rope_theta", 160000)
	c.LocalTheta = readTheta(f, parametersOf("sliding_attention"), "local_rope_theta", 10000)
	c.Window = f.BoundedInt("local_attention", 128, 2, maxLength) / 2
	globalStep := f.BoundedInt("global_attn_every_n_layers", 3, 1, maxLayers)
	var layerTypes []string
	f.Read("layer_types", &layerTypes, "a list of texts")
	if n := len(layerTypes); n > 0 && n != c.Layers {
		f.Fail("layer_types has %d layers, want %d, as the tensors have", n, c.Layers)
		return
	}
	for i := range c.Layers {
		c.Local = append(c.Local, globalStep > 0 && i%globalStep != 0)
	}
	for i, layerType := range layerTypes { // newer files list the layers
		c.Local[i] = layerType == "sliding_attention"
		if layerType != "full_attention" && !c.Local[i] {
			f.Fail("layer_types has %.40q, want full_attention or sliding_attention", layerType)
		}
	}
}

// readESMC reads the config.json of biohub/ESMC-*, in the form of the hub or of transformers.
func (c *Config) readESMC(f *model.Values, set *weights.Set) {
	f.RequireValues(map[string]any{"hidden_act": "silu", "tie_word_embeddings": false,
		"attention_bias": false, "mlp_bias": false})
	c.PreNorm = true
	c.EmbedNorm = false
	c.Gated = true
	c.Unbiased = true
	c.QKNorm = true
	c.FinalUnbiased = true
	if c.family.names["gated"] != "" {
		c.Joined = true
		c.MLP /= 2
	}
	c.Activation = backend.SiLU
	c.HeadActivation = backend.GELUErf
	c.Eps = float32(f.PositiveNumber("layer_norm_eps", 1e-5))
	c.Theta = readTheta(f, f.Object("rope_parameters"), "rope_theta", 10000)
	c.Length = f.BoundedInt("max_position_embeddings", 2048, 1, maxLength)
	c.BranchScale = 1 / math.Sqrt(float64(c.Layers)/36) // esm/layers/transformer_stack.py
	checkSize(f, "num_key_value_heads", c.Heads)
	if c.Heads > 0 {
		checkSize(f, "head_dim", c.Hidden/c.Heads)
	}
}

// dplm2Vocab is the vocabulary of DPLM-2: 33 tokens of ESM-2, 8192 of structure and 4 more.
const dplm2Vocab = 8229

// describeSizes returns the sizes that model.Info shows.
func (c *Config) describeSizes() map[string]int {
	return map[string]int{
		"hidden":     c.Hidden,
		"embedding":  c.Embed,
		"blocks":     c.Layers,
		"heads":      c.Heads,
		"mlp":        c.MLP,
		"vocabulary": c.VocabRows,
		"length":     c.Length,
		"mask":       int(c.Mask),
	}
}

// publishedRecipe returns the published run of a model: BERT-Chat's of 128 steps in blocks of 32;
// GenMol's of a molecule from nothing; DPLM's of 500 steps (generate.py of the authors). The other
// encoders were published without one.
// DPLM is a network of ESM-2's form: config.json names DPLM's class or, where it names ESM-2's,
// only the repository's name tells the two apart.
func (c *Config) publishedRecipe(src *model.Source) string {
	const run = "dplm steps=500"
	switch {
	case c.Chat:
		return "semi-ar(low-confidence) schedule=dllm steps=128"
	case c.family.name == genmol:
		return c.genmolPresets()["de-novo"]
	case c.family.name != "esm":
		return ""
	case src.KindOverride == dplm || src.KindOverride == "" && src.Facts().Mentions("DPLM"):
		return run
	case src.KindOverride == "" && strings.Contains(strings.ToLower(src.Repo), dplm):
		src.KindOverride = dplm
		return run
	case src.KindOverride == "" && src.Repo == "":
		c.Notes = append(c.Notes, "config.json does not tell DPLM from ESM-2, only the repository's name "+
			"does, which is not known: read as esm (--as dplm for the other)")
	}
	return ""
}
