package server

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/png"
	"math"
	"net/http"
	"slices"

	"unmask"
	"unmask/generate/traces"
	"unmask/media/images"
	"unmask/model"
	"unmask/param"
	"unmask/server/engine"
)

// pictureForm is the form in which pictures are answered. Its exported fields are part of a call's
// key.
type pictureForm struct {
	// Format is b64_json or url.
	Format string

	// Codes reports whether the answer has the codes of the pictures.
	Codes bool

	// Partials is the number of unfinished pictures that a stream sends of each. -1 is one after
	// every step.
	Partials int

	Fit string

	// Base begins URLs: it is how the client reaches the server.
	Base string

	// eventPrefix begins the names of a stream's events: image_generation or image_edit.
	eventPrefix string

	// cells are those that an edit makes new.
	cells []int
}

// readPictureForm reads the fields that all ways to make pictures have in common.
func readPictureForm(r *http.Request, f *fields, m *servedModel) (form pictureForm,
	options streamOptions) {
	options = readStreamOptions(f)
	if options.form == streamsDiffusing {
		options.form = streamsSettled
	}
	form.Format = f.oneOf("response_format", "b64_json", "url")
	if form.Format == "url" {
		form.Base = baseURL(r)
	}
	f.oneOf("output_format", "png")
	form.Codes = f.flag("codes")
	if raw := f.value("partial_images"); string(raw) == `"all"` {
		form.Partials = -1
	} else if raw != nil {
		form.Partials = f.parseInteger("partial_images", raw, 0, 3)
	}
	f.requireNeutral("quality", `"auto"`, `"standard"`)
	f.requireNeutral("background", `"auto"`, `"opaque"`)
	f.requireNeutral("output_compression", "100")
	f.requireNeutral("moderation", `"auto"`, `"low"`)
	f.requireNeutral("style")
	f.requireNeutral("input_fidelity", `"low"`)
	if size := f.text("size"); size != "" && size != "auto" && f.fault == nil {
		if modelSize := m.pictureSize(); size != modelSize {
			f.fail(rangeFault("size", param.Quote(size), "auto or "+modelSize))
		}
	}
	return form, options
}

// pictureSize returns the size of the model's pictures, such as 256x256.
func (m *servedModel) pictureSize() string {
	width, height, err := m.Pictures.Size()
	if err != nil {
		return "auto"
	}
	return fmt.Sprintf("%dx%d", width, height)
}

// readSubject reads what pictures are drawn from: prompt, class and negative.
func readSubject(f *fields, m *servedModel, r *unmask.Request) {
	f.decodeInto(r, "prompt", "negative", "class")
	if f.flag("ignore_prompt") && !m.spec.Prompt {
		r.Prompt = ""
	}
}

// readGenerations reads POST /v1/images/generations.
func (s *Server) readGenerations(r *http.Request, f *fields, m *servedModel) (q query,
	options streamOptions) {
	set := readSettings(f)
	form, options := readPictureForm(r, f, m)
	readSubject(f, m, &set.request)
	q.sequences = set.prepare(r.Context(), f, m, nil, nil, set.request)
	form.eventPrefix = "image_generation"
	q.kind = "images"
	q.setPictures(m, set, form)
	return q, options
}

// setPictures sets what all queries for pictures have in common.
func (q *query) setPictures(m *servedModel, set settings, form pictureForm) {
	q.idPrefix = "img-"
	q.model = m
	q.settings = set
	q.answerKey = form
	q.makeAnswer = func(c *call) (*answer, *Fault) { return answerPictures(c, form) }
}

// pictureAnswer is the answer of routes that make pictures.
type pictureAnswer struct {
	Created int64      `json:"created"`
	Data    []picture  `json:"data"`
	Size    string     `json:"size"`
	Format  string     `json:"output_format"`
	Usage   imageUsage `json:"usage"`
	Unmask  unmaskInfo `json:"unmask"`
}

type picture struct {
	Base64 string `json:"b64_json,omitempty"`
	URL    string `json:"url,omitempty"`
}

