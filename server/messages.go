package server

import (
	"encoding/json"
	"net/http"
	"slices"

	"unmask/param"
)

// readMessages reads Anthropic's POST /v1/messages.
func (s *Server) readMessages(r *http.Request, f *fields) (query, streamOptions) {
	w := &messageWire{Stops: f.texts("stop_sequences")}
	t := chatRequest{modelName: f.text("model"), messagesField: "messages"}
	t.kind = "messages"
	t.idPrefix = "msg_"
	t.wire = w
	t.stream = readStreamOptions(f)
	t.readLogProbs(f)
	t.readMaxTokens(f, "max_tokens")
	t.readStopTexts(f, f.eitherName("stop_sequences", "stop"))
	f.accept("cache_control", "diagnostics", "inference_geo", "user_profile_id", "workspace_id")
	f.requireNeutral("speed", `"standard"`)
	f.requireNeutral("mcp_servers", "[]")
	f.requireNeutral("container")
	f.requireNeutral("context_management")
	f.readOptionalObject("thinking", func(o *fields) {
		o.oneOf("type", "disabled", "adaptive") // adaptive leaves it to the model
		o.accept("display")
	})
	t.readOutputFormat(f)
	t.tools.readFlatTools(f, "custom", "input_schema", "cache_control", "defer_loading",
		"allowed_callers", "eager_input_streaming", "input_examples")
	t.tools.readSeveral(f)
	t.tools.readAnthropicChoice(f)

	if f.has("system") {
		t.messages = append(t.messages, textMessage("system", readContent(f, "system", "text")))
	}
	f.readMessages(func(o *fields) {
		t.messages = append(t.messages, readAnthropicMessage(o)...)
	})
	refusePrefill(f, t.messages)
	return s.readConversation(r, f, t)
}

// readOutputFormat reads output_config, whose format is the answer's, and output_format, its older
// name.
func (t *textRequest) readOutputFormat(f *fields) {
	var format json.RawMessage
	f.readOptionalObject("output_config", func(o *fields) {
		o.requireNeutral("effort", `"high"`) // which is Anthropic's default
		format = o.value("format")
	})
	field := f.eitherName("output_format", "response_format")
	if format == nil {
		t.readResponseFormat(f, field, f.value(field))
		return
	}
	f.refuseBeside("output_config.format", field)
	t.readResponseFormat(f, "output_config.format", format)
}

// readTokenCount reads POST /v1/messages/count_tokens.
func (s *Server) readTokenCount(r *http.Request, f *fields) (query, streamOptions) {
	q, options := s.readMessages(r, f)
	q.readyAnswer = &answer{body: encodeJSON(map[string]int{"input_tokens": q.promptTokens})}
	return q, options
}

// readAnthropicChoice reads tool_choice, an object with a type.
func (t *toolRequest) readAnthropicChoice(f *fields) {
	t.choice.found = truncate(string(f.value("tool_choice")))
	f.readOptionalObject("tool_choice", func(o *fields) {
		if o.flag("disable_parallel_tool_use") {
			f.refuseBeside("tool_choice.disable_parallel_tool_use", "parallel_tool_calls")
			t.several = false
		}
		choiceType := o.oneOf("type", "auto", "any", "tool", "none")
		name := o.text("name")
		switch choiceType {
		case "any":
			t.choice.mode = mustCall
		case "none":
			t.choice.mode = neverCalls
		case "tool":
			t.choice.mode = callsFunction
			t.choice.function = name
		}
	})
}

// refusePrefill refuses a conversation whose last message an answer would have to go on with: chat
// templates end the assistant's last message, so the model would see an answer that is complete.
func refusePrefill(f *fields, conversation []message) {
	if n := len(conversation); n > 0 && conversation[n-1].Role == "assistant" {
		f.fail(fieldFault("unsupported_parameter", "messages", "messages has an assistant's last, "+
			"want a user's or a tool's: an answer does not go on with another"))
	}
}

// readAnthropicMessage reads a message, whose content is a text or blocks, as one or several of the
// chat's.
func readAnthropicMessage(o *fields) (messages []message) {
	role := o.role("user", "assistant", "system")
	raw := o.value("content")
	if raw == nil || raw[0] == '"' {
		return []message{textMessage(role, readContent(o, "content"))}
	}
	o.readObjects("content", maxMessages, func(b *fields) {
		messages = readContentBlock(b, role, messages)
	})
	if messages == nil {
		messages = []message{textMessage(role, "")}
	}
	return messages
}

// readContentBlock adds a block of a message of some role to messages, which are those of its
// earlier blocks.
func readContentBlock(b *fields, role string, messages []message) []message {
	b.accept(partFields...)
	blockType := b.text("type")
	switch {
	case blockType == "text":
		if n := len(messages); n > 0 && messages[n-1].Role == role && messages[n-1].Calls == nil {
			messages[n-1].Content += b.requiredText("text")
			return messages
		}
		return append(messages, textMessage(role, b.requiredText("text")))
	case blockType == "tool_use" && role == "assistant":
		b.accept("caller")
		id := b.requiredText("id")
		name := b.requiredText("name")
		return withCall(messages, b.newCall("input", id, name, string(b.value("input"))))
	case blockType == "tool_result" && role == "user":
		b.accept("is_error") // the result's text tells the model
		m := textMessage("tool", "")
		if b.has("content") {
			m.Content = readContent(b, "content", "text")
		}
		m.CallID = b.requiredText("tool_use_id")
		return append(messages, m)
	}
	b.fail(fieldFault("unsupported_parameter", "type", "type is %s, want text, tool_use of an "+
		"assistant or tool_result of a user", param.Quote(blockType)))
	return messages
}

