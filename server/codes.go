package server

import (
	"fmt"
	"net/http"
	"strings"

	"unmask"
	"unmask/model"
)

// handleEncode answers POST /v1/images/encode: the codes of a PNG, as the body or as the part
// image.
func (s *Server) handleEncode(w http.ResponseWriter, r *http.Request) *Fault {
	read := s.readForm
	if strings.HasPrefix(r.Header.Get("Content-Type"), "image/png") {
		read = s.readPNGBody
	}
	f, fault := read(w, r)
	if fault != nil {
		return fault
	}
	defer f.release()
	m := s.model(f, needsPictures)
	fit := f.text("fit")
	data := f.singleFile("image")
	f.failIf(data == nil, missingFault("image", "a PNG"))
	if fault := f.finish(); fault != nil {
		return fault
	}

	release, fault := s.reservePixels(r, formFile{"image", data})
	if fault != nil {
		return fault
	}
	defer release()
	picture, fault := decodePNG("image", data)
	if fault != nil {
		return fault
	}
	fitted, err := m.Pictures.Fit(picture, fit)
	if err != nil {
		return faultOf("image", err)
	}
	codes, err := m.Pictures.Encode(fitted)
	if err != nil {
		return faultOf("image", err)
	}
	writeJSON(w, encodeJSON(struct {
		Object string  `json:"object"`
		Model  string  `json:"model"`
		Shape  []int   `json:"shape"`
		Codes  []int32 `json:"codes"`
	}{"codes", m.name, m.spec.Shape, codes}))
	return nil
}

// readPNGBody reads a body that is a PNG, as the file image.
func (s *Server) readPNGBody(w http.ResponseWriter, r *http.Request) (*fields, *Fault) {
	return s.readInTurn(r, s.forms, maxForm, func() (*fields, *Fault) {
		if fault := checkContent(r, "image/png"); fault != nil {
			return nil, fault
		}
		data, fault := s.readBytes(w, r, maxForm)
		return &fields{files: map[string][][]byte{"image": {data}}}, fault
	})
}

// handleDecode answers POST /v1/images/decode: the PNG of codes, null for unknown ones.
func (s *Server) handleDecode(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	m := s.model(f, needsPictures)
	codes := f.tokenIDs("codes", m)
	if m != nil && f.fault == nil {
		if n := m.spec.Length(); len(codes) != n {
			f.fail(rangeFault("codes", fmt.Sprintf("a list of %d", len(codes)), fmt.Sprint(n)))
		}
	}
	var condition *model.Condition
	if m != nil && m.spec.Prompt { // some decoders read the prompt, too
		var subject unmask.Request
		readSubject(f, m, &subject)
		set := settings{n: 1}
		sequences := set.prepare(r.Context(), f, m, nil, nil, subject)
		if f.fault == nil {
			condition = sequences[0].Condition
		}
	}
	if fault := f.finish(); fault != nil {
		return fault
	}
	data, err := m.encodePicture(codes, condition)
	if err != nil {
		return fieldFault("out_of_range", "codes", "%s", oneLine(err))
	}
	writeBody(w, http.StatusOK, "image/png", data)
	return nil
}
