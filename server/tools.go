package server

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/prompt"
)

// maxTools bounds the functions of a request.
const maxTools = 128

// toolName is what OpenAI takes as a function's name.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// setCalls makes the calls that an answer may have the settings' grammar, and has the chat template
// show the functions.
func (s *settings) setCalls(f *fields, m *servedModel, t *toolRequest) {
	if len(t.functions) == 0 {
		f.failIf(t.choice.mode == mustCall || t.choice.mode == callsFunction,
			fieldFault("unsupported_parameter", "tool_choice",
				"tool_choice is %s without tools, want tools", t.choice.found))
		return
	}

	calls := &prompt.Calls{Functions: t.functions, Several: t.several}
	switch t.choice.mode {
	case neverCalls:
		return
	case mayCall:
		if _, hasForm := m.chat.CallForm(); !hasForm {
			f.fail(fieldFault("unsupported_parameter", "tool_choice",
				`tool_choice is "auto", want "required", "none" or one function: the model's chat `+
					`template has no place for functions and calls`))
		}
		calls.Text = true
	case callsFunction:
		calls.Functions = t.chosenFunction(f)
		calls.Several = false
	}
	if f.fault != nil {
		return
	}
	if !s.request.Grammar.IsZero() {
		f.fail(fieldFault("unsupported_parameter", "tool_choice",
			"tool_choice allows a call beside another grammar, want one of them"))
		return
	}
	s.request.Grammar.Calls = calls
	s.request.Tools = t.shown
}

// chosenFunction returns the function that tool_choice names, alone.
func (t *toolRequest) chosenFunction(f *fields) []prompt.Function {
	for _, function := range t.functions {
		if function.Name == t.choice.function {
			return []prompt.Function{function}
		}
	}
	f.fail(rangeFault("tool_choice", param.Quote(t.choice.function),
		"the name of one of tools"))
	return nil
}

// toolCall is a call in an answer.
type toolCall struct {
	// Index is only in streams, where the first part of a call has all but the arguments, and the
	// other parts have arguments alone.
	Index *int `json:"index,omitempty"`

	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name string `json:"name,omitempty"`

	// Arguments are JSON.
	Arguments string `json:"arguments"`
}

// splitCalls splits a finished text into what precedes its calls and the calls.
func (u *choiceUpdate) splitCalls(c *call) {
	var calls toolCallStream
	calls.addText(c, u)
	for i := range u.calls {
		u.calls[i].Index = nil // which only streams have
	}
}

// toolCallStream is what a stream has sent of a choice that may have calls.
type toolCallStream struct {
	// text is all that has settled.
	text string

	// contentSent counts the bytes that were sent of the text before the calls.
	contentSent int

	// argumentsSent counts the bytes that were sent of each call's arguments.
	argumentsSent []int
}

// addText adds settled text to a stream and sets u to what is new of text and calls.
func (s *toolCallStream) addText(c *call, u *choiceUpdate) {
	s.text += u.text
	content, calls := u.form.SplitCalls(s.text, u.finish != "")
	u.text = content[min(s.contentSent, len(content)):]
	s.contentSent += len(u.text)

	for k, call := range calls {
		part := toolCall{}
		if k == len(s.argumentsSent) { // the call is new
			part.ID = fmt.Sprintf("call_%s_%d_%d", c.Key[:12], u.index, k)
			part.Type = "function"
			part.Function.Name = call.Name
			s.argumentsSent = append(s.argumentsSent, 0)
		} else if len(call.Arguments) == s.argumentsSent[k] {
			continue
		}
		part.Index = &k
		part.Function.Arguments = call.Arguments[s.argumentsSent[k]:]
		s.argumentsSent[k] = len(call.Arguments)
		u.calls = append(u.calls, part)
	}
	if u.finish != "" && len(calls) > 0 {
		u.finish = "tool_calls"
	}
}

// messageCall is a call that an assistant made. Templates write its arguments as JSON, so they are
// not a text here.
type messageCall struct {
	ID       string `json:"id,omitempty"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// readCalls reads the tool_calls of a message. Arguments are JSON, in a text as OpenAI has them or
// as they are.
func readCalls(o *fields) (calls []messageCall) {
	var list []struct {
		ID       string
		Type     string
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	o.decode("tool_calls", &list, "a list of calls of functions")
	for _, element := range list {
		o.failIf(element.Type != "" && element.Type != "function",
			rangeFault("tool_calls", param.Quote(element.Type), "calls of type function"))
		arguments := string(element.Function.Arguments)
		_ = json.Unmarshal(element.Function.Arguments, &arguments) // where they are a text
		calls = append(calls, o.newCall("tool_calls", element.ID, element.Function.Name, arguments))
	}
	return calls
}

// newCall returns a call that an assistant made. field is the name of the field that has it.
func (f *fields) newCall(field, id, function, arguments string) (call messageCall) {
	call.ID = id
	call.Type = "function"
	call.Function.Name = function
	switch strings.TrimSpace(arguments) {
	case "", "null":
		arguments = "{}" // of a call without arguments, as clients send it back
	}
	if !toolName.MatchString(function) {
		f.fail(fieldFault("out_of_range", field, "%s has %s, want a function's name", field,
			param.Quote(function)))
		return call
	}
	if jsonline.ValueKind([]byte(arguments)) != "an object" || !json.Valid([]byte(arguments)) {
		f.fail(fieldFault("out_of_range", field,
			"%s has %s with %s, want an object of arguments in JSON", field, param.Quote(function),
			param.Quote(arguments)))
		return call
	}
	call.Function.Arguments = json.RawMessage(arguments)
	return call
}

// jsonArguments returns the arguments as JSON. A text that is no JSON, which no grammar allows, is
// returned as a JSON text.
func (c *toolCall) jsonArguments() json.RawMessage {
	if text := []byte(c.Function.Arguments); json.Valid(text) {
		return text
	}
	return encodeJSON(c.Function.Arguments)
}
