package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ollamaVersion is the version of Ollama whose API its routes follow. Clients compare it with the
// oldest that they can use.
const ollamaVersion = "0.12.11"

// ollamaNames are the chat's fields that Ollama's routes have by other names.
var ollamaNames = map[string]string{"max_tokens": "num_predict", "response_format": "format"}

// ollamaFields reads what POST /api/chat and /api/generate have in common, as fields of the chat.
func (f *fields) ollamaFields() {
	f.latest()
	if !f.has("stream") {
		f.object["stream"] = json.RawMessage("true")
	}
	f.neutral("think", "false")
	f.neutral("images", "[]")
	if format := f.value("format"); format != nil && string(format) != `""` {
		of := map[string]any{"type": "json_object"}
		if string(format) != `"json"` {
			of = map[string]any{"type": "json_schema", "json_schema": map[string]any{"schema": format}}
		}
		f.set("response_format", "format", of)
	}
	f.maybeInner("options", func(o *fields) {
		for _, name := range sortedKeys(o.object) {
			o.known = append(o.known, name)
			switch value := o.object[name]; {
			case f.object[name] != nil:
				o.fail(bad("unsupported_parameter", name, "%s is there twice, want it once", name))
			case name == "num_predict" && string(value) == "-2": // all that there is room for
			case name == "num_predict":
				f.set("max_tokens", name, value)
			default: // the chat knows which it can take
				f.object[name] = value
			}
		}
	})
	f.neutral("n", "1")
	f.neutral("diffusing", "false")
	f.neutral("stream_options")
}

// latest takes the tag off a model's name that Ollama gives to names without one.
func (f *fields) latest() {
	if name, ok := strings.CutSuffix(f.text("model"), ":latest"); ok {
		f.object["model"] = encode(name)
	}
}

// ollamaChat reads POST /api/chat.
func (s *Server) ollamaChat(r *http.Request, f *fields) (q query, st streaming) {
	f.ollamaFields()
	w := &ollamaWire{Chat: true}
	if raw := string(f.value("messages")); raw == "" || raw == "[]" {
		return s.ollamaLoad(f, w)
	}
	var messages []message
	f.messages(func(o *fields) { messages = append(messages, ollamaMessage(o)) })
	return s.converse(r, f, talk{"ollama", "ollama-", ollamaNames, w, noPrefill(f, messages)})
}

// ollamaMessage reads a message, whose calls have no ids.
func ollamaMessage(o *fields) (m message) {
	m.Role, m.Content, m.Calls = o.role(roles...), o.text("content"), readCalls(o)
	o.neutral("images", "[]")
	o.neutral("thinking", `""`)
	o.known = append(o.known, "tool_name", "tool_call_id") // a result follows its call
	return m
}

// ollamaGenerate reads POST /api/generate: a conversation of one message or, with raw, with a
// suffix, or for a model without a chat template, a text that goes on.
func (s *Server) ollamaGenerate(r *http.Request, f *fields) (q query, st streaming) {
	f.ollamaFields()
	f.neutral("template", `""`)
	f.neutral("context", "[]")
	w, prompt, system, raw := &ollamaWire{}, f.text("prompt"), f.text("system"), f.flag("raw")
	if prompt == "" && f.text("suffix") == "" {
		return s.ollamaLoad(f, w)
	}
	m := s.model(&fields{object: f.object}, wantsChat)
	if m == nil || m.chat != nil && !raw && f.text("suffix") == "" {
		var messages []message
		if system != "" {
			messages = append(messages, said("system", system))
		}
		messages = append(messages, said("user", prompt))
		return s.converse(r, f, talk{"ollama", "ollama-", ollamaNames, w, messages})
	}
	f.neutral("system", `""`)
	logs, top := f.flag("logprobs"), f.maybe("top_logprobs", 0, 20, 0)
	if delete(f.object, "logprobs"); logs {
		f.object["logprobs"] = encode(top)
	}
	if q, st = s.ofModel(wantsText, s.completions)(r, f); f.fault != nil {
		f.fault.renamed(ollamaNames)
		return q, st
	}
	q.kind, q.prefix, q.wire = "ollama", "ollama-", w
	q.form = []any{q.forms, w}
	return q, st
}

// ollamaLoad answers a request without a text, by which clients load and unload a model. It stays
// loaded.
func (s *Server) ollamaLoad(f *fields, w *ollamaWire) (q query, st streaming) {
	m := s.model(f, wantsChat)
	if m == nil {
		return q, st
	}
	for name := range f.object {
		f.known = append(f.known, name)
	}
	out := w.part(m.name, time.Now(), "")
	out["done"], out["done_reason"] = true, "load"
	q.ready = &answer{body: encode(out)}
	return q, st
}

// ollamaWire is the wire of /api/chat and /api/generate.
type ollamaWire struct{ Chat bool }

// part returns a line of a stream.
func (w *ollamaWire) part(model string, made time.Time, text string) map[string]any {
	out := map[string]any{"model": model, "created_at": made.UTC().Format(time.RFC3339Nano),
		"done": false}
	if w.Chat {
		out["message"] = map[string]any{"role": "assistant", "content": text}
	} else {
		out["response"] = text
	}
	return out
}

