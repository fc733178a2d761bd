package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask/param"
)

// responseEcho are the fields of a request that its response repeats, with what they are where they
// are left out.
var responseEcho = map[string]string{
	"background":           "false",
	"instructions":         "null",
	"max_output_tokens":    "null",
	"max_tool_calls":       "null",
	"metadata":             "{}",
	"parallel_tool_calls":  "true",
	"previous_response_id": "null",
	"reasoning":            `{"effort":null,"summary":null}`,
	"service_tier":         `"default"`,
	"store":                "true",
	"temperature":          "null",
	"text":                 `{"format":{"type":"text"}}`,
	"tool_choice":          `"auto"`,
	"tools":                "[]",
	"top_logprobs":         "0",
	"top_p":                "null",
	"truncation":           `"disabled"`,
	"user":                 "null",
}

// readResponse reads OpenAI's POST /v1/responses. The answers that are kept (see /v1/results) are
// also the store of previous_response_id and of references to items.
func (s *Server) readResponse(r *http.Request, f *fields) (query, streamOptions) {
	w := &responseWire{Echo: map[string]json.RawMessage{}}
	for name, byDefault := range responseEcho {
		w.Echo[name] = bytes.Clone(f.object[name]) // what waits keeps no body
		if w.Echo[name] == nil || string(w.Echo[name]) == "null" {
			w.Echo[name] = json.RawMessage(byDefault)
		}
	}
	w.isStored = string(w.Echo["store"]) != "false"
	f.requireNeutral("background", "false")
	f.requireNeutral("truncation", `"disabled"`)
	for _, name := range []string{"context_management", "conversation", "max_tool_calls",
		"moderation", "prompt"} {
		f.requireNeutral(name)
	}
	f.readOptionalObject("reasoning", func(o *fields) {
		o.requireNeutral("effort", `"none"`)
		o.accept("summary", "generate_summary") // there is no reasoning to summarise
	})

	t := chatRequest{modelName: f.text("model"), messagesField: "input"}
	t.kind = "responses"
	t.idPrefix = "resp_"
	t.wire = w
	t.stream = readStreamOptions(f)
	t.readIncludedLogProbs(f)
	t.readMaxTokens(f, f.eitherName("max_output_tokens", "max_tokens"))
	t.readStopTexts(f, "stop")
	t.readResponseText(f)
	t.tools.readFlatTools(f, "function", "parameters")
	t.tools.readSeveral(f)
	t.tools.readFlatChoice(f)
	t.messages = s.readItems(f, w)
	return s.readConversation(r, f, t)
}

// readIncludedLogProbs reads top_logprobs and include, which says what an answer has beside its
// text. Of all that can be included, only log-probabilities are in an answer here.
func (t *textRequest) readIncludedLogProbs(f *fields) {
	t.readTopLogProbs(f)
	t.logProbs = t.top > 0 ||
		slices.Contains(f.texts("include"), "message.output_text.logprobs")
	if t.logProbs {
		f.refuseBeside("include", "logprobs")
	} else {
		t.logProbs = f.flag("logprobs")
	}
}

// readResponseText reads text, whose format is the response's.
func (t *textRequest) readResponseText(f *fields) {
	var format json.RawMessage
	f.readOptionalObject("text", func(o *fields) {
		o.requireNeutral("verbosity", `"medium"`)
		format = o.value("format")
	})
	if format != nil {
		f.refuseBeside("text.format", "response_format")
		t.readFlatFormat(f, "text.format", format)
	} else {
		t.readResponseFormat(f, "response_format", f.value("response_format"))
	}
}

