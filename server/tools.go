package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"unmask/param"
	"unmask/prompt"
)

// maxTools bounds the functions of a request.
const maxTools = 128

// toolName is what OpenAI takes as a function's name.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// tools reads tools, tool_choice and parallel_tool_calls. If the answer may be a call, it becomes
// the settings' grammar, and the functions are returned as the chat template has them.
func (s *settings) tools(f *fields, m *servedModel) (given json.RawMessage) {
	list := readTools(f)
	choice := string(f.value("tool_choice"))
	if len(list) == 0 {
		f.neutral("parallel_tool_calls", "false", "true")
		f.refuse(choice != "" && choice != `"none"` && choice != `"auto"`,
			bad("unsupported_parameter", "tool_choice",
				"tool_choice is %s without tools, want tools", cut(choice)))
		return nil
	}
	calls := &prompt.Calls{Functions: list,
		Several: !f.has("parallel_tool_calls") || f.flag("parallel_tool_calls")}
	switch cmp.Or(choice, `"auto"`) {
	case `"none"`:
		return nil
	case `"required"`:
	case `"auto"`:
		if _, own := m.chat.CallForm(); !own {
			f.fail(bad("unsupported_parameter", "tool_choice", `tool_choice is "auto", want "required", `+
				`"none" or one function: the model's chat template has no place for functions and calls`))
		}
		calls.Text = true
	default:
		calls.Functions, calls.Several = chosenTool(f, json.RawMessage(choice), list), false
	}
	if f.fault != nil {
		return nil
	}
	if !s.request.Grammar.IsZero() {
		f.fail(bad("unsupported_parameter", "tool_choice",
			"tool_choice allows a call beside another grammar, want one of them"))
		return nil
	}
	s.request.Grammar.Calls = calls
	return f.value("tools")
}

// readTools reads the list of functions, nil where it is absent.
func readTools(f *fields) (list []prompt.Function) {
	f.each("tools", maxTools, func(o *fields) {
		o.word("type", "function")
		if !o.has("function") {
			o.fail(missing("function", "an object with a name"))
		}
		o.maybeInner("function", func(of *fields) {
			list = append(list, readFunction(of))
			name := list[len(list)-1].Name
			if slices.ContainsFunc(list[:len(list)-1], func(other prompt.Function) bool {
				return other.Name == name
			}) {
				of.fail(bad("out_of_range", "name", "name %s is there twice, want once", param.Quote(name)))
			}
		})
	})
	return list
}

func readFunction(of *fields) (t prompt.Function) {
	t.Name = of.text("name")
	if of.fault == nil && !toolName.MatchString(t.Name) {
		of.fail(outOfRange("name", param.Quote(t.Name),
			"1 to 64 letters, digits, underscores and dashes"))
	}
	of.text("description")
	of.flag("strict") // the arguments always follow the schema
	t.Parameters = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if schema := of.value("parameters"); schema != nil {
		if t.Parameters = schema; schema[0] != '{' {
			of.wrongType("parameters", schema, "a JSON Schema")
		}
	}
	return t
}

// chosenTool returns the function that an object in tool_choice names.
func chosenTool(f *fields, raw json.RawMessage, list []prompt.Function) []prompt.Function {
	var choice struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(raw, &choice) != nil || choice.Type != "function" {
		f.wrongType("tool_choice", raw, `"required", "none" or one function`)
		return nil
	}
	for _, t := range list {
		if t.Name == choice.Function.Name {
			return []prompt.Function{t}
		}
	}
	f.fail(outOfRange("tool_choice", param.Quote(choice.Function.Name), "the name of one of tools"))
	return nil
}

// toolCall is a call in an answer. Index is only in streams, where the first part of a call has all
// but the arguments, and the other parts have arguments alone.
type toolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"` // JSON
}

// divide divides a finished text into what precedes its calls and the calls.
func (p *saying) divide(made *call) {
	(&callStream{}).take(made, p)
	for i := range p.calls {
		p.calls[i].Index = nil // which only streams have
	}
}

// callStream is what a stream has sent of a choice that may have calls.
type callStream struct {
	text      string // that has settled
	content   int    // bytes that were sent
	arguments []int  // of each call, bytes that were sent
}

// take adds settled text to a stream and sets p to what is new.
func (s *callStream) take(made *call, p *saying) {
	s.text += p.text
	content, calls := p.form.SplitCalls(s.text, p.finish != "")
	p.text = content[min(s.content, len(content)):]
	s.content += len(p.text)
	for k, one := range calls {
		part := toolCall{}
		if k == len(s.arguments) {
			part = toolCall{ID: fmt.Sprintf("call_%s_%d_%d", made.Key[:12], p.index, k), Type: "function",
				Function: functionCall{Name: one.Name}}
			s.arguments = append(s.arguments, 0)
		} else if len(one.Arguments) == s.arguments[k] {
			continue
		}
		part.Index = &k
		part.Function.Arguments = one.Arguments[s.arguments[k]:]
		s.arguments[k] = len(one.Arguments)
		p.calls = append(p.calls, part)
	}
	if p.finish != "" && len(calls) > 0 {
		p.finish = "tool_calls"
	}
}

// messageCall is a call that an assistant made. Templates write its arguments as JSON, so that they
// are no text here.
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
	var given []struct {
		ID, Type string
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	o.decode("tool_calls", &given, "a list of calls of functions")
	for _, one := range given {
		o.refuse(one.Type != "" && one.Type != "function",
			outOfRange("tool_calls", param.Quote(one.Type), "calls of type function"))
		arguments := string(one.Function.Arguments)
		_ = json.Unmarshal(one.Function.Arguments, &arguments) // where they are a text
		calls = append(calls, o.call("tool_calls", one.ID, one.Function.Name, arguments))
	}
	return calls
}

// call returns a call that an assistant made; name is the field that has it.
func (o *fields) call(name, id, function, arguments string) (call messageCall) {
	call.ID, call.Type, call.Function.Name = id, "function", function
	if !toolName.MatchString(function) || !json.Valid([]byte(arguments)) {
		o.fail(bad("out_of_range", name, "%s has %s, want a function's name and arguments in JSON",
			name, param.Quote(function)))
	} else {
		call.Function.Arguments = json.RawMessage(arguments)
	}
	return call
}

// input returns the arguments as JSON; a text where they are none, which no grammar allows.
func (c *toolCall) input() json.RawMessage {
	if text := []byte(c.Function.Arguments); json.Valid(text) {
		return text
	}
	return encode(c.Function.Arguments)
}
