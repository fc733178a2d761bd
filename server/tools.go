package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/prompt"
)

// maxTools bounds the functions of a request.
const maxTools = 128

// toolName is what OpenAI takes as a function's name.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// readToolChoice reads tools, tool_choice and parallel_tool_calls. If the answer may be a call, it
// becomes the settings' grammar, and the functions are returned as the chat template has them.
func (s *settings) readToolChoice(f *fields, m *servedModel) (tools json.RawMessage) {
	functions := readTools(f)
	choice := string(f.value("tool_choice"))
	if len(functions) == 0 {
		f.requireNeutral("parallel_tool_calls", "false", "true")
		f.failIf(choice != "" && choice != `"none"` && choice != `"auto"`,
			fieldFault("unsupported_parameter", "tool_choice",
				"tool_choice is %s without tools, want tools", truncate(choice)))
		return nil
	}

	calls := &prompt.Calls{
		Functions: functions,
		Several:   !f.has("parallel_tool_calls") || f.flag("parallel_tool_calls"),
	}
	switch cmp.Or(choice, `"auto"`) {
	case `"none"`:
		return nil
	case `"required"`:
	case `"auto"`:
		if _, hasForm := m.chat.CallForm(); !hasForm {
			f.fail(fieldFault("unsupported_parameter", "tool_choice",
				`tool_choice is "auto", want "required", "none" or one function: the model's chat `+
					`template has no place for functions and calls`))
		}
		calls.Text = true
	default:
		calls.Functions = chooseTool(f, json.RawMessage(choice), functions)
		calls.Several = false
	}
	if f.fault != nil {
		return nil
	}
	if !s.request.Grammar.IsZero() {
		f.fail(fieldFault("unsupported_parameter", "tool_choice",
			"tool_choice allows a call beside another grammar, want one of them"))
		return nil
	}
	s.request.Grammar.Calls = calls
	return bytes.Clone(f.value("tools")) // what waits keeps no body
}

// readTools reads the list of functions, nil where it is absent.
func readTools(f *fields) (functions []prompt.Function) {
	f.readObjects("tools", maxTools, func(o *fields) {
		o.oneOf("type", "function")
		if !o.has("function") {
			o.fail(missingFault("function", "an object with a name"))
		}
		o.readOptionalObject("function", func(o *fields) {
			function := readFunction(o)
			sameName := func(other prompt.Function) bool { return other.Name == function.Name }
			if slices.ContainsFunc(functions, sameName) {
				o.fail(fieldFault("out_of_range", "name", "name %s is there twice, want once",
					param.Quote(function.Name)))
			}
			functions = append(functions, function)
		})
	})
	return functions
}

func readFunction(o *fields) (function prompt.Function) {
	function.Name = o.text("name")
	if o.fault == nil && !toolName.MatchString(function.Name) {
		o.fail(rangeFault("name", param.Quote(function.Name),
			"1 to 64 letters, digits, underscores and dashes"))
	}
	o.text("description")
	o.flag("strict") // the arguments always follow the schema
	function.Parameters = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if schema := o.value("parameters"); schema != nil {
		function.Parameters = bytes.Clone(schema)
		if schema[0] != '{' {
			o.failType("parameters", schema, "a JSON Schema")
		}
	}
	return function
}

// chooseTool returns the function that an object in tool_choice names.
func chooseTool(f *fields, raw json.RawMessage, functions []prompt.Function) []prompt.Function {
	var choice struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(raw, &choice) != nil || choice.Type != "function" {
		f.failType("tool_choice", raw, `"required", "none" or one function`)
		return nil
	}
	for _, function := range functions {
		if function.Name == choice.Function.Name {
			return []prompt.Function{function}
		}
	}
	f.fail(rangeFault("tool_choice", param.Quote(choice.Function.Name),
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