// readItems reads previous_response_id, instructions and input as a conversation.
func (s *Server) readItems(f *fields, w *responseWire) (conversation []message) {
	if id := f.text("previous_response_id"); id != "" {
		conversation = s.keptConversation(id, "resp_")
		if conversation == nil {
			f.fail(fieldFault("previous_response_not_found", "previous_response_id",
				"previous_response_id is %s, want a response that is still kept; send input in its "+
					"place", param.Quote(id)))
		}
	}
	raw := f.value("input")
	switch {
	case raw == nil:
		f.fail(missingFault("input", "a text or a list of items"))
	case raw[0] == '"':
		conversation = append(conversation, textMessage("user", f.parseText("input", raw)))
	default:
		f.readObjects("input", maxMessages, func(o *fields) {
			conversation = s.readItem(o, conversation)
		})
	}
	f.failIf(len(conversation) == 0,
		fieldFault("out_of_range", "input", "input has 0 items, want 1 to %d", maxMessages))

	// Instructions are those of one response. The next one has its own, or none.
	w.conversation = conversation
	if text := f.text("instructions"); text != "" {
		return append([]message{textMessage("system", text)}, conversation...)
	}
	return conversation
}

// readItem adds an item of input to a conversation.
func (s *Server) readItem(o *fields, conversation []message) []message {
	o.accept("id", "status", "phase")
	itemType := cmp.Or(o.text("type"), "message")
	switch itemType {
	case "message":
		role := o.role(roles[:3]...)
		content := readContent(o, "content", "input_text", "output_text", "text")
		return append(conversation, textMessage(role, content))
	case "function_call":
		id := o.requiredText("call_id")
		name := o.requiredText("name")
		arguments := o.requiredText("arguments")
		return withCall(conversation, o.newCall("arguments", id, name, arguments))
	case "function_call_output":
		m := textMessage("tool", readContent(o, "output", "input_text", "output_text", "text"))
		m.CallID = o.requiredText("call_id")
		return append(conversation, m)
	case "item_reference":
		return s.readItemReference(o, conversation)
	}
	o.fail(fieldFault("unsupported_parameter", "type", "type is %s, want message, function_call, "+
		"function_call_output or item_reference", param.Quote(itemType)))
	return conversation
}

// readItemReference adds an item of a kept response to a conversation. Ids of its items are
// msg_KEY and fc_KEY_NUMBER.
func (s *Server) readItemReference(o *fields, conversation []message) []message {
	id := string(o.object["id"])
	conversationSoFar := s.keptConversation(o.text("id"), "msg_", "fc_")
	if conversationSoFar == nil {
		o.fail(fieldFault("item_not_found", "id",
			"id is %s, want an item of a response that is still kept", truncate(id)))
		return conversation
	}
	last := conversationSoFar[len(conversationSoFar)-1]
	for k, call := range last.Calls {
		if strings.HasSuffix(id, fmt.Sprintf(`_%d"`, k)) {
			return withCall(conversation, call)
		}
	}
	return append(conversation, textMessage("assistant", last.Content))
}

// keptConversation returns the conversation that a kept response goes on with, nil where it is not
// kept. The id is one of the prefixes and the response's key.
func (s *Server) keptConversation(id string, prefixes ...string) (conversation []message) {
	for _, prefix := range prefixes {
		key, ok := strings.CutPrefix(id, prefix)
		a, _ := s.keptAnswer(key[:min(len(key), 64)])
		if ok && a != nil && a.conversation != nil {
			_ = json.Unmarshal(a.conversation, &conversation) // encodeAnswer wrote it
		}
	}
	return conversation
}

// handleResponse answers GET /v1/responses/{id}: a response that is kept, where
// previous_response_id finds it too.
func (s *Server) handleResponse(w http.ResponseWriter, r *http.Request) *Fault {
	if stream := r.URL.Query().Get("stream"); stream != "" && stream != "false" {
		return fieldFault("unsupported_parameter", "stream",
			"stream is %s, want false: a kept response comes whole", truncate(stream))
	}
	key, ok := strings.CutPrefix(r.PathValue("id"), "resp_")
	a, _ := s.keptAnswer(key)
	if !ok || a == nil || a.conversation == nil {
		f := newFault(http.StatusNotFound, "response_not_found", "the response is not kept: it was "+
			"never made, was made with store false, or gave its place to others; ask again")
		f.Param = "response_id"
		return f
	}
	writeJSON(w, a.body)
	return nil
}

