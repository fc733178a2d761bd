package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"unmask/decide"
)

// ollamaVersion is the version of Ollama whose API its routes follow. Clients compare it with the
// oldest that they can use.
const ollamaVersion = "0.12.11"

// ollamaNames are the chat's fields that Ollama's routes have by other names.
var ollamaNames = map[string]string{"max_tokens": "num_predict", "response_format": "format"}

// readOllamaFields reads what POST /api/chat and /api/generate have in common, as fields of the
// chat.
func (f *fields) readOllamaFields() {
	f.dropLatestTag()
	if !f.has("stream") {
		f.object["stream"] = json.RawMessage("true")
	}
	f.requireNeutral("think", "false")
	f.requireNeutral("images", "[]")
	// A conversation that is too long is refused, whatever these say.
	f.requireNeutral("truncate", "true", "false")
	f.requireNeutral("shift", "true", "false")
	f.readOllamaFormat()
	f.readOptionalObject("options", func(o *fields) {
		for _, name := range sortedKeys(o.object) {
			o.accept(name)
			value := o.object[name]
			switch {
			case f.object[name] != nil:
				o.fail(fieldFault("unsupported_parameter", name, "%s is there twice, want it once",
					name))
			case name == "num_predict" && string(value) == "-2": // all that there is room for
			case name == "num_predict":
				f.setChatField("max_tokens", name, value)
			default: // the chat knows which it can take
				f.object[name] = value
			}
		}
	})
	f.requireNeutral("n", "1")
	f.requireNeutral("diffusing", "false")
	f.requireNeutral("stream_options")
}

// readOllamaFormat reads format, "json" or a schema, as the chat's response_format.
func (f *fields) readOllamaFormat() {
	format := f.value("format")
	switch string(format) {
	case "", `""`:
	case `"json"`:
		f.setChatField("response_format", "format", map[string]any{"type": "json_object"})
	default:
		f.setChatField("response_format", "format", map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"schema": format}})
	}
}

// dropLatestTag takes the tag off a model's name that Ollama gives to names without one.
func (f *fields) dropLatestTag() {
	if name, ok := strings.CutSuffix(f.text("model"), ":latest"); ok {
		f.object["model"] = encodeJSON(name)
	}
}

// readOllamaChat reads POST /api/chat.
func (s *Server) readOllamaChat(r *http.Request, f *fields) (query, streamOptions) {
	f.readOllamaFields()
	w := &ollamaWire{Chat: true}
	if raw := string(f.value("messages")); raw == "" || raw == "[]" {
		return s.loadOllamaModel(f, w)
	}
	var messages []message
	f.readMessages(func(o *fields) { messages = append(messages, readOllamaMessage(o)) })
	refusePrefill(f, messages)
	return s.readConversation(r, f, newOllamaRequest(w, messages))
}

// newOllamaRequest returns the request of a conversation in Ollama's shape.
func newOllamaRequest(w *ollamaWire, messages []message) chatRequest {
	return chatRequest{kind: "ollama", idPrefix: "ollama-", names: ollamaNames, wire: w,
		messages: messages}
}

// readOllamaMessage reads a message, whose calls have no ids.
func readOllamaMessage(o *fields) (m message) {
	m.Role = o.role(roles...)
	m.Content = o.text("content")
	m.Calls = readCalls(o)
	o.requireNeutral("images", "[]")
	m.readReasoning(o, "thinking")
	o.accept("tool_name", "tool_call_id") // a result follows its call
	return m
}

