package tokenizers

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Roles are the names that a model's files have for tokens with a meaning.
var Roles = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token",
	"mask_token"}

// classRoles are the tokens that a tokenizer_class has for roles that its files leave out
// (transformers 5.24, __init__ of the class).
var classRoles = map[string]map[string]string{
	"GPT2Tokenizer":  {"bos_token": EndOfText, "eos_token": EndOfText, "unk_token": EndOfText},
	"Qwen2Tokenizer": {"eos_token": EndOfText, "pad_token": EndOfText, "unk_token": EndOfText},
	"CLIPTokenizer": {
		"bos_token": "<|startoftext|>",
		"eos_token": EndOfText,
		"pad_token": EndOfText,
		"unk_token": EndOfText,
	},
	"RobertaTokenizer": {
		"bos_token":  "<s>",
		"eos_token":  "</s>",
		"sep_token":  "</s>",
		"cls_token":  "<s>",
		"unk_token":  "<unk>",
		"pad_token":  "<pad>",
		"mask_token": "<mask>",
	},
	"BertTokenizer": {
		"unk_token":  "[UNK]",
		"sep_token":  "[SEP]",
		"pad_token":  "[PAD]",
		"cls_token":  "[CLS]",
		"mask_token": "[MASK]",
	},
	"AlbertTokenizer": {
		"bos_token":  "[CLS]",
		"eos_token":  "[SEP]",
		"unk_token":  "<unk>",
		"sep_token":  "[SEP]",
		"pad_token":  "<pad>",
		"cls_token":  "[CLS]",
		"mask_token": "[MASK]",
	},
	"EsmTokenizer": {
		"unk_token":  "<unk>",
		"cls_token":  "<cls>",
		"pad_token":  "<pad>",
		"mask_token": "<mask>",
		"eos_token":  "<eos>",
	},
}

// ReadRoles returns the text of each role that a model's folder names: in tokenizer_config.json, in
// special_tokens_map.json, or by the tokenizer_class. As in transformers, the second file counts
// more than the first, and not at all where that has added_tokens_decoder. A role that is null is
// left out. An error names the file, which may be missing.
func ReadRoles(files fs.FS) (map[string]string, error) {
	config, err := ReadConfig(files, "tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	return readRoles(files, config, object(config).tokenizerClass())
}

// readRoles returns the texts of special tokens by role: those of the class, over which config goes
// and, where that is of an old format, special_tokens_map.json.
func readRoles(files fs.FS, config object, class string) (map[string]string, error) {
	sources := []object{config}
	if _, ok := config["added_tokens_decoder"]; !ok {
		legacy, err := ReadConfig(files, "special_tokens_map.json")
		if err != nil {
			return nil, err
		}
		sources = append(sources, legacy)
	}
	out := maps.Clone(classRoles[class])
	if out == nil {
		out = map[string]string{}
	}
	for _, role := range Roles {
		for _, source := range sources {
			raw, ok := source[role]
			if !ok {
				continue
			}
			text, err := readTokenText(role, raw)
			if err != nil {
				return nil, err
			}
			out[role] = text
		}
		if out[role] == "" {
			delete(out, role)
		}
	}
	return out, nil
}

// tokenizerClass returns the tokenizer_class of tokenizer_config.json, without the suffix of
// classes that use tokenizer.json; "" if it is missing.
func (o object) tokenizerClass() string {
	var class string
	_ = json.Unmarshal(o["tokenizer_class"], &class)
	return strings.TrimSuffix(class, "Fast")
}

// readTokenText reads a token: a text or an object with its content; "" for null.
func readTokenText(name string, raw json.RawMessage) (string, error) {
	var text *string
	var token struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(raw, &text) != nil {
		return token.Content, describeError(name, json.Unmarshal(raw, &token))
	}
	if text == nil {
		return "", nil
	}
	return *text, nil
}

// Role returns the token that the files of t's model name for a role, such as "eos_token".
func Role(t Tokenizer, role string) (id int32, ok bool) {
	if v, isVocabulary := WithoutMask(t).(*vocabulary); isVocabulary {
		id, ok = v.facts.roles[role]
	}
	return id, ok
}

// SurroundingTokens returns the tokens that t's files put before and after one text, as
// transformers' AutoTokenizer does: those of the post_processor in tokenizer.json or, without that
// file, of the tokenizer's class, which may look at add_bos_token and add_eos_token. Most
// tokenizers of models that generate text have none. Encode does not add them, because a chat
// template or the continuation of a prompt has its own.
func SurroundingTokens(t Tokenizer) (tokensBefore, tokensAfter []int32) {
	if v, ok := WithoutMask(t).(*vocabulary); ok {
		tokensBefore = slices.Clone(v.facts.before)
		tokensAfter = slices.Clone(v.facts.after)
	}
	return tokensBefore, tokensAfter
}

// WithoutMask returns the tokenizer below those of WithMask, which has the mask's own text.
func WithoutMask(t Tokenizer) Tokenizer {
	if m, ok := t.(*masked); ok {
		return WithoutMask(m.Tokenizer)
	}
	return t
}

// fileFacts are what a tokenizer's files say besides its vocabulary.
type fileFacts struct {
	surrounding
	roles map[string]int32
}

// setRoles stores the ids of roles whose tokens v has. They are special tokens.
func (v *vocabulary) setRoles(roles map[string]string) error {
	v.facts.roles = map[string]int32{}
	list := v.addedList
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		text := roles[role]
		id := int32(slices.Index(v.tokens, text))
		if a, ok := v.addedByText[text]; ok {
			id = a.id
		}
		if id < 0 {
			continue
		}
		v.facts.roles[role] = id
		i := slices.IndexFunc(list, func(a addedToken) bool { return a.id == id })
		if i >= 0 {
			list[i].special = true
		} else {
			list = append(list, addedToken{text: text, id: id, special: true})
		}
	}
	v.normalizesApart = false
	err := v.setAdded(list)
	v.model.forbid(v.specialIDs)
	return err
}

// setSurrounding stores what a class puts around a text where no tokenizer.json says it.
func (v *vocabulary) setSurrounding(class string, config object) error {
	var firstRole, lastRole string
	switch class {
	case "BertTokenizer", "RobertaTokenizer", "AlbertTokenizer":
		firstRole = "cls_token"
		lastRole = "sep_token"
	case "EsmTokenizer":
		firstRole = "cls_token"
		lastRole = "eos_token"
	default:
		addBos := false
		addEos := false
		if err := config.get("add_bos_token", &addBos); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
		if err := config.get("add_eos_token", &addEos); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
		if addBos {
			firstRole = "bos_token"
		}
		if addEos {
			lastRole = "eos_token"
		}
	}
	v.facts.surrounding = surrounding{}
	if id, ok := v.facts.roles[firstRole]; ok {
		v.facts.before = []int32{id}
	}
	if id, ok := v.facts.roles[lastRole]; ok {
		v.facts.after = []int32{id}
	}
	return nil
}
