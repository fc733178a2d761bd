package server

import (
	"encoding/json"
	"fmt"
	"net/http"

	"unmask"
	"unmask/constrain"
	"unmask/generate"
	"unmask/internal/jsonline"
)

// streaming is the form in which an answer is streamed.
type streaming struct {
	form  string // "", openai, diffusing or events
	steps bool   // of the openai form, each with what it opened
	usage bool
}

// readStream reads stream, stream_options and diffusing.
func readStream(f *fields) (s streaming) {
	if raw := f.value("stream"); raw != nil {
		switch string(raw) {
		case "true":
			s.form = "openai"
		case "false":
		case `"events"`:
			s.form = "events"
		default:
			if jsonline.ValueKind(raw) == "a text" {
				f.fail(outOfRange("stream", cut(string(raw)), `true, false or "events"`))
			} else {
				f.wrongType("stream", raw, `true, false or "events"`)
			}
		}
	}
	if f.flag("diffusing") && s.form == "openai" {
		s.form = "diffusing"
	}
	f.maybeInner("stream_options", func(o *fields) {
		s.usage, s.steps = o.flag("include_usage"), o.flag("include_steps")
		o.neutral("include_obfuscation", "false", "true")
	})
	return s
}

// Bounds of stop.
const (
	maxStops = 4
	maxStop  = 64 // bytes
)

// readStops reads stop.
func (s *settings) readStops(f *fields) {
	stops := f.texts("stop")
	f.refuse(len(stops) > maxStops,
		bad("out_of_range", "stop", "stop has %d texts, want at most %d", len(stops), maxStops))
	for i, stop := range stops {
		f.refuse(len(stop) < 1 || len(stop) > maxStop,
			bad("out_of_range", "stop", "stop %d is %d bytes, want 1 to %d", i, len(stop), maxStop))
	}
	s.request.Stop = stops
}

// readTexts reads a text, ids, or a list of either, at most some of them.
func readTexts(f *fields, name string, m *servedModel, most int) (texts []unmask.Request) {
	raw := f.value(name)
	if raw == nil {
		f.fail(missing(name, "a text, token ids, or a list of either"))
		return nil
	}
	list := []json.RawMessage{raw}
	if raw[0] != '"' {
		inner := f.list(name, raw)
		if len(inner) == 0 || jsonline.ValueKind(inner[0]) != "a number" {
			list = inner
		}
	}
	if n := len(list); n == 0 {
		f.fail(bad("missing", name, "%s is an empty list, want a text or token ids", name))
	} else if n > most {
		f.fail(bad("out_of_range", name, "%s has %d texts, want 1 to %d", name, n, most))
	}
	for i, one := range list {
		switch kind := jsonline.ValueKind(one); {
		case f.fault != nil:
			return nil
		case kind != jsonline.ValueKind(list[0]) || kind != "a text" && kind != "a list":
			f.fail(bad("wrong_type", name, "%s %d is %s, want all texts or all lists of token ids", name,
				i, kind))
		case kind == "a text":
			texts = append(texts, unmask.Request{Prompt: f.textOf(name, one)})
		default:
			ids := readIDs(f, name, f.list(name, one), m, false)
			texts = append(texts, unmask.Request{Tokens: ids})
		}
	}
	return texts
}