// readOllamaGenerate reads POST /api/generate: a conversation of one message or, with raw, with a
// suffix, or for a model without a chat template, a text that goes on.
func (s *Server) readOllamaGenerate(r *http.Request, f *fields) (q query, options streamOptions) {
	f.readOllamaFields()
	f.requireNeutral("template", `""`)
	f.requireNeutral("context", "[]")
	w := &ollamaWire{}
	prompt := f.text("prompt")
	system := f.text("system")
	isRaw := f.flag("raw")
	hasSuffix := f.text("suffix") != ""
	if prompt == "" && !hasSuffix {
		return s.loadOllamaModel(f, w)
	}

	m := s.model(&fields{object: f.object}, needsChat)
	if m == nil || m.chat != nil && !isRaw && !hasSuffix {
		var messages []message
		if system != "" {
			messages = append(messages, textMessage("system", system))
		}
		messages = append(messages, textMessage("user", prompt))
		return s.readConversation(r, f, newOllamaRequest(w, messages))
	}

	f.requireNeutral("system", `""`)
	// Ollama's logprobs is a flag, that of /v1/completions the number of tokens.
	logProbs := f.flag("logprobs")
	top := f.integerOrNull("top_logprobs", 0, 20, 0)
	delete(f.object, "logprobs")
	if logProbs {
		f.object["logprobs"] = encodeJSON(top)
	}
	q, options = s.withModel(needsText, s.readCompletions)(r, f)
	if f.fault != nil {
		f.fault.renameParam(ollamaNames)
		return q, options
	}
	q.kind = "ollama"
	q.idPrefix = "ollama-"
	q.wire = w
	q.answerKey = []any{q.textForms, w}
	return q, options
}

// loadOllamaModel answers a request without a text, by which clients load and unload a model. It
// stays loaded.
func (s *Server) loadOllamaModel(f *fields, w *ollamaWire) (q query, options streamOptions) {
	m := s.model(f, needsChat)
	if m == nil {
		return q, options
	}
	f.acceptAll()
	out := w.newPart(m.name, time.Now(), "")
	out["done"] = true
	out["done_reason"] = "load"
	q.readyAnswer = &answer{body: encodeJSON(out)}
	return q, options
}

// ollamaWire is the wire of /api/chat and /api/generate.
type ollamaWire struct {
	// Chat is true for /api/chat, whose answers have a message in the place of a text. It is
	// exported for the JSON of a call's key.
	Chat bool
}

// newPart returns a line of a stream.
func (w *ollamaWire) newPart(model string, created time.Time, text string) map[string]any {
	part := map[string]any{
		"model":      model,
		"created_at": created.UTC().Format(time.RFC3339Nano),
		"done":       false,
	}
	if w.Chat {
		part["message"] = map[string]any{"role": "assistant", "content": text}
	} else {
		part["response"] = text
	}
	return part
}

// setDone makes part the last line of a stream, or the whole answer.
func (w *ollamaWire) setDone(part map[string]any, c *call, u *choiceUpdate, used usage) {
	waited, ran := c.Times()
	part["done"] = true
	part["done_reason"] = "stop"
	if u.finish == "length" {
		part["done_reason"] = "length"
	}
	if logs := u.chatLogs(); logs != nil {
		part["logprobs"] = logs.Content
	}
	part["prompt_eval_count"] = used.Prompt
	part["eval_count"] = used.Completion
	part["total_duration"] = (waited + ran).Nanoseconds()
	part["eval_duration"] = ran.Nanoseconds()
	part["load_duration"] = 0
	part["prompt_eval_duration"] = 0
	part["unmask"] = c.info()
}

// addToolCalls adds calls to a part. Their arguments are an object, not a text as OpenAI has them.
func (w *ollamaWire) addToolCalls(part map[string]any, calls []toolCall) {
	var list []any
	for k, call := range calls {
		list = append(list, map[string]any{"id": call.ID, "function": map[string]any{
			"index":     k,
			"name":      call.Function.Name,
			"arguments": call.jsonArguments(),
		}})
	}
	if message, ok := part["message"].(map[string]any); ok && list != nil {
		message["tool_calls"] = list
	}
}

func (w *ollamaWire) encodeAnswer(c *call, choices []choiceUpdate, used usage) *answer {
	u := &choices[0]
	part := w.newPart(c.model.name, c.Created, u.text)
	w.addToolCalls(part, u.calls)
	w.setDone(part, c, u, used)
	return &answer{body: encodeJSON(part)}
}

func (w *ollamaWire) newStreamWriter() streamWriter { return &ollamaStream{ollamaWire: w} }

// ollamaStream writes the lines of a stream.
type ollamaStream struct {
	*ollamaWire

	// calls are the calls so far. They are sent in one line, when all of them are complete.
	calls []toolCall

	// last is the latest update.
	last choiceUpdate
}

