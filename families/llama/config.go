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
	Hidden, Layers          int
	Heads, KVHeads, HeadDim int // KV: number of key and value heads
	MLP                     int // width inside the MLPs
	Vocab                   int // outcomes, including the mask
	EmbeddingRows           int // rows of the embedding and the head: Vocab and padding
	Length                  int // positions

	Theta  float64 // base of the rotary frequencies
	Rotary int     // numbers of a head that are rotated, the first ones
	Rope   Rope
	Eps    float32

	QKVBias   bool // queries, keys and values have biases (Qwen2)
	QKNorm    bool // each query and key head has a norm (Qwen3)
	Tied      bool // the head's weight is the embedding
	JoinedQKV bool // queries, keys and values are one tensor (LLaDA2)
	Shift     bool // row i predicts position i+1
	// positions of a block; rows see their own block and those before it; 0: rows see all
	Block  int
	Blocks model.Blocks
	Causal model.Causal  // how final tokens go through the network
	Growth *model.Growth // DreamOn's
	// tokens around every text, see model.Spec
	Before, After []int32

	Mask      int32
	EndTokens []int32
	MoE       *Experts // nil: dense MLPs

	kind   *kind
	Recipe string // the published run
	Notes  []string
}

// Limits of config.json.
const (
	maxSize   = 1 << 20 // of any dimension
	maxLayers = 1 << 10
	maxLength = 1 << 20
)

// file is a config.json whose values are read by key.
type file struct {
	model.Values // generation_config.json's tokens too, where config.json has none

	src        *model.Source
	facts      model.Facts
	kind       *kind
	generation map[string]json.RawMessage // generation_config.json's
}

// readIDs reads an id or a list of ids.
func (f *file) readIDs(key string, rows int) []int32 {
	var list []int32
	if !f.Has(key) {
		return nil
	}
	var one int32
	if json.Unmarshal(f.Keys[key], &one) == nil {
		list = []int32{one}
	} else {
		f.Read(key, &list, "an id or a list of ids")
	}
	for _, id := range list {
		if id < 0 || int(id) >= rows {
			f.Fail("%s is %d, want 0 to %d", key, id, rows-1)
		}
	}
	return list
}

