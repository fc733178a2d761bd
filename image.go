package unmask

import (
	"cmp"
	"context"
	"errors"
	"image"
	"slices"

	"unmask/generate"
	"unmask/media/codecs/clip"
	"unmask/media/images"
	"unmask/model"
	"unmask/paint"
	"unmask/param"
)

// ImageInput is the picture that a request starts from, and what of it is kept.
type ImageInput struct {
	File    string      `json:"file,omitempty"` // a PNG or a JPEG, read if Picture is nil
	Picture image.Image `json:"-"`

	// MaskFile is a picture of the same size, white or transparent where the picture is made new,
	// read if Mask is nil; "": see paint.Pictures.Inpaint.
	MaskFile string      `json:"mask,omitempty"`
	Mask     image.Image `json:"-"`
	Box      string      `json:"box,omitempty"` // X,Y,W,H in pixels, made new

	Fit string `json:"fit,omitempty"` // how it is brought to the model's size, see images.Place

	// Outpaint enlarges the picture, as ParseMargins reads it, instead of making a part of it new.
	// The windows of the enlarged picture are made one by one, see paint.Outpainting.
	Outpaint string `json:"outpaint,omitempty"`

	// Paste puts the pixels that are kept back into the pictures that are made.
	Paste bool `json:"paste,omitempty"`

	// Strength is the share of the steps that run on the whole picture, see paint.Redraw; 0 keeps
	// what is not masked.
	Strength float64 `json:"strength,omitempty"`
}

// part opens the files of the model at name and the device, to load a part of it.
func (o *Options) part(ctx context.Context, name string) (*model.Source, model.Options, error) {
	src, err := Open(ctx, name, o.Progress)
	if err != nil {
		return nil, model.Options{}, err
	}
	b, err := o.open()
	if err != nil {
		src.Set.Close()
	}
	return src, model.Options{Backend: b, Precision: o.Precision}, err
}

