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

// pictureForm is the form in which pictures are answered.
type pictureForm struct {
	Format   string // b64_json or url
	Codes    bool
	Partials int // pictures on the way of each; -1: after every step
	Fit      string
	Base     string // of URLs: how the client reaches the server
	event    string // of streams: image_generation or image_edit
	cells    []int  // that an edit makes new
}

// readPicture reads the fields that all ways to make pictures have in common.
func readPicture(r *http.Request, f *fields, m *servedModel) (form pictureForm, st streaming) {
	st = readStream(f)
	if st.form == "diffusing" {
		st.form = "openai"
	}
	if form.Format = f.word("response_format", "b64_json", "url"); form.Format == "url" {
		form.Base = baseURL(r)
	}
	f.word("output_format", "png")
	form.Codes = f.flag("codes")
	if raw := f.value("partial_images"); string(raw) == `"all"` {
		form.Partials = -1
	} else if raw != nil {
		form.Partials = f.wholeOf("partial_images", raw, 0, 3)
	}
	f.neutral("quality", `"auto"`, `"standard"`)
	f.neutral("background", `"auto"`, `"opaque"`)
	f.neutral("output_compression", "100")
	f.neutral("moderation", `"auto"`, `"low"`)
	f.neutral("style")
	f.neutral("input_fidelity")
	if size := f.text("size"); size != "" && size != "auto" && f.fault == nil {
		if own := m.size(); size != own {
			f.fail(outOfRange("size", param.Quote(size), "auto or "+own))
		}
	}
	return form, st
}

// size returns the size of the model's pictures, such as 256x256.
func (m *servedModel) size() string {
	width, height, err := m.Pictures.Size()
	if err != nil {
		return "auto"
	}
	return fmt.Sprintf("%dx%d", width, height)
}

// readSubject reads what pictures are drawn from: prompt, class and negative.
func readSubject(f *fields, m *servedModel, r *unmask.Request) {
	f.into(r, "prompt", "negative", "class")
	if f.flag("ignore_prompt") && !m.spec.Prompt {
		r.Prompt = ""
	}
}

// generations reads POST /v1/images/generations.
func (s *Server) generations(r *http.Request, f *fields, m *servedModel) (q query, st streaming) {
	set := readSettings(f)
	form, st := readPicture(r, f, m)
	readSubject(f, m, &set.request)
	q.sequences = set.prepare(r.Context(), f, m, nil, nil, set.request)
	form.event = "image_generation"
	q.kind, q.prefix, q.model, q.set, q.form = "images", "img-", m, set, form
	q.answers = func(made *call) (*answer, *Fault) { return pictureAnswer(made, form) }
	return q, st
}

