package pytorch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/weights"
)

// Options of Convert.
type Options struct {
	// Heads and DecoderHeads are the numbers of attention heads if neither the tensors nor the
	// saved settings show them; 0 means that these do.
	Heads        int
	DecoderHeads int

	// Grid is the number of codes along a side for an image tokenizer that does not show it; 0
	// means 16, or 32 for LlamaGen's tokenizer of 8x8 pixels per code.
	Grid int

	// Weights is the set of weights to take from a checkpoint that has two, one of WeightSets; ""
	// means the averaged ones. Where a checkpoint has one set, AveragedWeights is refused.
	Weights string

	// Overwrite replaces an existing model in the folder.
	Overwrite bool

	// Logf, if not nil, is called with a line about what is left out: NumPy arrays, tensors that no
	// dictionary or list holds, and the set of weights that was not taken.
	Logf func(format string, args ...any)
}

// Limits on all tensors of a checkpoint together: views of one storage are each written in full,
// and expanded ones have more elements than the storage.
const (
	maxShared   = 8         // times the file's size
	maxExpanded = 256 << 20 // further bytes
)

// Convert writes the model in src to dir as model.safetensors and config.json; element types are
// kept. Tensors are streamed, so memory does not grow with the model. Each file appears whole or
// not at all, config.json last.
//
// src is a PyTorch checkpoint, or a folder of transformers with config.json and pytorch_model.bin
// or its shards; weights.CompanionFiles are copied. MAGE, SDTT or MDLM, PGM, Halton-MaskGIT,
// LlamaGen's tokenizer, fairseq's RoBERTa, ESM-C and GenMol are recognised by their tensors, which
// also give the sizes; any other checkpoint needs a config.json beside it. The state of an
// optimiser is left out. Of a file with averaged weights too, Options.Weights says which are taken,
// and config.json what was.
func Convert(ctx context.Context, src, dir string, o Options) error {
	if info, err := os.Stat(src); err == nil && info.IsDir() {
		return convertFolder(ctx, src, dir, o)
	}
	c, err := Open(src)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.writeConverted(ctx, src, dir, o); err != nil {
		return fmt.Errorf("%s: %w", src, err)
	}
	return nil
}

// writeConverted writes the model of a checkpoint file. src is the file's path.
func (c *Checkpoint) writeConverted(ctx context.Context, src, dir string, o Options) error {
	used, err := c.selectWeights(o.Weights, o.say)
	if err != nil {
		return err
	}
	config, companions, err := c.describe(src, o)
	if err != nil && len(c.arrays) > 0 {
		// The arrays may be what keeps the network from being recognised.
		return fmt.Errorf("%w; %s", err, describeArrays(c.arrays))
	}
	if err != nil {
		return err
	}
	return c.write(ctx, dir, o, recordWeights(config, used), companions)
}

// say reports a line to the caller, if it wants any.
func (o Options) say(format string, args ...any) {
	if o.Logf != nil {
		o.Logf(format, args...)
	}
}

// describe returns config.json and the files to write with it: derived from the checkpoint, or
// those that are beside it.
func (c *Checkpoint) describe(src string, o Options) (config []byte, companions map[string][]byte,
	err error) {
	derived, err := c.deriveConfig(o)
	if errors.Is(err, errUnknown) {
		folder := filepath.Dir(src)
		config, missing := readJSON(filepath.Join(folder, configFile))
		if missing == nil {
			companions, err = readCompanions(folder)
			return config, companions, err
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if derived["model_type"] == "genmol" { // its tokenizer is another repository's
		const name = "tokenizer.json"
		data, err := atomicfile.ReadBounded(filepath.Join(filepath.Dir(src), name), maxCompanion)
		if err == nil {
			companions = map[string][]byte{name: data}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	if derived["model_type"] == "roberta" {
		companions, err = fairseqVocabulary(src, derived["vocab_size"].(int))
		if err != nil {
			return nil, nil, err
		}
	}
	config, err = json.MarshalIndent(derived, "", " ")
	return append(config, '\n'), companions, err
}

// listStreams returns the tensors to be written, within the limits.
func (c *Checkpoint) listStreams(ctx context.Context) (streams []weights.Stream, err error) {
	var total int64
	for _, t := range c.tensors {
		if c.isTiedCopy(t) {
			continue
		}
		total += int64(t.Numel()) * int64(elementSize(t.DType))
		if total < 0 || total > maxShared*c.size+maxExpanded {
			return nil, errTooLarge(c.size)
		}
		streams = append(streams, weights.Stream{
			Name:  t.Name,
			DType: t.DType,
			Shape: t.Shape,
			Open: func() (io.ReadCloser, error) {
				r, err := t.Open()
				return cancellableReader{ctx, r}, err
			},
		})
	}
	return streams, nil
}

// errTooLarge is the error of a checkpoint of size bytes whose tensors have many more.
func errTooLarge(size int64) error {
	return fmt.Errorf("the tensors have more than %d times the file's %d bytes, and %d more",
		maxShared, size, maxExpanded)
}

// cancellableReader ends when its context does, so that an interrupted conversion of many gigabytes
// stops at once.
type cancellableReader struct {
	ctx context.Context
	io.ReadCloser
}

// Read implements io.Reader.
func (c cancellableReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.ReadCloser.Read(p)
}

// tiedNames are the ends of the names of a tensor that is saved twice: the copy's, and that which
// networks read.
var tiedNames = [][2]string{
	{"head.weight", "tok_emb.weight"}, // of Halton-MaskGIT, and GenMol's two
	{"backbone.cls.predictions.decoder.weight", "backbone.bert.embeddings.word_embeddings.weight"},
	{"backbone.cls.predictions.decoder.bias", "backbone.cls.predictions.bias"},
}

// isTiedCopy reports whether a tensor shares the bytes of one that networks read in its place.
func (c *Checkpoint) isTiedCopy(t *Tensor) bool {
	for _, names := range tiedNames {
		prefix, isCopy := strings.CutSuffix(t.Name, names[0])
		if !isCopy {
			continue
		}
		for _, original := range c.tensors {
			if original.Name == prefix+names[1] {
				return original.storage.rec == t.storage.rec && original.offset == t.offset
			}
		}
	}
	return false
}

// fairseqVocabulary returns the vocab.txt of a dict.txt beside the checkpoint: fairseq puts four
// special tokens before its words and the mask after them (fairseq/data/dictionary.py,
// tasks/masked_lm.py). Without a dict.txt there is none.
func fairseqVocabulary(src string, rows int) (map[string][]byte, error) {
	name := filepath.Join(filepath.Dir(src), "dict.txt")
	data, err := atomicfile.ReadBounded(name, maxCompanion)
	if err != nil {
		return nil, fmt.Errorf("%w, want the dictionary beside the checkpoint", err)
	}
	words := []string{"<s>", "<pad>", "</s>", "<unk>"}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		end := strings.LastIndexByte(line, ' ') // the last one: a word may have blanks
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
