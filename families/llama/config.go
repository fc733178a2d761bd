package llama

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"unmask/model"
	"unmask/weights"
)

// Config is the network's sizes and what distinguishes the descendants of Llama.
type Config struct {
	Hidden        int // width of the residual stream
	Layers        int // transformer blocks
	Heads         int // query heads
	KVHeads       int // key and value heads; each serves Heads/KVHeads query heads
	HeadDim       int // numbers of a head
	MLP           int // width inside the MLPs
	Vocab         int // outcomes, including the mask
	EmbeddingRows int // rows of the embedding and the head: Vocab and padding
	Length        int // positions

	Theta  float64 // base of the rotary frequencies
	Rotary int     // numbers of a head that are rotated, the first ones
	Rope   Rope
	Eps    float32 // of the norms

	QKVBias   bool // queries, keys and values have biases (Qwen2)
	QKNorm    bool // each query and key head has a norm (Qwen3)
	JoinedQKV bool // queries, keys and values are one tensor (LLaDA2)
	Tied      bool // the head's weight is the embedding
	Shift     bool // row i predicts position i+1

	// Block is the number of positions of a block. Rows see their own block and those before it; with
	// 0 they see all positions.
	Block int

	// Blocks says where the first block begins, see model.Blocks.
	Blocks model.Blocks

	// Causal says how final tokens go through the network.
	Causal model.Causal

	// Growth has the tokens of holes that grow, which only DreamOn has.
	Growth *model.Growth

	// Before and After are the tokens around every text, and Tail those behind what is filled, see
	// model.Spec.
	Before, After []int32
	Tail          []int32

	Mask      int32
	EndTokens []int32 // tokens that end a text
	Pad       []int32 // pad_token_id of config.json

	// Conv says which layers are short convolutions instead of attention [layers]; nil for none.
	Conv []bool

	// MoE is nil for dense MLPs.
	MoE *Experts

	// Recipe is the published run.
	Recipe string

	// Revision is model.Loaded.Revision.
	Revision string

	// Notes say what config.json leaves open, and which of its keys nothing reads.
	Notes []string

	kind *kind
}

// Limits of config.json.
const (
	maxSize   = 1 << 20 // largest dimension
	maxLayers = 1 << 10 // most transformer blocks
	maxLength = 1 << 20 // most positions
)

// file is a config.json whose values are read by key.
type file struct {
	// Values has the tokens of generation_config.json too, where config.json has none.
	model.Values

	src   *model.Source
	facts model.Facts
	kind  *kind

	// generation is generation_config.json, by key.
	generation map[string]json.RawMessage
}

// listIDs reads an id or a list of ids.
func (f *file) listIDs(key string) []int32 {
	if !f.Has(key) {
		return nil
	}
	var list []int32
	var id int32
	if json.Unmarshal(f.Keys[key], &id) == nil {
		list = []int32{id}
	} else {
		f.Read(key, &list, "an id or a list of ids")
	}
	return list
}

// readIDs reads an id or a list of ids below rows, the number of tokens.
func (f *file) readIDs(key string, rows int) []int32 {
	list := f.listIDs(key)
	for _, id := range list {
		if id < 0 || int(id) >= rows {
			f.Fail("%s is %d, want 0 to %d", key, id, rows-1)
		}
	}
	return list
}

// readEndTokens reads the tokens that end a text: those of config.json, and then those that
// generation_config.json adds. Chat models name their end of turn only in the second file.
func (f *file) readEndTokens(rows int) []int32 {
	const key = "eos_token_id"
	generation := &file{Values: model.Values{Path: "generation_config.json", Keys: f.generation}}
	endTokens := f.readIDs(key, rows)
	for _, id := range generation.readIDs(key, rows) {
		if !slices.Contains(endTokens, id) {
			endTokens = append(endTokens, id)
		}
	}
	f.Err = cmp.Or(f.Err, generation.Err)
	return endTokens
}

// openConfig decodes config.json and adds the tokens of generation_config.json.
func openConfig(src *model.Source) *file {
	f := &file{src: src, facts: src.Facts(), Values: *src.ConfigValues()}
	if f.Err != nil {
		return f
	}
	if src.Files != nil {
		f.addGenerationTokens()
	}
	f.liftRopeKeys()
	return f
}

