package server

import (
	"net/http"
	"slices"

	"unmask/param"
)

// messagesRoute reads Anthropic's POST /v1/messages.
func (s *Server) messagesRoute(r *http.Request, f *fields) (query, streaming) {
	w := &messageWire{Stops: f.texts("stop_sequences")}
	f.rename("stop_sequences", "stop")
	f.known = append(f.known, "cache_control", "diagnostics", "inference_geo", "user_profile_id",
		"workspace_id")
	f.neutral("speed", `"standard"`)
	f.neutral("mcp_servers", "[]")
	f.neutral("container")
	f.neutral("context_management")
	f.maybeInner("thinking", func(o *fields) {
		o.word("type", "disabled", "adaptive") // adaptive leaves it to the model
		o.known = append(o.known, "display")
	})
	f.rename("output_format", "response_format")
	f.maybeInner("output_config", func(o *fields) {
		o.neutral("effort", `"high"`) // which is the usual one
		if format := o.value("format"); format != nil {
			f.set("response_format", "output_config.format", format)
		}
	})
	f.flatTools("custom", "input_schema", "cache_control", "defer_loading", "allowed_callers",
		"eager_input_streaming", "input_examples")
	f.maybeInner("tool_choice", func(o *fields) { f.object["tool_choice"] = encode(f.anyChoice(o)) })
	var list []message
	if f.has("system") {
		list = append(list, said("system", readContent(f, "system", "text")))
	}
	f.messages(func(o *fields) { list = append(list, readTurn(o)...) })
	return s.converse(r, f, talk{"messages", "msg_", map[string]string{"stop": "stop_sequences",
		"response_format": "output_config.format"}, w, noPrefill(f, list)})
}

// countTokens reads POST /v1/messages/count_tokens.
func (s *Server) countTokens(r *http.Request, f *fields) (query, streaming) {
	q, st := s.messagesRoute(r, f)
	q.ready = &answer{body: encode(map[string]int{"input_tokens": q.prompt})}
	return q, st
}

// anyChoice returns the chat's tool_choice.
func (f *fields) anyChoice(o *fields) any {
	if o.flag("disable_parallel_tool_use") {
		f.set("parallel_tool_calls", "tool_choice.disable_parallel_tool_use", false)
	}
	switch kind, name := o.word("type", "auto", "any", "tool", "none"), o.text("name"); kind {
	case "any":
		return "required"
	case "tool":
		return choiceOf(name)
	default:
		return kind
	}
}

// noPrefill refuses a conversation whose last message an answer would have to go on with.
func noPrefill(f *fields, list []message) []message {
	if n := len(list); n > 0 && list[n-1].Role == "assistant" {
		f.fail(bad("unsupported_parameter", "messages", "messages has an assistant's last, want a "+
			"user's or a tool's: an answer does not go on with another"))
	}
	return list
}

// readTurn reads a message, whose content is a text or blocks, as one or several of the chat's.
func readTurn(o *fields) (list []message) {
	role, raw := o.role("user", "assistant", "system"), o.value("content")
	if raw == nil || raw[0] == '"' {
		return []message{said(role, readContent(o, "content"))}
	}
	o.each("content", maxMessages, func(b *fields) { list = readBlock(b, role, list) })
	if list == nil {
		list = []message{said(role, "")}
	}
	return list
}

// readBlock adds a block of a message to its part of the conversation.
func readBlock(b *fields, role string, list []message) []message {
	b.known = append(b.known, partFields...)
	kind := b.text("type")
	switch {
	case kind == "text":
		if n := len(list); n > 0 && list[n-1].Role == role && list[n-1].Calls == nil {
			list[n-1].Content += b.needed("text")
			return list
		}
		return append(list, said(role, b.needed("text")))
	case kind == "tool_use" && role == "assistant":
		b.known = append(b.known, "caller")
		return called(list, b.call("input", b.needed("id"), b.needed("name"), string(b.value("input"))))
	case kind == "tool_result" && role == "user":
		b.known = append(b.known, "is_error") // its text tells
		m := said("tool", "")
		if b.has("content") {
			m.Content = readContent(b, "content", "text")
		}
		m.CallID = b.needed("tool_use_id")
		return append(list, m)
	}
	b.fail(bad("unsupported_parameter", "type", "type is %s, want text, tool_use of an assistant or "+
		"tool_result of a user", param.Quote(kind)))
	return list
}

