package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask/param"
)

// responseNames are the chat's fields that /v1/responses has by other names.
var responseNames = map[string]string{"messages": "input", "max_tokens": "max_output_tokens",
	"response_format": "text.format"}

// responseEcho are the fields of a request that its response repeats, with what they are where they
// are left out.
var responseEcho = map[string]string{"background": "false", "instructions": "null",
	"max_output_tokens": "null", "max_tool_calls": "null", "metadata": "{}",
	"parallel_tool_calls": "true", "previous_response_id": "null",
	"reasoning": `{"effort":null,"summary":null}`, "service_tier": `"default"`, "store": "true",
	"temperature": "null", "text": `{"format":{"type":"text"}}`, "tool_choice": `"auto"`,
	"tools": "[]", "top_logprobs": "0", "top_p": "null", "truncation": `"disabled"`, "user": "null"}

// responses reads OpenAI's POST /v1/responses. The answers that are kept (see /v1/results) are also
// the store of previous_response_id and of references to items.
func (s *Server) responses(r *http.Request, f *fields) (query, streaming) {
	w := &responseWire{Echo: map[string]json.RawMessage{}}
	for name, usual := range responseEcho {
		if w.Echo[name] = f.object[name]; w.Echo[name] == nil || string(w.Echo[name]) == "null" {
			w.Echo[name] = json.RawMessage(usual)
		}
	}
	w.keep = string(w.Echo["store"]) != "false"
	f.neutral("background", "false")
	f.neutral("truncation", `"disabled"`)
	for _, name := range []string{"context_management", "conversation", "max_tool_calls",
		"moderation", "prompt"} {
		f.neutral(name)
	}
	f.maybeInner("reasoning", func(o *fields) {
		o.neutral("effort", `"none"`)
		o.known = append(o.known, "summary", "generate_summary") // of no reasoning
	})
	logs := slices.Contains(f.texts("include"), "message.output_text.logprobs") // others have no place
	if top := string(f.value("top_logprobs")); logs || top != "" && top != "0" {
		f.set("logprobs", "include", true)
	}
	f.rename("max_output_tokens", "max_tokens")
	f.responseText()
	f.flatTools("function", "parameters")
	var one struct{ Type, Name string }
	if raw := f.value("tool_choice"); json.Unmarshal(raw, &one) == nil && one.Type == "function" {
		f.object["tool_choice"] = encode(choiceOf(one.Name))
	}
	return s.converse(r, f, talk{"responses", "resp_", responseNames, w, s.readItems(f, w)})
}

// responseText reads text: its format is the chat's response_format.
func (f *fields) responseText() {
	f.maybeInner("text", func(o *fields) {
		o.neutral("verbosity", `"medium"`)
		format := o.value("format")
		if format == nil {
			return
		}
		var of map[string]json.RawMessage
		if json.Unmarshal(format, &of) == nil && string(of["type"]) == `"json_schema"` {
			delete(of, "type")
			format = encode(map[string]any{"type": "json_schema", "json_schema": of})
		}
		f.set("response_format", "text.format", format)
	})
}

// readItems reads previous_response_id, instructions and input as a conversation.
func (s *Server) readItems(f *fields, w *responseWire) (list []message) {
	if id := f.text("previous_response_id"); id != "" {
		if list = s.keptTurns(id, "resp_"); list == nil {
			f.fail(bad("previous_response_not_found", "previous_response_id",
				"previous_response_id is %s, want a response that is still kept; send input in its place",
				param.Quote(id)))
		}
	}
	raw := f.value("input")
	switch {
	case raw == nil:
		f.fail(missing("input", "a text or a list of items"))
	case raw[0] == '"':
		list = append(list, said("user", f.textOf("input", raw)))
	default:
		f.each("input", maxMessages, func(o *fields) { list = s.readItem(o, list) })
	}
	f.refuse(len(list) == 0,
		bad("out_of_range", "input", "input has 0 items, want 1 to %d", maxMessages))
	w.turns = list
	if text := f.text("instructions"); text != "" {
		return append([]message{said("system", text)}, list...)
	}
	return list
}

