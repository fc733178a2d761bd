package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"unmask/internal/jsonline"
	"unmask/param"
)

// Bounds of a form of parts.
const (
	maxForm  = 24 << 20
	maxParts = 64
)

// fileParts are the names of parts that are files.
var fileParts = []string{"image", "image[]", "mask"}

// readForm reads multipart/form-data: fields as those of a JSON object, and files. Nothing of it
// goes to the disk.
func (s *Server) readForm(w http.ResponseWriter, r *http.Request) (f *fields, fault *Fault) {
	return s.inTurn(r, s.forms, maxForm, func() (*fields, *Fault) { return s.readParts(w, r) })
}

// readParts reads the parts of a form.
func (s *Server) readParts(w http.ResponseWriter, r *http.Request) (*fields, *Fault) {
	if f := checkContent(r, "multipart/form-data"); f != nil {
		return nil, f
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, bad("invalid_multipart", "", "the content type has no boundary, want one")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.times.body))
	f := &fields{object: map[string]json.RawMessage{}, known: slices.Clone(fileParts),
		files: map[string][][]byte{}}
	texts, room := map[string][]string{}, maxBody // bytes that are left for texts
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err != nil {
			return nil, s.formFault(err)
		}
		if n == maxParts {
			fault := fault(http.StatusRequestEntityTooLarge, "too_many_parts",
				"there are more than %d parts, want at most that", maxParts)
			fault.closes = true
			return nil, fault
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, s.formFault(err)
		}
		if name := part.FormName(); slices.Contains(fileParts, name) {
			name = strings.TrimSuffix(name, "[]")
			f.files[name] = append(f.files[name], data)
		} else {
			name = strings.TrimSuffix(name, "[]")
			texts[name] = append(texts[name], string(data))
			if room -= len(data); room < 0 {
				return nil, s.bodyFault(&http.MaxBytesError{}, maxBody)
			}
		}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	for _, name := range sortedKeys(texts) {
		if fault := f.put(name, texts[name]); fault != nil {
			return nil, fault
		}
	}
	return f, nil
}

// formFault is the fault of parts that cannot be read.
func (s *Server) formFault(err error) *Fault {
	f := s.bodyFault(err, maxForm)
	if f.Code == "invalid_body" {
		f.Code, f.Message = "invalid_multipart", "the parts are damaged or end early"
	}
	return f
}

// listed are fields that may have several parts.
var listed = []string{"ban", "bias", "stop"}

// textual are fields that are texts although they may look like numbers.
var textual = []string{"prompt", "negative", "model", "sampler", "schedule", "class", "user",
	"size",
	"response_format", "output_format", "fit", "quality", "background", "reuse", "guidance_schedule",
	"priority", "preset", "style", "input_fidelity", "moderation", "ban", "bias"}

// put makes parts the field of a name, as it would be in JSON.
func (f *fields) put(name string, values []string) *Fault {
	if len(values) > 1 && !slices.Contains(listed, name) {
		return bad("duplicate_key", name, "%s is there twice, want it once", param.Quote(name))
	}
	if err := jsonline.CheckUTF8(strings.Join(values, "")); err != nil {
		return bad("invalid_utf8", name, "%s: %v", param.Quote(name), err)
	}
	switch text := values[0]; {
	case slices.Contains(listed, name):
		f.object[name] = encode(values)
	case !slices.Contains(textual, name) && !strings.HasPrefix(text, "{") &&
		jsonline.Check([]byte(text)) == nil:
		f.object[name] = json.RawMessage(strings.TrimSpace(text))
	default:
		f.object[name] = encode(text)
	}
	return nil
}