// imageUsage counts tokens as OpenAI does for pictures.
type imageUsage struct {
	Input   int            `json:"input_tokens"`
	Output  int            `json:"output_tokens"`
	Total   int            `json:"total_tokens"`
	Details map[string]int `json:"input_tokens_details"`
}

// answerPictures makes the answer of finished sequences.
func answerPictures(c *call, form pictureForm) (*answer, *Fault) {
	out := pictureAnswer{Created: c.Created.Unix(), Data: []picture{}, Size: c.model.pictureSize(),
		Format: "png", Unmask: c.info()}
	a := &answer{}
	for i, m := range c.Members {
		data, err := c.model.encodePicture(m.Tokens, m.Request.Condition)
		if err != nil {
			return nil, newFault(http.StatusInternalServerError, "decode_failed", "picture %d: %s", i,
				oneLine(err))
		}
		a.images = append(a.images, data)
		if form.Format == "b64_json" {
			out.Data = append(out.Data, picture{Base64: base64.StdEncoding.EncodeToString(data)})
		} else {
			url := fmt.Sprintf("%s/v1/results/%s/%d.png", form.Base, c.Key, i)
			out.Data = append(out.Data, picture{URL: url})
		}
		if form.Codes {
			out.Unmask.Codes = append(out.Unmask.Codes, m.Tokens)
		}
		out.Usage.Output += c.model.spec.CountMasked(m.Request.Known)
	}
	out.Unmask.Cells = form.cells
	out.Unmask.Fit = form.Fit
	out.Usage.Total = out.Usage.Output
	out.Usage.Details = map[string]int{"text_tokens": 0, "image_tokens": 0}
	a.body = encodeJSON(out)
	a.details = out
	return a, nil
}

// encodePicture returns the PNG of codes. Masked cells are checkered.
func (m *servedModel) encodePicture(codes []int32, c *model.Condition) ([]byte, error) {
	filled, masked, err := m.Pictures.Fill(codes)
	if err != nil {
		return nil, err
	}
	img, err := m.Pictures.ConditionedImage(filled, c)
	if err != nil {
		return nil, err
	}
	cells, err := m.Pictures.Cells(masked)
	if err != nil {
		return nil, err
	}
	images.DrawCheck(img, cells)
	var data bytes.Buffer
	err = png.Encode(&data, img)
	return data.Bytes(), err
}

// partialAfter reports whether an unfinished picture is sent after a step, and its number. They are
// sent evenly, and never after the last step, which is the answer itself.
func (form *pictureForm) partialAfter(step, steps int, done bool) (number int, ok bool) {
	if done || form.Partials == 0 {
		return 0, false
	}
	if form.Partials < 0 {
		return step - 1, true
	}
	for i := range form.Partials {
		if (i+1)*steps/(form.Partials+1) == step {
			return i, true
		}
	}
	return 0, false
}

// imageEvent is an event of OpenAI's streams of pictures.
type imageEvent struct {
	Type    string      `json:"type"`
	Base64  string      `json:"b64_json"`
	Created int64       `json:"created_at"`
	Size    string      `json:"size"`
	Format  string      `json:"output_format"`
	Quality string      `json:"quality"`
	Ground  string      `json:"background"`
	Partial *int        `json:"partial_image_index,omitempty"`
	Usage   *imageUsage `json:"usage,omitempty"`
	Unmask  any         `json:"unmask,omitempty"`
}

// imageStep describes the step of a partial picture.
type imageStep struct {
	Choice int `json:"choice"`
	Step   int `json:"step"`
	Steps  int `json:"steps"`
	Open   int `json:"open"`
	Of     int `json:"of"`
}

// pictureStream is a stream of one call's pictures as their cells open.
type pictureStream struct {
	*stream
	call *call
	form pictureForm

	// isNative reports whether the native events are sent beside those of partial pictures.
	isNative bool

	// codes are those so far of each choice.
	codes [][]int32
}