// addGenerationTokens reads generation_config.json, if there is one, and takes from it the tokens
// that config.json does not name.
func (f *file) addGenerationTokens() {
	data, err := model.ReadFile(f.src.Files, "generation_config.json", 1<<20)
	if err != nil || json.Unmarshal(data, &f.generation) != nil {
		return
	}
	for key, value := range f.generation {
		if strings.HasSuffix(key, "_token_id") && !f.Has(key) {
			f.Keys[key] = value
		}
	}
}

// liftRopeKeys takes the rotary keys from the object that later versions of transformers have them
// in: rope_parameters, or rope_scaling if that has any. They count more than the same keys outside
// it. Afterwards rope_scaling is that object if it scales, and is absent otherwise.
func (f *file) liftRopeKeys() {
	const key, newerKey = "rope_scaling", "rope_parameters"
	if string(f.Keys[key]) == "false" { // RND1's word for null
		delete(f.Keys, key)
	}
	name := key
	object := f.Object(key)
	if len(object.Keys) == 0 {
		name = newerKey
		object = f.Object(newerKey)
		f.Keys[key] = f.Keys[newerKey]
	}
	for _, inner := range slices.Sorted(maps.Keys(object.Keys)) {
		if !object.Has(inner) {
			continue
		}
		if inner == "rope_theta" || inner == "partial_rotary_factor" {
			f.Keys[inner] = object.Keys[inner]
		} else if !slices.Contains(ropeKeys, inner) {
			f.Fail("%s.%s is %s, want null", name, inner, object.Excerpt(inner))
		}
	}
	if scaling := ropeType(object); scaling == "" || scaling == "default" {
		delete(f.Keys, key)
	}
}

// embeddingRows returns the first dimension of the embedding, which is padded in some files, or
// fallback where there is no such tensor.
func embeddingRows(set *weights.Set, name string, fallback int) int {
	if t, ok := set.Get(name); ok && len(t.Shape) == 2 {
		return t.Shape[0]
	}
	return fallback
}

// readConfig reads the sizes for the model's family.
func readConfig(src *model.Source) (c Config, err error) {
	f := openConfig(src)
	if f.Err != nil {
		return c, f.Err
	}
	f.recogniseKind()
	if f.Err != nil {
		return c, f.Err
	}
	k := f.kind

	readSizes := k.readConfig
	if readSizes == nil {
		readSizes = (*file).readQwen
	}
	c = readSizes(f, src.Set)
	if c.MoE != nil && !slices.Contains(c.MoE.Dense, false) {
		c.MoE = nil // no block has experts
	} else if c.MoE != nil && !slices.Contains(c.MoE.Dense, true) {
		c.MLP = c.MoE.MLP // no block has another MLP
	}

	c.kind = k
	c.Blocks = k.blocks
	c.Shift = c.Shift || k.shifted
	if k.blockKey != "" {
		c.Block = f.BoundedInt(k.blockKey, k.defaultBlock, 1, maxLength)
	} else if k.defaultBlock > 0 {
		c.Block = k.defaultBlock
	}

	c.Mask = f.readMask(c)
	c.EndTokens = f.readEndTokens(c.Vocab)
	c.Pad = f.listIDs("pad_token_id")
	if k.endToken > 0 && len(c.EndTokens) == 0 && int(k.endToken) < c.Vocab {
		c.EndTokens = []int32{k.endToken}
	}
	if id, ok := f.findToken(k.endText, c.Vocab); ok && !slices.Contains(c.EndTokens, id) {
		c.EndTokens = append(c.EndTokens, id)
	}

	c.Growth = f.readGrowth(c)
	if c.Growth != nil {
		c.Before = f.beginTokens(c)
		c.After = []int32{c.Growth.Delete}
	}

	if k.padsTail {
		c.Tail = f.readTail(c.Vocab)
	}

	c.Recipe = c.defaultRecipe()
	f.checkConsistent(c)
	c.Notes = f.listNotes()
	return c, f.Err
}