// readIDs reads token ids. Where holes are allowed null is the mask.
func readIDs(f *fields, name string, list []json.RawMessage, m *servedModel, holes bool) []int32 {
	ids := make([]int32, 0, min(len(list), m.spec.Length()))
	if most := m.spec.Length(); len(list) > most {
		f.fail(tooLong(name, len(list), most))
		return nil
	}
	want := fmt.Sprintf("0 to %d", m.spec.Outcomes-1)
	if int(m.spec.Mask) < m.spec.Outcomes {
		want += fmt.Sprintf(", but not the mask %d", m.spec.Mask)
	}
	for i, one := range list {
		if holes && string(one) == "null" {
			ids = append(ids, m.spec.Mask)
			continue
		}
		if !isWhole(string(one)) {
			f.fail(bad("wrong_type", name, "%s has %s at index %d, want token ids", name,
				cut(string(one)), i))
			return nil
		}
		var id int32
		if json.Unmarshal(one, &id) != nil || id < 0 || int(id) >= m.spec.Outcomes || id == m.spec.Mask {
			f.fail(bad("unknown_token", name, "%s has token %s at index %d, want %s", name,
				cut(string(one)), i, want))
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

func tooLong(name string, tokens, most int) *Fault {
	return bad("context_length_exceeded", name, "%s is %d tokens, want at most %d: "+
		"the prompt is too long", name, tokens, most)
}

// textOnly reads the fields that all routes of texts share, and refuses others' that unmask lacks.
func textOnly(f *fields, s *settings, m *servedModel) {
	f.into(&s.request, textFields...)
	s.readStops(f)
	s.readBias(f, m)
	s.grammar(f)
	f.neutrals()
}

// noTools refuses tools where an answer cannot be a call.
func noTools(f *fields) {
	f.neutral("tools", "[]")
	f.neutral("tool_choice", `"none"`, `"auto"`)
	f.neutral("parallel_tool_calls", "false", "true")
}

// promptNames are the fields of /v1/completions that a request has by other names.
var promptNames = map[string]string{"tokens": "prompt", "length": "max_tokens"}

// completions reads POST /v1/completions.
func (s *Server) completions(r *http.Request, f *fields, m *servedModel) (q query, st streaming) {
	set := readSettings(f)
	st = readStream(f)
	echo := f.flag("echo")
	logs := f.has("logprobs")
	set.top = f.maybe("logprobs", 0, generate.MaxTop, 0)
	textOnly(f, &set, m)
	noTools(f)
	f.into(&set.request, "suffix")
	set.readLength(f)
	prompts := readTexts(f, "prompt", m, maxPrompts)
	if f.fault == nil && len(prompts)*set.n > maxChoices {
		f.fail(outOfRange("n", set.n, fmt.Sprintf("1 to %d with %d prompts", maxChoices/len(prompts),
			len(prompts))))
	}
	if f.fault == nil && st.form == "events" && len(prompts) > 1 {
		f.fail(bad("unsupported_parameter", "stream",
			`stream is "events" with %d prompts, want one prompt`, len(prompts)))
	}
	for i, p := range prompts {
		prompts[i] = set.request
		prompts[i].Prompt, prompts[i].Tokens = p.Prompt, p.Tokens
	}
	full := bad("context_length_exceeded", "prompt",
		"prompt leaves no position to fill, want a shorter one")
	q.sequences = set.prepare(r.Context(), f, m, promptNames, full, prompts...)
	if f.fault != nil {
		return q, st
	}
	forms := make([]textForm, 0, len(q.sequences))
	for i, one := range q.sequences {
		p := &prompts[i/set.n]
		form := m.textForm(p, &one, logs)
		if echo {
			form.ShowPrompt()
		}
		if i%set.n == 0 {
			q.prompt += len(one.Known) - m.spec.CountMasked(one.Known) - m.spec.SpecialCount()
		}
		forms = append(forms, form)
	}
	set.checkTop(f, "logprobs", q.sequences, m)
	q.kind, q.prefix, q.model, q.set, q.form = "completions", "cmpl-", m, set, forms
	q.forms, q.wire, q.answers = forms, completionWire, textAnswer
	return q, st
}

// readLength reads max_tokens, or its newer name. Clients have defaults beyond a model's length, so
// more than there is room for means all that there is.
func (s *settings) readLength(f *fields) {
	most := f.maybe("max_tokens", 1, maxFirst, 0)
	s.request.MaxTokens = f.maybe("max_completion_tokens", 1, maxFirst, most)
}

// choices is an answer that OpenAI's clients read, or a chunk of its stream.
type choices[Choice any] struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Choices     []Choice `json:"choices"`
	Usage       *usage   `json:"usage,omitempty"`
	Unmask      any      `json:"unmask,omitempty"`
}

func newChoices[Choice any](made *call, object string) choices[Choice] {
	return choices[Choice]{ID: made.id(), Object: object, Created: made.Created.Unix(),
		Model: made.model.name, Fingerprint: made.model.fingerprint(), Choices: []Choice{}}
}

type completionChoice struct {
	Index    int       `json:"index"`
	Text     string    `json:"text"`
	LogProbs *logProbs `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
	// of guided_choice: each text with its probability
	Choices []constrain.Choice `json:"choices,omitempty"`
}

// completionWire is the wire of /v1/completions.
var completionWire = &openAIWire[completionChoice]{"text_completion", "text_completion",
	completionOf}

func completionOf(p *saying) completionChoice {
	c := completionChoice{Index: p.index, Text: p.text}
	if p.shown != nil {
		c.Finish, c.Choices = &p.finish, p.of.Choices
		if p.form.LogProbs {
			c.LogProbs = p.form.logProbs(p.of, p.shown.Tokens())
		}
	}
	return c
}
