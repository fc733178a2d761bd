package latents

import (
	"errors"
	"fmt"
	"image"

	"unmask/model"
)

func init() {
	model.RegisterCodec(model.CodecFormat{
		Name: "titok-tokenizer",
		Match: func(src *model.Source) bool {
			return src.HasTensor("latent_tokens") && src.HasTensor("decoder.mask_token")
		},
		Load: func(src *model.Source, o model.Options) (model.Codec, error) { return Load(src, o) },
	})
}

// Open loads the image tokenizer in the folder `codec` of a generator with this number of latent
// tokens and of codes.
func Open(src *model.Source, tokens, codes int, o model.Options) (*Tokenizer, error) {
	sub, err := src.OpenSub("codec", "config.json and model.safetensors of the image tokenizer")
	if err != nil {
		return nil, err
	}
	m, err := Load(sub, o)
	if err == nil && (m.sizes.Tokens != tokens || m.sizes.Codes != codes) {
		err = fmt.Errorf("%s: the image tokenizer has %d tokens of %d codes, want %d of %d as the "+
			"generator", sub.Name, m.sizes.Tokens, m.sizes.Codes, tokens, codes)
	}
	if err != nil {
		sub.Set.Close()
		return nil, err
	}
	return m, nil
}

var errText = errors.New("the image tokenizer reads the prompt, and there is none")

// setPrompt sets the decoder's text to a prompt's.
func (m *Tokenizer) setPrompt(p *model.Prompt) error {
	switch z := &m.sizes; {
	case z.TextRows == 0:
		m.text = nil
	case p == nil:
		return errText
	case p.Rows != z.TextRows || p.Width != z.TextWidth || len(p.Final) != p.Rows*p.Width:
		return fmt.Errorf("the prompt is %d x %d, want %d x %d with its last states", p.Rows, p.Width,
			z.TextRows, z.TextWidth)
	default:
		m.text = p.Final
	}
	return nil
}

// Decode implements model.Codec.
func (m *Tokenizer) Decode(dst []float32, codes []int32) error {
	return m.DecodeOf(dst, codes, nil)
}

// DecodeOf implements model.PromptCodec.
func (m *Tokenizer) DecodeOf(dst []float32, codes []int32, p *model.Prompt) error {
	if err := m.setPrompt(p); err != nil {
		return err
	}
	return m.Codec.Decode(dst, codes)
}

// Image implements model.Codec.
func (m *Tokenizer) Image(codes []int32) (*image.NRGBA, error) { return m.ImageOf(codes, nil) }

// ImageOf implements model.PromptCodec.
func (m *Tokenizer) ImageOf(codes []int32, p *model.Prompt) (*image.NRGBA, error) {
	if err := m.setPrompt(p); err != nil {
		return nil, err
	}
	return m.Codec.Image(codes)
}
