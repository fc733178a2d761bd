package server

import (
	"fmt"
	"net/http"
	"strings"

	"unmask"
	"unmask/model"
)

// encoding answers POST /v1/images/encode: the codes of a PNG, as the body or as the part image.
func (s *Server) encoding(w http.ResponseWriter, r *http.Request) *Fault {
	read := s.readForm
	if strings.HasPrefix(r.Header.Get("Content-Type"), "image/png") {
		read = s.readPicture
	}
	f, fault := read(w, r)
	if fault != nil {
		return fault
	}
	defer f.free()
	m := s.model(f, wantsPictures)
	fit, data := f.text("fit"), f.one("image")
	f.refuse(data == nil, missing("image", "a PNG"))
	if fault = f.end(); fault != nil {
		return fault
	}
	back, fault := s.unfolds(r, namedFile{"image", data})
	if fault != nil {
		return fault
	}
	defer back()
	picture, fault := readPNG("image", data)
	if fault != nil {
		return fault
	}
	fitted, err := m.Pictures.Fit(picture, fit)
	var codes []int32
	if err == nil {
		codes, err = m.Pictures.Encode(fitted)
	}
	if err != nil {
		return refused("image", err)
	}
	writeJSON(w, encode(struct {
		Object string  `json:"object"`
		Model  string  `json:"model"`
		Shape  []int   `json:"shape"`
		Codes  []int32 `json:"codes"`
	}{"codes", m.name, m.spec.Shape, codes}))
	return nil
}

// readPicture reads a body that is a PNG, as the file image.
func (s *Server) readPicture(w http.ResponseWriter, r *http.Request) (*fields, *Fault) {
	return s.inTurn(r, s.forms, maxForm, func() (*fields, *Fault) {
		fault := checkContent(r, "image/png")
		if fault != nil {
			return nil, fault
		}
		data, fault := s.readAll(w, r, maxForm)
		return &fields{files: map[string][][]byte{"image": {data}}}, fault
	})
}

// decoding answers POST /v1/images/decode: the PNG of codes, null for unknown ones.
func (s *Server) decoding(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	m := s.model(f, wantsPictures)
	codes := f.ids("codes", m)
	var condition *model.Condition
	if m != nil && f.fault == nil {
		if n := m.spec.Length(); len(codes) != n {
			f.fail(outOfRange("codes", fmt.Sprintf("a list of %d", len(codes)), fmt.Sprint(n)))
		}
	}
	if m != nil && m.spec.Prompt { // some decoders read it
		var subject unmask.Request
		readSubject(f, m, &subject)
		list := (&settings{n: 1}).prepare(r.Context(), f, m, nil, nil, subject)
		if f.fault == nil {
			condition = list[0].Condition
		}
	}
	if fault := f.end(); fault != nil {
		return fault
	}
	data, err := m.picture(codes, condition)
	if err != nil {
		return bad("out_of_range", "codes", "%s", oneLine(err))
	}
	writeBody(w, http.StatusOK, "image/png", data)
	return nil
}
