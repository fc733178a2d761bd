package clip

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"sync"

	"unmask/backend"
	"unmask/model"
)

// Prompter encodes prompts for a network with the text encoder in the network's folders, which it
// loads on first use.
type Prompter struct {
	Source  *model.Source // files of the network
	Options model.Options
	Width   int // of the text's states
	Rows    int // rows of a text; 0: the encoder's
	Pad     int // id for padding; -1: the tokenizer's own

	once      sync.Once
	turn      sync.Mutex
	text      *TextEncoder
	tokenizer *Tokenizer
	err       error
}

const (
	encoderFolder   = "text_encoder"
	tokenizerFolder = "tokenizer"
	most            = 16 // texts encoded at once
)

// Prompts returns the prompts of texts; "" is the empty one.
func (p *Prompter) Prompts(ctx context.Context, texts []string) (out []*model.Prompt, err error) {
	defer backend.Recover(&err)
	if p.once.Do(func() { p.err = p.openEncoder() }); p.err != nil {
		return nil, p.err
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	pad := p.tokenizer.Pad()
	if p.Pad >= 0 {
		pad = int32(p.Pad)
	}
	for len(texts) > 0 {
		n := min(most, len(texts))
		var ids [][]int32
		var cut []bool
		for i, text := range texts[:n] {
			list, short, err := p.tokenizer.Encode(text, p.text.cfg.Rows, pad)
			if err != nil {
				return nil, fmt.Errorf("prompt %d: %w", len(out)+i, err)
			}
			ids = append(ids, list)
			cut = append(cut, short)
		}
		made, err := p.text.Encode(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, m := range made {
			m.Truncated = cut[i]
		}
		out = append(out, made...)
		texts = texts[n:]
	}
	return out, nil
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
	if p.text, err = Load(src, p.Options); err != nil {
		return err
	}
	if c := p.text.cfg; c.Hidden != p.Width || c.Pooled != p.Width || p.Rows != 0 && c.Rows != p.Rows {
		rows := cmp.Or(p.Rows, c.Rows)
		return fmt.Errorf("%s: the text encoder makes %d x %d and a vector of %d, want %d x %d and %d: "+
			"another CLIP", src.Name,
			c.Rows, c.Hidden, c.Pooled, rows, p.Width, p.Width)
	}
	p.tokenizer, err = findTokenizer(p.Source, src.Files, p.text)
	return err
}

// encoderSource returns the text encoder's folder of a network.
func encoderSource(src *model.Source) (*model.Source, error) {
	return src.OpenSub(encoderFolder, "config.json and the weights of CLIP's text encoder")
}

// findTokenizer opens the tokenizer of a network, in its own folder or beside the text encoder.
func findTokenizer(src *model.Source, beside fs.FS, text *TextEncoder) (*Tokenizer, error) {
	if info, err := fs.Stat(src.Files, tokenizerFolder); err == nil && info.IsDir() {
		if beside, err = fs.Sub(src.Files, tokenizerFolder); err != nil {
			return nil, err
		}
	}
	t, err := OpenTokenizer(beside)
	if err != nil {
		return nil, fmt.Errorf("%s: the tokenizer: %w", src.Name, err)
	}
	if n := t.VocabSize(); n > text.cfg.IDs {
		return nil, fmt.Errorf("%s: the tokenizer has %d ids, want at most %d as the text encoder: "+
			"another CLIP", src.Name, n, text.cfg.IDs)
	}
	return t, nil
}

// Open loads a text encoder: src itself, or the one in its folder text_encoder. tokenizer opens its
// tokenizer. src must stay open while the encoder is used.
func Open(src *model.Source, o model.Options) (text *TextEncoder,
	tokenizer func() (*Tokenizer, error), err error) {
	from := src
	if !src.HasTensor(anchor) {
		if from, err = encoderSource(src); err != nil {
			return nil, nil, err
		}
	}
	if text, err = Load(from, o); err != nil {
		if from != src {
			from.Set.Close()
		}
		return nil, nil, err
	}
	return text, func() (*Tokenizer, error) { return findTokenizer(src, from.Files, text) }, nil
}
