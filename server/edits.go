package server

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"slices"

	"unmask"
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
func (f *fields) one(name string) []byte {
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
	s.generate(w, r, f, s.edits)
}

// edits reads POST /v1/images/edits.
func (s *Server) edits(r *http.Request, f *fields) (q query, st streaming) {
	m := s.model(f, wantsPictures)
	if m == nil {
		return q, st
	}
	set := readSettings(f)
	form, st := readPicture(r, f, m)
	readSubject(f, m, &set.request)
	form.Fit = f.text("fit")
	if form.Fit != "" && !slices.Contains(images.Fits, form.Fit) {
		f.fail(outOfRange("fit", fmt.Sprintf("%.40q", form.Fit), "cover or contain"))
	}
	set.request.Image = f.readImage(form.Fit)
	q.sequences = set.prepare(r.Context(), f, m, nil, maskEmpty(), set.request)
	if f.fault != nil {
		return q, st
	}
	for at, token := range q.sequences[0].Known {
		if token == m.spec.Mask {
			form.cells = append(form.cells, at)
		}
	}
	form.event = "image_edit"
	q.kind, q.prefix, q.model, q.set, q.form = "edits", "img-", m, set, form
	q.answers = func(made *call) (*answer, *Fault) { return pictureAnswer(made, form) }
	return q, st
}

// readImage reads the picture of an edit and its mask.
func (f *fields) readImage(fit string) *unmask.ImageInput {
	in := &unmask.ImageInput{Fit: fit}
	given, mask := f.one("image"), f.one("mask")
	if f.fault == nil && given == nil {
		f.fail(missing("image", "a PNG"))
	}
	if f.fault != nil {
		return nil
	}
	var fault *Fault
	if in.Picture, fault = readPNG("image", given); fault == nil && mask != nil {
		in.Mask, fault = readPNG("mask", mask)
	}
	if fault != nil {
		f.fail(fault)
	}
	return in
}

// maskEmpty is the fault of an edit that makes nothing new.
func maskEmpty() *Fault {
	return bad("mask_empty", "mask", "nothing is to be made new, want a mask that is transparent "+
		"there, or white where it has no transparency, or an image that is transparent there")
}
