package unmask

import (
	"context"

	"unmask/codecs/clip"
	"unmask/model"
)

// TextEncoder is the CLIP of a model that draws from prompts, or one by itself. One goroutine at a
// time may use one.
type TextEncoder struct {
	*clip.Text
	// Tokenizer opens the tokenizer that belongs to it.
	Tokenizer func() (*clip.Tokenizer, error)
}

// LoadTextEncoder loads the text encoder alone of the model at name, as Load takes it.
func LoadTextEncoder(ctx context.Context, name string, o Options) (*TextEncoder, error) {
	src, err := Open(ctx, name, o.Progress)
	if err != nil {
		return nil, err
	}
	b, err := o.open()
	if err != nil {
		src.Set.Close()
		return nil, err
	}
	text, tokenizer, err := clip.Open(src, model.Options{Backend: b, Precision: o.Precision})
	if err != nil {
		src.Set.Close()
		return nil, nameError(name + ": " + err.Error())
	}
	return &TextEncoder{text, tokenizer}, nil
}