func (w *ollamaStream) writeUpdate(s *stream, c *call, u *choiceUpdate, _ any) error {
	for _, part := range u.calls {
		if part.ID != "" {
			w.calls = append(w.calls, part)
		} else {
			w.calls[len(w.calls)-1].Function.Arguments += part.Function.Arguments
		}
	}
	w.last = *u
	hasCalls := u.finish != "" && w.calls != nil
	if !hasCalls && u.text == "" {
		return nil
	}
	part := w.newPart(c.model.name, c.Created, u.text)
	if hasCalls {
		w.addToolCalls(part, w.calls)
	}
	return s.sendLine(part)
}

func (w *ollamaStream) writeEnd(s *stream, c *call, a *answer, f *Fault, _ bool) error {
	if f != nil {
		return s.write(string(encodeOllamaFault(f, "")) + "\n")
	}
	used, _ := a.details.(usage)
	part := w.newPart(c.model.name, c.Created, "")
	w.setDone(part, c, &w.last, used)
	return s.sendLine(part)
}

// sendLine writes one value of a stream of lines.
func (s *stream) sendLine(value any) error { return s.write(string(encodeJSON(value)) + "\n") }

// ollamaInfo returns a model as GET /api/tags and /api/ps have it.
func (m *servedModel) ollamaInfo() map[string]any {
	size := 4 * m.Info.Parameters // bytes in float32
	sizeOnDevice := 0
	if m.device != "cpu" {
		sizeOnDevice = size
	}
	created := time.Unix(m.created, 0).UTC()
	return map[string]any{
		"name":           m.name,
		"model":          m.name,
		"size":           size,
		"size_vram":      sizeOnDevice,
		"digest":         m.identity,
		"modified_at":    created,
		"expires_at":     created.AddDate(100, 0, 0), // it stays loaded
		"context_length": m.spec.Length(),
		"details": map[string]any{
			"parent_model":       "",
			"format":             "unmask",
			"family":             m.family(),
			"families":           []string{m.family()},
			"parameter_size":     fmt.Sprintf("%.1fM", float64(m.Info.Parameters)/1e6),
			"quantization_level": m.precision,
		},
	}
}

// family returns the model's architecture as Ollama's clients read it.
func (m *servedModel) family() string {
	return strings.ToLower(cmp.Or(m.Info.Architecture, "unmask"))
}

// answerOllamaTags answers GET /api/tags and /api/ps: the models of text, those that embed texts
// and those that answer typed questions. All stay loaded.
func (s *Server) answerOllamaTags(*http.Request) (any, *Fault) {
	list := []any{}
	for _, m := range s.allModels() {
		if m.rank(needsOllama) >= 0 {
			list = append(list, m.ollamaInfo())
		}
	}
	return map[string]any{"models": list}, nil
}

// answerOllamaShow answers POST /api/show.
func (s *Server) answerOllamaShow(f *fields) (any, *Fault) {
	f.renameChatField("name", "model") // as older clients call it
	f.dropLatestTag()
	f.flag("verbose")
	m := s.model(f, needsOllama)
	if fault := f.finish(); fault != nil {
		return nil, fault
	}

	out := m.ollamaInfo()
	for _, name := range []string{"modelfile", "template", "license", "parameters"} {
		out[name] = ""
	}
	out["capabilities"] = m.ollamaCapabilities()
	out["model_info"] = map[string]any{
		"general.architecture":         m.family(),
		"general.basename":             m.name,
		"general.parameter_count":      m.Info.Parameters,
		m.family() + ".context_length": m.spec.Length(),
	}
	return out, nil
}

// ollamaCapabilities returns what a model can do, in Ollama's words.
func (m *servedModel) ollamaCapabilities() []string {
	if decide.HasDecisionHead(m.Model) {
		return []string{"decision"}
	}
	if m.Text == nil {
		return []string{"embedding"}
	}
	capabilities := []string{"completion"}
	if m.spec.Block == 0 && m.spec.Causal == 0 { // positions see what follows a hole
		capabilities = append(capabilities, "insert")
	}
	if m.chat != nil {
		if _, hasForm := m.chat.CallForm(); hasForm {
			capabilities = append(capabilities, "tools")
		}
	}
	return capabilities
}