// newEvent returns what all events of a call's pictures share. data is a PNG.
func (p *pictureStream) newEvent(suffix string, data []byte) imageEvent {
	return imageEvent{
		Type:    p.form.eventPrefix + suffix,
		Base64:  base64.StdEncoding.EncodeToString(data),
		Created: p.call.Created.Unix(),
		Size:    p.call.model.pictureSize(),
		Format:  "png",
		Quality: "auto",
		Ground:  "opaque",
	}
}

// sendPictures streams pictures as their cells open: OpenAI's events or, among the native ones,
// those of partial pictures. The native form, also of texts, is start, step, done or error; all its
// data lines but the last are a trace.
func (s *stream) sendPictures(c *call, form pictureForm, isNative bool) error {
	p := &pictureStream{stream: s, call: c, form: form, isNative: isNative}
	for _, m := range c.Members {
		p.codes = append(p.codes, slices.Clone(m.Start()))
	}
	if isNative {
		if err := s.sendEvent("start", "", encodeJSON(c.startEvent())); err != nil {
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return s.finish(c, s.follow(c, p.sendStep), func(a *answer, f *Fault) error {
		if f != nil {
			return s.sendEvent("error", "", f.JSON())
		}
		if isNative {
			return s.sendEvent("done", "", a.body)
		}
		return p.sendCompleted(a)
	})
}

// sendStep sends the events of step n of all.
func (p *pictureStream) sendStep(n int, e engine.Event) error {
	spec := p.call.model.spec
	codes := e.Apply(p.codes[e.Choice], spec.Mask)
	p.codes[e.Choice] = codes
	if p.isNative {
		if err := p.sendEvent("step", fmt.Sprint(n), encodeJSON(e.Step)); err != nil {
			return err
		}
	}
	number, ok := p.form.partialAfter(e.Step.Step, e.Steps, e.Done)
	if !ok {
		return nil
	}

	condition := p.call.Members[e.Choice].Request.Condition
	data, err := p.call.model.encodePicture(codes, condition)
	if err != nil {
		return newFault(http.StatusInternalServerError, "decode_failed", "%s", oneLine(err))
	}
	partial := p.newEvent(".partial_image", data)
	partial.Partial = &number
	partial.Unmask = imageStep{Choice: e.Choice, Step: e.Step.Step, Steps: e.Steps,
		Open: len(codes) - spec.CountMasked(codes), Of: len(codes)}
	return p.sendEvent(partial.Type, "", encodeJSON(partial))
}

// sendCompleted sends OpenAI's last event of each picture.
func (p *pictureStream) sendCompleted(a *answer) error {
	details := a.details.(pictureAnswer)
	for i, data := range a.images {
		completed := p.newEvent(".completed", data)
		completed.Usage = &details.Usage
		completed.Unmask = struct {
			Choice int `json:"choice"`
			unmaskInfo
		}{i, details.Unmask}
		if err := p.sendEvent(completed.Type, "", encodeJSON(completed)); err != nil {
			return err
		}
	}
	return nil
}

// startEvent is the header of a trace, and where the call stands.
type startEvent struct {
	traces.Header
	Key     string `json:"key"`
	ID      string `json:"id"`
	First   int    `json:"first"`
	Choices int    `json:"choices"`

	// Rows are those of all steps, at most.
	Rows int64 `json:"rows"`

	// Ahead is the number of calls that take their steps before, for Wait seconds.
	Ahead int     `json:"ahead"`
	Wait  float64 `json:"wait_seconds"`
}

// startEvent returns the first event of a stream of steps: what is asked for, and how long it
// waits.
func (c *call) startEvent() startEvent {
	ahead, wait := c.Ahead()
	return startEvent{
		Header:  c.traceHeader(),
		Key:     c.Key,
		ID:      c.id(),
		First:   int(c.sequences[0].Index),
		Choices: len(c.Members),
		Rows:    c.Rows,
		Ahead:   ahead,
		Wait:    math.Round(wait*1000) / 1000,
	}
}