// responseWire is the wire of /v1/responses.
type responseWire struct {
	// Echo are the fields that the response repeats. It is exported for the JSON of a call's key.
	Echo map[string]json.RawMessage

	// conversation is what the response answers, without the instructions.
	conversation []message

	// isStored reports whether the conversation is kept, so that it can go on.
	isStored bool
}

// newResponse returns a response with its output, as it is before its end is known.
func (w *responseWire) newResponse(c *call, status string, output []any) map[string]any {
	out := map[string]any{
		"id":                 c.idPrefix + c.Key,
		"object":             "response",
		"created_at":         c.Created.Unix(),
		"model":              c.model.name,
		"status":             status,
		"output":             output,
		"error":              nil,
		"incomplete_details": nil,
	}
	for name, raw := range w.Echo {
		out[name] = raw
	}
	return out
}

// encodeAnswer implements wire: a response of OpenAI's API, whose items are a message, if it has
// text or there is no call, and the calls. A stored one keeps the conversation for the next
// response.
func (w *responseWire) encodeAnswer(c *call, choices []choiceUpdate, used usage) *answer {
	u := &choices[0]
	items := []any{}
	reply := textMessage("assistant", u.text)
	status := itemStatus(u.finish)
	if u.text != "" || u.calls == nil {
		items = append(items, newTextItem(c, status, u.text, u.chatLogs()))
	}
	for k, call := range u.calls {
		items = append(items, newCallItem(c, k, "completed", &call, call.Function.Arguments))
		reply.Calls = append(reply.Calls, call.messageCall())
	}

	out := w.newResponse(c, status, items)
	if status == "incomplete" {
		out["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	}
	out["usage"] = map[string]any{
		"input_tokens":          used.Prompt,
		"output_tokens":         used.Completion,
		"total_tokens":          used.Total,
		"input_tokens_details":  map[string]int{"cached_tokens": 0, "cache_write_tokens": 0},
		"output_tokens_details": map[string]int{"reasoning_tokens": 0},
	}
	out["unmask"] = c.info()
	a := &answer{body: encodeJSON(out)}
	if w.isStored {
		a.conversation = encodeJSON(append(slices.Clip(w.conversation), reply))
	}
	return a
}

// messageCall returns the call as a message of a conversation has it.
func (c *toolCall) messageCall() messageCall {
	call := messageCall{ID: c.ID, Type: c.Type}
	call.Function.Name = c.Function.Name
	call.Function.Arguments = c.jsonArguments()
	return call
}

// itemStatus returns the status of an item whose choice has a finish_reason.
func itemStatus(finish string) string {
	if finish == "length" {
		return "incomplete"
	}
	return "completed"
}

// newTextItem returns the item of a message with one text.
func newTextItem(c *call, status, text string, logs *chatLogs) map[string]any {
	return map[string]any{"id": "msg_" + c.Key, "type": "message", "role": "assistant",
		"status": status, "content": []any{newTextPart(text, logs)}}
}

// newTextPart returns a part of a message that is text.
func newTextPart(text string, logs *chatLogs) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{},
		"logprobs": logs.list()}
}

// newCallItem returns the item of call number k.
func newCallItem(c *call, k int, status string, call *toolCall, arguments string) map[string]any {
	return map[string]any{"id": callItemID(c, k), "type": "function_call", "status": status,
		"call_id": call.ID, "name": call.Function.Name, "arguments": arguments}
}

// callItemID returns the id of the item of call k.
func callItemID(c *call, k int) string { return fmt.Sprintf("fc_%s_%d", c.Key, k) }

func (w *responseWire) newStreamWriter() streamWriter { return &responseStream{responseWire: w} }

