package clip

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"unmask/backend"
	"unmask/model"
)

// Prompter encodes prompts for a network, with the text encoder in the network's folders. It loads
// when it is first needed.
type Prompter struct {
	Source  *model.Source // the network's
	Options model.Options
	Width   int // of the text's states
	Rows    int // of a text; 0: as many as the encoder has
	Pad     int // id that fills up; -1: the tokenizer's own

	once      sync.Once
	turn      sync.Mutex
	text      *Text
	tokenizer *Tokenizer
	err       error
}

const (
	encoderFolder   = "text_encoder"
	tokenizerFolder = "tokenizer"
	most            = 16 // texts at once
)

// Prompts returns the prompts of texts; "" is the empty one.
func (p *Prompter) Prompts(ctx context.Context, texts []string) (out []*model.Prompt, err error) {
	defer backend.Recover(&err)
	if p.once.Do(func() { p.err = p.open() }); p.err != nil {
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
			ids, cut = append(ids, list), append(cut, short)
		}
		made, err := p.text.Encode(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, m := range made {
			m.Cut = cut[i]
		}
		out, texts = append(out, made...), texts[n:]
	}
	return out, nil
}

// open loads the text encoder and the tokenizer, which is in a folder of its own or beside the
// encoder.
func (p *Prompter) open() error {
	if p.Source == nil {
		return fmt.Errorf("the model has no files, and so no text encoder")
	}
	src, err := p.Source.Sub(encoderFolder, "config.json and the weights of CLIP's text encoder")
	if err != nil {
		return err
	}
	defer src.Set.Close()
	if p.text, err = Load(src, p.Options); err != nil {
		return err
	}
	if c := p.text.cfg; c.Hidden != p.Width || c.Pooled != p.Width || p.Rows != 0 && c.Rows != p.Rows {
		rows := p.Rows
		if rows == 0 {
			rows = c.Rows
		}
		return fmt.Errorf("%s: the text encoder makes %d x %d and a vector of %d, want %d x %d and %d: "+
			"another CLIP", src.Name,
			c.Rows, c.Hidden, c.Pooled, rows, p.Width, p.Width)
	}
	files := src.Files
	if info, err := fs.Stat(p.Source.Files, tokenizerFolder); err == nil && info.IsDir() {
		if files, err = fs.Sub(p.Source.Files, tokenizerFolder); err != nil {
			return err
		}
	}
	if p.tokenizer, err = OpenTokenizer(files); err != nil {
		return fmt.Errorf("%s: the tokenizer: %w", p.Source.Name, err)
	}
	if n := p.tokenizer.Size(); n > p.text.cfg.IDs {
		return fmt.Errorf("%s: the tokenizer has %d ids, want at most %d as the text encoder: another "+
			"CLIP", p.Source.Name, n, p.text.cfg.IDs)
	}
	return nil
}