// messageWire is the wire of /v1/messages.
type messageWire struct{ Stops []string }

func (w *messageWire) body(made *call, content []any) map[string]any {
	return map[string]any{"id": made.id(), "type": "message", "role": "assistant",
		"model": made.model.name, "content": content, "stop_reason": nil, "stop_sequence": nil,
		"usage": messageUsage(usage{Prompt: made.prompt})}
}

func messageUsage(u usage) map[string]int {
	return map[string]int{"input_tokens": u.Prompt, "output_tokens": u.Completion,
		"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
}

// stop sets why a choice ends.
func (w *messageWire) stop(out map[string]any, p *saying) {
	out["stop_reason"], out["stop_sequence"] = "end_turn", nil
	switch {
	case p.finish == "length":
		out["stop_reason"] = "max_tokens"
	case p.finish == "tool_calls":
		out["stop_reason"] = "tool_use"
	case slices.Contains(w.Stops, p.shown.Stop):
		out["stop_reason"], out["stop_sequence"] = "stop_sequence", p.shown.Stop
	}
}

func (w *messageWire) whole(made *call, all []saying, used usage) *answer {
	p, content := &all[0], []any{}
	if p.text != "" || p.calls == nil {
		content = append(content, map[string]string{"type": "text", "text": p.text})
	}
	for _, one := range p.calls {
		content = append(content, toolUse(&one, one.input()))
	}
	out := w.body(made, content)
	w.stop(out, p)
	out["usage"], out["unmask"] = messageUsage(used), made.info()
	return &answer{body: encode(out)}
}

func toolUse(c *toolCall, input any) map[string]any {
	return map[string]any{"type": "tool_use", "id": c.ID, "name": c.Function.Name, "input": input}
}

func (w *messageWire) writer() writer { return &messageEvents{messageWire: w} }

// messageEvents writes the events of a message.
type messageEvents struct {
	*messageWire
	blocks
	ended map[string]any
}

func (t *messageEvents) piece(s *stream, made *call, p *saying, _ any) error {
	if t.s = s; t.sent == 0 {
		t.send("message_start", map[string]any{"message": t.body(made, []any{})})
	}
	if p.finish != "" {
		t.ended = map[string]any{}
		t.stop(t.ended, p)
	}
	return t.take(t, s, made, p)
}

func (t *messageEvents) begin(b *block) {
	var of any = map[string]string{"type": "text", "text": ""}
	if b.call != nil {
		of = toolUse(b.call, struct{}{})
	}
	t.send("content_block_start", map[string]any{"index": b.index, "content_block": of})
}

func (t *messageEvents) more(b *block, text string) {
	delta := map[string]string{"type": "text_delta", "text": text}
	if b.call != nil {
		delta = map[string]string{"type": "input_json_delta", "partial_json": text}
	}
	t.send("content_block_delta", map[string]any{"index": b.index, "delta": delta})
}

func (t *messageEvents) done(b *block) {
	t.send("content_block_stop", map[string]any{"index": b.index})
}

func (t *messageEvents) end(s *stream, _ *call, a *answer, f *Fault, _ bool) error {
	if f != nil {
		return s.send("error", "", anthropicFault(f, s.w.Header().Get("X-Request-Id")))
	}
	used, _ := a.parts.(usage)
	t.send("message_delta", map[string]any{"delta": t.ended, "usage": messageUsage(used)})
	t.send("message_stop", map[string]any{})
	return t.err
}
