package server

import (
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"unmask/internal/jsonline"
	"unmask/param"
)

// Bounds of a form of parts.
const (
	maxForm  = 24 << 20 // bytes
	maxParts = 64
)

// fileParts are the names of parts that are files.
var fileParts = []string{"image", "image[]", "mask"}

// readForm reads multipart/form-data: fields as those of a JSON object, and files. Nothing of it
// goes to the disk.
func (s *Server) readForm(w http.ResponseWriter, r *http.Request) (*fields, *Fault) {
	return s.readInTurn(r, s.forms, maxForm, func() (*fields, *Fault) {
		if f := checkContent(r, "multipart/form-data"); f != nil {
			return nil, f
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		parts, err := r.MultipartReader()
		if err != nil {
			return nil, fieldFault("invalid_multipart", "",
				"the content type has no boundary, want one")
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(s.timeouts.body))
		f, texts, fault := s.readParts(parts)
		if fault != nil {
			return nil, fault
		}
		_ = control.SetReadDeadline(time.Time{})

		for _, name := range sortedKeys(texts) {
			if fault := f.setFormField(name, texts[name]); fault != nil {
				return nil, fault
			}
		}
		return f, nil
	})
}

// readParts reads the parts of a form: its files, and its texts by name.
func (s *Server) readParts(parts *multipart.Reader) (f *fields, texts map[string][]string,
	fault *Fault) {
	f = &fields{
		object: map[string]json.RawMessage{},
		known:  slices.Clone(fileParts),
		files:  map[string][][]byte{},
	}
	texts = map[string][]string{}
	textBytes := 0
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) && n > 0 {
			return f, texts, nil
		}
		if err != nil {
			return nil, nil, s.formFault(err)
		}
		if n == maxParts {
			fault := newFault(http.StatusRequestEntityTooLarge, "too_many_parts",
				"more than %d parts", maxParts)
			fault.closes = true
			return nil, nil, fault
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, s.formFault(err)
		}

		// Clients write name[] for a field that may have several parts.
		name := strings.TrimSuffix(part.FormName(), "[]")
		if slices.Contains(fileParts, part.FormName()) {
			f.files[name] = append(f.files[name], data)
			continue
		}
		texts[name] = append(texts[name], string(data))
		textBytes += len(data)
		if textBytes > maxJSON {
			return nil, nil, s.bodyFault(&http.MaxBytesError{}, maxJSON)
		}
	}
}

// formFault is the fault of parts that cannot be read.
func (s *Server) formFault(err error) *Fault {
	f := s.bodyFault(err, maxForm)
	if f.Code == "invalid_body" {
		f.Code = "invalid_multipart"
		f.Message = "the parts are damaged or end early"
	}
	return f
}

// listFields are fields that may have several parts.
var listFields = []string{"ban", "bias", "stop"}

// textOnlyFields are fields that are texts although they may look like numbers.
var textOnlyFields = []string{"prompt", "negative", "model", "sampler", "schedule", "class", "user",
	"size", "response_format", "output_format", "fit", "quality", "background", "reuse",
	"guidance_schedule", "priority", "preset", "style", "input_fidelity", "moderation", "ban",
	"bias"}

// setFormField makes the parts of a name the field of that name, as it would be in JSON.
func (f *fields) setFormField(name string, values []string) *Fault {
	isList := slices.Contains(listFields, name)
	if len(values) > 1 && !isList {
		return fieldFault("duplicate_key", name, "%s is there twice, want it once",
			param.Quote(name))
	}
	if err := jsonline.CheckUTF8(strings.Join(values, "")); err != nil {
		return fieldFault("invalid_utf8", name, "%s: %v", param.Quote(name), err)
	}
	if isList {
		f.object[name] = encodeJSON(values)
		return nil
	}

	// A part has no type, so 3 and true are read as numbers and flags where a field may be either.
	text := values[0]
	isJSON := !slices.Contains(textOnlyFields, name) && !strings.HasPrefix(text, "{") &&
		jsonline.Check([]byte(text)) == nil
	if isJSON {
		f.object[name] = json.RawMessage(strings.TrimSpace(text))
	} else {
		f.object[name] = encodeJSON(text)
	}
	return nil
}