// pictures is the answer of routes that make pictures.
type pictures struct {
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

// pictureAnswer makes the answer of finished sequences.
func pictureAnswer(made *call, form pictureForm) (*answer, *Fault) {
	out := pictures{Created: made.Created.Unix(), Data: []picture{}, Size: made.model.size(),
		Format: "png", Unmask: made.info()}
	a := &answer{}
	for i, m := range made.Members {
		data, err := made.model.picture(m.Tokens, m.Request.Condition)
		if err != nil {
			return nil, fault(http.StatusInternalServerError, "decode_failed", "picture %d: %s", i,
				oneLine(err))
		}
		a.images = append(a.images, data)
		p := picture{URL: fmt.Sprintf("%s/v1/results/%s/%d.png", form.Base, made.Key, i)}
		if form.Format == "b64_json" {
			p = picture{Base64: base64.StdEncoding.EncodeToString(data)}
		}
		out.Data = append(out.Data, p)
		if form.Codes {
			out.Unmask.Codes = append(out.Unmask.Codes, m.Tokens)
		}
		out.Usage.Output += made.model.spec.CountMasked(m.Request.Known)
	}
	out.Unmask.Cells, out.Unmask.Fit = form.cells, form.Fit
	out.Usage.Total = out.Usage.Output
	out.Usage.Details = map[string]int{"text_tokens": 0, "image_tokens": 0}
	a.body, a.parts = encode(out), out
	return a, nil
}

// picture returns the PNG of codes; masked cells are checkered.
func (m *servedModel) picture(codes []int32, c *model.Condition) ([]byte, error) {
	filled, hidden, err := m.Pictures.Fill(codes)
	if err != nil {
		return nil, err
	}
	img, err := m.Pictures.ConditionedImage(filled, c)
	if err != nil {
		return nil, err
	}
	cells, err := m.Pictures.Cells(hidden)
	if err != nil {
		return nil, err
	}
	images.DrawCheck(img, cells)
	var data bytes.Buffer
	err = png.Encode(&data, img)
	return data.Bytes(), err
}

// partialAt reports whether a picture is sent after a step: evenly, and never after the last, which
// is the answer itself.
func (form *pictureForm) partialAt(step, steps int, done bool) (number int, is bool) {
	if done || form.Partials == 0 {
		return 0, false
	}
	if form.Partials < 0 {
		return step - 1, true
	}
	for i := range form.Partials {
		if at := (i + 1) * steps / (form.Partials + 1); at == step {
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

// openCells is a stream of one call's pictures as their cells open.
type openCells struct {
	*stream
	call   *call
	form   pictureForm
	native bool      // the events are the native ones and those of partial pictures
	codes  [][]int32 // by choice: the codes so far
}

// event returns what all events of a call's pictures share.
func (p *openCells) event(kind string, data []byte) imageEvent {
	return imageEvent{Type: p.form.event + kind, Base64: base64.StdEncoding.EncodeToString(data),
		Created: p.call.Created.Unix(), Size: p.call.model.size(), Format: "png", Quality: "auto",
		Ground: "opaque"}
}

// cells streams pictures as their cells open: OpenAI's events or, among the native ones, those of
// partial pictures. The native form, also of texts, is start, step, done or error; all its data
// lines but the last are a trace.
func (s *stream) cells(made *call, form pictureForm, native bool) error {
	p := &openCells{stream: s, call: made, form: form, native: native}
	for _, m := range made.Members {
		p.codes = append(p.codes, slices.Clone(m.Start()))
	}
	if native {
		if err := s.send("start", "", encode(made.start())); err != nil {
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return s.finish(made, s.follow(made, p.step), func(a *answer, f *Fault) error {
		switch {
		case f != nil:
			return s.send("error", "", f.JSON())
		case native:
			return s.send("done", "", a.body)
		}
		return p.completed(a)
	})
}

// step follows step n of all and sends its events.
func (p *openCells) step(n int, e engine.Event) error {
	codes := e.Apply(p.codes[e.Choice], p.call.model.spec.Mask)
	p.codes[e.Choice] = codes
	if p.native {
		if err := p.send("step", fmt.Sprint(n), encode(e.Step)); err != nil {
			return err
		}
	}
	number, is := p.form.partialAt(e.Step.Step, e.Steps, e.Done)
	if !is {
		return nil
	}
	data, err := p.call.model.picture(codes, p.call.Members[e.Choice].Request.Condition)
	if err != nil {
		return fault(http.StatusInternalServerError, "decode_failed", "%s", oneLine(err))
	}
	partial := p.event(".partial_image", data)
	partial.Partial = &number
	partial.Unmask = imageStep{Choice: e.Choice, Step: e.Step.Step, Steps: e.Steps,
		Open: len(codes) - p.call.model.spec.CountMasked(codes), Of: len(codes)}
	return p.send(partial.Type, "", encode(partial))
}

// completed sends OpenAI's last event of each picture.
func (p *openCells) completed(a *answer) error {
	parts := a.parts.(pictures)
	for i, data := range a.images {
		last := p.event(".completed", data)
		last.Usage, last.Unmask = &parts.Usage, struct {
			Choice int `json:"choice"`
			unmaskInfo
		}{i, parts.Unmask}
		if err := p.send(last.Type, "", encode(last)); err != nil {
			return err
		}
	}
	return nil
}

// startEvent is the header of a trace, and where the call stands.
type startEvent struct {
	traces.Header
	Key     string  `json:"key"`
	ID      string  `json:"id"`
	First   int     `json:"first"`
	Choices int     `json:"choices"`
	Rows    int64   `json:"rows"` // of all steps, at most
	Ahead   int     `json:"ahead"`
	Wait    float64 `json:"wait_seconds"`
}

func (c *call) start() startEvent {
	ahead, wait := c.Ahead()
	return startEvent{Header: c.header(), Key: c.Key, ID: c.id(),
		First: int(c.sequences[0].Index), Choices: len(c.Members), Rows: c.Rows,
		Ahead: ahead, Wait: math.Round(wait*1000) / 1000}
}
