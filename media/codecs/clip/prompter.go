package clip

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"unmask/backend"
	"unmask/model"
)

// Prompter encodes prompts for a network with the text encoder in the network's folders, which it
// loads on first use. Several goroutines may use it at once.
type Prompter struct {
	Source  *model.Source // files of the network
	Options model.Options
	Width   int // width of the text's states
	Rows    int // rows of a text; 0: the encoder's
	Pad     int // id for padding; -1: the tokenizer's own

	once      sync.Once // of openEncoder
	mu        sync.Mutex
	encoder   *TextEncoder
	tokenizer *Tokenizer
	err       error // of openEncoder
}

const (
	encoderFolder   = "text_encoder"
	tokenizerFolder = "tokenizer"
	maxTexts        = 16 // texts encoded at once
)

// Prompts returns the prompts of texts; "" is the empty one.
func (p *Prompter) Prompts(ctx context.Context, texts []string) (prompts []*model.Prompt,
	err error) {
	defer backend.Recover(&err)
	p.once.Do(func() { p.err = p.openEncoder() })
	if p.err != nil {
		return nil, p.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pad := p.tokenizer.Pad()
	if p.Pad >= 0 {
		pad = int32(p.Pad)
	}
	for group := range slices.Chunk(texts, maxTexts) {
		var ids [][]int32
		var truncated []bool
		for i, text := range group {
			textIDs, cut, err := p.tokenizer.Encode(text, p.encoder.cfg.Rows, pad)
			if err != nil {
				return nil, fmt.Errorf("prompt %d: %w", len(prompts)+i, err)
			}
			ids = append(ids, textIDs)
			truncated = append(truncated, cut)
		}
		encoded, err := p.encoder.Encode(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, prompt := range encoded {
			prompt.Truncated = truncated[i]
		}
		prompts = append(prompts, encoded...)
	}
	return prompts, nil
}

// openEncoder loads the text encoder and the tokenizer, which is in its own folder or beside the
// encoder.
func (p *Prompter) openEncoder() (err error) {
	if p.Source == nil {
		return fmt.Errorf("the model has no files, and so no text encoder")
	}
	src, err := encoderSource(p.Source)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			src.Set.Close()
		}
	}()
	p.encoder, err = Load(src, p.Options)
	if err != nil {
		return err
	}
	c := p.encoder.cfg
	if c.Hidden != p.Width || c.Pooled != p.Width || p.Rows != 0 && c.Rows != p.Rows {
		rows := cmp.Or(p.Rows, c.Rows)
		return fmt.Errorf("%s: the text encoder makes %d x %d and a vector of %d, want %d x %d and %d: "+
			"another CLIP", src.Name,
			c.Rows, c.Hidden, c.Pooled, rows, p.Width, p.Width)
	}
	p.tokenizer, err = findTokenizer(p.Source, src.Files, p.encoder)
	return err
}

// encoderSource returns the text encoder's folder of a network.
func encoderSource(src *model.Source) (*model.Source, error) {
	return src.OpenSub(encoderFolder, "config.json and the weights of CLIP's text encoder")
}

// findTokenizer opens the tokenizer of a network: in its own folder, or beside the text encoder,
// whose files are encoderFiles.
func findTokenizer(src *model.Source, encoderFiles fs.FS,
	encoder *TextEncoder) (*Tokenizer, error) {
	files := encoderFiles
	if info, err := fs.Stat(src.Files, tokenizerFolder); err == nil && info.IsDir() {
		if files, err = fs.Sub(src.Files, tokenizerFolder); err != nil {
			return nil, err
		}
	}
	t, err := OpenTokenizer(files)
	if err != nil {
		return nil, fmt.Errorf("%s: the tokenizer: %w", src.Name, err)
	}
	if n := t.VocabSize(); n > encoder.cfg.IDs {
		return nil, fmt.Errorf("%s: the tokenizer has %d ids, want at most %d as the text encoder: "+
			"another CLIP", src.Name, n, encoder.cfg.IDs)
	}
	return t, nil
}

// Open loads a text encoder: src itself, or the one in its folder text_encoder. tokenizer opens its
// tokenizer. src must stay open while the encoder is used.
func Open(src *model.Source, o model.Options) (encoder *TextEncoder,
	tokenizer func() (*Tokenizer, error), err error) {
	encoderSrc := src
	if !src.HasTensor(anchor) {
		encoderSrc, err = encoderSource(src)
		if err != nil {
			return nil, nil, err
		}
	}
	encoder, err = Load(encoderSrc, o)
	if err != nil {
		if encoderSrc != src {
			encoderSrc.Set.Close()
		}
		return nil, nil, err
	}
	tokenizer = func() (*Tokenizer, error) { return findTokenizer(src, encoderSrc.Files, encoder) }
	return encoder, tokenizer, nil
}