// finish makes out the last line of a stream, or the whole answer.
func (w *ollamaWire) finish(out map[string]any, made *call, p *saying, used usage) {
	waited, ran := made.Times()
	if out["done"], out["done_reason"] = true, "stop"; p.finish == "length" {
		out["done_reason"] = p.finish
	}
	if logs := p.logs(); logs != nil {
		out["logprobs"] = logs.Content
	}
	out["prompt_eval_count"], out["eval_count"] = used.Prompt, used.Completion
	out["total_duration"], out["eval_duration"] = (waited + ran).Nanoseconds(), ran.Nanoseconds()
	out["load_duration"], out["prompt_eval_duration"] = 0, 0
	out["unmask"] = made.info()
}

// calls adds calls to a part, whose arguments are no text.
func (w *ollamaWire) calls(out map[string]any, calls []toolCall) {
	var list []any
	for k, one := range calls {
		list = append(list, map[string]any{"id": one.ID, "function": map[string]any{"index": k,
			"name": one.Function.Name, "arguments": one.input()}})
	}
	if message, ok := out["message"].(map[string]any); ok && list != nil {
		message["tool_calls"] = list
	}
}

func (w *ollamaWire) whole(made *call, all []saying, used usage) *answer {
	out := w.part(made.model.name, made.Created, all[0].text)
	w.calls(out, all[0].calls)
	w.finish(out, made, &all[0], used)
	return &answer{body: encode(out)}
}

func (w *ollamaWire) writer() writer { return &ollamaLines{ollamaWire: w} }

// ollamaLines writes the lines of a stream. A call is in one line, when all of it is there.
type ollamaLines struct {
	*ollamaWire
	made []toolCall
	last saying
}

func (t *ollamaLines) piece(s *stream, made *call, p *saying, _ any) error {
	for _, one := range p.calls {
		if one.ID != "" {
			t.made = append(t.made, one)
		} else {
			t.made[len(t.made)-1].Function.Arguments += one.Function.Arguments
		}
	}
	out := t.part(made.model.name, made.Created, p.text)
	if t.last = *p; p.finish != "" && t.made != nil {
		t.calls(out, t.made)
	} else if p.text == "" {
		return nil
	}
	return s.line(out)
}

func (t *ollamaLines) end(s *stream, made *call, a *answer, f *Fault, _ bool) error {
	if f != nil {
		return s.write(string(ollamaFault(f, "")) + "\n")
	}
	used, _ := a.parts.(usage)
	out := t.part(made.model.name, made.Created, "")
	t.finish(out, made, &t.last, used)
	return s.line(out)
}

// line writes one value of a stream of lines.
func (s *stream) line(value any) error { return s.write(string(encode(value)) + "\n") }

// ollama returns a model as GET /api/tags and /api/ps have it.
func (m *servedModel) ollama() map[string]any {
	size, device := 4*m.Info.Parameters, 0 // bytes in float32
	if m.device != "cpu" {
		device = size
	}
	made := time.Unix(m.created, 0).UTC()
	return map[string]any{"name": m.name, "model": m.name, "size": size, "size_vram": device,
		"digest": m.identity, "modified_at": made, "expires_at": made.AddDate(100, 0, 0),
		"context_length": m.spec.Length(), "details": map[string]any{"parent_model": "",
			"format": "unmask", "family": m.family(), "families": []string{m.family()},
			"parameter_size":     fmt.Sprintf("%.1fM", float64(m.Info.Parameters)/1e6),
			"quantization_level": m.precision}}
}

func (m *servedModel) family() string {
	return strings.ToLower(cmp.Or(m.Info.Architecture, "unmask"))
}

// ollamaTags answers GET /api/tags and /api/ps: the models of text and those that embed texts. All
// stay loaded.
func (s *Server) ollamaTags(*http.Request) (any, *Fault) {
	list := []any{}
	for _, m := range s.all() {
		if m.rank(wantsVectors) >= 0 {
			list = append(list, m.ollama())
		}
	}
	return map[string]any{"models": list}, nil
}

// ollamaShow answers POST /api/show.
func (s *Server) ollamaShow(f *fields) (any, *Fault) {
	f.rename("name", "model") // as older clients call it
	f.latest()
	f.flag("verbose")
	m := s.model(f, wantsVectors)
	if fault := f.end(); fault != nil {
		return nil, fault
	}
	can := []string{"completion"}
	if m.Text == nil {
		can[0] = "embedding"
	} else if m.spec.Block == 0 && m.spec.Causal == 0 { // what follows a hole can be given
		can = append(can, "insert")
	}
	if m.chat != nil {
		if _, calls := m.chat.CallForm(); calls {
			can = append(can, "tools")
		}
	}
	out := m.ollama()
	for _, name := range []string{"modelfile", "template", "license", "parameters"} {
		out[name] = ""
	}
	out["capabilities"], out["model_info"] = can, map[string]any{"general.architecture": m.family(),
		"general.basename": m.name, "general.parameter_count": m.Info.Parameters,
		m.family() + ".context_length": m.spec.Length()}
	return out, nil
}
