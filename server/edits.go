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

// pixelsOf returns how many pixels a picture has, from its header. Formats other than PNG are not
// read: their decoders differ, and with them the answer.
func pixelsOf(name string, data []byte) (int, *Fault) {
	if !bytes.HasPrefix(data, []byte(pngMagic)) {
		if len(data) < len(pngMagic) && bytes.HasPrefix([]byte(pngMagic), data) {
			return 0, bad("invalid_image", name, "%s is a PNG that ends early, want a whole one", name)
		}
		f := fault(http.StatusUnsupportedMediaType, "unsupported_image", "%s is no PNG, want PNG", name)
		f.Param = name
		return 0, f
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return 0, bad("invalid_image", name, "%s is a damaged PNG: %s", name, oneLine(err))
	}
	if config.Width < 1 || config.Height < 1 || config.Width > images.MaxPixels/config.Height {
		f := fault(http.StatusRequestEntityTooLarge, "image_too_large",
			"%s is %d x %d pixels, want %d in all at most", name, config.Width, config.Height,
			images.MaxPixels)
		f.Param = name
		return 0, f
	}
	return config.Width * config.Height, nil
}

// namedFile is a part of a form.
type namedFile struct {
	name string
	data []byte
}

// unfolds waits until there is memory for the pixels of all pictures of a request, of which there
// may be images.MaxPixels in all requests together. It returns what gives the memory back.
func (s *Server) unfolds(r *http.Request, list ...namedFile) (back func(), f *Fault) {
	all := 0
	for _, file := range list {
		n, fault := pixelsOf(file.name, file.data)
		if fault != nil {
			return nil, fault
		}
		all += n
	}
	if all > images.MaxPixels {
		return nil, fault(http.StatusRequestEntityTooLarge, "image_too_large",
			"the pictures have %d pixels, want %d in all at most", all, images.MaxPixels)
	}
	back, err := s.pixels.Take(r.Context(), keyName(r), int64(all))
	if err != nil {
		return nil, bad("invalid_body", "", "the request was cancelled")
	}
	return back, nil
}

// readPNG decodes a picture whose size was looked at.
func readPNG(name string, data []byte) (image.Image, *Fault) {
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, bad("invalid_image", name, "%s is a damaged PNG: %s", name, oneLine(err))
	}
	return picture, nil
}

// one returns the only file of a name, nil where there is none.
func (f *fields) one(name string) []byte {
	files := f.files[name]
	f.refuse(len(files) > 1, outOfRange(name, fmt.Sprintf("%d files", len(files)), "one"))
	if len(files) != 1 {
		return nil
	}
	return files[0]
}

// editing answers POST /v1/images/edits.
func (s *Server) editing(w http.ResponseWriter, r *http.Request) *Fault {
	f, fault := s.readForm(w, r)
	if fault != nil {
		return fault
	}
	defer f.free()
	return s.generate(w, r, f, s.ofModel(wantsPictures, s.edits))
}

// edits reads POST /v1/images/edits.
func (s *Server) edits(r *http.Request, f *fields, m *servedModel) (q query, st streaming) {
	set := readSettings(f)
	form, st := readPicture(r, f, m)
	readSubject(f, m, &set.request)
	form.Fit = f.text("fit")
	f.refuse(form.Fit != "" && !slices.Contains(images.FitNames, form.Fit),
		outOfRange("fit", fmt.Sprintf("%.40q", form.Fit), "cover or contain"))
	image, back := s.readImage(r, f, form.Fit)
	defer back()
	set.request.Image = image
	f.files = nil
	f.free()
	q.sequences = set.prepare(r.Context(), f, m, nil, nil, set.request)
	set.request.Image = nil // its codes are known
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

// readImage reads the picture of an edit and its mask. It returns what gives their memory back.
func (s *Server) readImage(r *http.Request, f *fields, fit string) (_ *unmask.ImageInput,
	back func()) {
	back = func() {}
	in := &unmask.ImageInput{Fit: fit}
	given, mask := f.one("image"), f.one("mask")
	f.refuse(given == nil, missing("image", "a PNG"))
	if f.fault != nil {
		return nil, back
	}
	files := []namedFile{{"image", given}}
	if mask != nil {
		files = append(files, namedFile{"mask", mask})
	}
	unfolded, fault := s.unfolds(r, files...)
	if fault != nil {
		f.fail(fault)
		return nil, back
	}
	if in.Picture, fault = readPNG("image", given); fault == nil && mask != nil {
		in.Mask, fault = readPNG("mask", mask)
	}
	if fault != nil {
		f.fail(fault)
	}
	return in, unfolded
}
