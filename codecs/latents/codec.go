package latents

import (
	"context"
	"errors"
	"fmt"
	"image"

	"unmask/backend"
	"unmask/model"
	"unmask/nn/picture"
)

func init() {
	model.RegisterCodec(model.CodecFormat{
		Name: "titok-tokenizer",
		Match: func(src *model.Source) bool {
			return src.Has("latent_tokens") && src.Has("decoder.mask_token")
		},
		Load: func(src *model.Source, o model.Options) (model.Codec, error) { return Load(src, o) },
	})
}

// Open loads the image tokenizer in the folder `codec` of a generator with this number of latent
// tokens and of codes.
func Open(src *model.Source, tokens, codes int, o model.Options) (*Tokenizer, error) {
	sub, err := src.Sub("codec", "config.json and model.safetensors of the image tokenizer")
	if err != nil {
		return nil, err
	}
	m, err := Load(sub, o)
	if err != nil {
		sub.Set.Close()
		return nil, err
	}
	if z := m.sizes; z.Tokens != tokens || z.Codes != codes {
		sub.Set.Close()
		return nil, fmt.Errorf("%s: the image tokenizer has %d tokens of %d codes, want %d of %d as the "+
			"generator", sub.Name, z.Tokens, z.Codes,
			tokens, codes)
	}
	return m, nil
}

// Shape implements model.Codec: the number of codes, which have no place in the picture.
func (m *Tokenizer) Shape() []int { return []int{m.sizes.Tokens} }

// Codes implements model.Codec.
func (m *Tokenizer) Codes() int { return m.sizes.Codes }

// Size implements model.Codec.
func (m *Tokenizer) Size() (width, height int) { return m.sizes.Side, m.sizes.Side }

var errText = errors.New("the image tokenizer reads the prompt, and there is none")

// text returns the decoder's input from a prompt, for n images.
func (m *Tokenizer) text(p *model.Prompt, n int) ([]float32, error) {
	z := &m.sizes
	switch {
	case z.TextRows == 0:
		return nil, nil
	case p == nil:
		return nil, errText
	case p.Rows != z.TextRows || p.Width != z.TextWidth || p.Final == nil:
		return nil, fmt.Errorf("the prompt is %d x %d, want %d x %d with its last states", p.Rows,
			p.Width, z.TextRows, z.TextWidth)
	}
	text := make([]float32, 0, n*len(p.Final))
	for range n {
		text = append(text, p.Final...)
	}
	return text, nil
}

// Decode implements model.Codec.
func (m *Tokenizer) Decode(dst []float32, codes []int32) error {
	return m.DecodeOf(dst, codes, nil)
}

// DecodeOf implements model.PromptCodec.
func (m *Tokenizer) DecodeOf(dst []float32, codes []int32, p *model.Prompt) error {
	text, err := m.text(p, len(codes)/m.sizes.Tokens)
	if err != nil {
		return err
	}
	return m.DecodeText(context.Background(), dst, codes, text)
}

// Image implements model.Codec.
func (m *Tokenizer) Image(codes []int32) (*image.NRGBA, error) { return m.ImageOf(codes, nil) }

// ImageOf implements model.PromptCodec. A byte is clip(255x, 0, 255), truncated.
func (m *Tokenizer) ImageOf(codes []int32, p *model.Prompt) (_ *image.NRGBA, err error) {
	defer backend.Recover(&err)
	if len(codes) != m.sizes.Tokens {
		return nil, fmt.Errorf("%d codes, want %d", len(codes), m.sizes.Tokens)
	}
	text, err := m.text(p, 1)
	if err != nil {
		return nil, err
	}
	if err := m.decode(context.Background(), codes, text); err != nil {
		return nil, err
	}
	return picture.Image(m.pixels, m.sizes.Side, m.sizes.Side, 0), nil
}

// EncodeImage implements model.Encoder.
func (m *Tokenizer) EncodeImage(img image.Image) (_ []int32, err error) {
	defer backend.Recover(&err)
	if err := picture.FromImage(m.pixels, img, m.sizes.Side, m.sizes.Side); err != nil {
		return nil, err
	}
	codes := make([]int32, m.sizes.Tokens)
	return codes, m.encode(context.Background(), codes)
}