// readItem adds an item of input to a conversation.
func (s *Server) readItem(o *fields, list []message) []message {
	o.known = append(o.known, "id", "status", "phase")
	switch kind := cmp.Or(o.text("type"), "message"); kind {
	case "message":
		role := o.role(roles[:3]...)
		return append(list, said(role, readContent(o, "content", "input_text", "output_text", "text")))
	case "function_call":
		return called(list, o.call("arguments", o.needed("call_id"), o.needed("name"),
			o.needed("arguments")))
	case "function_call_output":
		m := said("tool", readContent(o, "output", "input_text", "output_text", "text"))
		m.CallID = o.needed("call_id")
		return append(list, m)
	case "item_reference":
		id := string(o.object["id"])
		turns := s.keptTurns(o.text("id"), "msg_", "fc_")
		if turns == nil {
			o.fail(bad("item_not_found", "id", "id is %s, want an item of a response that is still kept",
				cut(id)))
			return list
		}
		last := turns[len(turns)-1]
		for k, call := range last.Calls {
			if strings.HasSuffix(id, fmt.Sprintf(`_%d"`, k)) {
				return called(list, call)
			}
		}
		return append(list, said("assistant", last.Content))
	default:
		o.fail(bad("unsupported_parameter", "type", "type is %s, want message, function_call, "+
			"function_call_output or item_reference", param.Quote(kind)))
	}
	return list
}

// keptTurns returns the conversation that a kept response goes on with, nil where it is not kept.
func (s *Server) keptTurns(id string, prefixes ...string) (turns []message) {
	for _, prefix := range prefixes {
		key, ok := strings.CutPrefix(id, prefix)
		if a, _ := s.kept(key[:min(len(key), 64)]); ok && a != nil && a.turns != nil {
			_ = json.Unmarshal(a.turns, &turns) // it is our own
		}
	}
	return turns
}

// oneResponse answers GET /v1/responses/{id}: a response that is kept, where previous_response_id
// finds it too.
func (s *Server) oneResponse(w http.ResponseWriter, r *http.Request) *Fault {
	key, ok := strings.CutPrefix(r.PathValue("id"), "resp_")
	a, _ := s.kept(key)
	switch asked := r.URL.Query().Get("stream"); {
	case asked != "" && asked != "false":
		return bad("unsupported_parameter", "stream",
			"stream is %s, want false: a kept response comes whole", cut(asked))
	case !ok || a == nil || a.turns == nil:
		f := fault(http.StatusNotFound, "response_not_found", "the response is not kept: it was never "+
			"made, was made with store false, or gave its place to others; ask again")
		f.Param = "response_id"
		return f
	}
	writeJSON(w, a.body)
	return nil
}

// responseWire is the wire of /v1/responses.
type responseWire struct {
	Echo  map[string]json.RawMessage
	turns []message // of the conversation, without the instructions
	keep  bool
}

func (w *responseWire) body(made *call, status string, output []any) map[string]any {
	out := map[string]any{"id": made.prefix + made.Key, "object": "response",
		"created_at": made.Created.Unix(), "model": made.model.name, "status": status,
		"output": output, "error": nil, "incomplete_details": nil}
	for name, raw := range w.Echo {
		out[name] = raw
	}
	return out
}

