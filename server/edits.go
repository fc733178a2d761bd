package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"net/http"
	"slices"

	"unmask/generate"
	"unmask/images"
)

// pngMagic begins every PNG.
const pngMagic = "\x89PNG\r\n\x1a\n"

// readPNG decodes a picture. Other formats are not read: their decoders differ, and with them the
// answer. Its size is looked at before memory is taken for it.
func readPNG(name string, data []byte) (image.Image, *Fault) {
	if !bytes.HasPrefix(data, []byte(pngMagic)) {
		if len(data) < len(pngMagic) && bytes.HasPrefix([]byte(pngMagic), data) {
			return nil, bad("invalid_image", name, "%s is a PNG that ends early, want a whole one", name)
		}
		f := fault(http.StatusUnsupportedMediaType, "unsupported_image", "%s is no PNG, want PNG", name)
		f.Param = name
		return nil, f
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, bad("invalid_image", name, "%s is a damaged PNG: %s", name, oneLine(err))
	}
	if config.Width < 1 || config.Height < 1 || config.Width > images.MaxPixels/config.Height {
		f := fault(http.StatusRequestEntityTooLarge, "image_too_large",
			"%s is %d x %d pixels, want %d in all at most", name, config.Width, config.Height,
			images.MaxPixels)
		f.Param = name
		return nil, f
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, bad("invalid_image", name, "%s is a damaged PNG: %s", name, oneLine(err))
	}
	return picture, nil
}

// one returns the only file of a name, nil where there is none.
func (f *form) one(name string) []byte {
	files := f.files[name]
	if len(files) > 1 {
		f.fail(outOfRange(name, fmt.Sprintf("%d files", len(files)), "one"))
	}
	if len(files) != 1 {
		return nil
	}
	return files[0]
}

// editing answers POST /v1/images/edits.
func (s *Server) editing(w http.ResponseWriter, r *http.Request) {
	f, fault := s.readForm(w, r)
	if fault != nil {
		fault.write(w)
		return
	}
	s.generate(w, r, f.fields, func(r *http.Request, _ *fields) (asked, streaming) {
		return s.edits(r, f)
	})
}

// edits reads POST /v1/images/edits.
func (s *Server) edits(r *http.Request, f *form) (a asked, st streaming) {
	m := s.model(f.fields, wantsPictures)
	if m == nil {
		return a, st
	}
	base := m.defaults
	if text, ok := m.Presets["inpaint"]; ok { // the model's own way
		recipe, err := generate.ParseRecipe(text)
		if err == nil {
			base = recipe.For(m.spec)
		}
	}
	set := readSettingsOr(f.fields, m, base)
	form, st := readPicture(r, f.fields, m)
	condition, texts := readCondition(r.Context(), f.fields, m, &set)
	fit := f.text("fit")
	if fit != "" && !slices.Contains(images.Fits, fit) {
		f.fail(outOfRange("fit", fmt.Sprintf("%.40q", fit), "cover or contain"))
	}
	given, mask := f.one("image"), f.one("mask")
	if f.fault == nil && given == nil {
		f.fail(bad("missing", "image", "image is missing, want a PNG"))
	}
	if f.fault != nil {
		return a, st
	}
	tokens, fault := m.edited(given, mask, fit)
	if fault != nil {
		f.fail(fault)
		return a, st
	}
	for at, token := range tokens {
		if token == m.spec.Mask {
			form.cells = append(form.cells, at)
		}
	}
	sum := sha256.Sum256(encode(tokens))
	form.Texts, form.Given, form.Fit = texts, hex.EncodeToString(sum[:]), fit
	form.event = "image_edit"
	for range set.n {
		a.sequences = append(a.sequences, sequence{tokens: tokens, condition: condition})
	}
	a.kind, a.prefix, a.model, a.set, a.form = "edits", "img-", m, set, form
	a.answers = func(w *work) (*answer, *Fault) { return pictureAnswer(w, form) }
	return a, st
}

// edited returns the codes of a picture, masked where it is made new, as unmask image --inpaint has
// them.
func (m *served) edited(given, mask []byte, fit string) ([]int32, *Fault) {
	picture, fault := readPNG("image", given)
	if fault != nil {
		return nil, fault
	}
	var over image.Image
	if mask != nil {
		if over, fault = readPNG("mask", mask); fault != nil {
			return nil, fault
		}
		if over.Bounds().Size() != picture.Bounds().Size() {
			a, b := over.Bounds().Size(), picture.Bounds().Size()
			return nil, bad("mask_size", "mask", "mask is %d x %d pixels, want %d x %d as the image", a.X,
				a.Y, b.X, b.Y)
		}
	}
	hole, err := images.Hole(picture, over, image.Rectangle{})
	if err != nil {
		return nil, maskEmpty()
	}
	p, fault := m.place(picture, fit)
	if fault != nil {
		return nil, fault
	}
	placed, white := p.Picture(picture), p.Mask(hole)
	whole := image.NewNRGBA(placed.Rect)
	draw.Draw(whole, whole.Rect, white, image.Point{}, draw.Src)
	tokens, err := m.Inpaint(placed, whole)
	if err != nil {
		return nil, bad("out_of_range", "image", "%s", oneLine(err))
	}
	if masked(tokens, m.spec.Mask) == 0 {
		return nil, maskEmpty()
	}
	return tokens, nil
}

// maskEmpty is the fault of an edit that makes nothing new.
func maskEmpty() *Fault {
	return bad("mask_empty", "mask", "nothing is to be made new, want a mask that is transparent "+
		"there, or white where it has no transparency, or an image that is transparent there")
}
