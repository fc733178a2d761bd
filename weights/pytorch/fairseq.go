package pytorch

import (
	"fmt"
	"path/filepath"
	"strings"
)

// fairseqAnchor is a tensor of fairseq's RoBERTa.
const fairseqAnchor = "sentence_encoder.embed_tokens.weight"

// fairseqFile is the config.json of a RoBERTa of fairseq, in transformers' words. Its sizes are
// those of the tensors.
type fairseqFile struct {
	ModelType string  `json:"model_type"`
	Hidden    int     `json:"hidden_size"`
	Layers    int     `json:"num_hidden_layers"`
	Heads     int     `json:"num_attention_heads"`
	MLP       int     `json:"intermediate_size"`
	Act       string  `json:"hidden_act"`
	Eps       float64 `json:"layer_norm_eps"`
	Positions int     `json:"max_position_embeddings"`
	Vocab     int     `json:"vocab_size"`
	Pad       int     `json:"pad_token_id"`
}

func fairseqConfig(s *shapes, args map[string]any, o Options) (any, error) {
	f := fairseqFile{ModelType: "roberta", Hidden: s.dim(fairseqAnchor, 1),
		Vocab: s.dim(fairseqAnchor, 0), Layers: s.count("sentence_encoder.layers.", ".fc1.weight"),
		MLP: s.dim("sentence_encoder.layers.0.fc1.weight", 0), Eps: 1e-5, Pad: 1, Act: "gelu",
		Positions: s.dim("sentence_encoder.embed_positions.weight", 0)}
	if act, ok := args["activation_fn"].(string); ok {
		f.Act = act
	}
	heads, _ := args["encoder_attention_heads"].(int64)
	if f.Heads = o.Heads; f.Heads == 0 && heads > 0 && heads < 1<<20 {
		f.Heads = int(heads)
	}
	if s.err != nil {
		return nil, s.err
	}
	return f, checkHeads("encoder", f.Hidden, f.Heads)
}

// fairseqVocabulary returns the vocab.txt of a dict.txt beside the checkpoint: fairseq puts four
// special tokens before its words and the mask after them (fairseq/data/dictionary.py,
// tasks/masked_lm.py). Without a dict.txt there is none.
func fairseqVocabulary(src string, rows int) (map[string][]byte, error) {
	name := filepath.Join(filepath.Dir(src), "dict.txt")
	data, err := readSmall(name)
	if err != nil {
		return nil, fmt.Errorf("%w, want the dictionary beside the checkpoint", err)
	}
	words := []string{"<s>", "<pad>", "</s>", "<unk>"}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		end := strings.LastIndexByte(line, ' ')
		if end < 1 {
			return nil, fmt.Errorf("%s: line %d is %.40q, want a word and its count", name,
				len(words)-3, line)
		}
		words = append(words, line[:end])
	}
	words = append(words, "<mask>")
	if len(words) != rows {
		return nil, fmt.Errorf("%s has %d words, want %d: the head has %d rows, 5 for special tokens",
			name, len(words)-5, rows-5, rows)
	}
	return map[string][]byte{"vocab.txt": []byte(strings.Join(words, "\n") + "\n")}, nil
}
