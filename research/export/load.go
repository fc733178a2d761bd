package export

import (
	"context"

	"unmask"
	"unmask/catalog"
	"unmask/media/codecs/clip"
	"unmask/model"
	"unmask/paint"
)

// openPart opens the files of the model at name and the device, to load a part of it.
func openPart(ctx context.Context, name string, o unmask.Options) (
	*model.Source, model.Options, error) {
	src, err := catalog.Open(ctx, name, o.Progress)
	if err != nil {
		return nil, model.Options{}, err
	}
	device, err := o.OpenBackend()
	if err != nil {
		src.Set.Close()
		return nil, model.Options{}, err
	}
	return src, model.Options{Backend: device, Precision: o.Precision}, nil
}

// LoadPictures loads the codec alone of the model at name, as unmask.Load takes it.
func LoadPictures(ctx context.Context, name string, o unmask.Options) (*paint.Pictures, error) {
	src, options, err := openPart(ctx, name, o)
	if err != nil {
		return nil, err
	}
	codec, err := model.LoadCodec(src, options)
	if err != nil {
		return nil, err
	}
	const noMask = -1 // no code is a mask
	return paint.New(func() (model.Codec, error) { return codec, nil }, noMask), nil
}

// TextEncoder is the CLIP of a model that draws from prompts, or one by itself. One goroutine at a
// time may use one.
type TextEncoder struct {
	*clip.TextEncoder

	// Tokenizer opens the tokenizer that belongs to it.
	Tokenizer func() (*clip.Tokenizer, error)
}

// LoadTextEncoder loads the text encoder alone of the model at name, as unmask.Load takes it.
func LoadTextEncoder(ctx context.Context, name string, o unmask.Options) (*TextEncoder, error) {
	src, options, err := openPart(ctx, name, o)
	if err != nil {
		return nil, err
	}
	encoder, tokenizer, err := clip.Open(src, options)
	if err != nil {
		src.Set.Close()
		return nil, catalog.NameError(name + ": " + err.Error())
	}
	return &TextEncoder{encoder, tokenizer}, nil
}