// readEndTokens reads the tokens that end a text: those of config.json, and then those that
// generation_config.json adds.
func (f *file) readEndTokens(rows int) []int32 {
	const key = "eos_token_id"
	more := &file{Values: model.Values{Path: "generation_config.json", Keys: f.generation}}
	ends := f.readIDs(key, rows)
	for _, id := range more.readIDs(key, rows) {
		if !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	f.Err = cmp.Or(f.Err, more.Err)
	return ends
}

// openConfig decodes config.json and adds the tokens of generation_config.json.
func openConfig(src *model.Source) *file {
	f := &file{src: src, facts: src.Facts(), Values: *src.ConfigValues()}
	if f.Err != nil {
		return f
	}
	if src.Files != nil {
		data, err := model.ReadFile(src.Files, "generation_config.json", 1<<20)
		if err == nil && json.Unmarshal(data, &f.generation) == nil {
			for key, v := range f.generation {
				if strings.HasSuffix(key, "_token_id") && !f.Has(key) {
					f.Keys[key] = v
				}
			}
		}
	}
	f.liftRopeKeys()
	return f
}

// liftRopeKeys takes the rotary keys from the object that later versions of transformers have them
// in: rope_parameters, or rope_scaling if that has any. They count more than the same keys outside
// it. rope_scaling becomes the object if it scales, otherwise nothing.
func (f *file) liftRopeKeys() {
	const key, newer = "rope_scaling", "rope_parameters"
	if string(f.Keys[key]) == "false" { // RND1's word for null
		delete(f.Keys, key)
	}
	name := key
	s := f.Object(key)
	if len(s.Keys) == 0 {
		name = newer
		s = f.Object(newer)
		f.Keys[key] = f.Keys[newer]
	}
	for _, at := range slices.Sorted(maps.Keys(s.Keys)) {
		if !s.Has(at) {
			continue
		}
		if at == "rope_theta" || at == "partial_rotary_factor" {
			f.Keys[at] = s.Keys[at]
		} else if !slices.Contains(ropeKeys, at) {
			f.Fail("%s.%s is %s, want null", name, at, s.Excerpt(at))
		}
	}
	if kind := ropeType(s); kind == "" || kind == "default" {
		delete(f.Keys, key)
	}
}

// embeddingRows returns the first dimension of a tensor, which shows the embedding's padding.
func embeddingRows(set *weights.Set, name string, otherwise int) int {
	if t, ok := set.Get(name); ok && len(t.Shape) == 2 {
		return t.Shape[0]
	}
	return otherwise
}

// readConfig reads the sizes for the model's family.
func readConfig(src *model.Source) (c Config, err error) {
	f := openConfig(src)
	if f.Err != nil {
		return c, f.Err
	}
	if f.recogniseKind(); f.Err != nil {
		return c, f.Err
	}
	k := f.kind
	read := k.readConfig
	if read == nil {
		read = (*file).readQwen
	}
	c = read(f, src.Set)
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
	if k.endToken > 0 && len(c.EndTokens) == 0 && int(k.endToken) < c.Vocab {
		c.EndTokens = []int32{k.endToken}
	}
	if id, ok := f.findToken(k.endText, c.Vocab); ok && !slices.Contains(c.EndTokens, id) {
		c.EndTokens = append(c.EndTokens, id)
	}
	if c.Growth = f.readGrowth(c); c.Growth != nil {
		c.Before = f.beginTokens(c)
		c.After = []int32{c.Growth.Delete}
	}
	c.Recipe = c.defaultRecipe()
	f.checkConsistent(c)
	c.Notes = f.listNotes()
	return c, f.Err
}

// findToken returns the id of a token of the vocabulary by its spelling.
func (f *file) findToken(spelling string, rows int) (int32, bool) {
	if spelling == "" || f.src.Files == nil {
		return 0, false
	}
	for _, name := range []string{"tokenizer_config.json", "added_tokens.json"} {
		var t struct {
			Added map[string]struct {
				Content string `json:"content"`
			} `json:"added_tokens_decoder"`
		}
		data, err := model.ReadFile(f.src.Files, name, 1<<24)
		if err != nil {
			continue
		}
		_ = json.Unmarshal(data, &t) // of another form: the other files say it
		for number, token := range t.Added {
			id, err := strconv.Atoi(number)
			if err == nil && token.Content == spelling && id >= 0 && id < rows {
				return int32(id), true
			}
		}
		var ids map[string]int32
		if json.Unmarshal(data, &ids) == nil && ids[spelling] > 0 && int(ids[spelling]) < rows {
			return ids[spelling], true
		}
	}
	if !filesMention(f.src.Files, spelling) {
		return 0, false
	}
	t, _, err := f.src.StartTokenizer("")()
	if err != nil {
		return 0, false
	}
	ids, err := t.EncodeSpecial(spelling)
	if err != nil || len(ids) != 1 || int(ids[0]) >= rows {
		return 0, false
	}
	return ids[0], true
}

// readMask reads the mask's id from config.json or generation_config.json; if both lack it, it is
// the token that the tokenizer's files name as the mask, or the kind's.
func (f *file) readMask(c Config) int32 {
	if list := f.readIDs("mask_token_id", c.Vocab); len(list) > 0 {
		return list[0]
	}
	for _, spelling := range []string{f.specialToken("mask_token"), f.kind.maskText} {
		if id, ok := f.findToken(spelling, c.Vocab); ok {
			return id
		}
	}
	if id := f.kind.maskID; id > 0 && int(id) < c.Vocab {
		return id
	}
	f.Fail("mask_token_id is missing, want 0 to %d", c.Vocab-1)
	return 0
}

// specialToken returns the spelling of a special token in tokenizer_config.json, "" if it has none.
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
