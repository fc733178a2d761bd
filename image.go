package unmask

import (
	"context"
	"errors"
	"image"
	"slices"

	"unmask/generate"
	"unmask/media/images"
	"unmask/model"
	"unmask/paint"
	"unmask/param"
)

// ImageInput is the picture that a request starts from, and what of it is kept.
type ImageInput struct {
	// File is a PNG or a JPEG, read if Picture is nil.
	File    string      `json:"file,omitempty"`
	Picture image.Image `json:"-"`

	// MaskFile is a picture of the same size, white or transparent where the picture is painted
	// again, read if Mask is nil; "": see paint.Pictures.Inpaint.
	MaskFile string      `json:"mask,omitempty"`
	Mask     image.Image `json:"-"`

	// Box is a rectangle X,Y,W,H in pixels that is painted again.
	Box string `json:"box,omitempty"`

	// Fit is how the picture is brought to the model's size, see images.Place.
	Fit string `json:"fit,omitempty"`

	// Outpaint enlarges the picture, as ParseMargins reads it, instead of painting a part of it
	// again. The windows of the enlarged picture are made one by one, see paint.Outpainting.
	Outpaint string `json:"outpaint,omitempty"`

	// Paste puts the pixels that are kept back into the pictures that are made.
	Paste bool `json:"paste,omitempty"`

	// Strength is the share of the steps that run on the whole picture, see paint.Redraw; 0 keeps
	// what is not masked.
	Strength float64 `json:"strength,omitempty"`
}

var errNoPictures = param.Refuse("image", param.Unsupported, "the model makes no pictures")

// Inpainting reads the picture of a request that paints a part of it again. An error names what is
// wrong: the picture, the mask or the box, or that the model makes no pictures.
func (m *Model) Inpainting(in *ImageInput) (*paint.Inpainting, error) {
	if m.Pictures == nil {
		return nil, errNoPictures
	}
	picture, mask, err := in.readFiles()
	if err != nil {
		return nil, err
	}
	var box image.Rectangle
	if in.Box != "" {
		box, err = images.ParseBox(in.Box)
		if err != nil {
			return nil, err
		}
	}
	inpainting, err := m.Pictures.Inpaint(picture, mask, box, in.Fit)
	return inpainting, param.WithName("image", err)
}

// Outpainting reads the picture of a request that enlarges it. An error names what is wrong: the
// picture or the margins, or that the model makes no pictures.
func (m *Model) Outpainting(in *ImageInput) (*paint.Outpainting, error) {
	margins, err := paint.ParseMargins(in.Outpaint)
	if err != nil {
		return nil, param.WithName("outpaint", err)
	}
	if m.Pictures == nil {
		return nil, errNoPictures
	}
	picture, _, err := in.readFiles()
	if err != nil {
		return nil, err
	}
	if in.Fit != "" {
		picture, err = m.Pictures.Fit(picture, in.Fit)
		if err != nil {
			return nil, param.WithName("image", err)
		}
	}
	outpainting, err := m.Pictures.Outpaint(m.Denoiser, picture, margins)
	return outpainting, param.WithName("outpaint", err)
}

// imageTokens returns the codes that a picture begins with, nil for one that is drawn again or made
// larger. encoded has the codes of pictures that were encoded before, and gets those of this one.
func (m *Model) imageTokens(in *ImageInput, encoded map[*ImageInput][]int32) ([]int32, error) {
	if m.Pictures == nil { // its file is not even opened
		return nil, errNoPictures
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if tokens, ok := encoded[in]; ok || in.Strength != 0 {
		return tokens, nil
	}
	if in.Outpaint != "" {
		_, err := m.Outpainting(in)
		return nil, err
	}
	inpainting, err := m.Inpainting(in)
	if err != nil {
		return nil, err
	}
	encoded[in] = inpainting.Tokens
	return inpainting.Tokens, nil
}

// check returns an error for fields that exclude each other.
func (in *ImageInput) check() error {
	hasPart := in.Mask != nil || in.MaskFile != "" || in.Box != ""
	if in.Outpaint != "" && (hasPart || in.Strength != 0) {
		return &param.Error{
			Name:   "outpaint",
			Found:  param.Quote(in.Outpaint),
			Want:   "none with mask, box or strength",
			Reason: param.NoEffect,
		}
	}
	if in.Strength != 0 && (hasPart || in.Paste) {
		return &param.Error{
			Name:   "strength",
			Found:  param.Format(in.Strength),
			Want:   "0 with mask, box or paste",
			Reason: param.NoEffect,
		}
	}
	return param.WithName("fit", images.CheckFit(in.Fit))
}

// redraw returns the last steps of a request that begins with a picture to be drawn again, and any
// other request as it is.
func (m *Model) redraw(q generate.Request, r *Request,
	encoded map[*ImageInput][]int32) (generate.Request, error) {
	in := r.Image
	if in == nil || in.Strength == 0 {
		return q, nil
	}
	if encoded[in] == nil {
		tokens, err := m.encodeWhole(in)
		if err != nil {
			return q, err
		}
		encoded[in] = tokens
	}
	q, err := paint.Redraw(q, m.Spec(), slices.Clone(encoded[in]), in.Strength)
	return q, param.WithName("strength", err)
}

// encodeWhole returns the codes of a whole picture.
func (m *Model) encodeWhole(in *ImageInput) ([]int32, error) {
	picture, _, err := in.readFiles()
	if err != nil {
		return nil, err
	}
	fitted, err := m.Pictures.Fit(picture, in.Fit)
	if err != nil {
		return nil, param.WithName("image", err)
	}
	tokens, err := m.Pictures.Encode(fitted)
	return tokens, param.WithName("image", err)
}

// readFiles returns the picture and its mask.
func (in *ImageInput) readFiles() (picture, mask image.Image, err error) {
	picture = in.Picture
	if picture == nil {
		picture, err = images.ReadPicture(in.File)
		if err != nil {
			return nil, nil, param.WithName("image", err)
		}
	}
	mask = in.Mask
	if mask == nil && in.MaskFile != "" {
		mask, err = images.ReadPicture(in.MaskFile)
		if err != nil {
			return nil, nil, param.WithName("mask", err)
		}
	}
	return picture, mask, nil
}

// ClassCondition returns the condition of a class, given by its number or its name. A class that
// the model does not have is a *param.Error with the nearest names.
func (m *Model) ClassCondition(class string) (*model.Condition, error) {
	n := m.Spec().Classes
	if n == 0 {
		return nil, errors.New("the model has no classes")
	}
	index, err := model.FindClass(n, m.Classes, class)
	if err != nil {
		return nil, err
	}
	return &model.Condition{Class: index}, nil
}

// PromptConditions encodes prompts and returns their conditions. negative is the prompt that
// guidance leads away from; "" is the empty prompt. Prompt.Truncated is true for a text longer than
// the model's text encoder reads. An error is that of a model without prompts, or of its text
// encoder, which may have to be loaded.
func (m *Model) PromptConditions(ctx context.Context, prompts []string,
	negative string) ([]*model.Condition, error) {
	prompter, ok := m.Denoiser.(model.Prompter)
	if !ok || !m.Spec().Prompt {
		return nil, errors.New("the model reads no prompts")
	}
	encoded, err := prompter.Prompts(ctx, append([]string{negative}, prompts...))
	if err != nil {
		return nil, err
	}
	unconditional := &model.Condition{Prompt: encoded[0]}
	var conditions []*model.Condition
	for _, prompt := range encoded[1:] {
		conditions = append(conditions,
			&model.Condition{Prompt: prompt, Unconditional: unconditional})
	}
	return conditions, nil
}