// responseStream writes the events of a response.
type responseStream struct {
	*responseWire
	blockWriter

	// textItems counts the items before the first call, 0 or 1.
	textItems int

	// finish is the finish_reason of the choice, "" before its end.
	finish string
}

// sendNumbered sends an event with its number.
func (w *responseStream) sendNumbered(name string, data map[string]any) {
	data["sequence_number"] = w.eventsSent
	w.sendEvent("response."+name, data)
}

// sendItemEvent sends an event about the item of a block. An event without the item itself has its
// id.
func (w *responseStream) sendItemEvent(b *block, name string, data map[string]any) {
	data["output_index"] = b.index
	if data["item"] == nil {
		if b.toolCall != nil {
			data["item_id"] = callItemID(w.call, b.index-w.textItems)
		} else {
			data["item_id"] = "msg_" + w.call.Key
			data["content_index"] = 0
		}
	}
	w.sendNumbered(name, data)
}

// writeUpdate implements streamWriter. Two events come before the first text: clients wait for
// both.
func (w *responseStream) writeUpdate(s *stream, c *call, u *choiceUpdate, _ any) error {
	w.stream = s
	w.call = c
	if w.eventsSent == 0 {
		for _, name := range []string{"created", "in_progress"} {
			response := w.newResponse(c, "in_progress", []any{})
			w.sendNumbered(name, map[string]any{"response": response})
		}
	}
	w.finish = u.finish
	return w.writeBlocks(w, s, c, u)
}

// beginBlock implements blockEncoder. A message begins with its item, and then its only part.
func (w *responseStream) beginBlock(b *block) {
	if b.toolCall != nil {
		item := newCallItem(w.call, b.index-w.textItems, "in_progress", b.toolCall, "")
		w.sendItemEvent(b, "output_item.added", map[string]any{"item": item})
		return
	}
	w.textItems = 1
	item := newTextItem(w.call, "in_progress", "", nil)
	item["content"] = []any{}
	w.sendItemEvent(b, "output_item.added", map[string]any{"item": item})
	w.sendItemEvent(b, "content_part.added", map[string]any{"part": newTextPart("", nil)})
}

// extendBlock implements blockEncoder.
func (w *responseStream) extendBlock(b *block, text string) {
	if b.toolCall != nil {
		w.sendItemEvent(b, "function_call_arguments.delta", map[string]any{"delta": text})
		return
	}
	w.sendItemEvent(b, "output_text.delta", map[string]any{"delta": text, "logprobs": []any{}})
}

// endBlock implements blockEncoder. It sends the whole text or call again, as OpenAI does.
func (w *responseStream) endBlock(b *block) {
	var item map[string]any
	if b.toolCall != nil {
		w.sendItemEvent(b, "function_call_arguments.done",
			map[string]any{"name": b.toolCall.Function.Name, "arguments": b.text})
		item = newCallItem(w.call, b.index-w.textItems, "completed", b.toolCall, b.text)
	} else {
		w.sendItemEvent(b, "output_text.done",
			map[string]any{"text": b.text, "logprobs": b.logs.list()})
		w.sendItemEvent(b, "content_part.done", map[string]any{"part": newTextPart(b.text, b.logs)})
		item = newTextItem(w.call, itemStatus(b.finish), b.text, b.logs)
	}
	w.sendItemEvent(b, "output_item.done", map[string]any{"item": item})
}

// writeEnd implements streamWriter: the last event has the whole response.
func (w *responseStream) writeEnd(_ *stream, _ *call, a *answer, f *Fault, _ bool) error {
	if f != nil { // clients read it at either place
		body := f.body()
		w.sendEvent("error", map[string]any{"error": body, "message": body.Message,
			"code": body.Code, "param": body.Param, "sequence_number": w.eventsSent})
		return w.err
	}
	response := map[string]any{"response": json.RawMessage(a.body)}
	w.sendNumbered(itemStatus(w.finish), response)
	return w.err
}
