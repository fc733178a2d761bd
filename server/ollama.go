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

// readOllamaRequest reads what POST /api/chat and /api/generate have in common.
func readOllamaRequest(f *fields, w *ollamaWire) (t textRequest) {
	t.kind = "ollama"
	t.idPrefix = "ollama-"
	t.wire = w
	t.stream = readStreamOptions(f)
	if !f.has("stream") {
		t.stream.form = streamsSettled
	}
	f.requireNeutral("think", "false")
	f.requireNeutral("images", "[]")
	// A conversation that is too long is refused, whatever these say.
	f.requireNeutral("truncate", "true", "false")
	f.requireNeutral("shift", "true", "false")
	format := f.value("format")
	length := takeOllamaOptions(f)
	t.readOllamaFormat(f, format)
	f.requireNeutral("n", "1")
	f.requireNeutral("diffusing", "false")
	f.requireNeutral("stream_options")
	t.readStopTexts(f, "stop")
	if length != nil {
		f.refuseBeside("num_predict", "max_tokens")
	} else {
		length = f.value("max_tokens")
	}
	t.setMaxTokens(f, "num_predict", length)
	return t
}

// takeOllamaOptions puts the options beside the other fields, because what comes after reads them
// all by their names. It returns num_predict, which has a meaning of its own here, nil where it is
// left open.
func takeOllamaOptions(f *fields) (length json.RawMessage) {
	f.readOptionalObject("options", func(o *fields) {
		for _, name := range sortedKeys(o.object) {
			value := o.raw(name)
			switch {
			case f.object[name] != nil || name == "stream":
				o.fail(fieldFault("unsupported_parameter", name, "%s is there twice, want it once",
					name))
			case name != "num_predict":
				f.object[name] = value
			case string(value) != "-2" && string(value) != "null": // -2 is all there is room for
				length = value
			}
		}
	})
	return length
}

// readOllamaFormat sets the format to the value of the field format, "json" or a schema.
func (t *textRequest) readOllamaFormat(f *fields, format json.RawMessage) {
	switch string(format) {
	case "", `""`:
		t.readResponseFormat(f, "response_format", f.value("response_format"))
		return
	case `"json"`:
		format = json.RawMessage(anyObject)
	}
	f.refuseBeside("format", "response_format")
	t.format = responseFormat{field: "format", schema: format}
}

// ollamaModelName returns the name of a model in a field, without the tag that Ollama gives to
// names that have none.
func (f *fields) ollamaModelName(field string) string {
	return strings.TrimSuffix(f.text(field), ":latest")
}

// findOllamaModel returns the model that a request of Ollama's asks for.
func (s *Server) findOllamaModel(f *fields, need modelNeed) *servedModel {
	return s.findModel(f, f.ollamaModelName("model"), f.has("model"), need)
}

// readOllamaChat reads POST /api/chat.
func (s *Server) readOllamaChat(r *http.Request, f *fields) (query, streamOptions) {
	w := &ollamaWire{Chat: true}
	text := readOllamaRequest(f, w)
	if raw := string(f.value("messages")); raw == "" || raw == "[]" {
		return s.loadOllamaModel(f, w)
	}
	t := newOllamaChat(f, text)
	f.readMessages(func(o *fields) { t.messages = append(t.messages, readOllamaMessage(o)) })
	refusePrefill(f, t.messages)
	return s.readConversation(r, f, t)
}

// newOllamaChat reads the fields of a request that only an answer to a conversation has.
func newOllamaChat(f *fields, text textRequest) chatRequest {
	t := chatRequest{
		textRequest:   text,
		modelName:     f.ollamaModelName("model"),
		messagesField: "messages",
	}
	t.readLogProbs(f)
	t.tools.readChatTools(f)
	return t
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
	w := &ollamaWire{}
	t := readOllamaRequest(f, w)
	f.requireNeutral("template", `""`)
	f.requireNeutral("context", "[]")
	prompt := f.text("prompt")
	system := f.text("system")
	isRaw := f.flag("raw")
	hasSuffix := f.text("suffix") != ""
	if prompt == "" && !hasSuffix {
		return s.loadOllamaModel(f, w)
	}

	// Where there is no such model, the chat's reader says so.
	m := s.findOllamaModel(&fields{object: f.object}, needsChat)
	if m == nil || m.chat != nil && !isRaw && !hasSuffix {
		conversation := newOllamaChat(f, t)
		if system != "" {
			conversation.messages = []message{textMessage("system", system)}
		}
		conversation.messages = append(conversation.messages, textMessage("user", prompt))
		return s.readConversation(r, f, conversation)
	}

	f.requireNeutral("system", `""`)
	// Ollama's logprobs is a flag, that of /v1/completions the number of tokens.
	t.logProbs = f.flag("logprobs")
	t.readTopLogProbs(f)
	if !t.logProbs {
		t.top = 0
	}
	m = s.findOllamaModel(f, needsText)
	if m == nil {
		return q, options
	}
	return s.readPromptRequest(r, f, m, t)
}

// loadOllamaModel answers a request without a text, by which clients load and unload a model. It
// stays loaded.
func (s *Server) loadOllamaModel(f *fields, w *ollamaWire) (q query, options streamOptions) {
	m := s.findOllamaModel(f, needsChat)
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

// encodeAnswer implements wire: one object with the whole message.
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

// writeUpdate implements streamWriter. Ollama's clients want calls whole, so their arguments are
// collected and sent at the end.
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

// writeEnd implements streamWriter: the last line has done and the counts.
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
func (s *Server) answerOllamaShow(_ *http.Request, f *fields) (any, *Fault) {
	field := f.eitherName("name", "model") // name is what older clients call it
	f.flag("verbose")
	m := s.findModel(f, f.ollamaModelName(field), f.has(field), needsOllama)
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