func (w *responseWire) whole(made *call, all []saying, used usage) *answer {
	p, items, turn := &all[0], []any{}, said("assistant", all[0].text)
	status := itemStatus(p.finish)
	if p.text != "" || p.calls == nil {
		items = append(items, textItem(made, status, p.text, p.logs()))
	}
	for k, call := range p.calls {
		items = append(items, callItem(made, k, "completed", &call, call.Function.Arguments))
		own := messageCall{ID: call.ID, Type: call.Type}
		own.Function.Name, own.Function.Arguments = call.Function.Name, call.input()
		turn.Calls = append(turn.Calls, own)
	}
	out := w.body(made, status, items)
	if status == "incomplete" {
		out["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	}
	out["usage"] = map[string]any{"input_tokens": used.Prompt, "output_tokens": used.Completion,
		"total_tokens":          used.Total,
		"input_tokens_details":  map[string]int{"cached_tokens": 0, "cache_write_tokens": 0},
		"output_tokens_details": map[string]int{"reasoning_tokens": 0}}
	out["unmask"] = made.info()
	a := &answer{body: encode(out)}
	if w.keep {
		a.turns = encode(append(slices.Clip(w.turns), turn))
	}
	return a
}

func itemStatus(finish string) string {
	if finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func textItem(made *call, status, text string, logs *chatLogs) map[string]any {
	return map[string]any{"id": "msg_" + made.Key, "type": "message", "role": "assistant",
		"status": status, "content": []any{textPart(text, logs)}}
}

func textPart(text string, logs *chatLogs) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{},
		"logprobs": logs.list()}
}

// list is never nil.
func (l *chatLogs) list() []chatLog {
	if l == nil {
		return []chatLog{}
	}
	return l.Content
}

func callItem(made *call, k int, status string, c *toolCall, arguments string) map[string]any {
	return map[string]any{"id": fmt.Sprintf("fc_%s_%d", made.Key, k), "type": "function_call",
		"status": status, "call_id": c.ID, "name": c.Function.Name, "arguments": arguments}
}

func (w *responseWire) writer() writer { return &responseEvents{responseWire: w} }

// responseEvents writes the events of a response.
type responseEvents struct {
	*responseWire
	blocks
	texts  int // items before the first call
	finish string
}

// say sends an event with its number.
func (t *responseEvents) say(name string, of map[string]any) {
	of["sequence_number"] = t.sent
	t.send("response."+name, of)
}

// tell sends an event about an item.
func (t *responseEvents) tell(b *block, name string, of map[string]any) {
	if of["output_index"] = b.index; of["item"] == nil {
		if of["item_id"] = "msg_" + t.made.Key; b.call != nil {
			of["item_id"] = fmt.Sprintf("fc_%s_%d", t.made.Key, b.index-t.texts)
		} else {
			of["content_index"] = 0
		}
	}
	t.say(name, of)
}

func (t *responseEvents) piece(s *stream, made *call, p *saying, _ any) error {
	if t.s, t.made = s, made; t.sent == 0 {
		for _, name := range []string{"created", "in_progress"} {
			t.say(name, map[string]any{"response": t.body(made, "in_progress", []any{})})
		}
	}
	t.finish = p.finish
	return t.take(t, s, made, p)
}

func (t *responseEvents) begin(b *block) {
	if b.call != nil {
		t.tell(b, "output_item.added", map[string]any{
			"item": callItem(t.made, b.index-t.texts, "in_progress", b.call, "")})
		return
	}
	item := textItem(t.made, "in_progress", "", nil)
	item["content"], t.texts = []any{}, 1
	t.tell(b, "output_item.added", map[string]any{"item": item})
	t.tell(b, "content_part.added", map[string]any{"part": textPart("", nil)})
}

func (t *responseEvents) more(b *block, text string) {
	if b.call != nil {
		t.tell(b, "function_call_arguments.delta", map[string]any{"delta": text})
		return
	}
	t.tell(b, "output_text.delta", map[string]any{"delta": text, "logprobs": []any{}})
}

func (t *responseEvents) done(b *block) {
	var item map[string]any
	if b.call != nil {
		t.tell(b, "function_call_arguments.done",
			map[string]any{"name": b.call.Function.Name, "arguments": b.text})
		item = callItem(t.made, b.index-t.texts, "completed", b.call, b.text)
	} else {
		t.tell(b, "output_text.done", map[string]any{"text": b.text, "logprobs": b.logs.list()})
		t.tell(b, "content_part.done", map[string]any{"part": textPart(b.text, b.logs)})
		item = textItem(t.made, itemStatus(b.finish), b.text, b.logs)
	}
	t.tell(b, "output_item.done", map[string]any{"item": item})
}

func (t *responseEvents) end(_ *stream, _ *call, a *answer, f *Fault, _ bool) error {
	if f != nil { // clients read it at either place
		of := f.details()
		t.send("error", map[string]any{"error": of, "message": of.Message, "code": of.Code,
			"param": of.Param, "sequence_number": t.sent})
		return t.err
	}
	t.say(itemStatus(t.finish), map[string]any{"response": json.RawMessage(a.body)})
	return t.err
}