// messageWire is the wire of /v1/messages.
type messageWire struct {
	// Stops are the stop texts of the request: an answer says which of them ended it. It is exported
	// for the JSON of a call's key.
	Stops []string
}

// newMessage returns a message with content, as it is before its end is known.
func (w *messageWire) newMessage(c *call, content []any) map[string]any {
	return map[string]any{
		"id":            c.id(),
		"type":          "message",
		"role":          "assistant",
		"model":         c.model.name,
		"content":       content,
		"stop_reason":   nil,
		"stop_sequence": nil,
		"usage":         anthropicUsage(usage{Prompt: c.promptTokens}),
	}
}

// anthropicUsage returns a usage as Anthropic's clients read it.
func anthropicUsage(u usage) map[string]int {
	return map[string]int{
		"input_tokens":                u.Prompt,
		"output_tokens":               u.Completion,
		"cache_creation_input_tokens": 0,
		"cache_read_input_tokens":     0,
	}
}

// setStopReason sets why a choice ends.
func (w *messageWire) setStopReason(out map[string]any, u *choiceUpdate) {
	out["stop_reason"] = "end_turn"
	out["stop_sequence"] = nil
	switch {
	case u.finish == "length":
		out["stop_reason"] = "max_tokens"
	case u.finish == "tool_calls":
		out["stop_reason"] = "tool_use"
	case slices.Contains(w.Stops, u.rendered.Stop):
		out["stop_reason"] = "stop_sequence"
		out["stop_sequence"] = u.rendered.Stop
	}
}

// encodeAnswer implements wire: a message of Anthropic's API. It has one block of text even if
// there is none, unless there are calls.
func (w *messageWire) encodeAnswer(c *call, choices []choiceUpdate, used usage) *answer {
	u := &choices[0]
	content := []any{}
	if u.text != "" || u.calls == nil {
		content = append(content, map[string]string{"type": "text", "text": u.text})
	}
	for _, call := range u.calls {
		content = append(content, newToolUse(&call, call.jsonArguments()))
	}
	out := w.newMessage(c, content)
	w.setStopReason(out, u)
	out["usage"] = anthropicUsage(used)
	out["unmask"] = c.info()
	return &answer{body: encodeJSON(out)}
}

// newToolUse returns the block of a call.
func newToolUse(call *toolCall, input any) map[string]any {
	return map[string]any{"type": "tool_use", "id": call.ID, "name": call.Function.Name,
		"input": input}
}

func (w *messageWire) newStreamWriter() streamWriter { return &messageStream{messageWire: w} }

// messageStream writes the events of a message.
type messageStream struct {
	*messageWire
	blockWriter

	// stopReason is why the message ended, with the fields of setStopReason.
	stopReason map[string]any
}

// writeUpdate implements streamWriter.
func (w *messageStream) writeUpdate(s *stream, c *call, u *choiceUpdate, _ any) error {
	w.stream = s
	if w.eventsSent == 0 {
		w.sendEvent("message_start", map[string]any{"message": w.newMessage(c, []any{})})
	}
	if u.finish != "" {
		w.stopReason = map[string]any{}
		w.setStopReason(w.stopReason, u)
	}
	return w.writeBlocks(w, s, c, u)
}

// beginBlock implements blockEncoder. A call's arguments come in the deltas, so that it begins with
// none.
func (w *messageStream) beginBlock(b *block) {
	var content any = map[string]string{"type": "text", "text": ""}
	if b.toolCall != nil {
		content = newToolUse(b.toolCall, struct{}{})
	}
	w.sendEvent("content_block_start", map[string]any{"index": b.index, "content_block": content})
}

// extendBlock implements blockEncoder.
func (w *messageStream) extendBlock(b *block, text string) {
	delta := map[string]string{"type": "text_delta", "text": text}
	if b.toolCall != nil {
		delta = map[string]string{"type": "input_json_delta", "partial_json": text}
	}
	w.sendEvent("content_block_delta", map[string]any{"index": b.index, "delta": delta})
}

func (w *messageStream) endBlock(b *block) {
	w.sendEvent("content_block_stop", map[string]any{"index": b.index})
}

// writeEnd implements streamWriter.
func (w *messageStream) writeEnd(s *stream, _ *call, a *answer, f *Fault, _ bool) error {
	if f != nil {
		requestID := s.w.Header().Get("X-Request-Id")
		return s.sendEvent("error", "", encodeAnthropicFault(f, requestID))
	}
	used, _ := a.details.(usage)
	w.sendEvent("message_delta", map[string]any{"delta": w.stopReason,
		"usage": anthropicUsage(used)})
	w.sendEvent("message_stop", map[string]any{})
	return w.err
}
