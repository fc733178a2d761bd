package server

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"slices"

	"unmask"
	"unmask/media/images"
)

// pngMagic begins every PNG.
const pngMagic = "\x89PNG\r\n\x1a\n"

// countPixels returns how many pixels a picture has, from its header. Formats other than PNG are
// not read: their decoders differ, and with them the answer.
func countPixels(name string, data []byte) (int, *Fault) {
	if !bytes.HasPrefix(data, []byte(pngMagic)) {
		if len(data) < len(pngMagic) && bytes.HasPrefix([]byte(pngMagic), data) {
			return 0, fieldFault("invalid_image", name,
				"%s is a PNG that ends early, want a whole one", name)
		}
		f := newFault(http.StatusUnsupportedMediaType, "unsupported_image",
			"%s is no PNG, want PNG", name)
		f.Param = name
		return 0, f
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return 0, fieldFault("invalid_image", name, "%s is a damaged PNG: %s", name, oneLine(err))
	}
	if config.Width < 1 || config.Height < 1 || config.Width > images.MaxPixels/config.Height {
		f := newFault(http.StatusRequestEntityTooLarge, "image_too_large",
			"%s is %d x %d pixels, want %d in all at most", name, config.Width, config.Height,
			images.MaxPixels)
		f.Param = name
		return 0, f
	}
	return config.Width * config.Height, nil
}

// formFile is a part of a form that is a file.
type formFile struct {
	name string
	data []byte
}

// reservePixels waits until there is memory for the pixels of all pictures of a request, of which
// there may be images.MaxPixels in all requests together: a small PNG can have very many. It
// returns what gives the memory back.
func (s *Server) reservePixels(r *http.Request, files ...formFile) (release func(), f *Fault) {
	pixels := 0
	for _, file := range files {
		n, fault := countPixels(file.name, file.data)
		if fault != nil {
			return nil, fault
		}
		pixels += n
	}
	if pixels > images.MaxPixels {
		return nil, newFault(http.StatusRequestEntityTooLarge, "image_too_large",
			"the pictures have %d pixels, want %d in all at most", pixels, images.MaxPixels)
	}
	release, err := s.pixels.Take(r.Context(), keyName(r), int64(pixels))
	if err != nil {
		return nil, fieldFault("invalid_body", "", "the request was cancelled")
	}
	return release, nil
}

// decodePNG decodes a picture whose pixels were reserved.
func decodePNG(name string, data []byte) (image.Image, *Fault) {
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fieldFault("invalid_image", name, "%s is a damaged PNG: %s", name, oneLine(err))
	}
	return picture, nil
}

// singleFile returns the only file of a name, nil where there is none.
func (f *fields) singleFile(name string) []byte {
	files := f.files[name]
	if len(files) > 1 {
		f.fail(rangeFault(name, fmt.Sprintf("%d files", len(files)), "one"))
	}
	if len(files) != 1 {
		return nil
	}
	return files[0]
}

// handleEdits answers POST /v1/images/edits.
func (s *Server) handleEdits(w http.ResponseWriter, r *http.Request) *Fault {
	f, fault := s.readForm(w, r)
	if fault != nil {
		return fault
	}
	defer f.release()
	return s.generate(w, r, f, s.withModel(needsPictures, s.readEdits))
}

// readEdits reads POST /v1/images/edits.
func (s *Server) readEdits(r *http.Request, f *fields, m *servedModel) (q query,
	options streamOptions) {
	set := readSettings(f)
	form, options := readPictureForm(r, f, m)
	readSubject(f, m, &set.request)
	form.Fit = f.text("fit")
	f.failIf(form.Fit != "" && !slices.Contains(images.FitNames, form.Fit),
		rangeFault("fit", fmt.Sprintf("%.40q", form.Fit), "cover or contain"))
	input, releasePixels := s.readImageInput(r, f, form.Fit)
	defer releasePixels()
	set.request.Image = input
	f.files = nil
	f.release()
	q.sequences = set.prepare(r.Context(), f, m, nil, nil, set.request)
	set.request.Image = nil // the sequences have its codes, and its pixels are released
	if f.fault != nil {
		return q, options
	}

	for cell, token := range q.sequences[0].Known {
		if token == m.spec.Mask {
			form.cells = append(form.cells, cell)
		}
	}
	form.eventPrefix = "image_edit"
	q.kind = "edits"
	q.setPictures(m, set, form)
	return q, options
}

// readImageInput reads the picture of an edit and its mask. It returns what gives their memory
// back, which is never nil.
func (s *Server) readImageInput(r *http.Request, f *fields, fit string) (_ *unmask.ImageInput,
	release func()) {
	doNothing := func() {}
	imageData := f.singleFile("image")
	maskData := f.singleFile("mask")
	f.failIf(imageData == nil, missingFault("image", "a PNG"))
	if f.fault != nil {
		return nil, doNothing
	}
	files := []formFile{{"image", imageData}}
	if maskData != nil {
		files = append(files, formFile{"mask", maskData})
	}
	release, fault := s.reservePixels(r, files...)
	if fault != nil {
		f.fail(fault)
		return nil, doNothing
	}

	input := &unmask.ImageInput{Fit: fit}
	input.Picture, fault = decodePNG("image", imageData)
	if fault == nil && maskData != nil {
		input.Mask, fault = decodePNG("mask", maskData)
	}
	if fault != nil {
		f.fail(fault)
	}
	return input, release
}