// readTail returns the padding token behind a text, of a kind that has one there: that of
// generation_config.json, else of config.json, else the kind's, or token 0 where the vocabulary
// does not have that one.
func (f *file) readTail(rows int) []int32 {
	const key = "pad_token_id"
	generation := &file{Values: model.Values{Path: "generation_config.json", Keys: f.generation}}
	ids := generation.readIDs(key, rows)
	f.Err = cmp.Or(f.Err, generation.Err)
	if len(ids) == 0 {
		ids = f.readIDs(key, rows)
	}
	switch {
	case len(ids) > 0:
		return ids[:1]
	case int(f.kind.padID) < rows:
		return []int32{f.kind.padID}
	}
	return []int32{0}
}

// findToken returns the id of a token of the vocabulary by its text. It looks into the small files
// first, and parses the tokenizer only if its file mentions the text, because that takes seconds.
func (f *file) findToken(text string, rows int) (int32, bool) {
	if text == "" || f.src.Files == nil {
		return 0, false
	}
	for _, name := range []string{"tokenizer_config.json", "added_tokens.json"} {
		data, err := model.ReadFile(f.src.Files, name, 1<<24)
		if err != nil {
			continue
		}

		// tokenizer_config.json has tokens by id
		var config struct {
			Added map[string]struct {
				Content string `json:"content"`
			} `json:"added_tokens_decoder"`
		}
		_ = json.Unmarshal(data, &config) // a file of another form has none
		for number, token := range config.Added {
			id, err := strconv.Atoi(number)
			if err == nil && token.Content == text && id >= 0 && id < rows {
				return int32(id), true
			}
		}

		// added_tokens.json has ids by token
		var ids map[string]int32
		if json.Unmarshal(data, &ids) == nil && ids[text] > 0 && int(ids[text]) < rows {
			return ids[text], true
		}
	}

	if !filesMention(f.src.Files, text) {
		return 0, false
	}
	tokenizer, _, err := f.src.StartTokenizer("")()
	if err != nil {
		return 0, false
	}
	ids, err := tokenizer.EncodeSpecial(text)
	if err != nil || len(ids) != 1 || int(ids[0]) >= rows {
		return 0, false
	}
	return ids[0], true
}

// readMask reads the mask's id from config.json or generation_config.json. If both lack it, it is
// the token that the tokenizer's files name as the mask, or else the kind's.
func (f *file) readMask(c Config) int32 {
	if list := f.readIDs("mask_token_id", c.Vocab); len(list) > 0 {
		return list[0]
	}
	for _, text := range []string{f.specialToken("mask_token"), f.kind.maskText} {
		if id, ok := f.findToken(text, c.Vocab); ok {
			return id
		}
	}
	if id := f.kind.maskID; id > 0 && int(id) < c.Vocab {
		return id
	}
	f.Fail("mask_token_id is missing, want 0 to %d", c.Vocab-1)
	return 0
}

// specialToken returns the text of a special token in tokenizer_config.json, "" if it has none. The
// file has the text, or an object with it.
func (f *file) specialToken(key string) string {
	if f.src.Files == nil {
		return ""
	}
	var values map[string]json.RawMessage
	data, err := model.ReadFile(f.src.Files, "tokenizer_config.json", 1<<24)
	if err != nil || json.Unmarshal(data, &values) != nil {
		return ""
	}
	var token struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(values[key], &token.Content) != nil {
		_ = json.Unmarshal(values[key], &token)
	}
	return token.Content
}

// checkConsistent fails for sizes that do not fit each other.
func (f *file) checkConsistent(c Config) {
	switch {
	case f.Err != nil:
	case c.Heads%c.KVHeads != 0:
		f.Fail("%d key heads for %d query heads, want a divisor", c.KVHeads, c.Heads)
	case c.HeadDim%2 != 0:
		f.Fail("heads have %d numbers, want an even number", c.HeadDim)
	case c.Rotary < 2 || c.Rotary > c.HeadDim || c.Rotary%2 != 0:
		f.Fail("%d of the %d numbers of a head turn, want an even number of them", c.Rotary, c.HeadDim)
	case c.Block&(c.Block-1) != 0:
		f.Fail("blocks have %d positions, want a power of two", c.Block)
	case c.Vocab > c.EmbeddingRows:
		f.Fail("vocab_size is %d, want at most the %d rows of the embedding", c.Vocab, c.EmbeddingRows)
	}
}