// LoadPictures loads the codec alone of the model at name, as Load takes it.
func LoadPictures(ctx context.Context, name string, o Options) (*paint.Pictures, error) {
	src, with, err := o.part(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := model.LoadCodec(src, with)
	if err != nil {
		return nil, err
	}
	const none = -1 // no code is a mask
	return paint.New(func() (model.Codec, error) { return c, nil }, none), nil
}

var errNoPictures = param.Refuse("image", param.Unsupported, "the model makes no pictures")

// Inpainting reads the picture of a request that makes a part of it new.
func (m *Model) Inpainting(in *ImageInput) (*paint.Inpainting, error) {
	if m.Pictures == nil {
		return nil, errNoPictures
	}
	picture, mask, err := in.read()
	if err != nil {
		return nil, err
	}
	var box image.Rectangle
	if in.Box != "" {
		if box, err = images.ParseBox(in.Box); err != nil {
			return nil, err
		}
	}
	p, err := m.Pictures.Inpaint(picture, mask, box, in.Fit)
	return p, param.WithName("image", err)
}

// Outpainting reads the picture of a request that enlarges it.
func (m *Model) Outpainting(in *ImageInput) (*paint.Outpainting, error) {
	add, err := paint.ParseMargins(in.Outpaint)
	if err != nil {
		return nil, param.WithName("outpaint", err)
	}
	if m.Pictures == nil {
		return nil, errNoPictures
	}
	picture, _, err := in.read()
	if err != nil {
		return nil, err
	}
	if in.Fit != "" {
		if picture, err = m.Pictures.Fit(picture, in.Fit); err != nil {
			return nil, param.WithName("image", err)
		}
	}
	p, err := m.Pictures.Outpaint(m.Denoiser, picture, add)
	return p, param.WithName("outpaint", err)
}

// imageTokens returns the codes that a picture begins with, nil for one that is drawn again or made
// larger.
func (m *Model) imageTokens(in *ImageInput, done map[*ImageInput][]int32) ([]int32, error) {
	if m.Pictures == nil { // its file is not even opened
		return nil, errNoPictures
	}
	if tokens, ok := done[in]; ok || in.Strength != 0 {
		return tokens, in.check()
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Outpaint != "" {
		_, err := m.Outpainting(in)
		return nil, err
	}
	p, err := m.Inpainting(in)
	if err != nil {
		return nil, err
	}
	done[in] = p.Tokens
	return p.Tokens, nil
}

// check returns an error for fields that exclude each other.
func (in *ImageInput) check() error {
	part := in.Mask != nil || in.MaskFile != "" || in.Box != ""
	return cmp.Or(
		param.RefuseUnless(in.Outpaint == "" || !part && in.Strength == 0, "outpaint",
			param.Quote(in.Outpaint), "none with mask, box or strength", param.NoEffect),
		param.RefuseUnless(in.Strength == 0 || !part && !in.Paste, "strength", param.Format(in.Strength),
			"0 with mask, box or paste", param.NoEffect),
		param.WithName("fit", images.CheckFit(in.Fit)))
}

// redrawn returns the last steps of a request that begins with a picture to be drawn again.
func (m *Model) redrawn(q generate.Request, r *Request,
	done map[*ImageInput][]int32) (generate.Request, error) {
	in := r.Image
	if in == nil || in.Strength == 0 {
		return q, nil
	}
	if done[in] == nil {
		picture, _, err := in.read()
		if err != nil {
			return q, err
		}
		fitted, err := m.Pictures.Fit(picture, in.Fit)
		if err == nil {
			done[in], err = m.Pictures.Encode(fitted)
		}
		if err != nil {
			return q, param.WithName("image", err)
		}
	}
	q, err := paint.Redraw(q, m.Spec(), slices.Clone(done[in]), in.Strength)
	return q, param.WithName("strength", err)
}

// read returns the picture and its mask.
func (in *ImageInput) read() (picture, mask image.Image, err error) {
	picture, mask = in.Picture, in.Mask
	if picture == nil {
		if picture, err = images.ReadPicture(in.File); err != nil {
			return nil, nil, param.WithName("image", err)
		}
	}
	if mask == nil && in.MaskFile != "" {
		if mask, err = images.ReadPicture(in.MaskFile); err != nil {
			return nil, nil, param.WithName("mask", err)
		}
	}
	return picture, mask, nil
}

// ClassCondition returns the condition of a class, given by its number or its name.
func (m *Model) ClassCondition(class string) (*model.Condition, error) {
	n := m.Spec().Classes
	if n == 0 {
		return nil, errors.New("the model has no classes")
	}
	c, err := model.FindClass(n, m.Classes, class)
	if err != nil {
		return nil, err
	}
	return &model.Condition{Class: c}, nil
}

// PromptConditions encodes prompts and returns their conditions. negative is the prompt that
// guidance leads away from; "" is the empty prompt. Prompt.Truncated is true for a text longer than
// the model's text encoder reads.
func (m *Model) PromptConditions(ctx context.Context, prompts []string,
	negative string) ([]*model.Condition, error) {
	p, ok := m.Denoiser.(model.Prompter)
	if !ok || !m.Spec().Prompt {
		return nil, errors.New("the model reads no prompts")
	}
	made, err := p.Prompts(ctx, append([]string{negative}, prompts...))
	if err != nil {
		return nil, err
	}
	without := &model.Condition{Prompt: made[0]}
	var list []*model.Condition
	for _, prompt := range made[1:] {
		list = append(list, &model.Condition{Prompt: prompt, Unconditional: without})
	}
	return list, nil
}

// TextEncoder is the CLIP of a model that draws from prompts, or one by itself. One goroutine at a
// time may use one.
type TextEncoder struct {
	*clip.TextEncoder
	// Tokenizer opens the tokenizer that belongs to it.
	Tokenizer func() (*clip.Tokenizer, error)
}

// LoadTextEncoder loads the text encoder alone of the model at name, as Load takes it.
func LoadTextEncoder(ctx context.Context, name string, o Options) (*TextEncoder, error) {
	src, with, err := o.part(ctx, name)
	if err != nil {
		return nil, err
	}
	text, tokenizer, err := clip.Open(src, with)
	if err != nil {
		src.Set.Close()
		return nil, nameError(name + ": " + err.Error())
	}
	return &TextEncoder{text, tokenizer}, nil
}
